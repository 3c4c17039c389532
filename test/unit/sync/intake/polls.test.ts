import { describe, expect, test } from 'vitest';
import type { Connection, PollPage, PollPosition } from '../../../../src/connectors/connector.ts';
import { SyncError } from '../../../../src/model/errors/sync-error.ts';
import { silentLogger } from '../../../../src/platform/lib/logger.ts';
import { silentMeter } from '../../../../src/platform/lib/meter.ts';
import { systemRandom } from '../../../../src/platform/lib/random.ts';
import type { Schedule } from '../../../../src/platform/lib/scheduler.ts';
import { createWakeSignal } from '../../../../src/platform/lib/wake-signal.ts';
import type { Store } from '../../../../src/store/database.ts';
import { readStatus } from '../../../../src/store/stored-status.ts';
import type { ActiveConnection } from '../../../../src/sync/intake/active-connection.ts';
import { createPauses } from '../../../../src/sync/intake/pauses.ts';
import { createPolls, type Polls } from '../../../../src/sync/intake/polls.ts';
import { startJobs } from '../../../support/clocks/timetable.ts';
import { createTravellingClock, type TravellingClock } from '../../../support/clocks/travelling-clock.ts';
import { remainsOf } from '../../../support/faults/all-or-nothing.ts';
import { wrongWhereStatementsFail } from '../../../support/faults/each-statement-fails.ts';
import { activeWith, inboxOf, openTestStore } from '../../../support/harness/intake.ts';

const MINUTE = 60_000;

interface Bench {
  readonly store: Store;
  readonly clock: TravellingClock;
  readonly polls: Polls;
  readonly counts: string[];
}

async function bench(...connections: ActiveConnection[]): Promise<Bench> {
  const store = await openTestStore();
  const clock = createTravellingClock();
  return { store, clock, ...pollsOver(store, clock, connections) };
}

function pollsOver(store: Store, clock: TravellingClock, connections: readonly ActiveConnection[]) {
  const counts: string[] = [];
  const polls = createPolls({
    store,
    clock,
    connections,
    pauses: createPauses(clock),
    inbox: createWakeSignal(),
    // Full jitter at its longest, intervals at their exact length.
    random: { ...systemRandom(), float: () => 0.5 },
    logger: silentLogger,
    meter: {
      ...silentMeter,
      count: (name, labels) => void counts.push(`${name} ${labels?.['connection']} ${labels?.['outcome']}`),
    },
  });
  return { polls, counts };
}

function page(body: string, parts: { next?: string; newest?: string; etag?: string } = {}): PollPage {
  return { outcome: 'page', event: 'list', body: Buffer.from(body), ...parts };
}

/** A connection of one unit that answers from a script and records the requests. */
function scripted(answers: (PollPage | Error)[], schedule: Schedule = { everyMs: 10 * MINUTE }) {
  const requested: PollPosition[] = [];
  const connection: Partial<Connection> = {
    units: async () => ['unit'],
    async poll(position) {
      requested.push(position);
      const answer = answers.shift() ?? ({ outcome: 'unchanged' } as const);
      if (answer instanceof Error) throw answer;
      return answer;
    },
  };
  return { requested, active: activeWith({ connection, schedule }) };
}

const pollRows = (store: Store) => store.query.selectFrom('polls').selectAll().orderBy('unit').execute();
const activityOf = async (store: Store) => (await readStatus(store.query, 0)).connections[0];

test('sends one request after a limit, however often a person requests a poll during it', async () => {
  const { active, requested } = scripted([new SyncError('rate_limited', 'slow down', { retryAfter: MINUTE })]);
  const { clock, polls } = await bench(active);
  await polls.pollNow();
  await polls.pollNow();
  await polls.pollNow();
  expect(requested).toHaveLength(1);
  await clock.advance(MINUTE + 1_000);
  expect(requested).toHaveLength(2);
  await polls.stop();
});

