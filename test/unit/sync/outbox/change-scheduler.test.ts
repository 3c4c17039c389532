import fc from 'fast-check';
import { describe, expect, it, test } from 'vitest';
import { findChange, updateChange } from '../../../../src/store/changes/outbox-rows.ts';
import { PULL_REQUESTS_READ, TASKS_READ, writeMeta } from '../../../../src/store/meta.ts';
import { writeServerFact } from '../../../../src/store/workspace/server-facts.ts';
import { createBreaker, isWorkspaceRefusal, PROBE_EVERY } from '../../../../src/sync/outbox/breaker.ts';
import { createChangeScheduler, forecastDueTimes, leadTime } from '../../../../src/sync/outbox/claim.ts';
import type { Throttle } from '../../../../src/sync/quota/throttle.ts';
import { createTravellingClock } from '../../../support/fakes/travelling-clock.ts';
import { openTestStore } from '../../../support/harness/intake.ts';
import type { OpenedStore } from '../../../support/harness/store.ts';
import { workspaceContext } from '../../../support/harness/workspace-context.ts';
import { waits } from '../../../support/rows/changes.ts';
import { failed } from '../../../support/rows/in-flight.ts';

/** The results of requests in their order, each with its change: `+` write, `?` read, `-` failure. */
type Results = readonly `${'+' | '?' | '-'}${string}`[];

function after(results: Results) {
  const breaker = createBreaker();
  for (const [sign, ...name] of results) {
    const change = name.join('');
    if (sign === '-') breaker.failed(change);
    else breaker.passed(change, sign === '+');
  }
  return breaker;
}

test.each<[what: string, results: Results, failing: boolean, open: boolean]>([
  ['one failure before any success', ['-a'], true, false],
  ['two failures of two changes', ['+c', '-a', '-b'], false, false],
  ['three failures of two changes', ['-a', '-b', '-a'], true, true],
  ['three failures of one change', ['-a', '-a', '-a'], true, false],
  ['a success', ['-a', '-b', '-c', '+d'], false, false],
  ['the success of a read', ['-a', '-b', '-c', '?d'], false, false],
])('after %s', (_what, results, failing, open) => {
  const breaker = after(results);
  expect([breaker.failing, breaker.open, breaker.pause()]).toEqual([failing, open, open ? PROBE_EVERY : 0]);
});

test.each<[what: string, results: Results, othersAnswered: boolean, othersWritten: boolean, isAtFault: boolean]>([
  ['it fails while no request succeeds', ['+b', '-a', '-c', '-a'], false, false, false],
  ['it fails while another read succeeds', ['-a', '?b', '-a'], true, false, false],
  ['it fails while another write succeeds', ['-a', '+b', '-a'], true, true, true],
  ['other writes succeeded earlier, and none does now', ['-a', '+b', '-a', '-a'], true, true, false],
])(
  'reports what succeeded since a change first failed: %s',
  (_what, results, othersAnswered, othersWritten, isAtFault) => {
    expect(after(results).sinceFailure('a')).toEqual({ othersAnswered, othersWritten, isAtFault });
  },
);

test.each<[status: number | undefined, errorCode: string | undefined, isOwn: boolean]>([
  [400, 'validation_failed', true],
  [499, 'validation_failed', true],
  [500, 'internal', false],
  [400, undefined, false],
  [undefined, 'internal', false],
])('status %s with code %s is a refusal by the workspace itself: %s', (status, errorCode, isOwn) => {
  expect(isWorkspaceRefusal(failed('refused', status, errorCode))).toBe(isOwn);
});

type Paces = ReturnType<Throttle['paces']>;

const HOUR = 3_600_000;
const RECORD = 'pull_request:github/7/1';

async function setUp({ visibility = undefined as number | undefined, isRead = true } = {}) {
  const store = await openTestStore();
  if (isRead) for (const fact of [TASKS_READ, PULL_REQUESTS_READ]) await writeMeta(store.query, fact, '1');
  await writeServerFact(store.query, 'records', { state: 'open', since: 0 });
  return { store, ...schedulerOver(store, visibility) };
}

function schedulerOver(store: OpenedStore, visibility?: number) {
  const clock = createTravellingClock();
  const breaker = createBreaker();
  const state = { isHalted: false, paces: [] as Paces };
  const throttle = {
    ...{ isHalted: () => state.isHalted, paces: () => state.paces, usedShare: () => 0 },
    acquire: () => Promise.reject(new Error('nothing is sent here')),
  };
  const parts = { store, clock, breaker, throttle: throttle as unknown as Throttle };
  const context = workspaceContext(parts, { quota: { visibility }, recordsPullRequests: true });
  return { clock, breaker, state, scheduler: createChangeScheduler(context) };
}

