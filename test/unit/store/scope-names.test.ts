import { expect, test } from 'vitest';
import type { Store } from '../../../src/store/database.ts';
import { loadNames, restartUnits, saveName, storedUnits } from '../../../src/store/scope-names.ts';
import { openTestStore } from '../../support/intake.ts';

const BOUND_AGAIN = { now: 900, reason: 'scope_rebound: the name was bound again' };
const CONNECTIONS = ['github', 'gitlab'] as const;
const UNITS = ['one', 'two', 'done'] as const;

/** Two connections, each with the same three units; the backfill of one of them is over. */
async function withUnits(): Promise<Store> {
  const store = await openTestStore();
  const { query } = store;
  for (const connection of CONNECTIONS)
    for (const unit of UNITS) {
      await query.insertInto('polls').values({ connection, unit, watermark: 'w' }).execute();
      await query.insertInto('sweeps').values({ connection, unit, completed_at: 5, listed: 1, asked: 1 }).execute();
      const over = unit === 'done' ? { finished_at: 7, error: null } : { finished_at: null, error: null };
      await query
        .insertInto('backfills')
        .values({ connection, unit, since: null, page: null, total: null, started_at: 1, ...over })
        .execute();
    }
  return store;
}

const left = async ({ query }: Store, table: 'polls' | 'sweeps') => {
  const rows = await query.selectFrom(table).select(['connection', 'unit']).execute();
  return rows.map(({ connection, unit }) => `${connection} ${unit}`).toSorted();
};

test('what is begun again are the units of that name and of that connection, and no others', async () => {
  const store = await withUnits();
  await restartUnits(store.query, 'github', ['one', 'done'], BOUND_AGAIN);
  const others = ['github two', 'gitlab done', 'gitlab one', 'gitlab two'];
  expect(await left(store, 'polls')).toEqual(others);
  expect(await left(store, 'sweeps')).toEqual(others);
});

test('of their backfills those that were not finished end, and tell why', async () => {
  const store = await withUnits();
  await restartUnits(store.query, 'github', ['one', 'done'], BOUND_AGAIN);
  const rows = await store.query
    .selectFrom('backfills')
    .select(['connection', 'unit', 'finished_at', 'error'])
    .execute();
  const { now, reason } = BOUND_AGAIN;
  const ended = rows.filter(({ finished_at }) => finished_at !== null);
  expect(ended.map((row) => Object.values(row).join()).toSorted()).toEqual([
    'github,done,7,',
    `github,one,${now},${reason}`,
    'gitlab,done,7,',
  ]);
});

test('with no unit nothing is begun again', async () => {
  const store = await withUnits();
  await restartUnits(store.query, 'github', [], BOUND_AGAIN);
  expect(await left(store, 'polls')).toHaveLength(CONNECTIONS.length * UNITS.length);
});

test('the units of which something is kept are told by connection, each once', async () => {
  const store = await withUnits();
  await restartUnits(store.query, 'gitlab', ['two'], BOUND_AGAIN);
  expect((await storedUnits(store.query, 'github')).toSorted()).toEqual(['done', 'one', 'two']);
  // A backfill that ended stays, to be seen.
  expect((await storedUnits(store.query, 'gitlab')).toSorted()).toEqual(['done', 'one', 'two']);
  expect(await storedUnits(store.query, 'other')).toEqual([]);
});

test('a name that was taken out of the configuration is forgotten, in its connection alone', async () => {
  const { query } = await openTestStore();
  const name = { id: '1', called: 'acme/app', elsewhere: null, askedAt: 3 };
  for (const connection of CONNECTIONS)
    for (const entry of ['acme/app', 'acme/old']) await saveName(query, connection, { entry, ...name });
  expect(await loadNames(query, 'github', ['acme/app'])).toEqual([{ entry: 'acme/app', ...name }]);
  expect(await loadNames(query, 'gitlab', ['acme/app', 'acme/old'])).toHaveLength(2);
  expect(await loadNames(query, 'gitlab', [])).toEqual([]);
  expect(await loadNames(query, 'github', ['acme/app', 'acme/old'])).toHaveLength(1);
});

test('a name that is kept again tells what was said last', async () => {
  const { query } = await openTestStore();
  const name = { entry: 'acme/app', id: '1', called: 'acme/app', elsewhere: null, askedAt: 3 };
  await saveName(query, 'github', name);
  await saveName(query, 'github', { ...name, elsewhere: '2', askedAt: null });
  expect(await loadNames(query, 'github', ['acme/app'])).toEqual([{ ...name, elsewhere: '2', askedAt: null }]);
});
