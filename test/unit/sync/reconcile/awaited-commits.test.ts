import { expect, it } from 'vitest';
import type { DeliverySource } from '../../../../src/model/delivery.ts';
import type { Item, PullRequest } from '../../../../src/model/item.ts';
import { lacksCommits } from '../../../../src/sync/reconcile/awaited-commits.ts';

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
  ['a new one', 'poll', undefined, bare, true],
  ['a new head', 'poll', read, pushed, true],
  ['a new head, told by a webhook', 'webhook', read, pushed, true],
  ['an edit of something else', 'webhook', read, { ...read, title: 'Other' }, false],
  ['the same page again', 'poll', read, read, false],
  ['a backfill of one that was never read', 'backfill', bare, bare, true],
  ['a backfill of one that was', 'backfill', read, read, false],
  ['a merge that a webhook tells', 'webhook', bare, { ...bare, state: 'merged' }, true],
  ['a merge of one that was read', 'webhook', read, { ...read, state: 'merged' }, false],
  ['the past, in a list', 'backfill', undefined, { ...bare, state: 'merged' }, false],
  ['what was fetched without them', 'fetch', read, { ...bare, headSha: 'b' }, false],
  ['one that is gone', 'poll', read, { ...pushed, gone: true }, false],
  ['a head whose commits were read', 'webhook', ofHead('a', 'b'), ofHead('a'), false],
  ['a head whose commits are being read', 'webhook', ofHead('a', 'b'), ofHead('a', 'b'), false],
  ['another head than the one that was read', 'webhook', ofHead('a'), ofHead('a', 'b'), true],
  ['an issue', 'webhook', undefined, issue, false],
])('%s by %s', (_, source, before, now, expected) => {
  expect(lacksCommits(before, now, source)).toBe(expected);
});

it('what was fetched asks anew where it brought the commits of a head that is not the newest any more', () => {
  const asks = (said: PullRequest, now: PullRequest) => lacksCommits(undefined, now, 'fetch', said);
  expect(asks(ofHead('a'), ofHead('a', 'b'))).toBe(true);
  expect(asks(ofHead('b', 'b'), ofHead('b', 'b'))).toBe(false);
  // They cannot be read, or were known.
  expect(asks({ ...bare, headSha: 'b' }, ofHead('a', 'b'))).toBe(false);
});
