import fc from 'fast-check';
import { describe, expect, it, test } from 'vitest';
import { CHANGE_STATES } from '../../../src/model/change.ts';
import {
  clampChangeTimes,
  type Eligibility,
  firstDueTimes,
  nextChange,
  nextDue,
  nextLive,
} from '../../../src/store/next-change.ts';
import {
  addDifference,
  type Difference,
  findChange,
  type OutboxRow,
  updateChange,
} from '../../../src/store/outbox-rows.ts';
import type { Scope } from '../../../src/store/workspace-scope.ts';
import { drawn } from '../../support/harness/depth.ts';
import { openTestStore } from '../../support/harness/intake.ts';

const NOW = 10_000_000;
const LATER = NOW + 86_400_000;
const EVERY: Eligibility = { now: NOW, onlyReads: false };

const difference = (fields: Partial<Difference> = {}): Difference => ({
  ...{
    entity: 'a',
    kind: 'pull_request',
    lane: 'mirror',
    since: NOW - 5_000,
    due: NOW - 3_000,
    weight: 1,
    waiting: [],
  },
  ...fields,
});

/** Seconds since the change differs, and since it is due. */
type Age = readonly [since: number, due: number, more?: Partial<Difference>];
const LINK = { lane: 'link' } as const;
const STATUS = { lane: 'status', kind: 'task_update' } as const;
const BACKFILL = { lane: 'backfill' } as const;
const FINISHED = { weight: 2 };

test.each<[rule: string, rows: Readonly<Record<string, Age>>, next: string | undefined]>([
  ['nothing', {}, undefined],
  ['nothing before it is due', { a: [1, -1] }, undefined],
  ['one that is due now', { a: [2, 0] }, 'a'],
  ['the one overdue the longest', { a: [5, 3], b: [9, 7], c: [6, 4] }, 'b'],
  ['the first one due, though another differs for longer', { a: [20, 5], b: [9, 7] }, 'b'],
  ['a finished item, whose age counts a tenth more', { a: [110, 105], b: [102, 100, FINISHED] }, 'b'],
  ['an older one, because the age counts only a tenth more', { a: [130, 120], b: [102, 100, FINISHED] }, 'a'],
  [
    'a link before mirrors while a status change is due',
    { a: [900, 800], b: [9, 7, LINK], c: [700, 600, STATUS] },
    'b',
  ],
  ['a due status change before mirrors', { a: [900, 800], c: [3, 0, { ...STATUS, ...FINISHED }] }, 'c'],
  ['the oldest while no status change is due', { a: [9, 7, LINK], b: [900, 800], c: [3, -1, STATUS] }, 'b'],
  ['a backfill only if nothing else is due', { a: [900, 800, BACKFILL], b: [3, 1] }, 'b'],
  ['a backfill before a change that is not due yet', { a: [900, 800, BACKFILL], b: [3, -1] }, 'a'],
  [
    'a read of a backfill only if nothing else is due',
    { a: [900, 800, { ...BACKFILL, kind: 'read' }], b: [3, 1] },
    'b',
  ],
  ['the first by name if all else is equal', { b: [5, 3], a: [5, 3] }, 'a'],
  ['nothing during a pause', { a: [5, 3, { notBefore: NOW + 1 }] }, undefined],
  ['one whose pause ends now', { a: [5, 3, { notBefore: NOW }] }, 'a'],
])('sends %s', async (_rule, rows, next) => {
  const { query } = await openTestStore();
  for (const [entity, [since, due, more]] of Object.entries(rows))
    await addDifference(query, difference({ entity, since: NOW - since * 1_000, due: NOW - due * 1_000, ...more }));
  expect((await nextChange(query, EVERY))?.entity).toBe(next);
});

test.each(['sending', 'unknown', 'held'] as const)('sends no change in the state %s', async (state) => {
  const { query } = await openTestStore();
  await addDifference(query, difference());
  await updateChange(query, 'a', { state });
  expect(await nextChange(query, EVERY)).toBeUndefined();
  expect(await nextDue(query, EVERY)).toBeUndefined();
});

