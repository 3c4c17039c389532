import { expect, test } from 'vitest';
import {
  ALL_UNITS,
  clearFailures,
  loadPollState,
  outdatedFailures,
  recordPollFailure,
  savePollState,
} from '../../../src/store/poll-states.ts';
import { openTestStore } from '../../support/intake.ts';

test('a failure keeps the position, and the next page takes it back', async () => {
  const { query } = await openTestStore();
  await savePollState(query, 'github', 'unit', { watermark: 'w1', etag: '"e"' }, 5);
  await recordPollFailure(query, 'github', 'unit', 'server_failed: down', 7);
  expect(await loadPollState(query, 'github', 'unit')).toMatchObject({ watermark: 'w1', etag: '"e"' });
  const row = () => query.selectFrom('polls').select(['error', 'failed_at', 'completed_at']).executeTakeFirst();
  expect(await row()).toEqual({ error: 'server_failed: down', failed_at: 7, completed_at: 5 });
  await savePollState(query, 'github', 'unit', { watermark: 'w2' });
  expect(await row()).toEqual({ error: null, failed_at: null, completed_at: 5 });
});

test('positions are of one unit of one connection', async () => {
  const { query } = await openTestStore();
  await savePollState(query, 'github', 'unit', { watermark: 'w1' });
  expect(await loadPollState(query, 'github', 'other')).toEqual({});
  expect(await loadPollState(query, 'gitlab', 'unit')).toEqual({});
});

test('failures of units that a connection no longer has are cleared with that of the connection, and no others', async () => {
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

test('a walk goes on where it stood, and is over where nothing is left of it', async () => {
  const { query } = await openTestStore();
  const walk = { page: 'p2', startedAt: '2026-01-01T00:00:00Z', readAt: '2026-01-01T00:00:01Z' };
  const state = { watermark: 'w1', walk, etag: '"e"', digest: 'd' };
  await savePollState(query, 'github', 'unit', state);
  expect(await loadPollState(query, 'github', 'unit')).toEqual(state);
  await savePollState(query, 'github', 'unit', { watermark: 'w2' });
  expect(await loadPollState(query, 'github', 'unit')).toEqual({ watermark: 'w2' });
});
