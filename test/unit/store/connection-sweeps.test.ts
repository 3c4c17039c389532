import { expect, test } from 'vitest';
import {
  forgetOtherSweeps,
  recordSweep,
  recordSweepFailure,
  storedItemsAfter,
} from '../../../src/store/connection-sweeps.ts';
import { openTestStore } from '../../support/harness/intake.ts';

const RESULT = { at: 5, listed: 3, asked: 1 };

test('a failure keeps the result of the last complete sweep, and the next complete sweep clears the failure', async () => {
  const { query } = await openTestStore();
  const unit = { connection: 'github', unit: 'one' };
  const row = () =>
    query.selectFrom('sweeps').select(['completed_at', 'listed', 'asked', 'error', 'failed_at']).executeTakeFirst();
  await recordSweep(query, unit, RESULT);
  await recordSweepFailure(query, unit, 'server_failed: down', 7);
  expect(await row()).toEqual({ completed_at: 5, listed: 3, asked: 1, error: 'server_failed: down', failed_at: 7 });
  await recordSweep(query, unit, { at: 9, listed: 4, asked: 0 });
  expect(await row()).toEqual({ completed_at: 9, listed: 4, asked: 0, error: null, failed_at: null });
});

test('deletes units that the connection no longer has, and none of other connections', async () => {
  const { query } = await openTestStore();
  for (const connection of ['github', 'gitlab'])
    for (const unit of ['one', 'two']) await recordSweep(query, { connection, unit }, RESULT);
  await forgetOtherSweeps(query, 'github', ['two', 'three']);
  const rows = await query.selectFrom('sweeps').select(['connection', 'unit']).execute();
  expect(rows.map(({ connection, unit }) => `${connection} ${unit}`).toSorted()).toEqual([
    'github two',
    'gitlab one',
    'gitlab two',
  ]);
});

test('lists the items of a connection page by page, without newer ones', async () => {
  const { query, commit } = await openTestStore();
  const COUNT = 1_200;
  await commit(async (transaction) => {
    const rows = Array.from({ length: COUNT }, (_, at) => ({
      ...{ key: `key-${String(at).padStart(5, '0')}`, kind: 'work_item', connector: 'jira', hash: '', fields: '{}' },
      ...{ provider_time: 1, finished: 0, gone: at === 3 ? 1 : 0, seen_at: at === 4 ? 100 : 1 },
      connection: at % 2 === 0 ? 'jira' : 'other',
    })) as never[];
    for (let from = 0; from < COUNT; from += 300)
      await transaction
        .insertInto('items')
        .values(rows.slice(from, from + 300))
        .execute();
  });
  const of = { connection: 'other', seenBefore: 100 };
  const first = await storedItemsAfter(query, of, '');
  expect([first.items.length, first.after]).toEqual([500, 'key-00999']);
  expect(first.items.filter(({ isGone }) => isGone).map(({ key }) => key)).toEqual(['key-00003']);
  const last = await storedItemsAfter(query, of, first.after as string);
  expect([last.items.length, last.after]).toEqual([100, undefined]);
  expect((await storedItemsAfter(query, { connection: 'jira', seenBefore: 100 }, '')).items).toHaveLength(499);
});