test('the next due time comes with due time and lane, and is the earliest of due times and pauses', async () => {
  const { query } = await openTestStore();
  await addDifference(query, difference({ entity: 'b', due: NOW + 9_000 }));
  await addDifference(query, difference({ entity: 'c', due: NOW + 1_000, notBefore: NOW + 7_000, lane: 'link' }));
  expect(await nextDue(query, EVERY)).toMatchObject({ at: NOW + 7_000, due: NOW + 1_000, lane: 'link' });
  await addDifference(query, difference());
  expect(await nextDue(query, EVERY)).toEqual({ entity: 'a', at: NOW, due: NOW - 3_000, lane: 'mirror' });
});

test('while all requests fail, sends a change that never failed, or the one that failed longest ago', async () => {
  const { query } = await openTestStore();
  for (const [index, entity] of ['a', 'b', 'c'].entries())
    await addDifference(query, difference({ entity, due: NOW - 1_000 * (9 - index) }));
  await updateChange(query, 'a', { not_before: NOW - 1 });
  await updateChange(query, 'b', { not_before: NOW - 2 });
  const failing = { ...EVERY, retriesLast: true };
  expect((await nextChange(query, failing))?.entity).toBe('c');
  await updateChange(query, 'c', { not_before: NOW });
  expect((await nextChange(query, failing))?.entity).toBe('b');
  expect((await nextChange(query, EVERY))?.entity).toBe('a');
});

test('a lead time makes changes ready earlier, and follows from the due times of live changes', async () => {
  const { query } = await openTestStore();
  for (let each = 0; each < 5; each++) {
    const weight = 1 + (each % 2);
    await addDifference(query, difference({ entity: `a${each}`, due: NOW + 5_000 + each, weight }));
    await addDifference(query, difference({ entity: `b${each}`, due: NOW + 9_000 + each, lane: 'backfill' }));
  }
  expect(await firstDueTimes(query, 3)).toEqual([NOW + 5_000, NOW + 5_001, NOW + 5_002]);
  expect(await nextChange(query, EVERY)).toBeUndefined();
  expect(await nextDue(query, { ...EVERY, leadTime: 2_000 })).toMatchObject({ at: NOW + 3_000 });
  expect((await nextChange(query, { ...EVERY, leadTime: 5_000 }))?.entity).toBe('a0');
});

describe('after the wall clock was set back', () => {
  it('no change waits until the old time comes again', async () => {
    const { query } = await openTestStore();
    await addDifference(query, difference({ entity: 'a', since: LATER, due: LATER + 2_000 }));
    await addDifference(query, difference({ entity: 'b', notBefore: LATER }));
    await addDifference(query, difference({ entity: 'c', notBefore: NOW + 900_000 }));
    await addDifference(query, difference({ entity: 'd', due: NOW + 1_000 }));
    expect([await clampChangeTimes(query, NOW), await clampChangeTimes(query, NOW)]).toEqual([2, 0]);
    for (const entity of ['b', 'a']) {
      expect((await nextChange(query, EVERY))?.entity).toBe(entity);
      await updateChange(query, entity, { state: 'sending' });
    }
    expect(await nextDue(query, EVERY)).toMatchObject({ entity: 'd', at: NOW + 1_000 });
  });

  it.each(CHANGE_STATES)('a change that was in the state %s does not wait for the old time', async (state) => {
    const { query } = await openTestStore();
    await addDifference(query, difference({ since: LATER, due: LATER + 2_000, notBefore: LATER }));
    await updateChange(query, 'a', { state });
    await clampChangeTimes(query, NOW);
    await updateChange(query, 'a', { state: 'pending' });
    expect(await nextDue(query, EVERY)).toMatchObject({ entity: 'a', at: NOW });
  });

  it.each(['sending', 'unknown'] as const)('a difference during the state %s does not wait', async (state) => {
    const { query } = await openTestStore();
    await addDifference(query, difference());
    await updateChange(query, 'a', { state });
    await addDifference(query, difference({ since: LATER, due: LATER }));
    await clampChangeTimes(query, NOW);
    expect(await findChange(query, 'a')).toMatchObject({ next_since: NOW });
  });
});

