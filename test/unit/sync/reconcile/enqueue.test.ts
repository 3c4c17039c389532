import { describe, expect, it } from 'vitest';
import { type EntityKind, effectOf } from '../../../../src/model/change.ts';
import { heldChanges, releaseHeld } from '../../../../src/store/held-changes.ts';
import { addDifference, findChange, updateChange } from '../../../../src/store/outbox-rows.ts';
import { guardChanges, surplusOf } from '../../../../src/sync/reconcile/enqueue.ts';
import { openTestStore } from '../../../support/harness/intake.ts';

describe('the effect of a change', () => {
  const open = { state: 'open', title: 'a' };
  const closed = { state: 'closed' };
  const table: [EntityKind, Record<string, unknown> | undefined, Record<string, unknown> | undefined, string | null][] =
    [
      ['pull_request', open, undefined, 'creation'],
      ['pull_request', closed, undefined, 'creation'],
      ['pull_request', closed, open, 'removal'],
      ['pull_request', { state: 'declined' }, open, 'removal'],
      ['pull_request', { state: 'merged' }, open, null],
      ['pull_request', { state: 'open', title: 'b' }, open, null],
      ['pull_request', { title: 'b' }, open, null],
      ['pull_request', open, closed, null],
      ['pull_request', { state: 'merged' }, closed, null],
      ['pull_request', undefined, open, null],
      ['link', { url: 'u' }, undefined, 'creation'],
      ['link', undefined, { url: 'u' }, 'removal'],
      ['link', undefined, undefined, null],
      ['task', { title: 'a' }, undefined, 'creation'],
      ['task', { title: 'a' }, { title: 'a' }, null],
      ['read', undefined, undefined, null],
    ];
  it.each(table)('%s: desired %o, known %o: %s', (kind, desired, known, effect) => {
    expect(effectOf(kind, desired, known)).toBe(effect);
  });
});

describe('the surplus over a limit', () => {
  it.each([
    [20, 20, 0, 0],
    [20, 21, 0, 1],
    [20, 100, 0, 80],
    [20, 5, 15, 0],
    [20, 6, 15, 1],
    [20, 3, 80, 3],
    [0, 2, 0, 2],
    [20, 0, 99, 0],
    [Number.POSITIVE_INFINITY, 9_999, 9_999, 0],
  ])('limit %d, %d fresh, %d ahead: %d', (limit, fresh, ahead, surplus) => {
    expect(surplusOf(limit, { fresh, ahead })).toBe(surplus);
  });
});

