import { expect, onTestFinished, test } from 'vitest';
import {
  addRequest,
  deleteRequests,
  MOST_REQUESTS,
  requestsOfItems,
  withOldRequests,
} from '../../../src/store/requests.ts';
import { planOf } from '../../support/cost/plans.ts';
import { openStore } from '../../support/harness/store.ts';
import { ON_POSTGRES } from '../../support/postgres/store-place.ts';

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

async function open(onStatement?: (statement: string) => void) {
  const store = await openStore({ file: ':memory:', ...(onStatement && { onStatement }) });
  onTestFinished(() => store.close());
  return store;
}

test('numbers requests in the order of their completion, and finds them by item through the index', async () => {
  const statements: string[] = [];
  const { query, database } = await open((statement) => statements.push(statement));
  for (const item of ['a', 'b', null, 'a']) await addRequest(query, row(item));
  statements.length = 0;
  expect((await requestsOfItems(query, ['a', 'b'], 2)).map(({ id, item_key }) => [id, item_key])).toEqual([
    [4, 'a'],
    [2, 'b'],
  ]);
  expect(await requestsOfItems(query, [], 2)).toEqual([]);
  const { indexes, scanned } = await planOf(database, statements[0] as string);
  // PostgreSQL decides by the rows that there are.
  expect(indexes).toEqual([ON_POSTGRES ? expect.stringMatching(/^requests_/) : 'requests_item']);
  expect(scanned).toEqual([]);
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
