import { describe, expect, it, test } from 'vitest';
import {
  findItem,
  itemLabels,
  itemName,
  itemsAfter,
  itemsAtUrl,
  itemsByDisplayName,
  itemVersions,
  namesWithPrefix,
  openItemsAfter,
  readDeliveries,
  readEvaluatedTasks,
  readFields,
  saveEvaluatedTasks,
  saveItem,
} from '../../../src/store/items.ts';
import { openTestStore } from '../../support/harness/intake.ts';
import { itemRow } from '../../support/rows/items.ts';

const many = (count: number) => Array.from({ length: count }, (_, index) => index + 1);

describe('items', () => {
  const row = (key: string, time = 1): Parameters<typeof saveItem>[1] => ({
    key,
    kind: 'pull_request',
    connector: 'github',
    connection: 'c',
    provider_time: time,
    hash: `h${time}`,
    finished: 0,
    gone: 0,
    seen_at: 3,
    fields: JSON.stringify({ item: { key, updatedAt: time }, older: { title: { updatedAt: 0 } } }),
  });

  it('overwrite the previous state', async () => {
    const { query } = await openTestStore();
    await saveItem(query, row('a'), 7);
    await saveItem(query, row('a', 2), 9);
    const found = await findItem(query, 'a');
    expect(found).toMatchObject({ ...row('a', 2), standing: null, deliveries: '[7,9]' });
    expect(readFields(row('a', 2))).toEqual({
      item: { key: 'a', updatedAt: 2 },
      older: { title: { updatedAt: 0 } },
    });
    expect(await findItem(query, 'b')).toBeUndefined();
  });

  it('store the ids of the last twenty deliveries that changed them, each once', async () => {
    const { query } = await openTestStore();
    for (const delivery of [...many(25), 10]) await saveItem(query, row('a'), delivery);
    const kept = readDeliveries(await findItem(query, 'a'));
    expect(kept).toEqual([
      ...many(25)
        .slice(5)
        .filter((id) => id !== 10),
      10,
    ]);
    expect(kept).toHaveLength(20);
  });

  it.each([
    ['pull_request', { repoName: 'acme/api', identifier: '12' }, 'acme/api#12', 'acme/api!12'],
    ['work_item', { containerName: 'acme/api', identifier: '#13' }, 'acme/api#13', 'acme/api!13'],
    ['work_item', { containerName: 'ENG', identifier: 'ENG-14' }, 'ENG-14', 'ENG-14'],
  ] as const)('are found by display name and by address: %s %j', async (kind, names, called, spelt) => {
    const { query } = await openTestStore();
    const url = 'https://forge.example/a/1';
    const fields = (item: object) => JSON.stringify({ item, older: {} });
    await saveItem(query, { ...row('a'), kind, fields: fields({ ...names, url }) }, 1);
    await saveItem(query, { ...row('b'), kind, fields: fields({ identifier: 'other', url: `${url}2` }) }, 1);
    for (const name of [called, spelt]) expect(await itemsByDisplayName(query, name)).toEqual(['a']);
    expect(await itemsAtUrl(query, url)).toEqual(['a']);
    expect(await itemsByDisplayName(query, 'unknown')).toEqual([]);
  });

  it('have a name with the sign that their vendor writes before the number', async () => {
    const { query } = await openTestStore();
    const item = { repoName: 'acme/api', identifier: '12', numberSign: '!' };
    await saveItem(query, { ...row('a'), fields: JSON.stringify({ item, older: {} }), number_sign: '!' }, 1);
    expect(await itemName(query, 'a')).toBe('acme/api!12');
    expect(await itemLabels(query, ['a'])).toMatchObject([{ name: 'acme/api!12' }]);
    for (const prefix of ['acme/', 'acme/api!1', 'acme/api#'])
      expect(await namesWithPrefix(query, prefix, 9)).toEqual(['acme/api!12']);
  });

  it('have versions, which are read for any number of keys', async () => {
    const store = await openTestStore();
    const keys = many(1_201).map((index) => `k${index}`);
    await store.commit(async (query) => {
      for (const key of keys) await saveItem(query, row(key), 1);
    });
    const versions = await itemVersions(store.query, [...keys, 'unknown']);
    expect(versions.size).toBe(1_201);
    expect(versions.get('k1201')).toEqual({ key: 'k1201', provider_time: 1, hash: 'h1', unverified: 0 });
    expect(await itemVersions(store.query, [])).toEqual(new Map());
  });
});

const item = (key: string, finished: 0 | 1, gone: 0 | 1) => itemRow(key, { finished, gone });

async function withItems() {
  const { query } = await openTestStore();
  for (const key of ['open 2', 'open 1']) await saveItem(query, item(key, 0, 0), 1);
  await saveItem(query, item('open 3, gone', 0, 1), 1);
  await saveItem(query, item('over 1', 1, 0), 1);
  await saveItem(query, item('over 2, gone', 1, 1), 1);
  return query;
}

test('lists open or finished items in the order of their keys, without those that are gone', async () => {
  const query = await withItems();
  expect(await openItemsAfter(query, '', 10)).toEqual(['open 1', 'open 2']);
  expect(await openItemsAfter(query, '', 1)).toEqual(['open 1']);
  expect(await openItemsAfter(query, 'open 1', 10)).toEqual(['open 2']);
  expect(await itemsAfter(query, '', { finished: false, most: 10 })).toEqual(['open 1', 'open 2']);
  expect(await itemsAfter(query, '', { finished: true, most: 10 })).toEqual(['over 1']);
  expect(await itemsAfter(query, 'open 1', { finished: false, most: 10 })).toEqual(['open 2']);
});

test('keeps the evaluated tasks of an item when the item changes', async () => {
  const query = await withItems();
  await saveEvaluatedTasks(query, 'open 1', ['t1', 't2']);
  await saveItem(query, item('open 1', 1, 0), 2);
  expect(await readEvaluatedTasks(query, 'open 1')).toEqual(['t1', 't2']);
  await saveEvaluatedTasks(query, 'open 1', []);
  expect(await readEvaluatedTasks(query, 'open 1')).toEqual([]);
  await saveEvaluatedTasks(query, 'unknown', ['t1']);
  expect(await readEvaluatedTasks(query, 'unknown')).toEqual([]);
});
