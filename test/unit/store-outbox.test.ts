import { describe, expect, it } from 'vitest';
import type { ChangeState } from '../../src/model/change.ts';
import type { Store } from '../../src/store/database.ts';
import {
  addDifference,
  type Difference,
  dropDifference,
  findChange,
  nextChange,
  nextDue,
  readWaiting,
  removeChange,
  updateChange,
} from '../../src/store/outbox.ts';
import { openTestStore } from '../support/intake.ts';

const NOW = 1_000_000;
const EVERY = { now: NOW, onlyReads: false };

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
    expect(await findChange(query, 'pull_request:a')).toEqual({
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

  it('never puts off a change that waits, nor its back-off, nor makes it lighter', async () => {
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

describe('the change to be sent next', () => {
  interface Row {
    readonly rule: string;
    readonly rows: readonly Partial<Difference>[];
    readonly next: string | undefined;
  }
  const S = 1_000;
  const at = (since: number, due: number, weight = 1) => ({ since: NOW - since * S, due: NOW - due * S, weight });
  it.each<Row>([
    { rule: 'nothing', rows: [], next: undefined },
    { rule: 'nothing is due', rows: [{ entity: 'a', ...at(1, -1) }], next: undefined },
    { rule: 'due at this very moment', rows: [{ entity: 'a', ...at(2, 0) }], next: 'a' },
    {
      rule: 'overdue the longest',
      rows: [
        { entity: 'a', ...at(5, 3) },
        { entity: 'b', ...at(9, 7) },
        { entity: 'c', ...at(6, 4) },
      ],
      next: 'b',
    },
    {
      rule: 'due first, though another differs for longer',
      rows: [
        { entity: 'a', ...at(20, 5) },
        { entity: 'b', ...at(9, 7) },
      ],
      next: 'b',
    },
    {
      rule: 'the age of a finished item counts double',
      rows: [
        { entity: 'a', ...at(9, 7) },
        { entity: 'b', ...at(6, 4, 2) },
      ],
      next: 'b',
    },
    {
      rule: 'but no more than double',
      rows: [
        { entity: 'a', ...at(20, 18) },
        { entity: 'b', ...at(9, 7, 2) },
      ],
      next: 'a',
    },
    {
      rule: 'by name where all is equal',
      rows: [
        { entity: 'b', ...at(5, 3) },
        { entity: 'a', ...at(5, 3) },
      ],
      next: 'a',
    },
    { rule: 'not before its time', rows: [{ entity: 'a', ...at(5, 3), notBefore: NOW + 1 }], next: undefined },
    { rule: 'from its time on', rows: [{ entity: 'a', ...at(5, 3), notBefore: NOW }], next: 'a' },
  ])('$rule', async ({ rows, next }) => {
    const { query } = await openTestStore();
    for (const row of rows) await addDifference(query, difference(row));
    expect((await nextChange(query, EVERY))?.entity).toBe(next);
  });

  it.each(['sending', 'unknown', 'held'] as const)('is none that is %s', async (state) => {
    const { query } = await openTestStore();
    await addDifference(query, difference());
    await updateChange(query, 'pull_request:a', { state });
    expect(await nextChange(query, EVERY)).toBeUndefined();
    expect(await nextDue(query, EVERY)).toBeUndefined();
  });

  it('is a read while the content of the workspace is not known', async () => {
    const { query } = await openTestStore();
    await addDifference(query, difference({ ...at(99, 97) }));
    await addDifference(query, difference({ entity: 'read:tasks', kind: 'read', lane: 'read' }));
    expect((await nextChange(query, { now: NOW, onlyReads: true }))?.entity).toBe('read:tasks');
    expect((await nextChange(query, EVERY))?.entity).toBe('pull_request:a');
  });
});

describe('when the next change may be sent', () => {
  it('is never, where none waits', async () => {
    const { query } = await openTestStore();
    expect(await nextDue(query, EVERY)).toBeUndefined();
  });

  it('is now, with the urgency of the one that goes', async () => {
    const { query } = await openTestStore();
    await addDifference(query, difference());
    expect(await nextDue(query, EVERY)).toEqual({ at: NOW, due: NOW - 3_000, lane: 'mirror' });
  });

  it('is the earliest of due times and pauses', async () => {
    const { query } = await openTestStore();
    await addDifference(query, difference({ entity: 'a', due: NOW + 9_000 }));
    await addDifference(query, difference({ entity: 'b', due: NOW + 1_000, notBefore: NOW + 7_000, lane: 'link' }));
    expect(await nextDue(query, EVERY)).toEqual({ at: NOW + 7_000, due: NOW + 1_000, lane: 'link' });
  });

  it('heeds reads only, while only they may go', async () => {
    const { query } = await openTestStore();
    await addDifference(query, difference());
    await addDifference(query, difference({ entity: 'read:tasks', kind: 'read', lane: 'read', due: NOW + 4_000 }));
    expect(await nextDue(query, { now: NOW, onlyReads: true })).toMatchObject({ at: NOW + 4_000, lane: 'read' });
  });
});
