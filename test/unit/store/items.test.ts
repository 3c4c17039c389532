import { describe, expect, it } from 'vitest';
import {
  assignPlace,
  itemsMentioningOther,
  itemsNamed,
  type PlacedName,
  readMentions,
  saveItemNames,
  saveMentions,
} from '../../../src/store/items/item-names.ts';
import { itemsAtUrl, itemsByDisplayName, saveItem } from '../../../src/store/items/items.ts';
import { highestTaskKeys, saveTask } from '../../../src/store/tasks/stored-tasks.ts';
import { type Scope, scopeOf } from '../../../src/store/workspace-scope.ts';
import { openTestStore } from '../../support/harness/intake.ts';
import { itemRow } from '../../support/rows/items.ts';

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

  it.each([
    ['pull_request', { repoName: 'acme/api', identifier: '12' }, 'acme/api#12', 'acme/api!12'],
    ['work_item', { containerName: 'acme/api', identifier: '#13' }, 'acme/api#13', 'acme/api!13'],
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
    ['the same in another order', [], [mention('BUG-2'), mention('BUG-1')]],
    ['one less', ['a'], [mention('BUG-1')]],
    ['one for another reason', ['a'], [mention('BUG-1'), mention('BUG-2', 'trailer')]],
  ])('of an item differ from wanted ones: %s: %j', async (_what, others, wanted) => {
    const { query } = await openTestStore();
    await saveMentions(query, 'a', [mention('BUG-1')], 7);
    await saveMentions(query, 'a', [mention('BUG-1'), mention('BUG-2')], undefined);
    await saveMentions(query, 'b', [], 7);
    expect(await itemsMentioningOther(query, new Map(Object.entries({ a: wanted, b: [] })))).toEqual(others);
  });
});

describe('cached tasks', () => {
  const task = (number: number, key = `BUG-${number}`) => ({
    ...{ taskId: `t${number}`, key, title: 'A door', status: 'open', source: 'api', updatedAt: '2026-01-05T08:00:00Z' },
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
