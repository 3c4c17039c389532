import { expect, onTestFinished, test } from 'vitest';
import {
  addRequest,
  deleteRequests,
  MOST_REQUESTS,
  requestsOfItems,
  withOldRequests,
} from '../../../src/store/requests.ts';
import { openStore } from '../../support/harness/store.ts';

const row = (item: string | null, completed = 5): Parameters<typeof addRequest>[1] => ({
  entity: `link:${item}>t`,
  kind: 'link',
  item_key: item,
  task_id: 't',
  action: 'add-link',
  lane: 'link',
  since: 1,
  due: 2,
  asked_at: 3,
  slot_at: 3,
  sent_at: 4,
  completed_at: completed,
  status: 201,
  error: null,
  outcome: 'answered',
  attempt: 1,
  deliveries: '[7]',
  answer: 'a',
});

async function open() {
  const store = await openStore({ file: ':memory:' });
  onTestFinished(() => store.close());
  return store;
}

test('numbers requests in the order of their completion, and finds them by item', async () => {
  const { query } = await open();
  for (const item of ['a', 'b', null, 'a']) await addRequest(query, row(item));
  expect((await requestsOfItems(query, ['a', 'b'], 2)).map(({ id, item_key }) => [id, item_key])).toEqual([
    [4, 'a'],
    [2, 'b'],
  ]);
  expect(await requestsOfItems(query, [], 2)).toEqual([]);
});

test('deletes old requests in chunks', async () => {
  const { query, database } = await open();
  for (const completed of [1, 2, 3, 10]) await addRequest(query, row('a', completed));
  expect(await withOldRequests(database, [query.workspace, 99], 4)).toEqual([query.workspace]);
  expect(await deleteRequests(query, 4, 2)).toBe(2);
  expect(await deleteRequests(query, 4, 2)).toBe(1);
  expect(await deleteRequests(query, 4, 2)).toBe(0);
  expect(await withOldRequests(database, [query.workspace], 4)).toEqual([]);
  expect((await requestsOfItems(query, ['a'], 9)).map(({ completed_at }) => completed_at)).toEqual([10]);
});

test('deletes the surplus requests of each workspace, whatever their age', async () => {
  const { query, database } = await open();
  await addRequest(query, row('a'));
  await query.updateTable('requests').set({ id: MOST_REQUESTS }).execute();
  expect(await withOldRequests(database, [query.workspace], 0)).toEqual([]);
  await addRequest(query, row('a'));
  expect(await withOldRequests(database, [query.workspace], 0)).toEqual([]);
  await query
    .insertInto('requests')
    .values({ ...row('b'), id: 1 })
    .execute();
  expect(await withOldRequests(database, [query.workspace], 0)).toEqual([query.workspace]);
  expect(await deleteRequests(query, 0, 10)).toBe(1);
  expect((await requestsOfItems(query, ['a', 'b'], 9)).map(({ id }) => id)).toEqual([MOST_REQUESTS + 1, MOST_REQUESTS]);
});
