import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Lane } from '../../src/model/change.ts';
import { type Clock, sleep } from '../../src/platform/lib/clock.ts';
import { silentLogger, silentMeter } from '../../src/platform/lib/telemetry.ts';
import type { QuotaOptions } from '../../src/sync/quota/limits.ts';
import { createThrottle, type Throttle } from '../../src/sync/quota/throttle.ts';
import { seededRandom } from '../bench/quota/daemon.ts';
import { fullest } from '../bench/quota/references/windows.ts';
import { createTravellingClock, type TravellingClock } from '../support/fakes/travelling-clock.ts';
import { drawn } from '../support/harness/depth.ts';
import { type OpenedStore, openStore } from '../support/harness/store.ts';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const DAY = 24 * 60 * MINUTE;
const WINDOW = 15 * MINUTE;
const FULL: QuotaOptions = {
  requests: 200,
  window: WINDOW,
  burst: 40,
  burstWindow: MINUTE,
  share: 1,
  concurrency: 8,
};

const open = (store: OpenedStore, clock: Clock, quota: QuotaOptions, more?: Parameters<typeof createThrottle>[2]) =>
  createThrottle({ store, clock, random: seededRandom(1), logger: silentLogger, meter: silentMeter }, quota, more);

/** Fails where any sliding window of this length holds more than its cap. Times in the order of arrival or not. */
function expectNoWindowOver(cap: number, length: number, arrivals: readonly number[]): void {
  expect(fullest(arrivals, length), `within ${length} ms`).toBeLessThanOrEqual(cap);
}

/**
 * A client that lives several lives over one database. It is killed between two events: its timers, its wishes and
 * its requests in flight are forgotten by it, not by the server. The next life asks again for all that was not done.
 */
interface Request {
  readonly lane: Lane;
  readonly due: number;
  /** Milliseconds from start to end. */
  readonly takes: number;
  /** Where between start and end it arrives, 0..1. */
  readonly arrives: number;
  /** `silence`: no answer comes, and it may arrive after its end. `unsent`: the first try is given up before it is sent. */
  readonly outcome: 'answer' | 'silence' | 'unsent';
}

type Step =
  | { readonly kind: 'ask'; readonly after: number; readonly request: Request }
  | { readonly kind: 'kill' | 'reboot'; readonly after: number; readonly down: number }
  | { readonly kind: 'jump'; readonly after: number; readonly by: number };

/** The longest that a request of unknown outcome lingers on its way after its end, milliseconds. */
const LINGER = 6 * SECOND;

function createClient(store: () => OpenedStore, clock: TravellingClock, quota: QuotaOptions) {
  const todo = new Set<Request>();
  const waiting = new Set<Request>();
  const tried = new Set<Request>();
  const arrivals: { at: number; lane: Lane }[] = [];
  let life = { alive: false };
  let throttle: Throttle;

  const mortal = (own: { alive: boolean }): Clock => ({
    now: clock.now,
    monotonic: clock.monotonic,
    bootId: clock.bootId,
    after: (ms, call) => clock.after(ms, () => own.alive && call()),
  });

  const isBackfill = ({ lane }: Request) => lane === 'backfill';
  const goesBefore = (one: Request, other: Request) =>
    isBackfill(one) === isBackfill(other) ? one.due < other.due : isBackfill(other);
  const isOvertaken = (request: Request) =>
    request.lane !== 'interactive' &&
    [...waiting].some((other) => other.lane !== 'interactive' && goesBefore(other, request));

  const send = async (request: Request, own: { alive: boolean }) => {
    waiting.add(request);
    const slot = await throttle.acquire(request);
    waiting.delete(request);
    expect(isOvertaken(request), 'a more urgent wish was waiting').toBe(false);
    await store().commit((query) => slot.record(query));
    if (request.outcome === 'unsent' && !tried.has(request)) {
      tried.add(request);
      slot.release();
      return send(request, own);
    }
    const lingers = request.outcome === 'silence' ? LINGER : 0;
    arrivals.push({ at: clock.elapsed() + request.arrives * (request.takes + lingers), lane: request.lane });
    await sleep(mortal(own), request.takes);
    await slot.complete(request.outcome === 'silence' ? undefined : { status: 200 });
    todo.delete(request);
  };

  const failures: unknown[] = [];
  const ask = (request: Request) => {
    todo.add(request);
    if (life.alive) void send(request, life).catch((error: unknown) => failures.push(error));
  };

  return {
    arrivals,
    ask,
    async start() {
      life = { alive: true };
      throttle = await open(store(), mortal(life), quota);
      for (const request of [...todo].sort((a, b) => (goesBefore(a, b) ? -1 : 1))) ask(request);
    },
    kill() {
      life.alive = false;
      waiting.clear();
    },
    isDone: () => todo.size === 0 || failures.length > 0,
    check() {
      if (failures.length > 0) throw failures[0];
    },
  };
}

async function play(steps: readonly Step[], client: ReturnType<typeof createClient>, clock: TravellingClock) {
  await client.start();
  for (const step of steps) {
    await clock.advance(step.after);
    if (step.kind === 'ask') client.ask(step.request);
    else if (step.kind === 'jump') clock.jumpWall(step.by);
    else {
      client.kill();
      if (step.kind === 'reboot') clock.reboot();
      await clock.advance(step.down);
      await client.start();
    }
  }
  await clock.until(client.isDone, 100 * WINDOW);
  client.check();
}