describe('the guard', () => {
  type Kind = 'pull_request' | 'link' | 'read';
  const add = (
    query: Parameters<typeof addDifference>[0],
    kind: Kind,
    number: number,
    effect: 'creation' | 'removal',
  ) =>
    addDifference(query, {
      entity: `${kind}:${number}`,
      kind,
      lane: 'link',
      since: number,
      due: number,
      weight: 1,
      effect,
      waiting: [],
    });

  it('holds the latest surplus changes, and counts reads and passed changes without holding them', async () => {
    const { query } = await openTestStore();
    for (const number of [1, 2, 3, 4]) await add(query, 'link', number, 'removal');
    await add(query, 'read', 9, 'removal');
    await add(query, 'link', 8, 'removal');
    await updateChange(query, 'link:8', { guard: 'passed' });
    await add(query, 'pull_request', 5, 'creation');
    const reasons = await guardChanges(query, { removals: 4, creations: 1, repairs: 9, statuses: 50 });
    expect(reasons).toEqual([
      { effect: 'removal', held: 2, reason: 'more than 4 removals or closings wait together (guard.removals)' },
    ]);
    const states = await query.selectFrom('outbox').select(['entity', 'state']).orderBy('entity').execute();
    expect(states.filter(({ state }) => state === 'held').map(({ entity }) => entity)).toEqual(['link:3', 'link:4']);
    expect(await guardChanges(query, { removals: 4, creations: 1, repairs: 9, statuses: 50 })).toEqual([]);
    expect(await findChange(query, 'link:2')).toMatchObject({ guard: 'passed' });
    expect(await findChange(query, 'link:4')).toMatchObject({
      guard: 'held',
      error: 'guard_held: more than 4 removals or closings wait together (guard.removals)',
    });
  });

  it('counts neither confirmed nor refused changes', async () => {
    const { query } = await openTestStore();
    for (const number of [1, 2, 3, 4]) await add(query, 'link', number, 'creation');
    for (const entity of ['link:1', 'link:2']) await updateChange(query, entity, { guard: 'confirmed' });
    await updateChange(query, 'link:3', { state: 'held' });
    expect(await guardChanges(query, { removals: 0, creations: 1, repairs: 9, statuses: 50 })).toEqual([]);
  });

  it('distinguishes its held changes from refused ones that passed, were confirmed or were not counted', async () => {
    const store = await openTestStore();
    const { query } = store;
    for (const number of [1, 2, 3]) await add(query, 'link', number, 'creation');
    await guardChanges(query, { removals: 0, creations: 2, repairs: 9, statuses: 50 });
    await add(query, 'pull_request', 4, 'creation');
    await updateChange(query, 'link:1', { state: 'held', error: 'refused: no' });
    await updateChange(query, 'link:2', { state: 'held', guard: 'confirmed' });
    await updateChange(query, 'pull_request:4', { state: 'held' });
    const { creations, refused } = await heldChanges(query, 9);
    expect(creations).toMatchObject({ count: 1, samples: [{ entity: 'link:3' }] });
    expect(refused).toMatchObject({ count: 3, samples: [{ entity: 'link:1', error: 'refused: no' }, {}, {}] });
    expect(await releaseHeld(store, { classes: ['refused', 'removals'], entities: ['link:3', 'link:3'] })).toBe(4);
    expect(await findChange(query, 'link:1')).toMatchObject({ state: 'pending', guard: 'confirmed', error: null });
  });

  it('releases thousands in chunks, and none if a named change is not held', async () => {
    const statements: string[] = [];
    const store = await openTestStore({ onStatement: (text) => statements.push(text) });
    const { query } = store;
    await store.commit(async (transaction) => {
      for (let number = 1; number <= 1_200; number++) await add(transaction, 'link', number, 'removal');
    });
    await guardChanges(query, { removals: 0, creations: 0, repairs: 0, statuses: 50 });
    await expect(releaseHeld(store, { entities: ['link:1', 'link:9999'] })).rejects.toMatchObject({
      code: 'not_found',
      message: 'no change of link:9999 is held',
    });
    expect((await heldChanges(query, 1)).removals.count).toBe(1_200);
    statements.length = 0;
    expect(await releaseHeld(store, { classes: ['removals'] })).toBe(1_200);
    expect(statements.filter((text) => text.startsWith('update "outbox"'))).toHaveLength(3);
  });

  it('decides again about a held change with another effect', async () => {
    const { query } = await openTestStore();
    await add(query, 'pull_request', 1, 'creation');
    await guardChanges(query, { removals: 0, creations: 0, repairs: 9, statuses: 50 });
    expect(await findChange(query, 'pull_request:1')).toMatchObject({ state: 'held' });
    const edit = { kind: 'pull_request', lane: 'mirror', since: 2, due: 3, weight: 1, effect: null } as const;
    await addDifference(query, { entity: 'pull_request:1', ...edit, waiting: [] });
    expect(await findChange(query, 'pull_request:1')).toMatchObject({ state: 'pending', guard: null, error: null });
  });
});

it('a failed write of the guard fails the transaction', async () => {
  let isFull = false;
  const steps = {
    reached() {
      if (isFull) throw new Error('the disk is full');
    },
  };
  const { query } = await openTestStore({ steps });
  const change = { kind: 'link', lane: 'link', since: 1, due: 2, weight: 1, waiting: [], effect: 'creation' } as const;
  for (const entity of ['link:1', 'link:2']) await addDifference(query, { entity, ...change });
  isFull = true;
  for (const creations of [1, 2])
    await expect(guardChanges(query, { removals: 1, creations, repairs: 1, statuses: 1 })).rejects.toThrow(
      'the disk is full',
    );
});
