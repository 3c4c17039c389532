import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { PollPage, PollPosition } from '../../../../src/connectors/connector.ts';
import { type ErrorCode, SyncError } from '../../../../src/model/errors.ts';
import { createWakeSignal, systemRandom } from '../../../../src/platform/lib/clock.ts';
import { type Meter, silentMeter } from '../../../../src/platform/lib/telemetry.ts';
import { requestBackfill } from '../../../../src/store/connections/backfills.ts';
import type { PollState, Walk } from '../../../../src/store/connections/unit-states.ts';
import { readStatus } from '../../../../src/store/status/stored-status.ts';
import type { Store } from '../../../../src/store/workspace-scope.ts';
import { createBackfills } from '../../../../src/sync/intake/backfill-stage.ts';
import { afterPage, afterUnchanged, createPolls, isSamePage, walkOf } from '../../../../src/sync/intake/polls.ts';
import type { ActiveConnection } from '../../../../src/sync/workspace-context.ts';
import { startJobs } from '../../../support/fakes/timetable.ts';
import { createTravellingClock } from '../../../support/fakes/travelling-clock.ts';
import { remainsOf, remainsOfLost } from '../../../support/faults/all-or-nothing.ts';
import { activeWith, inboxOf, openTestStore } from '../../../support/harness/intake.ts';
import { workspaceContext } from '../../../support/harness/workspace-context.ts';

type Page = Extract<PollPage, { outcome: 'page' }>;
type Answer = PollPage | Error;
/** Returns the vendor's answer to a request. */
type Vendor = (position: PollPosition, count: number, signal: AbortSignal) => Answer | Promise<Answer>;

interface Parts extends Partial<Pick<ActiveConnection, 'schedule' | 'names'>> {
  readonly units?: readonly string[];
  readonly store?: Store;
  readonly clock?: ReturnType<typeof createTravellingClock>;
}

const MINUTE = 60_000;
const EVERY_TEN_MINUTES = { everyMs: 10 * MINUTE };
const UNCHANGED = { outcome: 'unchanged' } as const;
const fail = (code: ErrorCode, more: ConstructorParameters<typeof SyncError>[2] = {}) =>
  new SyncError(code, 'no', more);
const page = (body: string, parts: Partial<Page> = {}): Page => ({
  ...{ outcome: 'page', event: 'list', body: Buffer.from(body) },
  ...parts,
});

/** Polls one connection every ten minutes. @param vendor answers one after the other, then `unchanged` */
async function bench(vendor: readonly Answer[] | Vendor, parts: Parts = {}) {
  const { units = ['unit'], schedule = EVERY_TEN_MINUTES, names } = parts;
  const { store = await openTestStore(), clock = createTravellingClock() } = parts;
  const answerTo: Vendor = typeof vendor === 'function' ? vendor : (_, count) => vendor[count - 1] ?? UNCHANGED;
  const requested: PollPosition[] = [];
  const times: string[] = [];
  const counts: string[] = [];
  let notifications = 0;
  const active = activeWith({
    schedule,
    connection: {
      units: async () => units,
      async poll(position, signal) {
        times.push(`${position.unit} ${clock.elapsed()}`);
        const answer = await answerTo(position, requested.push(position), signal);
        if (answer instanceof Error) throw answer;
        return answer;
      },
    },
  });
  const count: Meter['count'] = (metric, labels) =>
    void counts.push(`${metric} ${labels?.['connection']} ${labels?.['outcome']}`);
  const context = workspaceContext({
    ...{ store, clock, connections: [{ ...active, ...(names && { names }) }] },
    inbox: { ...createWakeSignal(), notify: () => void notifications++ },
    // Full jitter at its longest, intervals at their exact length.
    random: { ...systemRandom(), float: () => 0.5 },
    meter: { ...silentMeter, count },
  });
  const polls = createPolls(context);
  return {
    ...{ store, clock, polls, counts, requested, times },
    units: () => requested.map(({ unit }) => unit),
    pages: () => requested.map((position) => position.page),
    notifications: () => notifications,
    start() {
      const timetable = startJobs(polls.jobs, clock);
      return async () => void (await Promise.all([timetable.stop(), polls.stop()]));
    },
    rows: () => store.query.selectFrom('polls').selectAll().orderBy('unit').execute(),
    bodies: async () => (await inboxOf(store)).map(({ body }) => body),
    activity: async () => (await readStatus(store.query, 0)).connections[0],
  };
}

/** The first time of a travelling clock. */
const NOW = createTravellingClock().now();
const at = (minutes: number) => new Date(NOW + minutes * MINUTE).toISOString();
const fresh: Walk = { startedAt: at(0), readAt: at(0) };
const found = (parts: Partial<Page> = {}) => page('[]', parts);
const later: Walk = { ...fresh, page: '2' };