const requests: fc.Arbitrary<Request> = fc.record({
  lane: fc.constantFrom<Lane[]>('interactive', 'triage', 'mirror', 'mirror', 'backfill'),
  due: fc.integer({ min: 1, max: 1_000 }),
  takes: fc.integer({ min: 0, max: 3 * SECOND }),
  arrives: fc.constantFrom(0, 0.01, 0.5, 0.99, 1),
  outcome: fc.constantFrom('answer', 'answer', 'answer', 'silence', 'unsent'),
});

const after = fc.oneof(
  { weight: 6, arbitrary: fc.integer({ min: 0, max: 3 * SECOND }) },
  { weight: 2, arbitrary: fc.integer({ min: 0, max: 20 * SECOND }) },
  { weight: 1, arbitrary: fc.integer({ min: 0, max: 2 * MINUTE }) },
);
const down = fc.constantFrom(0, 40, 5 * SECOND, 30 * SECOND);

const steps: fc.Arbitrary<Step> = fc.oneof(
  { weight: 16, arbitrary: fc.record({ kind: fc.constant('ask' as const), after, request: requests }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constantFrom('kill' as const, 'reboot' as const), after, down }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('jump' as const), after, by: fc.constantFrom(-DAY, DAY) }) },
);

/** Short windows: every five seconds of a story cost a heartbeat. */
const quotas: fc.Arbitrary<QuotaOptions> = fc.record({
  requests: fc.integer({ min: 1, max: 12 }),
  window: fc.constantFrom(MINUTE, 2 * MINUTE),
  burst: fc.integer({ min: 1, max: 5 }),
  burstWindow: fc.constant(10 * SECOND),
  share: fc.constantFrom<QuotaOptions['share'][]>(0.3, 0.5, 0.8, 1, 'auto'),
  concurrency: fc.integer({ min: 1, max: 4 }),
});

/** The server's clock: it runs apart from ours by up to 450 ppm, and shows whole milliseconds. */
const rates = fc.constantFrom(-450e-6, 0, 450e-6);

describe('whatever is asked, killed, rebooted, delayed or lost, and wherever the wall clock jumps', () => {
  test('no window at the server holds more than its cap, the background keeps to its share, and everything is sent', async () => {
    // One open database serves all lives and stories: what is committed is what a new process would read.
    const store = await openStore({ file: ':memory:' });
    const law = fc.asyncProperty(
      quotas,
      fc.array(steps, { minLength: 1, maxLength: 60, size: 'max' }),
      rates,
      async (quota, story, rate) => {
        const clock = createTravellingClock();
        await store.commit(async (query) => {
          await query.deleteFrom('ledger').execute();
          await query.deleteFrom('meta').execute();
        });
        const client = createClient(() => store, clock, quota);
        await play(story, client, clock);

        const atServer = client.arrivals.map(({ at }) => Math.floor(at * (1 + rate)));
        expectNoWindowOver(quota.requests, quota.window, atServer);
        expectNoWindowOver(quota.burst, quota.burstWindow, atServer);
        const background = atServer.filter((_at, index) => client.arrivals[index]?.lane !== 'interactive');
        const most = quota.share === 'auto' ? { long: 0.985, burst: 0.8 } : { long: quota.share, burst: quota.share };
        expectNoWindowOver(Math.max(1, Math.floor(quota.requests * most.long + 1e-9)), quota.window, background);
        expectNoWindowOver(Math.max(1, Math.floor(quota.burst * most.burst + 1e-9)), quota.burstWindow, background);
      },
    );
    await expect(fc.check(law, { numRuns: drawn(100) }).then(fc.defaultReportMessage)).resolves.toBeUndefined();
    await store.close();
  });
});

test('people who use up the whole quota do not starve the background', async () => {
  const clock = createTravellingClock();
  const store = await openStore({ file: ':memory:' });
  const client = createClient(() => store, clock, { ...FULL, requests: 20, burst: 0, share: 0.8 });
  await client.start();
  const request = (lane: Lane): Request => ({ lane, due: clock.now(), takes: 100, arrives: 1, outcome: 'answer' });
  for (let second = 0; second < 7_200; second += 20) {
    client.ask(request('interactive'));
    if (second === 3_600) for (let each = 0; each < 10; each += 1) client.ask(request('mirror'));
    await clock.advance(20 * SECOND);
  }
  await clock.until(client.isDone);
  client.check();
  const background = client.arrivals.filter(({ lane }) => lane === 'mirror').map(({ at }) => at);
  const people = client.arrivals.filter(({ lane }) => lane === 'interactive');
  await store.close();
  // 180 people asked before them, at twice the rate of the quota: those who asked earlier go first, nobody else.
  expect(background).toHaveLength(10);
  expect(people.filter(({ at }) => at < Math.min(...background)).length).toBeLessThanOrEqual(181);
  expectNoWindowOver(
    20,
    WINDOW,
    client.arrivals.map(({ at }) => at),
  );
});

test('a request that a killed process left in flight counts for its successor until it must have arrived', async () => {
  const clock = createTravellingClock();
  const store = await openStore({ file: ':memory:' });
  const quota = { ...FULL, burst: 1 };
  const left = await (await open(store, clock, quota)).acquire({ lane: 'mirror', due: 1 });
  await store.commit((query) => left.record(query));
  const untouched = 40 * SECOND;
  const successor = await open(store, clock, quota, { untouched });
  const from = clock.elapsed();
  let isFree = false;
  void successor.acquire({ lane: 'mirror', due: 1 }).then(() => (isFree = true));
  await clock.until(() => isFree);
  expect(clock.elapsed() - from).toBeGreaterThanOrEqual(untouched + quota.burstWindow);
  await store.close();
});
