import { expect, test } from 'vitest';
import { itemsMentioningOther, readMentions, saveMentions } from '../../../src/store/item-names.ts';
import { openTestStore } from '../../support/intake.ts';

const mention = (name: string, rule = 'task-key') => ({ name, reason: { rule } });

test('a mention keeps the delivery that brought it for as long as it stays as it is', async () => {
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
])('an item whose text would name %s, whatever delivery brought it: %j', async (_what, others, wanted) => {
  const { query } = await openTestStore();
  await saveMentions(query, 'a', [mention('BUG-1')], 7);
  await saveMentions(query, 'a', [mention('BUG-1'), mention('BUG-2')], undefined);
  await saveMentions(query, 'b', [], 7);
  const mentions = new Map([
    ['a', wanted],
    ['b', []],
  ] as const);
  expect(await itemsMentioningOther(query, mentions)).toEqual(others);
});
