import fc from 'fast-check';
import { describe, expect, it, test } from 'vitest';
import type { ChangeState } from '../../../src/model/change.ts';
import { heldChanges, releaseHeld } from '../../../src/store/changes/held-changes.ts';
import {
  clampChangeTimes,
  type Eligibility,
  firstDueTimes,
  nextChange,
  nextDue,
  nextLive,
} from '../../../src/store/changes/next-change.ts';
import {
  addDifference,
  areUnderWay,
  changesInFlight,
  countBackfilled,
  countWaiting,
  type Difference,
  dropDifference,
  expedite,
  findChange,
  type OutboxRow,
  readWaiting,
  updateChange,
  waitingByLane,
} from '../../../src/store/changes/outbox-rows.ts';
import type { Scope, Store } from '../../../src/store/workspace-scope.ts';
import { drawn } from '../../support/harness/depth.ts';
import { openTestStore } from '../../support/harness/intake.ts';

const NOW = 1_000_000;
const A = 'pull_request:a';

const difference = (fields: Partial<Difference> = {}): Difference => ({
  ...{ entity: A, kind: 'pull_request', lane: 'mirror', since: NOW - 5_000, due: NOW - 3_000, weight: 1, waiting: [] },
  ...fields,
});
const waiting = (id: number) => [{ id, at: 10 * id }];

/** A change in this state that was tried twice, and functions that add a difference and read the change. */
async function changeIn(state: ChangeState, row: Partial<OutboxRow> = {}, first: Partial<Difference> = {}) {
  const { query } = await openTestStore();
  await addDifference(query, difference({ waiting: waiting(1), ...first }));
  await updateChange(query, A, { state, attempts: 2, not_before: NOW + 9_000, error: 'refused: no', ...row });
  const change = () => findChange(query, A);
  return { query, change, add: (fields: Partial<Difference>) => addDifference(query, difference(fields)) };
}

describe('a difference', () => {
  it('postpones a pending change only if its content has changed, and at most to its maximal wait', async () => {
    const { query } = await openTestStore();
    const dueAfter = async (since: number, renewed: boolean) => {
      await addDifference(query, difference({ since, due: since + 2_000, maxWait: 6_000, renewed }));
      return ((await findChange(query, A))?.due ?? 0) - NOW;
    };
    expect(await dueAfter(NOW, false)).toBe(2_000);
    expect(await dueAfter(NOW + 1_000, false)).toBe(2_000);
    expect(await dueAfter(NOW + 1_500, true)).toBe(3_500);
    expect(await dueAfter(NOW + 4_900, true)).toBe(6_000);
    expect(await dueAfter(NOW + 90_000, true)).toBe(6_000);
  });

  it('neither postpones a change with the same content, nor changes its backoff, nor lowers its weight', async () => {
    const { add, change } = await changeIn('pending');
    await add({ weight: 2 });
    await add({ since: NOW, due: NOW + 8_000, waiting: waiting(2) });
    expect(await change()).toMatchObject({
      ...{ state: 'pending', since: NOW - 5_000, due: NOW - 3_000, weight: 2, attempts: 2, not_before: NOW + 9_000 },
      waiting: '[{"id":1,"at":10},{"id":2,"at":20}]',
    });
  });

  it.each<
    [
      what: string,
      kind: Exclude<OutboxRow['kind'], 'task'>,
      attempts: number,
      notBefore: number,
      expected: number,
      renewed?: true,
    ]
  >([
    ['of a read makes it earlier', 'read', 0, NOW, NOW],
    ['of a read makes it no earlier than its result can be used', 'read', 0, NOW + 50_000, NOW + 50_000],
    ['of a write does not shorten its pause', 'pull_request', 0, NOW, NOW + 90_000],
    ['of another update of a task has its own earliest time', 'task_update', 0, 0, 0, true],
    ['of another update of a task keeps the pause after a failure', 'task_update', 1, 0, NOW + 90_000, true],
  ])('%s', async (_what, kind, attempts, notBefore, expected, renewed) => {
    const { add, change } = await changeIn('pending', { attempts, not_before: NOW + 90_000 }, { kind });
    await add({ kind, notBefore, ...(renewed && { renewed }) });
    expect((await change())?.not_before).toBe(expected);
  });

  it('is noted with its first time at a change that is in flight', async () => {
    const { add, change } = await changeIn('sending');
    await add({ since: NOW + 1, weight: 2, waiting: waiting(2) });
    await add({ since: NOW + 2 });
    expect(await change()).toMatchObject({
      ...{ state: 'sending', next_since: NOW + 1, since: NOW - 5_000, due: NOW - 3_000, weight: 2, attempts: 2 },
      ...{ error: 'refused: no', waiting: '[{"id":1,"at":10},{"id":2,"at":20}]' },
    });
  });

  it('leaves a change held while its content is the same, and makes it pending when its content has changed', async () => {
    const { add, change } = await changeIn('held');
    await add({ since: NOW, due: NOW + 2_000 });
    expect(await change()).toMatchObject({ state: 'held', attempts: 2 });
    await add({ since: NOW, due: NOW + 2_000, weight: 2, renewed: true });
    const times = { since: NOW, due: NOW + 2_000, not_before: 0 };
    expect(await change()).toMatchObject({ ...times, state: 'pending', weight: 2, attempts: 0, error: null });
  });

  it('keeps the first 100 waiting deliveries, so that those of a request in flight stay', async () => {
    const { query } = await openTestStore();
    for (let id = 1; id <= 130; id++) await addDifference(query, difference({ waiting: waiting(id) }));
    const row = (await findChange(query, A)) as OutboxRow;
    expect(readWaiting(row).map(({ id }) => id)).toEqual(Array.from({ length: 100 }, (_, index) => index + 1));
  });
});

