import { expect, test } from 'vitest';
import type { Store } from '../../../src/store/database.ts';
import { heldChanges, releaseHeld } from '../../../src/store/held-changes.ts';
import { addDifference, updateChange } from '../../../src/store/outbox-rows.ts';
import { openTestStore } from '../../support/harness/intake.ts';

/** Two that the guard held, one that the workspace refused, and one that waits after a failure. */
async function withHeld(): Promise<Store> {
  const store = await openTestStore();
  const { query } = store;
  const held = { state: 'held', error: 'guard_held: many', guard: 'held' } as const;
  const rows = {
    'link:created': { ...held, effect: 'creation' },
    'link:removed': { ...held, effect: 'removal' },
    'link:refused': { ...held, guard: null, effect: 'creation', attempts: 5 },
    'link:waits': { attempts: 2, not_before: 900, error: 'server_failed: down' },
  } as const;
  for (const [entity, row] of Object.entries(rows)) {
    await addDifference(query, { entity, kind: 'link', lane: 'link', since: 1, due: 2, weight: 1, waiting: [] });
    await updateChange(query, entity, row);
  }
  return store;
}

const stillHeld = async ({ query }: Store) =>
  (await query.selectFrom('outbox').select('entity').where('state', '=', 'held').orderBy('entity').execute()).map(
    ({ entity }) => entity,
  );

test('releases only the named changes', async () => {
  const store = await withHeld();
  expect(await releaseHeld(store, { entities: ['link:created', 'link:refused', 'link:created'] })).toBe(2);
  expect(await stillHeld(store)).toEqual(['link:removed']);
  const waits = await store.query.selectFrom('outbox').selectAll().where('entity', '=', 'link:waits').execute();
  expect(waits).toMatchObject([{ attempts: 2, not_before: 900, guard: null, error: 'server_failed: down' }]);
});

test.each([
  ['creations', ['link:refused', 'link:removed']],
  ['removals', ['link:created', 'link:refused']],
  ['refused', ['link:created', 'link:removed']],
  ['repairs', ['link:created', 'link:refused', 'link:removed']],
] as const)('of the class %s all are released, and none of another', async (which, left) => {
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
  expect(await stillHeld(store)).toEqual(['link:created', 'link:refused', 'link:removed']);
});