describe('the watermark', () => {
  const before: PollState = { watermark: at(-60) };
  const walk = { page: '2', candidate: at(-5), startedAt: at(0), readAt: at(0), etag: undefined };

  test.each<[string, PollState, Walk, Partial<Page>, Partial<PollState>]>([
    ['moves with the last page', {}, fresh, { newest: at(-5) }, { watermark: at(-5) }],
    ['stays while pages are left', before, fresh, { newest: at(-5), next: '2' }, { ...before, walk }],
    ['keeps a higher time', before, { ...later, candidate: at(-5) }, { newest: at(-30) }, { watermark: at(-5) }],
    ['may be a little ahead of the local clock', {}, fresh, { newest: at(5) }, { watermark: at(5) }],
    ['is limited to the local clock if it is far ahead', {}, fresh, { newest: at(5.1) }, { watermark: at(0) }],
    ['is not moved by text that is no time', before, fresh, { newest: 'soon' }, before],
  ])('%s', (_name, state, given, parts, expected) => {
    expect(afterPage(state, given, found(parts), 'digest', NOW)).toMatchObject(expected);
  });

  test('moves only with a last page, and never back, for any sequence of pages', () => {
    const minutes = fc.integer({ min: -1_000, max: 1_000 });
    const pages = fc.array(fc.record({ newest: fc.option(minutes), isLast: fc.boolean() }), { maxLength: 30 });
    fc.assert(
      fc.property(pages, (course) => {
        let state: PollState = { watermark: at(-500) };
        for (const [index, { newest, isLast }] of course.entries()) {
          const previous = Date.parse(state.watermark as string);
          const parts = { ...(newest !== null && { newest: at(newest) }), ...(!isLast && { next: `page-${index}` }) };
          state = afterPage(state, walkOf(state, NOW), found(parts), 'digest', NOW);
          const after = Date.parse(state.watermark as string);
          expect(after).toBeGreaterThanOrEqual(previous);
          expect(after).toBeLessThanOrEqual(NOW + 300_000);
          expect(isLast || after === previous).toBe(true);
          expect(state.walk === undefined).toBe(isLast);
        }
      }),
    );
  });
});

describe('unchanged', () => {
  test('as the answer to a later page is an error, because that page was not read', () => {
    expect(() => afterUnchanged({}, later)).toThrow(expect.objectContaining({ code: 'answer_malformed' }));
  });

  test.each<[boolean, string, PollState, Walk, Partial<Page>]>([
    [true, 'the same single page', { digest: 'same' }, fresh, {}],
    [false, 'another page', { digest: 'other' }, fresh, {}],
    [false, 'no earlier walk', {}, fresh, {}],
    [false, 'another page follows', { digest: 'same' }, fresh, { next: '2' }],
    [false, 'not the first page', { digest: 'same' }, later, {}],
  ])('is %s, without a validator, after %s', (expected, _name, state, walk, given) => {
    expect(isSamePage(state, walk, found(given), 'same')).toBe(expected);
  });
});

describe('a stored walk', () => {
  test.each<[string, readAt: number, goesOn: boolean]>([
    ['continues after a restart', -10, true],
    ['continues after the longest pause that a vendor may impose', -120, true],
    ['begins again after two hours without a page', -121, false],
    ['begins again if the clock was set back', 10, false],
  ])('%s', (_name, readAt, goesOn) => {
    const walk: Walk = { page: '7', startedAt: at(-10_000), readAt: at(readAt), candidate: at(-1) };
    expect(walkOf({ walk, watermark: at(-20_000) }, NOW)).toEqual(goesOn ? walk : fresh);
  });
});

