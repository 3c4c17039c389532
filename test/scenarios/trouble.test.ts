import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { entity } from '../../src/model/change.ts';
import type { Fault } from '../../src/reference-service/http/pipeline.ts';
import { enqueueReads } from '../../src/store/workspace/workspace-reads.ts';
import { type Absence, awayAtTimes, hangs, refuses, resets } from '../support/fakes/absence.ts';
import { type Arrival, errorAnswer } from '../support/fakes/weather.ts';
import { loseDatabase } from '../support/faults/lose-database.ts';
import { createWorld, type World } from '../support/harness/daemon.ts';
import { isDeep, sampleOf } from '../support/harness/depth.ts';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
/** Through which the workspace is asked in vain: forty times, the same each time. */
const LONG = isDeep ? 2 * HOUR : 20 * MINUTE;

let world: World;
/** How the workspace is out of reach, while it is. */
let absence: Absence | undefined;
beforeEach(async () => {
  absence = undefined;
  const reach = { present: () => absence, clock: () => world.clock };
  world = await createWorld({ http: (own) => awayAtTimes(own, 'workspace', reach) });
  await world.settled();
});
afterEach(() => world.close());

async function deliverMany(from: number, to: number): Promise<void> {
  for (let number = from; number <= to; number++) await world.pull({ number });
}

const recorded = async () => (await world.records()).map(({ identifier }) => Number(identifier));

const upTo = (last: number) => Array.from({ length: last }, (_, index) => index + 1);
const status = () => world.partition().status();
async function verdict(): Promise<string> {
  expect((await fetch(`${world.daemon().address}/readyz`)).status).toBe(200);
  return (await world.daemon().status()).verdict;
}
const byState = async () => (await status()).changes.byState;
const NOTHING_LEFT = { pending: 0, sending: 0, unknown: 0, held: 0 };

/** Milliseconds between requests that follow each other. */
function gaps(arrivals: readonly Arrival[]): number[] {
  return arrivals.slice(1).map(({ at }, index) => at - (arrivals[index] as Arrival).at);
}

function watch(): () => Arrival[] {
  const start = world.weather.arrivals.length;
  return () => world.weather.arrivals.slice(start);
}

describe('a key that is revoked', () => {
  it('halts the daemon, which says so, asks once a minute in the end, and goes on within a minute when the key works again', async () => {
    world.weather.turn({ before: () => errorAnswer(401, 'unauthorized') });
    await deliverMany(1, 3);
    await world.pass(10 * SECOND);
    const seen = watch();
    await deliverMany(4, 6);
    await world.pass(HOUR / 2);
    const waits = gaps(seen());
    expect(waits.slice(0, 3).every((wait, index) => wait >= 10 * SECOND * 2 ** index)).toBe(true);
    expect(Math.min(...waits.slice(3))).toBeGreaterThanOrEqual(MINUTE);
    expect(Math.max(...waits)).toBeLessThan(MINUTE + 5 * SECOND);
    expect((await status()).state).toMatchObject({
      kind: 'halted',
      code: 'unauthorized',
      hint: expect.stringContaining('WORKSYNC_API_KEY'),
    });
    expect(await verdict()).toBe('blocked');
    expect(await byState()).toMatchObject({ pending: 6, held: 0 });

    world.weather.clear();
    await world.pass(MINUTE + 5 * SECOND);
    expect(await recorded()).toEqual(upTo(6));
    expect(await verdict()).toBe('ok');
    expect((await status()).state.kind).toBe('running');
  });

  it('is halted after a restart too, without a new try before its time', async () => {
    world.weather.turn({ before: () => errorAnswer(401, 'unauthorized') });
    const seen = watch();
    await world.pull({ number: 1 });
    await world.until(async () => seen().length === 1, MINUTE);
    await world.restart();
    world.weather.clear();
    await world.until(async () => seen().length > 1, MINUTE);
    // However long the restart took of that.
    expect(gaps(seen())[0]).toBeGreaterThanOrEqual(5 * SECOND);
    await world.pass(2 * MINUTE);
    expect(await recorded()).toEqual([1]);
  });
});

describe('a workspace that is not there', () => {
  it('at the first start lets the daemon start, say so, take deliveries, and catch up', async () => {
    const plugIn = await world.unplugService();
    await world.restart({ meanwhile: loseDatabase });
    await deliverMany(1, 3);
    await world.pass(5 * MINUTE);
    expect((await status()).state).toMatchObject({ kind: 'halted', code: 'unreachable' });
    expect(await verdict()).toBe('blocked');
    expect((await status()).deliveries.pending).toBe(0);
    await plugIn();
    await world.pass(MINUTE);
    await world.settled();
    expect(await recorded()).toEqual(upTo(3));
    expect(await verdict()).toBe('ok');
  });
});

/** How a workspace is out of order: by its answers, or how it is out of reach. */
const OUTAGES: readonly (readonly [string, Fault | Absence])[] = [
  ['never answers', hangs],
  ['refuses connections', refuses],
  ['resets connections', resets],
  ['answers an HTML page with 200', { status: 200, body: '<!doctype html><title>Sign in</title>' }],
  ['answers an empty object with 200', { status: 200, body: '{}' }],
  ['answers an HTML page with 404', { status: 404, body: '<h1>Not Found</h1>' }],
  ['answers an HTML page with 400', { status: 400, body: '<h1>Bad Request</h1>' }],
  ['redirects', { status: 302, body: '' }],
  ['is behind a proxy that fails', { status: 502, body: '<h1>Bad gateway' }],
  ['answers 503', { status: 503, body: 'down for maintenance' }],
];

