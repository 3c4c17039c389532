import { expect, test } from 'vitest';
import type { Store } from '../../../src/store/database.ts';
import {
  ALL_UNITS,
  clearFailures,
  loadPollState,
  outdatedFailures,
  recordPollFailure,
  savePollState,
} from '../../../src/store/poll-states.ts';
import { loadNames, restartUnits, saveName, storedUnits } from '../../../src/store/scope-names.ts';
import { openTestStore } from '../../support/harness/intake.ts';

test('a failed poll keeps its position, and the next page clears the failure', async () => {
  const { query } = await openTestStore();
  await savePollState(query, 'github', 'unit', { watermark: 'w1', etag: '"e"' }, 5);
  await recordPollFailure(query, 'github', 'unit', 'server_failed: down', 7);
  expect(await loadPollState(query, 'github', 'unit')).toMatchObject({ watermark: 'w1', etag: '"e"' });
  const row = () => query.selectFrom('polls').select(['error', 'failed_at', 'completed_at']).executeTakeFirst();
  expect(await row()).toEqual({ error: 'server_failed: down', failed_at: 7, completed_at: 5 });
  await savePollState(query, 'github', 'unit', { watermark: 'w2' });
  expect(await row()).toEqual({ error: null, failed_at: null, completed_at: 5 });
});

test('each unit of each connection has a position of its own', async () => {
  const { query } = await openTestStore();
  await savePollState(query, 'github', 'unit', { watermark: 'w1' });
  expect(await loadPollState(query, 'github', 'other')).toEqual({});
  expect(await loadPollState(query, 'gitlab', 'unit')).toEqual({});
});

test('clears the failures of removed units and of the whole connection only', async () => {
  const { query } = await openTestStore();
  for (const connection of ['github', 'gitlab'])
    for (const unit of [ALL_UNITS, 'unit', 'gone']) await recordPollFailure(query, connection, unit, 'down', 7);
  const outdated = await outdatedFailures(query, 'github', ['unit']);
  expect(outdated.toSorted()).toEqual([ALL_UNITS, 'gone']);
  await clearFailures(query, 'github', outdated);
  const rows = await query.selectFrom('polls').select(['connection', 'unit', 'error']).execute();
  expect(rows.map(({ connection, unit, error }) => `${connection} ${unit} ${error}`).toSorted()).toEqual([
    'github gone null',
    'github unit down',
    'gitlab * down',
    'gitlab gone down',
    'gitlab unit down',
  ]);
});

test('stores a walk, and ends it when the state has none', async () => {
  const { query } = await openTestStore();
  const walk = { page: 'p2', startedAt: '2026-01-01T00:00:00Z', readAt: '2026-01-01T00:00:01Z' };
  const state = { watermark: 'w1', walk, etag: '"e"', digest: 'd' };
  await savePollState(query, 'github', 'unit', state);
  expect(await loadPollState(query, 'github', 'unit')).toEqual(state);
  await savePollState(query, 'github', 'unit', { watermark: 'w2' });
  expect(await loadPollState(query, 'github', 'unit')).toEqual({ watermark: 'w2' });
});

const REBOUND = { now: 900, reason: 'scope_rebound: the name was bound again' };
const CONNECTIONS = ['github', 'gitlab'] as const;
const UNITS = ['one', 'two', 'done'] as const;

/** Two connections, each with the same three units; the backfill of the unit `done` is complete. */
async function withUnits(): Promise<Store> {
  const store = await openTestStore();
  const { query } = store;
  for (const connection of CONNECTIONS)
    for (const unit of UNITS) {
      await query.insertInto('polls').values({ connection, unit, watermark: 'w' }).execute();
      await query.insertInto('sweeps').values({ connection, unit, completed_at: 5, listed: 1, asked: 1 }).execute();
      const finished_at = unit === 'done' ? 7 : null;
      await query
        .insertInto('backfills')
        .values({ connection, unit, since: null, page: null, total: null, started_at: 1, finished_at, error: null })
        .execute();
    }
  return store;
}

const unitsIn = async ({ query }: Store, table: 'polls' | 'sweeps') => {
  const rows = await query.selectFrom(table).select(['connection', 'unit']).execute();
  return rows.map(({ connection, unit }) => `${connection} ${unit}`).toSorted();
};

test('restarts the polls and sweeps of the rebound units of one connection only', async () => {
  const store = await withUnits();
  await restartUnits(store.query, 'github', ['one', 'done'], REBOUND);
  const others = ['github two', 'gitlab done', 'gitlab one', 'gitlab two'];
  expect(await unitsIn(store, 'polls')).toEqual(others);
  expect(await unitsIn(store, 'sweeps')).toEqual(others);
});

test('ends the unfinished backfills of rebound units with the reason', async () => {
  const store = await withUnits();
  await restartUnits(store.query, 'github', ['one', 'done'], REBOUND);
  const rows = await store.query
    .selectFrom('backfills')
    .select(['connection', 'unit', 'finished_at', 'error'])
    .execute();
  const { now, reason } = REBOUND;
  const ended = rows.filter(({ finished_at }) => finished_at !== null);
  expect(ended.map((row) => Object.values(row).join()).toSorted()).toEqual([
    'github,done,7,',
    `github,one,${now},${reason}`,
    'gitlab,done,7,',
  ]);
});

test('restarts nothing without units', async () => {
  const store = await withUnits();
  await restartUnits(store.query, 'github', [], REBOUND);
  expect(await unitsIn(store, 'polls')).toHaveLength(CONNECTIONS.length * UNITS.length);
});

test('lists each unit of a connection that has rows once', async () => {
  const store = await withUnits();
  await restartUnits(store.query, 'gitlab', ['two'], REBOUND);
  expect((await storedUnits(store.query, 'github')).toSorted()).toEqual(['done', 'one', 'two']);
  // The row of an ended backfill stays visible.
  expect((await storedUnits(store.query, 'gitlab')).toSorted()).toEqual(['done', 'one', 'two']);
  expect(await storedUnits(store.query, 'other')).toEqual([]);
});

test('forgets a name that was removed from the configuration, in its connection only', async () => {
  const { query } = await openTestStore();
  const name = { id: '1', called: 'acme/app', elsewhere: null, askedAt: 3 };
  for (const connection of CONNECTIONS)
    for (const entry of ['acme/app', 'acme/old']) await saveName(query, connection, { entry, ...name });
  expect(await loadNames(query, 'github', ['acme/app'])).toEqual([{ entry: 'acme/app', ...name }]);
  expect(await loadNames(query, 'gitlab', ['acme/app', 'acme/old'])).toHaveLength(2);
  expect(await loadNames(query, 'gitlab', [])).toEqual([]);
  expect(await loadNames(query, 'github', ['acme/app', 'acme/old'])).toHaveLength(1);
});

test('replaces a stored name', async () => {
  const { query } = await openTestStore();
  const name = { entry: 'acme/app', id: '1', called: 'acme/app', elsewhere: null, askedAt: 3 };
  await saveName(query, 'github', name);
  await saveName(query, 'github', { ...name, elsewhere: '2', askedAt: null });
  expect(await loadNames(query, 'github', ['acme/app'])).toEqual([{ ...name, elsewhere: '2', askedAt: null }]);
});