describe('a walk', () => {
  test('stores each page with the position after it, and moves the watermark with the last', async () => {
    const { active, requested } = scripted([
      page('one', { next: '2', newest: '2026-01-05T08:00:00Z', etag: '"e1"' }),
      page('two', { next: '3', newest: '2026-01-05T07:00:00Z' }),
      page('three', { newest: '2026-01-05T06:00:00Z' }),
    ]);
    const { store, polls, counts } = await bench(active);
    await polls.pollNow();
    expect(await inboxOf(store)).toMatchObject([
      { connection: 'notes', source: 'poll', event: 'list', body: 'one', state: 'pending' },
      { body: 'two' },
      { body: 'three' },
    ]);
    expect(await pollRows(store)).toMatchObject([
      { unit: 'unit', watermark: '2026-01-05T08:00:00Z', walk: null, etag: '"e1"', error: null },
    ]);
    expect(requested.map((position) => position.page)).toEqual([undefined, '2', '3']);
    expect(counts).toEqual(['polls_total notes complete']);
    await polls.stop();
  });

  test('stores a page completely or not at all, and no failure after the loss of the workspace', async () => {
    expect(
      await remainsOf(async (store) => {
        const { active } = scripted([page('one', { newest: '2026-01-05T08:00:00Z' })]);
        return () => pollsOver(store, createTravellingClock(), [active]).polls.pollNow();
      }),
    ).toEqual([]);
  });

  test('continues at its page after a restart, and stores nothing twice', async () => {
    const first = scripted([
      page('one', { next: '2', newest: '2026-01-05T08:00:00Z', etag: '"e1"' }),
      new SyncError('server_failed', 'down'),
    ]);
    const { store, clock, polls } = await bench(first.active);
    await polls.pollNow();
    await polls.stop();
    const [row] = await pollRows(store);
    expect(row).toMatchObject({ watermark: null, etag: null, completed_at: null, error: 'server_failed: down' });

    const second = scripted([page('two', { newest: '2026-01-05T07:00:00Z' })]);
    const again = pollsOver(store, clock, [second.active]);
    await again.polls.pollNow();
    await again.polls.stop();
    expect(second.requested).toMatchObject([{ page: '2' }]);
    expect((await inboxOf(store)).map((each) => each.body)).toEqual(['one', 'two']);
    expect(await pollRows(store)).toMatchObject([
      { watermark: '2026-01-05T08:00:00Z', etag: '"e1"', walk: null, error: null, failed_at: null },
    ]);
  });

  test('of a vendor without validators stores a repeated page once, and again after another page', async () => {
    const { active } = scripted([page('A'), page('A'), page('B'), page('A')]);
    const { store, polls } = await bench(active);
    for (let cycle = 0; cycle < 4; cycle++) await polls.pollNow();
    expect((await inboxOf(store)).map((row) => row.body)).toEqual(['A', 'B', 'A']);
    await polls.stop();
  });
});

describe('the schedule', () => {
  test('polls at once and then at its interval, one cycle at a time', async () => {
    let running = 0;
    let most = 0;
    const times: number[] = [];
    const gate = { open: Promise.resolve() };
    const store = await openTestStore();
    const clock = createTravellingClock();
    const active = activeWith({
      schedule: { everyMs: 10 * MINUTE },
      connection: {
        units: async () => ['unit'],
        async poll() {
          times.push(clock.elapsed());
          most = Math.max(most, ++running);
          await gate.open;
          running--;
          return { outcome: 'unchanged' };
        },
      },
    });
    const { polls } = pollsOver(store, clock, [active]);
    const timetable = startJobs(polls.jobs, clock);
    timetable.start();
    await clock.advance(0);
    expect(times).toEqual([0]);
    await clock.advance(10 * MINUTE);
    expect(times).toEqual([0, 10 * MINUTE]);

    const blocked = Promise.withResolvers<void>();
    gate.open = blocked.promise;
    await clock.advance(50 * MINUTE);
    expect(times).toHaveLength(3);
    const now = polls.pollNow();
    await clock.advance(0);
    blocked.resolve();
    await now;
    expect(times).toHaveLength(4);
    expect(most).toBe(1);
    await Promise.all([timetable.stop(), polls.stop()]);
    await Promise.all([timetable.stop(), polls.stop()]);
    expect(clock.pending).toBe(0);
  });

  test('spreads the first polls of several connections', async () => {
    const order: string[] = [];
    const actives = ['a', 'b', 'c'].map((name) =>
      activeWith({
        name,
        schedule: { cron: '0 * * * *' },
        connection: {
          units: async () => {
            order.push(name);
            return [];
          },
        },
      }),
    );
    const { polls, clock } = await bench(...actives);
    const timetable = startJobs(polls.jobs, clock);
    await clock.advance(0);
    expect(order).toEqual(['a']);
    await clock.advance(500);
    expect(order).toEqual(['a', 'b', 'c']);
    await Promise.all([timetable.stop(), polls.stop()]);
  });

  test('that is off polls only a connection that is named', async () => {
    const { active, requested } = scripted([], 'off');
    const { polls, clock } = await bench(active);
    const timetable = startJobs(polls.jobs, clock);
    await clock.advance(24 * 60 * MINUTE);
    await polls.pollNow();
    expect(requested).toHaveLength(0);
    await polls.pollNow('notes');
    expect(requested).toHaveLength(1);
    await Promise.all([timetable.stop(), polls.stop()]);
  });
});