describe('a workspace that', () => {
  it.each(sampleOf(OUTAGES, 3))(
    '%s is asked at most once in 30 seconds; nothing counts as done or refused, and all arrives within a minute of the end',
    async (_name, outage) => {
      if (typeof outage === 'function') absence = outage;
      else world.weather.turn({ before: () => outage });
      await deliverMany(1, 4);
      await world.pass(MINUTE);
      const seen = watch();
      await world.pull({ number: 5 });
      await world.pass(LONG);
      expect(Math.min(...gaps(seen()))).toBeGreaterThanOrEqual(30 * SECOND);
      expect(await byState()).toMatchObject({ held: 0 });
      expect((await status()).state).toMatchObject({ kind: 'halted' });
      absence = undefined;
      world.weather.clear();
      const healed = world.clock.elapsed();
      await world.settled();
      expect(world.clock.elapsed() - healed).toBeLessThanOrEqual(MINUTE);
      expect(await recorded()).toEqual(upTo(5));
    },
  );

  it('answers the first reads with what is no list gets nothing written before both were read', async () => {
    world.weather.turn({
      before: ({ url }) => (url.includes('/tasks') ? { status: 404, body: '<h1>Not Found' } : undefined),
    });
    await world.restart({ meanwhile: loseDatabase });
    await world.pull({ number: 1 });
    await world.pass(HOUR);
    expect(await recorded()).toEqual([]);
    expect(await verdict()).toBe('blocked');
    world.weather.clear();
    await world.pass(MINUTE);
    await world.settled();
    expect(await recorded()).toEqual([1]);
    expect(await verdict()).toBe('ok');
  });

  const FAILURES = [
    ['a full disk', 507, 'storage_full', 'workspace_full'],
    ['maintenance', 503, 'read_only', 'server_failed'],
  ] as const;
  it.each(sampleOf(FAILURES, 2))(
    'answers reads and fails all writes because of %s: no write is held, and all are sent afterwards',
    async (_why, refused, word, code) => {
      const { taskId } = await world.bug();
      world.weather.turn({
        before: ({ method }) => (method === 'GET' ? undefined : errorAnswer(refused, word, 'no writes now')),
      });
      await deliverMany(1, 4);
      for (let minute = 0; minute < 30; minute += 2) {
        await world
          .partition()
          .store.commit((query) => enqueueReads(query, [entity.readLinks(taskId)], world.clock.now()));
        await world.pass(2 * MINUTE);
      }
      expect(await byState()).toEqual({ ...NOTHING_LEFT, pending: 4 });
      expect((await status()).state).toMatchObject({ kind: 'halted', code });
      world.weather.clear();
      await world.settled();
      expect(await recorded()).toEqual(upTo(4));
    },
  );
});

/** When the record of each pull request was written after its delivery, milliseconds. */
async function lagsOf(numbers: readonly number[]): Promise<number[]> {
  const lags: number[] = [];
  for (const number of numbers) {
    const told = world.clock.elapsed();
    const seen = watch();
    await world.pull({ number });
    await world.pass(10 * SECOND);
    expect(await recorded()).toContain(number);
    lags.push((seen().find(({ url }) => url.endsWith('/pull-request-records'))?.at ?? Number.POSITIVE_INFINITY) - told);
  }
  return lags;
}

describe('one change that always fails', () => {
  /** The time of one request at a rate of 200 in a quarter of an hour. */
  const SLOT = (15 * MINUTE) / 200;

  it('is held after five attempts, visibly, and holds up nobody else', async () => {
    const { taskId: task } = await world.bug();
    world.weather.turn({
      before: ({ url }) => (url.includes(task) ? errorAnswer(500, 'internal_error', 'it broke inside') : undefined),
    });
    const calm = Math.max(...(await lagsOf([13, 14, 15])));
    await world.pull({ number: 1, title: 'BUG-1: fix' });
    expect(Math.max(...(await lagsOf(upTo(12).slice(1))))).toBeLessThanOrEqual(calm + SLOT);
    await world.pass(HOUR);
    expect(world.weather.arrivals.filter(({ url }) => url.includes(task))).toHaveLength(5);
    const { changes, state } = await status();
    expect(state.kind).toBe('running');
    expect(changes.byState).toEqual({ ...NOTHING_LEFT, held: 1 });
    expect(changes.stuck).toMatchObject([
      {
        entity: expect.stringMatching(/^link:/),
        state: 'held',
        attempts: 5,
        failure: { code: 'server_failed', message: expect.stringContaining('it broke inside') },
      },
    ]);
  });
});

describe('a refusal', () => {
  it('is held at once with the server’s words, and released when the item changes', async () => {
    await world.pull({ number: 1, head: 'x'.repeat(300) });
    await world.pull({ number: 2 });
    await world.settled();
    await world.pass(HOUR);
    expect(world.weather.arrivals.filter(({ method }) => method === 'POST')).toHaveLength(2);
    const { changes } = await status();
    expect(changes.stuck).toMatchObject([
      {
        entity: 'pull_request:github/5001/1',
        state: 'held',
        failure: { code: 'refused', message: expect.stringContaining('ranch'), hint: expect.any(String) },
      },
    ]);
    expect(await verdict()).toBe('degraded');
    await world.pull({ number: 1, head: 'short' });
    await world.settled();
    expect(await recorded()).toEqual([1, 2]);
    expect(await byState()).toEqual(NOTHING_LEFT);
  });
});