describe('a walk', () => {
  test('stores each page with the position after it, and moves the watermark with the last', async () => {
    const all = await bench([
      page('one', { next: '2', newest: at(-1), etag: '"e1"' }),
      page('two', { next: '3', newest: at(-2) }),
      page('three', { newest: at(-3) }),
    ]);
    await all.polls.pollNow();
    const row = { connection: 'notes', source: 'poll', event: 'list', state: 'pending' };
    expect(await inboxOf(all.store)).toMatchObject(['one', 'two', 'three'].map((body) => ({ ...row, body })));
    expect(await all.rows()).toMatchObject([
      { unit: 'unit', watermark: at(-1), walk: null, etag: '"e1"', error: null },
    ]);
    expect(all.pages()).toEqual([undefined, '2', '3']);
    expect([all.counts, all.notifications()]).toEqual([['polls_total notes complete'], 3]);
  });

  test('without a change stores only the time, and notifies nothing', async () => {
    const all = await bench([UNCHANGED]);
    await all.polls.pollNow();
    expect([await all.bodies(), all.notifications(), all.counts]).toEqual([[], 0, ['polls_total notes unchanged']]);
    expect(await all.rows()).toMatchObject([{ completed_at: all.clock.now() }]);
  });

  test('stores a page completely or not at all, and no failure after the loss of the workspace', async () => {
    const poll = async (store: Store) => {
      const { polls } = await bench([page('one', { newest: at(-1) })], { store });
      return () => polls.pollNow();
    };
    expect(await remainsOf(poll)).toEqual([]);
  });

  test('continues at its page after a restart, and stores nothing twice', async () => {
    const first = await bench([page('one', { next: '2', newest: at(-1), etag: '"e1"' }), fail('server_failed')]);
    await first.polls.pollNow();
    await first.polls.stop();
    const [row] = await first.rows();
    expect(row).toMatchObject({ watermark: null, etag: null, completed_at: null, error: 'server_failed: no' });
    const { store, clock } = first;
    const again = await bench([page('two', { newest: at(-2) })], { store, clock });
    await again.polls.pollNow();
    expect(again.pages()).toEqual(['2']);
    expect(await again.bodies()).toEqual(['one', 'two']);
    expect(await again.rows()).toMatchObject([
      { watermark: at(-1), etag: '"e1"', walk: null, error: null, failed_at: null },
    ]);
  });

  test('of a vendor without validators stores a repeated page once, and again after another page', async () => {
    const all = await bench(['A', 'A', 'B', 'A'].map((body) => page(body)));
    for (let cycle = 0; cycle < 4; cycle++) await all.polls.pollNow();
    expect(await all.bodies()).toEqual(['A', 'B', 'A']);
  });

  test.each([1, 7])('over a circle of %i pages ends, keeps the pages, and begins again', async (length) => {
    const all = await bench((_, count) => page(`page ${count}`, { next: `token-${count % length}` }));
    await all.polls.pollNow();
    const before = all.requested.length;
    expect(before).toBeLessThanOrEqual(3 * length + 2);
    expect(await all.bodies()).toHaveLength(before);
    const [first] = await all.rows();
    expect(first).toMatchObject({ error: expect.stringMatching(/^list_endless: /), watermark: null });
    await all.clock.advance(1_000);
    await all.polls.pollNow();
    // A first walk keeps its start time, because an open item may be closed since.
    expect(all.requested[before]).toEqual({ unit: 'unit', startedAt: all.requested[0]?.startedAt });
  });

  test('over empty pages with new names stops after 100, and continues there', async () => {
    const all = await bench((_, count) => page(`page ${count}`, { next: `token-${count}`, isEmpty: true }));
    for (const expected of [100, 200]) {
      await all.polls.pollNow();
      expect(all.requested).toHaveLength(expected);
      expect(await all.rows()).toMatchObject([{ error: expect.stringMatching(/^list_endless: /) }]);
    }
    expect(all.pages()[100]).toBe('token-100');
  });

  test('requests a page again that was read while a name was bound again', async () => {
    let version = 0;
    const names = { version: () => version, refresh: async () => undefined } as unknown as ActiveConnection['names'];
    const vendor: Vendor = (_, count) => {
      if (count > 1) return page('one', { newest: at(-9) });
      version++;
      return page('of another repository', { newest: at(-1) });
    };
    const all = await bench(vendor, { names });
    await all.polls.pollNow();
    expect([all.pages(), await all.bodies()]).toEqual([[undefined, undefined], ['one']]);
    expect(await all.rows()).toMatchObject([{ watermark: at(-9) }]);
  });
});

describe('the schedule', () => {
  test('polls at once and then at its interval, one cycle at a time', async () => {
    let blocked: Promise<void> | undefined;
    const { clock, polls, times, start } = await bench(async () => {
      await blocked;
      return UNCHANGED;
    });
    const stop = start();
    await clock.advance(10 * MINUTE);
    expect(times).toEqual(['unit 0', 'unit 600000']);
    const answer = Promise.withResolvers<void>();
    blocked = answer.promise;
    await clock.advance(50 * MINUTE);
    const now = polls.pollNow();
    await clock.advance(0);
    expect(times).toHaveLength(3);
    answer.resolve();
    await now;
    expect(times).toHaveLength(4);
    await stop();
    expect(clock.pending).toBe(0);
  });
});

