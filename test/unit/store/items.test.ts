import { expect, test } from 'vitest';
import {
  itemsAfter,
  openItemsAfter,
  readEvaluatedTasks,
  saveEvaluatedTasks,
  saveItem,
} from '../../../src/store/items.ts';
import { openTestStore } from '../../support/intake.ts';
import { itemRow } from '../../support/items.ts';

const item = (key: string, finished: 0 | 1, gone: 0 | 1) => itemRow(key, { finished, gone });

async function withItems() {
  const { query } = await openTestStore();
  for (const key of ['open 2', 'open 1']) await saveItem(query, item(key, 0, 0), 1);
  await saveItem(query, item('open 3, gone', 0, 1), 1);
  await saveItem(query, item('over 1', 1, 0), 1);
  await saveItem(query, item('over 2, gone', 1, 1), 1);
  return query;
}

test('open items, and finished ones, come in the order of their keys, without those that are gone', async () => {
  const query = await withItems();
  expect(await openItemsAfter(query, '', 10)).toEqual(['open 1', 'open 2']);
  expect(await openItemsAfter(query, '', 1)).toEqual(['open 1']);
  expect(await openItemsAfter(query, 'open 1', 10)).toEqual(['open 2']);
  expect(await itemsAfter(query, '', { finished: false, most: 10 })).toEqual(['open 1', 'open 2']);
  expect(await itemsAfter(query, '', { finished: true, most: 10 })).toEqual(['over 1']);
  expect(await itemsAfter(query, 'open 1', { finished: false, most: 10 })).toEqual(['open 2']);
});

test('the tasks of an item are remembered with it, also where it changes', async () => {
  const query = await withItems();
  await saveEvaluatedTasks(query, 'open 1', ['t1', 't2']);
  await saveItem(query, item('open 1', 1, 0), 2);
  expect(await readEvaluatedTasks(query, 'open 1')).toEqual(['t1', 't2']);
  await saveEvaluatedTasks(query, 'open 1', []);
  expect(await readEvaluatedTasks(query, 'open 1')).toEqual([]);
  await saveEvaluatedTasks(query, 'unknown', ['t1']);
  expect(await readEvaluatedTasks(query, 'unknown')).toEqual([]);
});
