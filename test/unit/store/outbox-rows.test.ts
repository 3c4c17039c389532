import { describe, expect, it } from 'vitest';
import type { ChangeState } from '../../../src/model/change.ts';
import type { Store } from '../../../src/store/database.ts';
import {
  addDifference,
  type Difference,
  dropDifference,
  findChange,
  hurry,
  readWaiting,
  removeChange,
  updateChange,
} from '../../../src/store/outbox-rows.ts';
import { openTestStore } from '../../support/intake.ts';

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

describe('saying that desired and known differ', () => {
  it('makes a change that waits', async () => {
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

  it('puts off a change that waits only where what it would send has changed, and only until its patience ends', async () => {
    const { query } = await openTestStore();
    const due = async () => (await findChange(query, 'pull_request:a'))?.due;
    await addDifference(query, difference({ since: NOW, due: NOW + 2_000, longest: 6_000 }));
    await addDifference(query, difference({ since: NOW + 1_000, due: NOW + 3_000, longest: 6_000 }));
    expect(await due()).toBe(NOW + 2_000);
    const renewed = (since: number) =>
      addDifference(query, difference({ since, due: since + 2_000, longest: 6_000, renewed: true }));
    await renewed(NOW + 1_500);
    expect(await due()).toBe(NOW + 3_500);
    await renewed(NOW + 4_900);
    expect(await due()).toBe(NOW + 6_000);
    await renewed(NOW + 90_000);
    expect(await due()).toBe(NOW + 6_000);
  });

  it('never puts off what a person has hurried', async () => {
    const { query } = await openTestStore();
    await addDifference(query, difference({ since: NOW - 9_000, due: NOW - 7_000, longest: 6_000 }));
    await hurry(query, ['pull_request:a']);
    await addDifference(query, difference({ since: NOW, due: NOW + 2_000, longest: 6_000, renewed: true }));
    expect((await findChange(query, 'pull_request:a'))?.due).toBeLessThanOrEqual(NOW);
  });

  it('never puts off a change that says the same again, nor its back-off, nor makes it lighter', async () => {
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

  it('brings forward a change that waits', async () => {
    const { query } = await openTestStore();
    await addDifference(query, difference({ entity: 'read:tasks', kind: 'read', due: NOW + 60_000 }));
    await addDifference(query, difference({ entity: 'read:tasks', kind: 'read', since: NOW, due: NOW + 2_000 }));
    expect(await findChange(query, 'read:tasks')).toMatchObject({ since: NOW - 5_000, due: NOW + 2_000 });
  });

  it.each(['sending', 'unknown'] as const)('notes it beside a change that is %s, from the first on', async (state) => {
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
  });

  it('leaves a held change held while what it would send is the same', async () => {
    const store = await openTestStore();
    await changeIn(store, 'held');
    await addDifference(store.query, difference({ since: NOW, due: NOW + 2_000 }));
    expect(await findChange(store.query, 'pull_request:a')).toMatchObject({ state: 'held' });
  });

  it('gives a held change a new chance when what it would send has changed', async () => {
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

  it('remembers the first 100 deliveries that wait, so that those in flight keep their places', async () => {
    const { query } = await openTestStore();
    for (let id = 1; id <= 130; id++) await addDifference(query, difference({ waiting: [{ id, at: id }] }));
    const row = await findChange(query, 'pull_request:a');
    expect(row && readWaiting(row).map(({ id }) => id)).toEqual(Array.from({ length: 100 }, (_, index) => index + 1));
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

  it('is that of its own entity only', async () => {
    const { query } = await openTestStore();
    await addDifference(query, difference());
    await addDifference(query, difference({ entity: 'pull_request:b' }));
    await dropDifference(query, 'pull_request:b');
    await removeChange(query, 'pull_request:c');
    expect(await findChange(query, 'pull_request:a')).toBeDefined();
  });
});

it.each<[what: string, lane: string, change: Partial<Difference>]>([
  ['nobody waits', 'backfill', {}],
  ['a delivery waits', 'mirror', { waiting: [{ id: 1, at: 10 }] }],
  ['a read is asked for by somebody', 'mirror', { kind: 'read' }],
  ['a read is asked for by another backfill', 'backfill', { kind: 'read', lane: 'backfill' }],
])('a change of a backfill for which %s is in the lane %s', async (_what, lane, change) => {
  const { query } = await openTestStore();
  await addDifference(query, difference({ ...change, lane: 'backfill', waiting: [], since: 1, due: 2 }));
  await addDifference(query, difference(change));
  const lifted = lane === 'mirror' ? { since: NOW - 5_000, due: NOW - 3_000 } : { since: 1, due: 2 };
  expect(await findChange(query, 'pull_request:a')).toMatchObject({ lane, ...lifted });
});