describe('a failure', () => {
  test('of the vendor is retried with growing pauses, only for the failed unit', async () => {
    const requested: string[] = [];
    const store = await openTestStore();
    const clock = createTravellingClock();
    const active = activeWith({
      schedule: { everyMs: 10 * MINUTE },
      connection: {
        units: async () => ['good', 'bad'],
        async poll({ unit }) {
          requested.push(`${unit} ${clock.elapsed()}`);
          if (unit === 'bad' && requested.length < 6) throw new SyncError('server_failed', 'down', { status: 500 });
          return page(unit);
        },
      },
    });
    const { polls, counts } = pollsOver(store, clock, [active]);
    const timetable = startJobs(polls.jobs, clock);
    await clock.advance(5 * MINUTE);
    expect(requested).toEqual(['good 0', 'bad 0', 'bad 2500', 'bad 7500', 'bad 17500', 'bad 37500']);
    expect(counts.filter((count) => count.endsWith('failed'))).toHaveLength(4);
    expect(await pollRows(store)).toMatchObject([
      { unit: 'bad', error: null },
      { unit: 'good', error: null },
    ]);
    await Promise.all([timetable.stop(), polls.stop()]);
  });

  test('by a rate limit pauses the connection as long as the vendor requests, then continues', async () => {
    const requested: string[] = [];
    const store = await openTestStore();
    const clock = createTravellingClock();
    const active = activeWith({
      schedule: { everyMs: 10 * MINUTE },
      connection: {
        units: async () => ['a', 'b', 'c'],
        async poll({ unit }) {
          requested.push(`${unit} ${clock.elapsed() / MINUTE}`);
          if (requested.length === 2) throw new SyncError('rate_limited', 'too many', { retryAfter: 25 * MINUTE });
          return { outcome: 'unchanged' };
        },
      },
    });
    const { polls, counts } = pollsOver(store, clock, [active]);
    const timetable = startJobs(polls.jobs, clock);
    await clock.advance(0);
    expect(await pollRows(store)).toMatchObject([
      { unit: 'a', error: null },
      { unit: 'b', error: 'rate_limited: too many', failed_at: clock.now() },
    ]);
    await polls.pollNow();
    await clock.advance(24 * MINUTE);
    expect(requested).toEqual(['a 0', 'b 0']);
    await clock.advance(MINUTE);
    expect(requested.slice(2).map((each) => each.slice(0, 1))).toEqual(expect.arrayContaining(['b', 'c']));
    expect(counts).toContain('polls_total notes limited');
    await Promise.all([timetable.stop(), polls.stop()]);
    expect(clock.pending).toBe(0);
  });

  test.each(['unauthorized', 'forbidden', 'not_found'] as const)('%s waits for the schedule', async (code) => {
    const { active, requested } = scripted([new SyncError(code, 'no'), page('one')]);
    const { store, polls, clock } = await bench(active);
    const timetable = startJobs(polls.jobs, clock);
    await clock.advance(9 * MINUTE);
    expect(requested).toHaveLength(1);
    expect(await pollRows(store)).toMatchObject([{ unit: 'unit', error: `${code}: no` }]);
    await clock.advance(MINUTE);
    expect(requested).toHaveLength(2);
    expect(await pollRows(store)).toMatchObject([{ unit: 'unit', error: null }]);
    await Promise.all([timetable.stop(), polls.stop()]);
  });

  test.each([
    ['not_found', true],
    ['refused', true],
    ['unauthorized', false],
    ['server_failed', false],
    ['rate_limited', false],
  ] as const)('%s makes names be checked again soon: %s', async (code, isDoubted) => {
    let doubts = 0;
    const { active } = scripted([new SyncError(code, 'no')]);
    const names = { refresh: async () => undefined, version: () => 0, recheckSoon: () => void doubts++ };
    const { polls } = await bench({ ...active, names: names as unknown as NonNullable<ActiveConnection['names']> });
    await polls.pollNow();
    expect(doubts).toBe(isDoubted ? 1 : 0);
    await polls.stop();
    await polls.pollNow();
    expect(doubts).toBe(isDoubted ? 1 : 0);
  });

  test.each([
    ['server_failed', ['a', 'b', 'c'], ['a']],
    ['not_found', ['a', 'b', 'c'], []],
    ['forbidden', ['a', 'b', 'c'], []],
    ['scope_rebound', ['a', 'b', 'c'], []],
    ['feature_off', ['a', 'b', 'c'], []],
    ['consent_needed', ['a'], []],
    ['disk_full', ['a'], ['a', 'b', 'c']],
    ['unauthorized', ['a'], []],
  ] as const)('%s: polls %j at first, and before the schedule %j again', async (code, first, again) => {
    const requested: string[] = [];
    const active = activeWith({
      schedule: { everyMs: 10 * MINUTE },
      connection: {
        units: async () => ['a', 'b', 'c'],
        async poll({ unit }) {
          requested.push(unit);
          if (requested.length === 1) throw new SyncError(code, 'no');
          return { outcome: 'unchanged' };
        },
      },
    });
    const { polls, clock } = await bench(active);
    const polled = polls.pollNow();
    await clock.until(() => requested.length >= first.length);
    await polled;
    expect(requested).toEqual(first);
    await clock.advance(9 * MINUTE);
    await polls.stop();
    expect(requested.slice(first.length)).toEqual(again);
    expect(clock.pending).toBe(0);
  });

  test('keeps its own remedy, which the status shows', async () => {
    const { active } = scripted([new SyncError('forbidden', 'no', { hint: 'Authorise the token.' })]);
    const { store, polls } = await bench(active);
    await polls.pollNow();
    const activity = await activityOf(store);
    expect(activity?.failure).toMatchObject({
      code: 'forbidden',
      message: 'no',
      hint: 'Authorise the token.',
      unit: 'unit',
    });
    await polls.stop();
  });

  test('is not reported if the vendor has switched the list off; the status shows it, and polls continue', async () => {
    const off = () => new SyncError('feature_off', 'issues of acme/web are switched off at the vendor');
    const { active, requested } = scripted([off(), off()]);
    const { store, polls, counts } = await bench(active);
    await polls.pollNow();
    expect(await activityOf(store)).toMatchObject({
      failure: null,
      failingUnits: 0,
      switchedOff: ['issues of acme/web are switched off at the vendor'],
    });
    await polls.pollNow();
    expect(counts).toEqual(['polls_total notes off', 'polls_total notes off']);
    await polls.pollNow();
    expect(requested).toHaveLength(3);
    expect(await activityOf(store)).toMatchObject({ failure: null, switchedOff: [] });
    await polls.stop();
  });

  test('of a connection that is switched off is not retried', async () => {
    const { active, requested } = scripted([new SyncError('server_failed', 'down')], 'off');
    const { polls, clock } = await bench(active);
    await polls.pollNow();
    expect(requested).toHaveLength(0);
    await polls.pollNow('other');
    expect(requested).toHaveLength(0);
    await polls.pollNow('notes');
    expect([requested.length, clock.pending]).toEqual([1, 0]);
    await polls.stop();
  });

  test('is retried no later than the schedule, however often it occurred', async () => {
    const { active, requested } = scripted(
      Array.from({ length: 9 }, () => new SyncError('server_failed', 'down')),
      { everyMs: MINUTE },
    );
    const { polls, clock } = await bench(active);
    await polls.pollNow();
    for (const most of [2_500, 5_000, 10_000, 20_000, 30_000, 30_000]) {
      const count = requested.length;
      await clock.advance(most - 1);
      expect(requested).toHaveLength(count);
      await clock.advance(1);
      expect(requested).toHaveLength(count + 1);
    }
    await polls.stop();
  });

  test('is not retried after another cycle', async () => {
    const { active, requested } = scripted([new SyncError('server_failed', 'down')]);
    const { polls, clock } = await bench(active);
    await polls.pollNow();
    await polls.pollNow();
    await clock.advance(9 * MINUTE);
    expect([requested.length, clock.pending]).toEqual([2, 0]);
    await polls.stop();
  });

  test('never delays a stop, which waits only for the running request', async () => {
    const answer = Promise.withResolvers<void>();
    let isOver = false;
    const poll = async () => {
      await answer.promise;
      isOver = true;
      return { outcome: 'unchanged' } as const;
    };
    const active = activeWith({ schedule: { everyMs: MINUTE }, connection: { units: async () => ['unit'], poll } });
    const { polls, clock } = await bench(active);
    void polls.pollNow();
    await clock.advance(0);
    const stopped = polls.stop().then(() => isOver);
    await clock.advance(0);
    answer.resolve();
    expect(await stopped).toBe(true);
  });

  test('of any statement does not prevent the end of a poll, nor leave an unhandled rejection', async () => {
    const wrong = (unitsFail: boolean) =>
      wrongWhereStatementsFail(
        async (store) => {
          const { active } = scripted([
            page('one', { next: '2', newest: '2026-01-05T08:00:00Z', etag: '"e1"' }),
            new SyncError('not_found', 'gone'),
          ]);
          const units = () => Promise.reject(new SyncError('not_found', 'gone'));
          const connection = { ...active.connection, ...(unitsFail && { units }) };
          const { polls } = pollsOver(store, createTravellingClock(), [{ ...active, connection }]);
          return async () => {
            await polls.pollNow();
            await polls.stop();
          };
        },
        { inParts: true, isQuiet: true },
      );
    expect([await wrong(false), await wrong(true)]).toEqual([[], []]);
  });

  test('to list the units has a row of its own, which is removed later', async () => {
    let fails = true;
    const active = activeWith({
      schedule: { everyMs: 10 * MINUTE },
      connection: {
        async units() {
          if (fails) throw new SyncError('unreachable', 'no route');
          return [];
        },
      },
    });
    const { store, polls } = await bench(active);
    await polls.pollNow();
    expect(await pollRows(store)).toMatchObject([{ connection: 'notes', unit: '*', error: 'unreachable: no route' }]);
    fails = false;
    await polls.pollNow();
    expect(await pollRows(store)).toEqual([]);
    await polls.stop();
  });

  test('is not recorded after a stop, which aborts the running request', async () => {
    const active = activeWith({
      schedule: { everyMs: MINUTE },
      connection: {
        units: async () => ['unit'],
        poll: (_position, signal) =>
          new Promise((_resolve, reject) => {
            signal.addEventListener('abort', () => reject(new SyncError('aborted', 'stopping')));
          }),
      },
    });
    const { store, polls, clock } = await bench(active);
    const timetable = startJobs(polls.jobs, clock);
    await clock.advance(0);
    await Promise.all([timetable.stop(), polls.stop()]);
    expect(await pollRows(store)).toEqual([]);
    expect(clock.pending).toBe(0);
  });
});