describe('expediting a change', () => {
  it.each<[state: ChangeState, guard: OutboxRow['guard'], goes: boolean]>([
    ['pending', null, true],
    ['held', 'held', true],
    ['held', null, false],
    ['sending', null, false],
    ['unknown', null, false],
  ])('in the state %s, with guard %s: sends it: %s', async (state, guard, goes) => {
    const { query, change } = await changeIn(state, { guard });
    const before = await change();
    await expedite(query, [A, 'pull_request:b']);
    const gone = { state: 'pending', guard: 'confirmed', due: NOW - 5_000, error: null };
    expect(await change()).toEqual({ ...before, ...(goes && gone) });
  });
});

test('counts pending and sent changes, pending ones by lane, and unsettled ones of backfills', async () => {
  const { query } = await openTestStore();
  const rows: readonly Partial<OutboxRow>[] = [
    { kind: 'read', lane: 'read' },
    { kind: 'read', lane: 'backfill', state: 'sending' },
    { kind: 'read', lane: 'backfill', state: 'held' },
    { lane: 'mirror' },
    { lane: 'mirror' },
    { lane: 'mirror', state: 'sending' },
    { lane: 'link', state: 'unknown' },
    { lane: 'backfill' },
    { lane: 'backfill', state: 'unknown' },
    { lane: 'backfill', state: 'held' },
  ];
  for (const [index, { kind = 'pull_request', lane = 'mirror', state = 'pending' }] of rows.entries()) {
    await addDifference(query, difference({ entity: `e${index}`, kind, lane }));
    await updateChange(query, `e${index}`, { state });
  }
  expect(await countWaiting(query)).toEqual({ reads: 2, writes: 4 });
  const lanes = (await waitingByLane(query)).map(({ lane, count }) => `${lane} ${count}`);
  expect(lanes.toSorted()).toEqual(['backfill 1', 'mirror 2', 'read 1']);
  expect(await countBackfilled(query)).toEqual({ pending: 0, changes: 3 });
  expect(await areUnderWay(query, ['e9', 'e2', 'none'])).toBe(false);
  for (const one of ['e3', 'e5', 'e6']) expect(await areUnderWay(query, [one, 'e9'])).toBe(true);
  expect((await changesInFlight(query)).map(({ entity }) => entity).toSorted()).toEqual(['e1', 'e5']);
});