describe('a failure', () => {
  test('by a rate limit pauses the connection as long as the vendor requests, also for a person', async () => {
    const { clock, polls, times, counts, rows, start } = await bench(
      (_, count) => (count === 2 ? fail('rate_limited', { retryAfter: 25 * MINUTE }) : UNCHANGED),
      { units: ['a', 'b', 'c'] },
    );
    const stop = start();
    await clock.advance(0);
    expect(await rows()).toMatchObject([
      { unit: 'a', error: null },
      { unit: 'b', error: 'rate_limited: no', failed_at: clock.now() },
    ]);
    await polls.pollNow();
    await polls.pollNow();
    await clock.advance(24 * MINUTE);
    expect(times).toEqual(['a 0', 'b 0']);
    await clock.advance(MINUTE);
    const again = times.slice(2).map((each) => each.slice(0, 1));
    expect(again).toEqual(expect.arrayContaining(['b', 'c']));
    // One cycle, however often a person requested one.
    expect(new Set(again).size).toBe(again.length);
    expect(counts).toContain('polls_total notes limited');
    await stop();
    expect(clock.pending).toBe(0);
  });

  test.each([
    ['server_failed', ['a', 'b', 'c'], ['a']],
    ['not_found', ['a', 'b', 'c'], []],
    ['feature_off', ['a', 'b', 'c'], []],
    ['disk_full', ['a'], ['a', 'b', 'c']],
    ['unauthorized', ['a'], []],
  ] as const)('%s: polls %j at first, %j before the schedule, and all by it', async (code, first, again) => {
    const vendor: Vendor = (_, count) => (count === 1 ? fail(code) : UNCHANGED);
    const { polls, clock, units, rows, start } = await bench(vendor, { units: ['a', 'b', 'c'] });
    const stop = start();
    await clock.advance(1_000);
    expect(units()).toEqual(first);
    expect((await rows())[0]).toMatchObject({ unit: 'a', error: `${code}: no` });
    await clock.advance(9 * MINUTE);
    expect(units().slice(first.length)).toEqual(again);
    await clock.advance(MINUTE);
    expect(units().slice(first.length + again.length)).toEqual(['a', 'b', 'c']);
    expect((await rows())[0]).toMatchObject({ unit: 'a', error: null });
    await stop();
    await polls.stop();
    expect(clock.pending).toBe(0);
  });

  test('is not reported if the vendor has switched the list off; the status shows it, and polls continue', async () => {
    const { polls, counts, requested, activity } = await bench([fail('feature_off'), fail('feature_off')]);
    await polls.pollNow();
    expect(await activity()).toMatchObject({ failure: null, failingUnits: 0, switchedOff: ['no'] });
    await polls.pollNow();
    expect(counts).toEqual(['polls_total notes off', 'polls_total notes off']);
    await polls.pollNow();
    expect(requested).toHaveLength(3);
    expect(await activity()).toMatchObject({ failure: null, switchedOff: [] });
  });
});

describe('a backfill', () => {
  /** Returns a function that reads one page of a backfill of one unit. */
  async function backfill(
    store: Store,
    history: () => Promise<{ event: string; body: Buffer }>,
    clock = createTravellingClock(),
  ) {
    const requested = Promise.withResolvers<void>();
    const active = activeWith({
      connection: {
        units: async () => ['unit'],
        async history() {
          requested.resolve();
          return history();
        },
      },
    });
    await requestBackfill(store.query, { connection: active.name, since: null, now: clock.now() });
    await store.query.updateTable('backfills').set({ unit: 'unit' }).execute();
    const stage = createBackfills(workspaceContext({ store, clock, connections: [active] }));
    return async (meanwhile: () => Promise<void> = () => clock.advance(0)) => {
      stage.start();
      await requested.promise;
      await meanwhile();
      await stage.stop();
    };
  }

  const rows = ({ query }: Store) =>
    query.selectFrom('backfills').select(['unit', 'error', 'attempts', 'finished_at']).execute();

  const PAGE = { event: 'list', body: Buffer.from('one') };

  test.each([
    ['retries a temporary failure', 'server_failed', 'server_failed: down', false],
    ['retries a failure that a person must resolve', 'unauthorized', 'unauthorized: down', false],
    ['finishes a unit that can never be read', 'refused', 'refused: down', true],
    ['finishes a unit that the vendor has switched off, without an error', 'feature_off', null, true],
  ] as const)('%s', async (_what, code, error, isOver) => {
    const store = await openTestStore();
    await (await backfill(store, () => Promise.reject(new SyncError(code, 'down'))))();
    const [row] = await rows(store);
    expect([row?.error, row?.finished_at !== null]).toEqual([error, isOver]);
  });

  test('stores nothing of a page that it read after the loss of the workspace', async () => {
    expect(await remainsOfLost((store) => backfill(store, async () => PAGE))).toEqual([]);
  });
});
