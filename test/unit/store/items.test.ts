import { describe, expect, it, test } from 'vitest';
import {
  forgetTasks,
  highestTaskKeys,
  saveTask,
  taskIdPrefixes,
  tasksByKeys,
} from '../../../src/store/cached-tasks.ts';
import {
  blankEntity,
  findEntity,
  forgetEntity,
  linksOfItem,
  linksOfTask,
  saveEntity,
} from '../../../src/store/entities.ts';
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
import { type Scope, scopeOf } from '../../../src/store/workspace-scope.ts';
import { openTestStore } from '../../support/harness/intake.ts';
import { itemRow } from '../../support/rows/items.ts';
import { allTaskKeys } from '../../support/rows/task-keys.ts';

const many = (count: number) => Array.from({ length: count }, (_, index) => index + 1);

describe('an item', () => {
  const row = (key: string, time = 1) => {
    const fields = JSON.stringify({ item: { key, updatedAt: time }, older: { title: { updatedAt: 0 } } });
    return itemRow(key, {
      kind: 'pull_request',
      connection: 'c',
      provider_time: time,
      hash: `h${time}`,
      seen_at: 3,
      fields,
    });
  };

  it('overwrites its previous state', async () => {
    const { query } = await openTestStore();
    await saveItem(query, row('a'), 7);
    await saveItem(query, row('a', 2), 9);
    expect(await findItem(query, 'a')).toMatchObject({ ...row('a', 2), standing: null, deliveries: '[7,9]' });
    expect(readFields(row('a', 2))).toEqual({ item: { key: 'a', updatedAt: 2 }, older: { title: { updatedAt: 0 } } });
    expect(await findItem(query, 'b')).toBeUndefined();
  });

  it('stores the ids of the last twenty deliveries that changed it, each once', async () => {
    const { query } = await openTestStore();
    for (const delivery of [...many(25), 10]) await saveItem(query, row('a'), delivery);
    const last = many(25).filter((id) => id > 5 && id !== 10);
    expect(readDeliveries(await findItem(query, 'a'))).toEqual([...last, 10]);
  });

  it.each([
    ['pull_request', { repoName: 'acme/api', identifier: '12' }, 'acme/api#12', 'acme/api!12'],
    ['work_item', { containerName: 'acme/api', identifier: '#13' }, 'acme/api#13', 'acme/api!13'],
    ['work_item', { containerName: 'ENG', identifier: 'ENG-14' }, 'ENG-14', 'ENG-14'],
  ] as const)('is found by display name and by address: %s %j', async (kind, names, called, spelt) => {
    const { query } = await openTestStore();
    const url = 'https://forge.example/a/1';
    const fields = (item: object) => JSON.stringify({ item, older: {} });
    await saveItem(query, { ...row('a'), kind, fields: fields({ ...names, url }) }, 1);
    await saveItem(query, { ...row('b'), kind, fields: fields({ identifier: 'other', url: `${url}2` }) }, 1);
    for (const name of [called, spelt]) expect(await itemsByDisplayName(query, name)).toEqual(['a']);
    expect(await itemsAtUrl(query, url)).toEqual(['a']);
    expect(await itemsByDisplayName(query, 'unknown')).toEqual([]);
  });

  it('has a name with the sign that its vendor writes before the number', async () => {
    const { query } = await openTestStore();
    const item = { repoName: 'acme/api', identifier: '12', numberSign: '!' };
    await saveItem(query, { ...row('a'), fields: JSON.stringify({ item, older: {} }), number_sign: '!' }, 1);
    expect(await itemName(query, 'a')).toBe('acme/api!12');
    expect(await itemLabels(query, ['a'])).toMatchObject([{ name: 'acme/api!12' }]);
    for (const prefix of ['acme/', 'acme/api!1', 'acme/api#'])
      expect(await namesWithPrefix(query, prefix, 9)).toEqual(['acme/api!12']);
    for (const other of ['acme/b', 'a/']) expect(await namesWithPrefix(query, other, 9)).toEqual([]);
  });

  it('has a version, which is read for any number of keys', async () => {
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

  it('keeps its evaluated tasks when it changes', async () => {
    const { query } = await openTestStore();
    await saveItem(query, row('a'), 1);
    await saveEvaluatedTasks(query, 'a', ['t1', 't2']);
    await saveItem(query, row('a', 2), 2);
    expect(await readEvaluatedTasks(query, 'a')).toEqual(['t1', 't2']);
    await saveEvaluatedTasks(query, 'a', []);
    await saveEvaluatedTasks(query, 'unknown', ['t1']);
    expect([await readEvaluatedTasks(query, 'a'), await readEvaluatedTasks(query, 'unknown')]).toEqual([[], []]);
  });
});

test('lists open or finished items in the order of their keys, without those that are gone', async () => {
  const { query } = await openTestStore();
  for (const [key, finished, gone] of [
    ['open 2', 0, 0],
    ['open 1', 0, 0],
    ['open 3, gone', 0, 1],
    ['over 1', 1, 0],
    ['over 2, gone', 1, 1],
  ] as const)
    await saveItem(query, itemRow(key, { finished, gone }), 1);
  expect(await openItemsAfter(query, '', 10)).toEqual(['open 1', 'open 2']);
  expect(await openItemsAfter(query, '', 1)).toEqual(['open 1']);
  expect(await openItemsAfter(query, 'open 1', 10)).toEqual(['open 2']);
  expect(await itemsAfter(query, '', { finished: false, most: 10 })).toEqual(['open 1', 'open 2']);
  expect(await itemsAfter(query, '', { finished: true, most: 10 })).toEqual(['over 1']);
  expect(await itemsAfter(query, 'open 1', { finished: false, most: 10 })).toEqual(['open 2']);
});

describe('the name of an item', () => {
  const item = (key: string) => itemRow(key, { connection: `of ${key}` });
  const plain = (...names: readonly string[]) => names.map((name) => ({ name, place: null, container: null }));
  const save = (query: Scope, key: string, names: readonly PlacedName[], now = 1, former: readonly string[] = []) =>
    saveItemNames(query, key, { names, former, now });

  it('stays a former name until another item takes it', async () => {
    const { query } = await openTestStore();
    for (const key of ['a', 'b']) await saveItem(query, item(key), 1);
    const named = async (name: string) =>
      (await itemsNamed(query, [name])).map(({ itemKey, isFormer }) => `${itemKey}${isFormer ? ' formerly' : ''}`);
    expect(await save(query, 'a', [])).toMatchObject({ isRenamed: false });
    expect(await save(query, 'a', plain('ENG-1', 'url'))).toMatchObject({ isRenamed: true });
    expect(await save(query, 'a', plain('url', 'ENG-1'))).toMatchObject({ isRenamed: false });
    const all = ['OPS-7', 'url', 'ENG-1'];
    expect(await save(query, 'a', plain('OPS-7', 'url'), 2)).toEqual({ all, isRenamed: true, isTaken: false });
    expect([await named('ENG-1'), await named('OPS-7')]).toEqual([['a formerly'], ['a']]);
    expect(await save(query, 'b', plain('ENG-1'), 3)).toMatchObject({ isRenamed: true, isTaken: true });
    expect(await named('ENG-1')).toEqual(['b']);
    expect(await save(query, 'a', plain('url', 'OPS-7'), 4, ['ENG-1', 'OLD-2'])).toMatchObject({ isRenamed: true });
    expect([await named('ENG-1'), await named('OLD-2')]).toEqual([['b'], ['a formerly']]);
  });

  it('is one of at most 16 former names', async () => {
    const { query } = await openTestStore();
    await saveItem(query, item('a'), 1);
    for (let time = 1; time <= 20; time++) await save(query, 'a', plain(`ENG-${time}`), time);
    const rows = await query.selectFrom('item_names').select(['name', 'former_at']).orderBy('former_at').execute();
    const former = rows.filter(({ former_at }) => former_at !== null).map(({ name }) => name);
    expect(former).toEqual(many(16).map((at) => `ENG-${at + 3}`));
  });

  it('ends when a new repository takes its place, also for items not known to be renamed', async () => {
    const { query } = await openTestStore();
    for (const key of ['renamed', 'unseen']) await saveItem(query, item(key), 1);
    const [OLD, NEW] = ['github:github.com:acme/web', 'github:github.com:acme/site'];
    const placed = (name: string, place: string) => [{ name, place, container: '1' }];
    expect(await assignPlace(query, OLD, { container: '1', at: 10 })).toEqual([]);
    await save(query, 'renamed', placed('web#1', OLD));
    await save(query, 'unseen', placed('web#2', OLD));
    await save(query, 'renamed', placed('site#1', NEW), 2);
    await saveItem(query, item('new'), 1);
    await save(query, 'new', [{ name: 'web#3', place: OLD, container: '2' }]);
    const named = async () => (await itemsNamed(query, ['web#1', 'web#2', 'site#1'])).map(({ name }) => name);
    expect(await named()).toEqual(['web#1', 'site#1', 'web#2']);
    // A state from before does not take the name back.
    expect(await assignPlace(query, OLD, { container: '2', at: 9 })).toEqual([]);
    expect((await assignPlace(query, OLD, { container: '2', at: 20 })).toSorted()).toEqual(['web#1', 'web#2']);
    expect(await assignPlace(query, OLD, { container: '1', at: 15 })).toEqual([]);
    expect(await named()).toEqual(['site#1']);
  });

  it('finds the stored items with their connections, in the order of their keys', async () => {
    const { query } = await openTestStore();
    for (const key of ['c', 'a', 'b']) {
      await saveItem(query, item(key), 1);
      await save(query, key, plain('one', `only ${key}`));
    }
    await save(query, 'forgotten', plain('one'));
    const found = await itemsNamed(query, ['one', 'only c']);
    const texts = found.map(({ name, itemKey, connection }) => `${itemKey} ${name} ${connection}`);
    expect(texts).toEqual(['a one of a', 'b one of b', 'c one of c', 'c only c of c']);
  });
});

describe('mentions', () => {
  const mention = (name: string, rule = 'task-key') => ({ name, reason: { rule } });

  it('keep the delivery that brought them until their reason changes', async () => {
    const { query } = await openTestStore();
    const first = await saveMentions(query, 'a', [mention('BUG-1'), mention('BUG-2')], 7);
    expect(first.added).toEqual(new Set(['BUG-1', 'BUG-2']));
    const next = [mention('BUG-1'), mention('BUG-2', 'trailer'), mention('BUG-3')];
    const { reasons, added } = await saveMentions(query, 'a', next, 8);
    expect(added).toEqual(new Set(['BUG-3']));
    const kept = new Map([
      ['BUG-1', { rule: 'task-key', delivery: 7 }],
      ['BUG-2', { rule: 'trailer', delivery: 8 }],
      ['BUG-3', { rule: 'task-key', delivery: 8 }],
    ]);
    expect([reasons, await readMentions(query, 'a')]).toEqual([kept, kept]);
    await saveMentions(query, 'a', [mention('BUG-2')], undefined);
    expect(await readMentions(query, 'a')).toEqual(new Map([['BUG-2', { rule: 'task-key' }]]));
  });

  it.each<[what: string, others: string[], wanted: readonly ReturnType<typeof mention>[]]>([
    ['the same', [], [mention('BUG-1'), mention('BUG-2')]],
    ['the same in another order', [], [mention('BUG-2'), mention('BUG-1')]],
    ['one less', ['a'], [mention('BUG-1')]],
    ['one more', ['a'], [mention('BUG-1'), mention('BUG-2'), mention('BUG-3')]],
    ['another one', ['a'], [mention('BUG-1'), mention('BUG-3')]],
    ['one for another reason', ['a'], [mention('BUG-1'), mention('BUG-2', 'trailer')]],
  ])('of an item differ from wanted ones: %s: %j', async (_what, others, wanted) => {
    const { query } = await openTestStore();
    await saveMentions(query, 'a', [mention('BUG-1')], 7);
    await saveMentions(query, 'a', [mention('BUG-1'), mention('BUG-2')], undefined);
    await saveMentions(query, 'b', [], 7);
    expect(await itemsMentioningOther(query, new Map(Object.entries({ a: wanted, b: [] })))).toEqual(others);
  });

  it('are replaced, and lead to each item once, for any number of names', async () => {
    const { query } = await openTestStore();
    await saveMentions(query, 'a', [mention('BUG-1'), mention('BUG-1100')], undefined);
    await saveMentions(query, 'b', [mention('BUG-1100')], undefined);
    const names = many(1_200).map((index) => `BUG-${index}`);
    expect((await itemsNaming(query, names)).toSorted()).toEqual(['a', 'b']);
    await saveMentions(query, 'a', [mention('BUG-3')], undefined);
    const naming = await Promise.all([['BUG-1'], ['BUG-3'], []].map((each) => itemsNaming(query, each)));
    expect(naming).toEqual([[], ['a'], []]);
  });
});

describe('cached tasks', () => {
  const task = (number: number, key = `BUG-${number}`) => ({
    ...{ taskId: `t${number}`, key, title: 'A door', status: 'open', source: 'api', updatedAt: '2026-01-05T08:00:00Z' },
  });

  it('are found by their keys, in the state that was saved last', async () => {
    const { query } = await openTestStore();
    await saveTask(query, task(1), 10);
    await saveTask(query, task(2), 10);
    await saveTask(query, task(2, 'BUG-7'), 20);
    const found = await tasksByKeys(query, ['BUG-1', 'BUG-2', 'BUG-7']);
    expect(Object.fromEntries(found)).toEqual({ 'BUG-1': task(1), 'BUG-7': task(2, 'BUG-7') });
    expect(await tasksByKeys(query, [])).toEqual(new Map());
  });

  it('are deleted unless they were read later', async () => {
    const { query } = await openTestStore();
    await saveTask(query, task(1), 10);
    await saveTask(query, task(2), 30);
    expect(await forgetTasks(query, ['t1', 't2', 't3'], 20)).toEqual(['BUG-1']);
    expect([...(await allTaskKeys(query)).keys()]).toEqual(['t2']);
  });

  it.each<[ids: string[], prefixes: string[]]>([
    [[], ['tsk_']],
    [['tsk_1', 'tsk_9_x', 'tsk_B'], ['tsk_']],
    [
      ['0f1e', 'bug_1', 'ini_1', 'ini_2', 'x_1', 'zz9_4'],
      ['bug_', 'ini_', 'zz9_'],
    ],
    [many(20).map((at) => `0f${at}`), []],
  ])('with the ids %j have the id prefixes %j', async (ids, prefixes) => {
    const { query } = await openTestStore();
    for (const taskId of ids) await saveTask(query, { ...task(1), taskId, key: taskId }, 10);
    expect(await taskIdPrefixes(query)).toEqual(prefixes);
  });

  it('have a highest key of each prefix', async () => {
    const { query, database } = await openTestStore();
    expect(await highestTaskKeys(query)).toEqual([]);
    for (const key of ['BUG-9', 'BUG-10', 'IDEA-2', 'A-1-3', 'bare', 'A-1-20', 'X9-7', 'tsk_9', 'tsk_a'])
      await saveTask(query, { ...task(1), taskId: key, key }, 10);
    await saveTask(scopeOf(database, query.workspace + 1), task(99), 10);
    expect((await highestTaskKeys(query)).sort()).toEqual(['A-1-20', 'BUG-10', 'IDEA-2', 'X9-7']);
  });
});

describe('an entity', () => {
  it('is saved, overwritten, found and forgotten', async () => {
    const { query } = await openTestStore();
    const row = blankEntity('link:i>t', 'link', { item_key: 'i', task_id: 't' });
    await saveEntity(query, { ...row, desired: '{"url":"u"}', remote_id: 'r' });
    await saveEntity(query, { ...row, known: '{}', known_at: 5, hand: 'manual' });
    expect(await findEntity(query, 'link:i>t')).toMatchObject({ ...row, known: '{}', known_at: 5, hand: 'manual' });
    await forgetEntity(query, 'link:i>t');
    expect(await findEntity(query, 'link:i>t')).toBeUndefined();
  });

  it('is found by item and by task if it is a link', async () => {
    const { query } = await openTestStore();
    const save = (entity: string, kind: 'link' | 'pull_request', item: string, task: string | null) =>
      saveEntity(query, blankEntity(entity, kind, { item_key: item, task_id: task }));
    for (const [item, task] of ['a1', 'a2', 'b1'] as const) await save(`link:${item}>${task}`, 'link', item!, task!);
    await save('pull_request:a', 'pull_request', 'a', null);
    expect((await linksOfItem(query, 'a')).map(({ entity }) => entity).sort()).toEqual(['link:a>1', 'link:a>2']);
    expect((await linksOfTask(query, '1')).map(({ entity }) => entity).sort()).toEqual(['link:a>1', 'link:b>1']);
  });
});
