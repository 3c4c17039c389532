import { describe, expect, it, test } from 'vitest';
import {
  assignPlace,
  itemsMentioningOther,
  itemsNamed,
  itemsNaming,
  type PlacedName,
  readMentions,
  saveItemNames,
  saveMentions,
} from '../../../src/store/item-names.ts';
import { saveItem } from '../../../src/store/items.ts';
import type { Scope } from '../../../src/store/workspace-scope.ts';
import { openTestStore } from '../../support/harness/intake.ts';
import { itemRow } from '../../support/rows/items.ts';

const item = (key: string) => itemRow(key, { connection: `of ${key}` });

const plain = (names: readonly string[]) => names.map((name) => ({ name, place: null, container: null }));
const inPlace = (names: readonly string[], place: string, container: string) =>
  names.map((name) => ({ name, place, container }));
const save = (query: Scope, key: string, names: readonly PlacedName[], now = 1, former: readonly string[] = []) =>
  saveItemNames(query, key, { names, former, now });

test('a lost name stays a former name until another item takes it', async () => {
  const { query } = await openTestStore();
  for (const key of ['a', 'b']) await saveItem(query, item(key), 1);
  const named = async (name: string) =>
    (await itemsNamed(query, [name])).map(({ itemKey, isFormer }) => `${itemKey}${isFormer ? ' formerly' : ''}`);
  expect(await save(query, 'a', [])).toMatchObject({ isRenamed: false });
  expect(await save(query, 'a', plain(['ENG-1', 'url']))).toMatchObject({ isRenamed: true });
  expect(await save(query, 'a', plain(['url', 'ENG-1']))).toMatchObject({ isRenamed: false });
  expect(await save(query, 'a', plain(['OPS-7', 'url']), 2)).toEqual({
    all: ['OPS-7', 'url', 'ENG-1'],
    isRenamed: true,
    isTaken: false,
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

test('a new repository under an old name takes all its names, including those of items not known to be renamed', async () => {
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

test('finds the stored items of a name with their connections, in the order of their keys', async () => {
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

const mention = (name: string, rule = 'task-key') => ({ name, reason: { rule } });

test('a mention keeps the delivery that brought it until its reason changes', async () => {
  const { query } = await openTestStore();
  const save = (mentions: readonly ReturnType<typeof mention>[], delivery?: number) =>
    saveMentions(query, 'a', mentions, delivery);
  expect((await save([mention('BUG-1'), mention('BUG-2')], 7)).added).toEqual(new Set(['BUG-1', 'BUG-2']));
  const { reasons, added } = await save([mention('BUG-1'), mention('BUG-2', 'trailer'), mention('BUG-3')], 8);
  expect(added).toEqual(new Set(['BUG-3']));
  const kept = new Map([
    ['BUG-1', { rule: 'task-key', delivery: 7 }],
    ['BUG-2', { rule: 'trailer', delivery: 8 }],
    ['BUG-3', { rule: 'task-key', delivery: 8 }],
  ]);
  expect(reasons).toEqual(kept);
  expect(await readMentions(query, 'a')).toEqual(kept);
  await save([mention('BUG-2')]);
  expect(await readMentions(query, 'a')).toEqual(new Map([['BUG-2', { rule: 'task-key' }]]));
});

test.each<[what: string, others: string[], wanted: readonly ReturnType<typeof mention>[]]>([
  ['the same', [], [mention('BUG-1'), mention('BUG-2')]],
  ['the same in another order', [], [mention('BUG-2'), mention('BUG-1')]],
  ['one less', ['a'], [mention('BUG-1')]],
  ['one more', ['a'], [mention('BUG-1'), mention('BUG-2'), mention('BUG-3')]],
  ['another one', ['a'], [mention('BUG-1'), mention('BUG-3')]],
  ['one for another reason', ['a'], [mention('BUG-1'), mention('BUG-2', 'trailer')]],
])(
  'finds items whose stored mentions differ, whatever delivery brought them: %s: %j',
  async (_what, others, wanted) => {
    const { query } = await openTestStore();
    await saveMentions(query, 'a', [mention('BUG-1')], 7);
    await saveMentions(query, 'a', [mention('BUG-1'), mention('BUG-2')], undefined);
    await saveMentions(query, 'b', [], 7);
    const mentions = new Map([
      ['a', wanted],
      ['b', []],
    ] as const);
    expect(await itemsMentioningOther(query, mentions)).toEqual(others);
  },
);

describe('mentions', () => {
  it('are replaced, and lead to their items', async () => {
    const { query } = await openTestStore();
    await saveMentions(query, 'a', [mention('BUG-1'), mention('BUG-2')], undefined);
    await saveMentions(query, 'b', [mention('BUG-2')], undefined);
    expect((await itemsNaming(query, ['BUG-1', 'BUG-2'])).toSorted()).toEqual(['a', 'b']);
    await saveMentions(query, 'a', [mention('BUG-3')], undefined);
    expect(await itemsNaming(query, ['BUG-1'])).toEqual([]);
    expect(await itemsNaming(query, ['BUG-3'])).toEqual(['a']);
    await saveMentions(query, 'a', [], undefined);
    expect(await itemsNaming(query, ['BUG-3'])).toEqual([]);
    expect(await itemsNaming(query, [])).toEqual([]);
  });

  it('lead to each item once, for any number of names', async () => {
    const { query } = await openTestStore();
    await saveMentions(query, 'a', [mention('BUG-1'), mention('BUG-1100')], undefined);
    expect(
      await itemsNaming(
        query,
        Array.from({ length: 1_200 }, (_, index) => `BUG-${index + 1}`),
      ),
    ).toEqual(['a']);
  });
});
