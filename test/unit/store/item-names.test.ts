import { expect, test } from 'vitest';
import { itemsNamed, saveItemNames } from '../../../src/store/item-names.ts';
import { saveItem } from '../../../src/store/items.ts';
import { openTestStore } from '../../support/intake.ts';
import { itemRow } from '../../support/items.ts';

const item = (key: string) => itemRow(key, { connection: `of ${key}` });

test('names are replaced, and whether they became others is told', async () => {
  const { query } = await openTestStore();
  const names = async () =>
    (await query.selectFrom('item_names').select('name').orderBy('name').execute()).map(({ name }) => name);
  expect(await saveItemNames(query, 'a', [])).toBe(false);
  expect(await saveItemNames(query, 'a', ['one', 'two'])).toBe(true);
  expect(await saveItemNames(query, 'a', ['two', 'one'])).toBe(false);
  expect(await saveItemNames(query, 'a', ['two'])).toBe(true);
  expect(await names()).toEqual(['two']);
  expect(await saveItemNames(query, 'a', ['three'])).toBe(true);
  expect(await names()).toEqual(['three']);
});

test('the items of a name come in the order of their keys, with their connections, where they are there', async () => {
  const { query } = await openTestStore();
  for (const key of ['c', 'a', 'b']) {
    await saveItem(query, item(key), 1);
    await saveItemNames(query, key, ['one', `only ${key}`]);
  }
  await saveItemNames(query, 'forgotten', ['one']);
  const found = await itemsNamed(query, ['one', 'only c']);
  expect(found.map(({ name, itemKey, connection }) => `${itemKey} ${name} ${connection}`)).toEqual([
    'a one of a',
    'b one of b',
    'c one of c',
    'c only c of c',
  ]);
});
