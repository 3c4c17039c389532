import { expect, it } from 'vitest';
import { isFinished, pullRequestKey, workItemKey } from '../../../src/model/item.ts';
import { externalIdOf, isAutomatic } from '../../../src/model/link.ts';
import { bare, workItem } from '../../support/rows/items.ts';

it('keys of items are natural keys', () => {
  expect(pullRequestKey('github', 'github.com', '1296269', '1347')).toBe('github:github.com:1296269:pull:1347');
  expect(workItemKey('jira', 'a1b2', '10023')).toBe('jira:a1b2:issue:10023');
});

it.each([
  [undefined, false],
  ['open', false],
  ['closed', true],
  ['merged', true],
  ['declined', true],
] as const)('a pull request that is %s is finished: %s', (state, expected) => {
  expect(isFinished(bare(1, { state }))).toBe(expected);
});

it.each([
  [undefined, false],
  ['open', false],
  ['in_progress', false],
  ['done', true],
] as const)('a work item that is %s is finished: %s', (state, expected) => {
  expect(isFinished(workItem({ state }))).toBe(expected);
});

it('distinguishes links that worksync created from links of people', () => {
  expect(isAutomatic(externalIdOf('github:github.com:1:pull:2'))).toBe(true);
  for (const other of [null, undefined, '', 'jira:1', 'Worksync:1', ' worksync:1']) {
    expect(isAutomatic(other)).toBe(false);
  }
});
