import { describe, expect, it } from 'vitest';
import { type EntityKind, effectOf } from '../../../../src/model/change.ts';
import { heldChanges, releaseHeld } from '../../../../src/store/held-changes.ts';
import { addDifference, findChange, updateChange } from '../../../../src/store/outbox-rows.ts';
import { guardChanges, surplusOf } from '../../../../src/sync/reconcile/mass-change-guard.ts';
import { openTestStore } from '../../../support/intake.ts';

describe('what a change does to the stock', () => {
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

describe('how many are over the limit', () => {
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

describe('guarding the changes of a partition', () => {
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

  it('holds the latest of what is over, never a read or what passed before, and counts both', async () => {
    const { query } = await openTestStore();
    for (const number of [1, 2, 3, 4]) await add(query, 'link', number, 'removal');
    await add(query, 'read', 9, 'removal');
    await add(query, 'link', 8, 'removal');
    await updateChange(query, 'link:8', { guard: 'passed' });
    await add(query, 'pull_request', 5, 'creation');
    const reasons = await guardChanges(query, { removals: 4, creations: 1, repairs: 9 });
    expect(reasons).toEqual([
      { effect: 'removal', held: 2, reason: '6 removals or closings wait together, and guard.removals allows 4' },
    ]);
    const states = await query.selectFrom('outbox').select(['entity', 'state']).orderBy('entity').execute();
    expect(states.filter(({ state }) => state === 'held').map(({ entity }) => entity)).toEqual(['link:3', 'link:4']);
    expect(await guardChanges(query, { removals: 4, creations: 1, repairs: 9 })).toEqual([]);
    expect(await findChange(query, 'link:2')).toMatchObject({ guard: 'passed' });
    expect(await findChange(query, 'link:4')).toMatchObject({
      guard: 'held',
      error: 'guard_held: 6 removals or closings wait together, and guard.removals allows 4',
    });
  });

  it('counts neither what was confirmed nor what the workspace refused', async () => {
    const { query } = await openTestStore();
    for (const number of [1, 2, 3, 4]) await add(query, 'link', number, 'creation');
    for (const entity of ['link:1', 'link:2']) await updateChange(query, entity, { guard: 'confirmed' });
    await updateChange(query, 'link:3', { state: 'held' });
    expect(await guardChanges(query, { removals: 0, creations: 1, repairs: 9 })).toEqual([]);
  });

  it('tells what it holds from what the workspace refused, whether that had passed, was confirmed or was never counted', async () => {
    const store = await openTestStore();
    const { query } = store;
    for (const number of [1, 2, 3]) await add(query, 'link', number, 'creation');
    await guardChanges(query, { removals: 0, creations: 2, repairs: 9 });
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

  it('releases thousands in pieces, and nothing where one that is named is not held', async () => {
    const statements: string[] = [];
    const store = await openTestStore({ onStatement: (text) => statements.push(text) });
    const { query } = store;
    await store.commit(async (transaction) => {
      for (let number = 1; number <= 1_200; number++) await add(transaction, 'link', number, 'removal');
    });
    await guardChanges(query, { removals: 0, creations: 0, repairs: 0 });
    await expect(releaseHeld(store, { entities: ['link:1', 'link:9999'] })).rejects.toMatchObject({
      code: 'not_found',
      message: 'no change of link:9999 is held',
    });
    expect((await heldChanges(query, 1)).removals.count).toBe(1_200);
    statements.length = 0;
    expect(await releaseHeld(store, { classes: ['removals'] })).toBe(1_200);
    expect(statements.filter((text) => text.startsWith('update "outbox"'))).toHaveLength(3);
  });

  it('looks anew at a held change that has become something else', async () => {
    const { query } = await openTestStore();
    await add(query, 'pull_request', 1, 'creation');
    await guardChanges(query, { removals: 0, creations: 0, repairs: 9 });
    expect(await findChange(query, 'pull_request:1')).toMatchObject({ state: 'held' });
    const edit = { kind: 'pull_request', lane: 'mirror', since: 2, due: 3, weight: 1, effect: null } as const;
    await addDifference(query, { entity: 'pull_request:1', ...edit, waiting: [] });
    expect(await findChange(query, 'pull_request:1')).toMatchObject({ state: 'pending', guard: null, error: null });
  });
});

it('what the guard cannot write down is not passed over', async () => {
  let isFull = false;
  const steps = {
    reached() {
      if (isFull) throw new Error('the disk is full');
    },
  };
  const { query } = await openTestStore({ steps });
  const wish = { kind: 'link', lane: 'link', since: 1, due: 2, weight: 1, waiting: [], effect: 'creation' } as const;
  for (const entity of ['link:1', 'link:2']) await addDifference(query, { entity, ...wish });
  isFull = true;
  for (const creations of [1, 2])
    await expect(guardChanges(query, { removals: 1, creations, repairs: 1 })).rejects.toThrow('the disk is full');
});
