import { expect, it } from 'vitest';
import type { DeliverySource } from '../../../../src/model/delivery.ts';
import type { Item, PullRequest } from '../../../../src/model/item.ts';
import { needsCommits } from '../../../../src/sync/reconcile/awaited-commits.ts';

const bare: PullRequest = {
  ...{ kind: 'pull_request', key: 'k', connector: 'github', host: 'github.com', repoId: '1', identifier: '1' },
  ...{ updatedAt: 1, state: 'open', headSha: 'a' },
};
const read: PullRequest = { ...bare, commitMessages: [] };
const pushed: PullRequest = { ...read, headSha: 'b' };
const issue: Item = {
  ...{ kind: 'work_item', key: 'k', connector: 'github', host: 'github.com', containerId: '1', identifier: '#1' },
  ...{ updatedAt: 1, state: 'open' },
};

const ofHead = (commitsSha: string, headSha = 'a'): PullRequest => ({ ...read, commitsSha, headSha });

it.each<[string, DeliverySource, Item | undefined, Item, boolean]>([
  ['a new pull request', 'poll', undefined, bare, true],
  ['a new head', 'poll', read, pushed, true],
  ['a new head by a webhook', 'webhook', read, pushed, true],
  ['an edit of another field', 'webhook', read, { ...read, title: 'Other' }, false],
  ['the same page again', 'poll', read, read, false],
  ['a backfill without known commits', 'backfill', bare, bare, true],
  ['a backfill with known commits', 'backfill', read, read, false],
  ['a merge by a webhook', 'webhook', bare, { ...bare, state: 'merged' }, true],
  ['a merge of one whose commits are known', 'webhook', read, { ...read, state: 'merged' }, false],
  ['an old one in a list', 'backfill', undefined, { ...bare, state: 'merged' }, false],
  ['a fetched object without commits', 'fetch', read, { ...bare, headSha: 'b' }, false],
  ['a gone pull request', 'poll', read, { ...pushed, gone: true }, false],
  ['a head whose commits are known', 'webhook', ofHead('a', 'b'), ofHead('a'), false],
  ['a head whose commits are being fetched', 'webhook', ofHead('a', 'b'), ofHead('a', 'b'), false],
  ['another head than the one with known commits', 'webhook', ofHead('a'), ofHead('a', 'b'), true],
  ['an issue', 'webhook', undefined, issue, false],
])('commits are fetched for %s (%s)', (_, source, before, current, expected) => {
  expect(needsCommits(before, current, source)).toBe(expected);
});

it('a fetched object causes another fetch if its commits are of an older head', () => {
  const needs = (received: PullRequest, current: PullRequest) => needsCommits(undefined, current, 'fetch', received);
  expect(needs(ofHead('a'), ofHead('a', 'b'))).toBe(true);
  expect(needs(ofHead('b', 'b'), ofHead('b', 'b'))).toBe(false);
  // The commits cannot be read, or were known.
  expect(needs({ ...bare, headSha: 'b' }, ofHead('a', 'b'))).toBe(false);
});