/** Stores a change of a record that differs from now on and is due `ms` later. */
async function recordDueIn(store: OpenedStore, now: number, ms: number, entity = RECORD) {
  await waits(store.query, entity, { kind: 'pull_request', lane: 'mirror', since: now, due: now + ms });
}

test('lets changes take turns while the breaker is open or our key is refused', async () => {
  const { store, clock, scheduler, breaker, state } = await setUp();
  await recordDueIn(store, clock.now() - 9_000, 0);
  await recordDueIn(store, clock.now() - 5_000, 0, 'pull_request:2');
  await updateChange(store.query, RECORD, { not_before: clock.now() });
  const next = async () => [scheduler.sendsOneByOne(), (await scheduler.selectNextChange())?.entity];
  expect(await next()).toEqual([false, RECORD]);
  state.isHalted = true;
  expect(await next()).toEqual([true, 'pull_request:2']);
  state.isHalted = false;
  for (const entity of ['a', 'b', 'c']) breaker.failed(entity);
  expect(await next()).toEqual([true, 'pull_request:2']);
});

test.each<[what: string, visibility: number | undefined, paces: Paces, ahead: number]>([
  ['at their due time without a promised visibility', undefined, [{ slots: 1, hold: HOUR }], 0],
  ['at their due time if the quota suffices', 60_000, [{ slots: 99, hold: 60_000 }], 0],
  ['early if one slot must serve two that are due together', 60_000, [{ slots: 1, hold: 60_000 }], 62_000],
])('sends changes %s', async (_what, visibility, paces, ahead) => {
  const { store, clock, scheduler, state } = await setUp({ visibility });
  state.paces = paces;
  for (const entity of [RECORD, 'pull_request:2']) await recordDueIn(store, clock.now(), HOUR, entity);
  expect((await scheduler.selectNextChange())?.at).toBe(clock.now() + HOUR - ahead);
  expect((await findChange(store.query, RECORD))?.due).toBe(clock.now() + HOUR);
});

const PACES = [
  { slots: 6, hold: 900_000 },
  { slots: 2, hold: 60_000 },
];

/** Returns the largest delay if the first change starts at `from` and each starts when there is room. */
function lateness(dues: readonly number[], from: number): number {
  const starts: number[] = [];
  let late = 0;
  for (const due of dues) {
    const rooms = PACES.map(({ slots, hold }) => (starts.at(-slots) ?? Number.NEGATIVE_INFINITY) + hold);
    starts.push(Math.max(from, starts.at(-1) ?? from, ...rooms));
    late = Math.max(late, (starts.at(-1) as number) - due);
  }
  return late;
}

describe('leadTime', () => {
  it.each<[what: string, dues: number[], expected: number]>([
    ['is 0 without changes', [], 0],
    ['is 0 if the quota can serve all changes at their due times', [0, 1, 65_000, 69_000], 0],
    ['grows with the changes beyond the slots of a window', [0, 0, 0], 62_000],
    ['grows with each further window', [0, 0, 0, 0, 0], 2 * 62_000],
    ['grows with the changes beyond the slots of the long window', Array(7).fill(0), 902_000],
  ])('%s', (_what, dues, expected) => {
    expect(leadTime(dues, PACES)).toBe(expected);
  });

  it('lets every change start in time, for random due times', () => {
    const all = fc.array(fc.integer({ min: 0, max: 400_000 }), { minLength: 1, maxLength: 12 });
    fc.assert(
      fc.property(all, (times) => {
        const dues = times.toSorted((a, b) => a - b);
        expect(lateness(dues, (dues[0] as number) - leadTime(dues, PACES))).toBe(0);
      }),
    );
  });
});

describe('forecastDueTimes', () => {
  it('continues a burst of the last 30 s for three further periods', () => {
    const lately = [80_000, 100_000];
    const expected = forecastDueTimes([10_000, ...lately], 100_000);
    expect(expected.slice(0, 3)).toEqual([10_000, ...lately]);
    expect(expected.slice(3)).toEqual([115_000, 130_000, 145_000, 160_000, 175_000, 190_000]);
  });
});

test('selects only reads until the lists of the workspace were read once', async () => {
  const { store, clock, scheduler } = await setUp({ isRead: false });
  await recordDueIn(store, clock.now(), 0);
  expect([await scheduler.selectNextChange(), scheduler.mayWrite()]).toEqual([undefined, false]);
  await writeMeta(store.query, TASKS_READ, '1');
  expect(await scheduler.selectNextChange()).toBeUndefined();
  await writeMeta(store.query, PULL_REQUESTS_READ, '1');
  expect([(await scheduler.selectNextChange())?.entity, scheduler.mayWrite()]).toEqual([RECORD, true]);
});