describe('any pending changes', () => {
  const row = fc.record({
    lane: fc.constantFrom<OutboxRow['lane'][]>('mirror', 'link', 'status', 'read', 'backfill'),
    isRead: fc.boolean(),
    age: fc.integer({ min: -9, max: 20 }),
    weight: fc.constantFrom(1, 2),
    pause: fc.constantFrom(-5, 0, 0, 0, 3, 8),
    state: fc.constantFrom<OutboxRow['state'][]>('pending', 'pending', 'pending', 'held'),
  });

  /** Computes the same result by a scan of all rows. */
  function searched(rows: readonly OutboxRow[], { onlyReads, onlyWrites, retriesLast, leadTime = 0 }: Eligibility) {
    const isBackfill = ({ lane }: OutboxRow) => lane === 'backfill';
    const waiting = rows.filter((each) => {
      const isRead = each.kind === 'read';
      return each.state === 'pending' && !(onlyReads && (!isRead || isBackfill(each))) && !(onlyWrites && isRead);
    });
    const ready = waiting.filter(({ due, not_before }) => due <= NOW + leadTime && not_before <= NOW);
    const live = ready.filter((each) => !isBackfill(each));
    const isMirror = ({ lane, kind }: OutboxRow) => lane === 'mirror' && kind !== 'read';
    const isWeighted = ({ lane, kind }: OutboxRow) => kind !== 'read' && lane !== 'backfill' && lane !== 'status';
    const age = (each: OutboxRow) => (NOW - each.due) * (isWeighted(each) && each.weight === 2 ? 1.1 : 1);
    const isStatus = ({ lane, kind }: OutboxRow) => lane === 'status' && kind !== 'read';
    const isStatusDue = live.some((each) => isStatus(each) && each.due <= NOW);
    const rank = (each: OutboxRow) => (isMirror(each) ? 2 : isStatus(each) ? 1 : 0);
    const [first] = (live.length > 0 ? live : ready).toSorted(
      (a, b) =>
        (retriesLast ? a.not_before - b.not_before : 0) ||
        (isStatusDue ? rank(a) - rank(b) : 0) ||
        age(b) - age(a) ||
        (a.entity < b.entity ? -1 : 1),
    );
    const times = (all: readonly OutboxRow[]) => {
      const moments = all.map(({ due, not_before }) => Math.max(due - leadTime, not_before));
      return moments.length === 0 ? undefined : Math.min(...moments);
    };
    return {
      entity: first?.entity,
      at: first ? NOW : times(waiting),
      live: times(waiting.filter((each) => !isBackfill(each))),
    };
  }

  async function fill(query: Scope, rows: readonly (typeof row extends fc.Arbitrary<infer Row> ? Row : never)[]) {
    for (const [index, { lane, isRead, age, weight, pause, state }] of rows.entries()) {
      const kind = isRead ? 'read' : 'pull_request';
      const due = NOW - age * 1_000;
      await addDifference(query, difference({ entity: `e${index}`, kind, lane, weight, due, since: due - 2_000 }));
      await updateChange(query, `e${index}`, { not_before: pause === 0 ? 0 : NOW + pause * 1_000, state });
    }
  }

  it('are found by index like by a scan of all rows', async () => {
    const eligible = fc.record({
      onlyReads: fc.boolean(),
      onlyWrites: fc.boolean(),
      retriesLast: fc.boolean(),
      leadTime: fc.constantFrom(0, 4_000),
    });
    const law = fc.asyncProperty(fc.array(row, { maxLength: 12 }), eligible, async (rows, chosen) => {
      const { query } = await openTestStore();
      await fill(query, rows);
      const how = { ...chosen, now: NOW, onlyWrites: chosen.onlyWrites && !chosen.onlyReads };
      const found = searched(await query.selectFrom('outbox').selectAll().execute(), how);
      expect((await nextChange(query, how))?.entity).toBe(found.entity);
      // A paused change that is not due yet is looked at when its pause ends.
      const isExact = rows.every(({ pause, age }) => pause === 0 || age * 1_000 + (how.leadTime ?? 0) >= 0);
      const at = (await nextDue(query, how))?.at;
      if (isExact || found.at === undefined || found.entity !== undefined) expect(at).toBe(found.at);
      else expect(at).toSatisfy((time: number) => time > NOW && time <= (found.at as number));
      const live = await nextLive(query, how);
      if (found.live === undefined) expect(live).toBeUndefined();
      else if (isExact) expect(Math.max(NOW, live?.at ?? 0)).toBe(Math.max(NOW, found.live));
      else expect(live?.at).toBeLessThanOrEqual(Math.max(NOW, found.live));
    });
    await fc.assert(law, { numRuns: drawn(150) });
  });
});
