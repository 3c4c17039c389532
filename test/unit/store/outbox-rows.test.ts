import { describe, expect, it, test } from 'vitest';
import type { ChangeState } from '../../../src/model/change.ts';
import type { Store } from '../../../src/store/database.ts';
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
  saveChange,
  updateChange,
  waitingByLane,
} from '../../../src/store/outbox-rows.ts';
import type { Scope } from '../../../src/store/workspace-scope.ts';
import { wrongWhereStatementsFail } from '../../support/faults/each-statement-fails.ts';
import { openTestStore } from '../../support/harness/intake.ts';

const NOW = 1_000_000;

const difference = (fields: Partial<Difference> = {}): Difference => ({
  entity: 'pull_request:a',
  kind: 'pull_request',
  lane: 'mirror',
  since: NOW - 5_000,
  due: NOW - 3_000,
  weight: 1,
  waiting: [],
  ...fields,
});

/** A change in this state, as if it had been tried twice. */
async function changeIn(store: Store, state: ChangeState): Promise<void> {
  await addDifference(store.query, difference({ waiting: [{ id: 1, at: 10 }] }));
  await updateChange(store.query, 'pull_request:a', {
    state,
    attempts: 2,
    not_before: NOW + 9_000,
    error: 'refused: no',
  });
}

