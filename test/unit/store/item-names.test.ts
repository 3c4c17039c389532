import { expect, test } from 'vitest';
import { assignPlace, itemsNamed, type PlacedName, saveItemNames } from '../../../src/store/item-names.ts';
import { saveItem } from '../../../src/store/items.ts';
import type { Scope } from '../../../src/store/workspace-scope.ts';
import { openTestStore } from '../../support/intake.ts';
import { itemRow } from '../../support/items.ts';

const item = (key: string) => itemRow(key, { connection: `of ${key}` });

const plain = (names: readonly string[]) => names.map((name) => ({ name, place: null, container: null }));
const inPlace = (names: readonly string[], place: string, container: string) =>
  names.map((name) => ({ name, place, container }));
const save = (query: Scope, key: string, names: readonly PlacedName[], now = 1, former: readonly string[] = []) =>
  saveItemNames(query, key, { names, former, now });

test('a name that an item has lost stays a former name until another item takes it', async () => {
  const { query } = await openTestStore();
  for (const key of ['a', 'b']) await saveItem(query, item(key), 1);
  const named = async (name: string) =>
    (await itemsNamed(query, [name])).map(({ itemKey, isFormer }) => `${itemKey}${isFormer ? ' formerly' : ''}`);
  expect(await save(query, 'a', [])).toMatchObject({ isRenamed: false });
  expect(await save(query, 'a', plain(['ENG-1', 'url']))).toMatchObject({ isRenamed: true });
  expect(await save(query, 'a', plain(['url', 'ENG-1']))).toMatchObject({ isRenamed: false });
  expect(await save(query, 'a', plain(['OPS-7', 'url']), 2)).toEqual({
    ...{ all: ['OPS-7', 'url', 'ENG-1'], isRenamed: true, isTaken: false },
  });
  expect([await named('ENG-1'), await named('OPS-7')]).toEqual([['a formerly'], ['a']]);
  expect(await save(query, 'b', plain(['ENG-1']), 3)).toMatchObject({ isRenamed: true, isTaken: true });
  expect(await named('ENG-1')).toEqual(['b']);
  expect(await save(query, 'a', plain(['url', 'OPS-7']), 4, ['ENG-1', 'OLD-2'])).toMatchObject({ isRenamed: true });
  expect([await named('ENG-1'), await named('OLD-2')]).toEqual([['b'], ['a formerly']]);
});

test('an item keeps its last 16 former names', async () => {
  const { query } = await openTestStore();
  await saveItem(query, item('a'), 1);
  for (let time = 1; time <= 20; time++) await save(query, 'a', plain([`ENG-${time}`]), time);
  const rows = await query.selectFrom('item_names').select(['name', 'former_at']).orderBy('former_at').execute();
  const former = rows.filter(({ former_at }) => former_at !== null).map(({ name }) => name);
  expect(former).toEqual(Array.from({ length: 16 }, (_, at) => `ENG-${at + 4}`));
});

test('who makes a repository under an old name takes all its names, also those whose items nobody has seen renamed', async () => {
  const { query } = await openTestStore();
  for (const key of ['renamed', 'unseen']) await saveItem(query, item(key), 1);
  const OLD = 'github:github.com:acme/web';
  const NEW = 'github:github.com:acme/site';
  expect(await assignPlace(query, OLD, { container: '1', at: 10 })).toEqual([]);
  await save(query, 'renamed', inPlace(['web#1'], OLD, '1'));
  await save(query, 'unseen', inPlace(['web#2'], OLD, '1'));
  await save(query, 'renamed', inPlace(['site#1'], NEW, '1'), 2);
  const named = async () => (await itemsNamed(query, ['web#1', 'web#2', 'site#1'])).map(({ name }) => name);
  expect(await named()).toEqual(['web#1', 'site#1', 'web#2']);
  // A state from before does not take the name back.
  expect(await assignPlace(query, OLD, { container: '2', at: 9 })).toEqual([]);
  expect((await assignPlace(query, OLD, { container: '2', at: 20 })).toSorted()).toEqual(['web#1', 'web#2']);
  expect(await assignPlace(query, OLD, { container: '1', at: 15 })).toEqual([]);
  expect(await named()).toEqual(['site#1']);
});

test('the items of a name come in the order of their keys, with their connections, where they are there', async () => {
  const { query } = await openTestStore();
  for (const key of ['c', 'a', 'b']) {
    await saveItem(query, item(key), 1);
    await save(query, key, plain(['one', `only ${key}`]));
  }
  await save(query, 'forgotten', plain(['one']));
  const found = await itemsNamed(query, ['one', 'only c']);
  expect(found.map(({ name, itemKey, connection }) => `${itemKey} ${name} ${connection}`)).toEqual([
    'a one of a',
    'b one of b',
    'c one of c',
    'c only c of c',
  ]);
});
