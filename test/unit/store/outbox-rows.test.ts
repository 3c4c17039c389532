import { describe, expect, it, test } from 'vitest';
import type { ChangeState } from '../../../src/model/change.ts';
import type { Store } from '../../../src/store/database.ts';
import { heldChanges, releaseHeld } from '../../../src/store/held-changes.ts';
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
  removeChange,
  updateChange,
  waitingByLane,
} from '../../../src/store/outbox-rows.ts';
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
  it('creates a pending change', async () => {
    const { query } = await openTestStore();
    await addDifference(query, difference({ notBefore: 7, waiting: waiting(1) }));
    expect(await findChange(query, A)).toMatchObject({
      ...{ entity: A, kind: 'pull_request', lane: 'mirror', since: NOW - 5_000, due: NOW - 3_000, weight: 1 },
      ...{ not_before: 7, attempts: 0, state: 'pending', sent: null, sent_at: null, next_since: null, error: null },
      ...{ effect: null, guard: null, waiting: '[{"id":1,"at":10}]' },
    });
  });

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

  it('does not postpone a change that a person expedited', async () => {
    const { query } = await openTestStore();
    await addDifference(query, difference({ since: NOW - 9_000, due: NOW - 7_000, maxWait: 6_000 }));
    await expedite(query, [A]);
    await addDifference(query, difference({ since: NOW, due: NOW + 2_000, maxWait: 6_000, renewed: true }));
    expect((await findChange(query, A))?.due).toBeLessThanOrEqual(NOW);
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

  it('moves a pending change to an earlier time', async () => {
    const { query } = await openTestStore();
    await addDifference(query, difference({ kind: 'read', due: NOW + 60_000 }));
    await addDifference(query, difference({ kind: 'read', since: NOW, due: NOW + 2_000 }));
    expect(await findChange(query, A)).toMatchObject({ since: NOW - 5_000, due: NOW + 2_000 });
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
    ['of a read does not shorten the pause after a failure', 'read', 1, NOW, NOW + 90_000],
    ['of a write does not shorten its pause', 'pull_request', 0, NOW, NOW + 90_000],
    ['of another update of a task has its own earliest time', 'task_update', 0, 0, 0, true],
    ['of the same update of a task keeps it', 'task_update', 0, 0, NOW + 90_000],
    ['of another update of a task keeps the pause after a failure', 'task_update', 1, 0, NOW + 90_000, true],
  ])('%s', async (_what, kind, attempts, notBefore, expected, renewed) => {
    const { add, change } = await changeIn('pending', { attempts, not_before: NOW + 90_000 }, { kind });
    await add({ kind, notBefore, ...(renewed && { renewed }) });
    expect((await change())?.not_before).toBe(expected);
  });

  it.each(['sending', 'unknown'] as const)(
    'is noted with its first time at a change in the state %s',
    async (state) => {
      const { add, change } = await changeIn(state);
      await add({ since: NOW + 1, weight: 2, waiting: waiting(2) });
      await add({ since: NOW + 2 });
      expect(await change()).toMatchObject({
        ...{ state, next_since: NOW + 1, since: NOW - 5_000, due: NOW - 3_000, weight: 2, attempts: 2 },
        ...{ error: 'refused: no', waiting: '[{"id":1,"at":10},{"id":2,"at":20}]' },
      });
    },
  );

  it('leaves a change held while its content is the same, and makes it pending when its content has changed', async () => {
    const { add, change } = await changeIn('held');
    await add({ since: NOW, due: NOW + 2_000 });
    expect(await change()).toMatchObject({ state: 'held', attempts: 2 });
    await add({ since: NOW, due: NOW + 2_000, weight: 2, renewed: true });
    const renewed = {
      state: 'pending',
      since: NOW,
      due: NOW + 2_000,
      weight: 2,
      attempts: 0,
      not_before: 0,
      error: null,
    };
    expect(await change()).toMatchObject(renewed);
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
    ['pending', 'confirmed', true],
    ['held', 'held', true],
    ['held', null, false],
    ['sending', null, false],
    ['sending', 'confirmed', false],
    ['unknown', null, false],
  ])('in the state %s, with guard %s: sends it: %s', async (state, guard, goes) => {
    const { query, change } = await changeIn(state, { guard });
    const before = await change();
    await expedite(query, [A, 'pull_request:b']);
    const gone = { state: 'pending', guard: 'confirmed', due: NOW - 5_000, error: null };
    expect(await change()).toEqual({ ...before, ...(goes && gone) });
  });

  it('concerns any number of changes, and no others', async () => {
    const { query } = await openTestStore();
    const names = Array.from({ length: 1_200 }, (_, index) => `pull_request:${index}`);
    for (const entity of names) await addDifference(query, difference({ entity }));
    await expedite(query, names.slice(1));
    const confirmed = await query.selectFrom('outbox').select('entity').where('guard', '=', 'confirmed').execute();
    expect(confirmed).toHaveLength(names.length - 1);
    expect((await findChange(query, names[0] as string))?.guard).toBeNull();
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

  it('does not move back', async () => {
    const { query } = await openTestStore();
    await addDifference(query, difference());
    await addDifference(query, difference({ lane: 'backfill', since: NOW, due: NOW, waiting: waiting(1) }));
    expect(await findChange(query, A)).toMatchObject({ lane: 'mirror', since: NOW - 5_000 });
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

  it('removes only the change of its own entity', async () => {
    const { query } = await openTestStore();
    for (const entity of [A, 'pull_request:b']) await addDifference(query, difference({ entity }));
    await dropDifference(query, 'pull_request:b');
    await removeChange(query, 'pull_request:c');
    expect(await findChange(query, A)).toBeDefined();
    expect(await findChange(query, 'pull_request:b')).toBeUndefined();
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

test('releases only the named changes', async () => {
  const store = await withHeld();
  expect(await releaseHeld(store, { entities: ['link:created', 'link:refused', 'link:created'] })).toBe(2);
  expect(await stillHeld(store)).toEqual(['removed']);
  const waits = { attempts: 2, not_before: 900, guard: null, error: 'server_failed: down' };
  expect(await findChange(store.query, 'link:waits')).toMatchObject(waits);
});

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

test.each<[entities: readonly string[], message: string]>([
  [['link:created', 'link:no'], 'no change of link:no is held'],
  [['link:no', 'link:created', 'link:waits'], 'no change of link:no is held, and 1 more of those named'],
])('releases none of %j if one is not held', async (entities, message) => {
  const store = await withHeld();
  await expect(releaseHeld(store, { entities })).rejects.toMatchObject({ code: 'not_found', message });
  expect(await stillHeld(store)).toEqual(['created', 'refused', 'removed']);
});