describe('adding a difference', () => {
  it('creates a pending change', async () => {
    const { query } = await openTestStore();
    await addDifference(query, difference({ notBefore: 7, waiting: [{ id: 1, at: 10 }] }));
    expect(await findChange(query, 'pull_request:a')).toMatchObject({
      entity: 'pull_request:a',
      kind: 'pull_request',
      lane: 'mirror',
      since: NOW - 5_000,
      due: NOW - 3_000,
      weight: 1,
      not_before: 7,
      attempts: 0,
      state: 'pending',
      sent: null,
      sent_at: null,
      next_since: null,
      error: null,
      effect: null,
      guard: null,
      waiting: '[{"id":1,"at":10}]',
    });
  });

  it('postpones a pending change only if its content has changed, and at most to its maximal wait', async () => {
    const { query } = await openTestStore();
    const due = async () => (await findChange(query, 'pull_request:a'))?.due;
    await addDifference(query, difference({ since: NOW, due: NOW + 2_000, maxWait: 6_000 }));
    await addDifference(query, difference({ since: NOW + 1_000, due: NOW + 3_000, maxWait: 6_000 }));
    expect(await due()).toBe(NOW + 2_000);
    const renewed = (since: number) =>
      addDifference(query, difference({ since, due: since + 2_000, maxWait: 6_000, renewed: true }));
    await renewed(NOW + 1_500);
    expect(await due()).toBe(NOW + 3_500);
    await renewed(NOW + 4_900);
    expect(await due()).toBe(NOW + 6_000);
    await renewed(NOW + 90_000);
    expect(await due()).toBe(NOW + 6_000);
  });

  it('does not postpone a change that a person expedited', async () => {
    const { query } = await openTestStore();
    await addDifference(query, difference({ since: NOW - 9_000, due: NOW - 7_000, maxWait: 6_000 }));
    await expedite(query, ['pull_request:a']);
    await addDifference(query, difference({ since: NOW, due: NOW + 2_000, maxWait: 6_000, renewed: true }));
    expect((await findChange(query, 'pull_request:a'))?.due).toBeLessThanOrEqual(NOW);
  });

  it('neither postpones a change with the same content, nor changes its backoff, nor lowers its weight', async () => {
    const store = await openTestStore();
    await changeIn(store, 'pending');
    await addDifference(store.query, difference({ weight: 2 }));
    await addDifference(store.query, difference({ since: NOW, due: NOW + 8_000, waiting: [{ id: 2, at: 20 }] }));
    expect(await findChange(store.query, 'pull_request:a')).toMatchObject({
      state: 'pending',
      since: NOW - 5_000,
      due: NOW - 3_000,
      weight: 2,
      attempts: 2,
      not_before: NOW + 9_000,
      waiting: '[{"id":1,"at":10},{"id":2,"at":20}]',
    });
  });

  it('moves a pending change to an earlier time', async () => {
    const { query } = await openTestStore();
    await addDifference(query, difference({ entity: 'read:tasks', kind: 'read', due: NOW + 60_000 }));
    await addDifference(query, difference({ entity: 'read:tasks', kind: 'read', since: NOW, due: NOW + 2_000 }));
    expect(await findChange(query, 'read:tasks')).toMatchObject({ since: NOW - 5_000, due: NOW + 2_000 });
  });

  it.each([
    ['earlier for one that needs it earlier', 'read', 0, 0, NOW],
    ['no earlier than anybody can use it', 'read', 0, NOW + 50_000, NOW + 50_000],
    ['not before the pause after a failure', 'read', 1, 0, NOW + 90_000],
  ] as const)('sends a read %s', async (_when, kind, attempts, notBefore, expected) => {
    const { query } = await openTestStore();
    const read = { entity: 'read:tasks', kind } as const;
    await addDifference(query, difference({ ...read, notBefore: NOW + 90_000 }));
    await updateChange(query, 'read:tasks', { attempts });
    await addDifference(query, difference({ ...read, notBefore: notBefore || NOW }));
    expect((await findChange(query, 'read:tasks'))?.not_before).toBe(expected);
  });

  it('does not shorten the pause of a write', async () => {
    const { query } = await openTestStore();
    await addDifference(query, difference({ notBefore: NOW + 90_000 }));
    await addDifference(query, difference({ notBefore: NOW }));
    expect((await findChange(query, 'pull_request:a'))?.not_before).toBe(NOW + 90_000);
  });

  it.each(['sending', 'unknown'] as const)(
    'stores the time of the first difference with a change in the state %s',
    async (state) => {
      const store = await openTestStore();
      await changeIn(store, state);
      await addDifference(store.query, difference({ since: NOW + 1, weight: 2, waiting: [{ id: 2, at: 20 }] }));
      await addDifference(store.query, difference({ since: NOW + 2 }));
      expect(await findChange(store.query, 'pull_request:a')).toMatchObject({
        state,
        next_since: NOW + 1,
        since: NOW - 5_000,
        due: NOW - 3_000,
        weight: 2,
        attempts: 2,
        error: 'refused: no',
        waiting: '[{"id":1,"at":10},{"id":2,"at":20}]',
      });
    },
  );

  it('keeps a change held while its content is the same', async () => {
    const store = await openTestStore();
    await changeIn(store, 'held');
    await addDifference(store.query, difference({ since: NOW, due: NOW + 2_000 }));
    expect(await findChange(store.query, 'pull_request:a')).toMatchObject({ state: 'held' });
  });

  it('makes a held change pending when its content has changed', async () => {
    const store = await openTestStore();
    await changeIn(store, 'held');
    await addDifference(store.query, difference({ since: NOW, due: NOW + 2_000, weight: 2, renewed: true }));
    expect(await findChange(store.query, 'pull_request:a')).toMatchObject({
      state: 'pending',
      since: NOW,
      due: NOW + 2_000,
      weight: 2,
      attempts: 0,
      not_before: 0,
      error: null,
    });
  });

  it('stores the first 100 waiting deliveries, so that those of a request in flight stay', async () => {
    const { query } = await openTestStore();
    for (let id = 1; id <= 130; id++) await addDifference(query, difference({ waiting: [{ id, at: id }] }));
    const row = await findChange(query, 'pull_request:a');
    expect(row && readWaiting(row).map(({ id }) => id)).toEqual(Array.from({ length: 100 }, (_, index) => index + 1));
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
    const store = await openTestStore();
    await changeIn(store, state);
    await updateChange(store.query, 'pull_request:a', { guard });
    const before = await findChange(store.query, 'pull_request:a');
    await expedite(store.query, ['pull_request:a', 'pull_request:b']);
    const gone = { state: 'pending', guard: 'confirmed', due: NOW - 5_000, error: null };
    expect(await findChange(store.query, 'pull_request:a')).toEqual({ ...before, ...(goes && gone) });
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

describe('counts of changes', () => {
  const CHANGES: readonly Partial<OutboxRow>[] = [
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

  it('include pending and sent changes, pending ones by lane, and unsettled ones of backfills', async () => {
    const { query } = await openTestStore();
    for (const [index, { kind = 'pull_request', lane = 'mirror', state }] of CHANGES.entries()) {
      await addDifference(query, difference({ entity: `e${index}`, kind, lane }));
      if (state) await updateChange(query, `e${index}`, { state });
    }
    expect(await countWaiting(query)).toEqual({ reads: 2, writes: 4 });
    const lanes = (await waitingByLane(query)).toSorted((a, b) => a.lane.localeCompare(b.lane));
    expect(lanes).toEqual([
      { lane: 'backfill', count: 1 },
      { lane: 'mirror', count: 2 },
      { lane: 'read', count: 1 },
    ]);
    expect(await countBackfilled(query)).toEqual({ pending: 0, changes: 3 });
    expect(await areUnderWay(query, ['e9', 'e2', 'none'])).toBe(false);
    for (const one of ['e3', 'e5', 'e6']) expect(await areUnderWay(query, [one, 'e9'])).toBe(true);
    expect((await changesInFlight(query)).map(({ entity }) => entity).toSorted()).toEqual(['e1', 'e5']);
  });
});

describe('a change of a backfill with a live difference', () => {
  const live = { lane: 'mirror', since: NOW, due: NOW + 2_000 } as const;
  it.each<[what: string, change: Partial<Difference>, isLifted: boolean]>([
    ['a delivery brings it', { ...live, waiting: [{ id: 1, at: 10 }] }, true],
    ['no delivery waits for it', { ...live }, false],
    ['it is a read that another lane requests', { ...live, kind: 'read', lane: 'read' }, true],
    ['it is a read of a backfill', { ...live, kind: 'read', lane: 'backfill' }, false],
  ])('moves to the live lane, with the times of the difference: %s', async (_what, change, isLifted) => {
    const { query } = await openTestStore();
    await addDifference(query, difference({ ...(change.kind && { kind: change.kind }), lane: 'backfill' }));
    await addDifference(query, difference(change));
    const row = await findChange(query, 'pull_request:a');
    const { lane, since, due } = row as OutboxRow;
    if (isLifted) expect({ lane, since, due }).toEqual({ ...live, lane: change.lane });
    else expect({ lane, since, due }).toEqual({ lane: 'backfill', since: NOW - 5_000, due: NOW - 3_000 });
  });

  it('does not move back', async () => {
    const { query } = await openTestStore();
    await addDifference(query, difference());
    await addDifference(query, difference({ lane: 'backfill', since: NOW, due: NOW, waiting: [{ id: 1, at: 10 }] }));
    expect(await findChange(query, 'pull_request:a')).toMatchObject({ lane: 'mirror', since: NOW - 5_000 });
  });
});

describe('the guard of a change', () => {
  it.each<[what: string, state: ChangeState, guard: OutboxRow['guard'], change: Partial<Difference>, after: object]>([
    ['stays while it brings about the same', 'pending', 'confirmed', {}, { guard: 'confirmed' }],
    [
      'begins anew where it brings about something else',
      'pending',
      'confirmed',
      { effect: 'removal' },
      { guard: null },
    ],
    [
      'is that of the person who requests something else',
      'pending',
      null,
      { effect: 'removal', confirmed: true },
      { guard: 'confirmed' },
    ],
    ['holds on while it is the same', 'held', 'held', {}, { state: 'held', guard: 'held' }],
    [
      'lets go what is no longer what it held',
      'held',
      'held',
      { effect: 'removal' },
      { state: 'pending', guard: null },
    ],
    ['is not what holds a refused one', 'held', null, { effect: 'removal' }, { state: 'held', guard: null }],
  ])('%s', async (_what, state, guard, change, after) => {
    const store = await openTestStore();
    await changeIn(store, state);
    await updateChange(store.query, 'pull_request:a', { guard });
    await addDifference(store.query, difference(change));
    expect(await findChange(store.query, 'pull_request:a')).toMatchObject(after);
  });
});

describe('a difference that vanished', () => {
  it.each([
    ['pending', false],
    ['held', false],
    ['sending', true],
    ['unknown', true],
  ] as const)('%s: stays %s', async (state, stays) => {
    const store = await openTestStore();
    await changeIn(store, state);
    await dropDifference(store.query, 'pull_request:a');
    expect((await findChange(store.query, 'pull_request:a')) !== undefined).toBe(stays);
  });

  it('keeps a change whose request may have been carried out', async () => {
    const store = await openTestStore();
    await changeIn(store, 'pending');
    await updateChange(store.query, 'pull_request:a', { sent: '{}' });
    await dropDifference(store.query, 'pull_request:a');
    expect(await findChange(store.query, 'pull_request:a')).toBeDefined();
  });

  it('removes only the change of its own entity', async () => {
    const { query } = await openTestStore();
    await addDifference(query, difference());
    await addDifference(query, difference({ entity: 'pull_request:b' }));
    await dropDifference(query, 'pull_request:b');
    await removeChange(query, 'pull_request:c');
    expect(await findChange(query, 'pull_request:a')).toBeDefined();
  });
});

test.each<[what: string, work: (query: Scope) => Promise<unknown>]>([
  ['a new difference', (query) => addDifference(query, difference({ entity: 'pull_request:b' }))],
  ['a difference that is there', (query) => addDifference(query, difference({ weight: 2 }))],
  ['one that vanished', (query) => dropDifference(query, 'pull_request:a')],
  ['hurry', (query) => expedite(query, ['pull_request:a'])],
  ['an update', (query) => updateChange(query, 'pull_request:a', { attempts: 7 })],
  [
    'a whole row',
    async (query) => {
      const row = (await findChange(query, 'pull_request:a')) as OutboxRow;
      await saveChange(query, { ...row, attempts: 7 });
    },
  ],
  ['a removal', (query) => removeChange(query, 'pull_request:a')],
])('rejects, and changes nothing, if any statement of %s fails', async (_what, work) => {
  const wrong = await wrongWhereStatementsFail(async (store) => {
    await addDifference(store.query, difference());
    return () => store.commit(work);
  });
  expect(wrong).toEqual([]);
});

test.each<[what: string, lane: string, change: Partial<Difference>]>([
  ['no delivery waits', 'backfill', {}],
  ['a delivery waits', 'mirror', { waiting: [{ id: 1, at: 10 }] }],
  ['a live read is requested', 'mirror', { kind: 'read' }],
  ['a read is requested by another backfill', 'backfill', { kind: 'read', lane: 'backfill' }],
])('a change of a backfill, if %s, is in the lane %s', async (_what, lane, change) => {
  const { query } = await openTestStore();
  await addDifference(query, difference({ ...change, lane: 'backfill', waiting: [], since: 1, due: 2 }));
  await addDifference(query, difference(change));
  const lifted = lane === 'mirror' ? { since: NOW - 5_000, due: NOW - 3_000 } : { since: 1, due: 2 };
  expect(await findChange(query, 'pull_request:a')).toMatchObject({ lane, ...lifted });
});