describe('a change of a backfill with another difference', () => {
  const live = { lane: 'mirror', since: NOW, due: NOW + 2_000 } as const;
  it.each<[what: string, change: Partial<Difference>, isLifted: boolean]>([
    ['a delivery brings it', { ...live, waiting: waiting(1) }, true],
    ['no delivery waits for it', { ...live }, false],
    ['it is a read that another lane requests', { ...live, kind: 'read', lane: 'read' }, true],
    ['it is a read of another backfill', { ...live, kind: 'read', lane: 'backfill' }, false],
  ])('moves to the live lane, with the times of the difference: %s', async (_what, change, isLifted) => {
    const { query } = await openTestStore();
    await addDifference(query, difference({ ...(change.kind && { kind: change.kind }), lane: 'backfill' }));
    await addDifference(query, difference(change));
    const { lane, since, due } = (await findChange(query, A)) as OutboxRow;
    const left = { lane: 'backfill', since: NOW - 5_000, due: NOW - 3_000 };
    expect({ lane, since, due }).toEqual(isLifted ? { ...live, lane: change.lane } : left);
  });
});

test.each<[what: string, state: ChangeState, guard: OutboxRow['guard'], change: Partial<Difference>, after: object]>([
  ['stays while the effect is the same', 'pending', 'confirmed', {}, { guard: 'confirmed' }],
  ['ends with the effect', 'pending', 'confirmed', { effect: 'removal' }, { guard: null }],
  ['is confirmed by a request', 'pending', null, { effect: 'removal', confirmed: true }, { guard: 'confirmed' }],
  ['holds while the effect is the same', 'held', 'held', {}, { state: 'held', guard: 'held' }],
  ['releases another effect', 'held', 'held', { effect: 'removal' }, { state: 'pending', guard: null }],
  ['does not release a refused change', 'held', null, { effect: 'removal' }, { state: 'held', guard: null }],
])('the guard of a change %s', async (_what, state, guard, fields, after) => {
  const { add, change } = await changeIn(state, { guard });
  await add(fields);
  expect(await change()).toMatchObject(after);
});

describe('a difference that vanished', () => {
  it.each<[state: ChangeState, sent: string | null, stays: boolean]>([
    ['pending', null, false],
    ['pending', '{}', true],
    ['held', null, false],
    ['sending', null, true],
    ['unknown', null, true],
  ])('leaves a change in the state %s with the request %j: %s', async (state, sent, stays) => {
    const { query, change } = await changeIn(state, { sent });
    await dropDifference(query, A);
    expect((await change()) !== undefined).toBe(stays);
  });
});

/** Two changes that the guard held, one that the workspace refused, and one that waits after a failure. */
async function withHeld(): Promise<Store> {
  const store = await openTestStore();
  const held = { state: 'held', error: 'guard_held: many', guard: 'held' } as const;
  const rows = {
    'link:created': { ...held, effect: 'creation' },
    'link:removed': { ...held, effect: 'removal' },
    'link:refused': { ...held, guard: null, effect: 'creation', attempts: 5 },
    'link:waits': { attempts: 2, not_before: 900, error: 'server_failed: down' },
  } as const;
  for (const [entity, row] of Object.entries(rows)) {
    await addDifference(store.query, difference({ entity, kind: 'link', lane: 'link' }));
    await updateChange(store.query, entity, row);
  }
  return store;
}

const stillHeld = async ({ query }: Store) =>
  (await query.selectFrom('outbox').select('entity').where('state', '=', 'held').orderBy('entity').execute()).map(
    ({ entity }) => entity.replace('link:', ''),
  );

test.each([
  ['creations', ['refused', 'removed']],
  ['removals', ['created', 'refused']],
  ['refused', ['created', 'removed']],
  ['repairs', ['created', 'refused', 'removed']],
] as const)('releases all held changes of the class %s, and counts them before', async (which, left) => {
  const store = await withHeld();
  const { count } = (await heldChanges(store.query, 9))[which];
  expect(await releaseHeld(store, { classes: [which] })).toBe(count);
  expect(await stillHeld(store)).toEqual(left);
});

test('releases none of the named changes if one is not held', async () => {
  const store = await withHeld();
  const entities = ['link:created', 'link:no'];
  const message = 'no change of link:no is held';
  await expect(releaseHeld(store, { entities })).rejects.toMatchObject({ code: 'not_found', message });
  expect(await stillHeld(store)).toEqual(['created', 'refused', 'removed']);
});

describe('the next change', () => {
  const LATER = NOW + 86_400_000;
  const EVERY: Eligibility = { now: NOW, onlyReads: false };

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
});
