import { describe, expect, it } from 'vitest';
import { bitbucket } from '../../../src/connectors/bitbucket/index.ts';
import type { Connector } from '../../../src/connectors/connector.ts';
import { github } from '../../../src/connectors/github/index.ts';
import { gitlab } from '../../../src/connectors/gitlab/index.ts';
import { messageText, withCommits } from '../../../src/connectors/kit/commits.ts';
import type { PullRequest } from '../../../src/model/item.ts';
import { keepApart } from '../../../src/platform/lib/json-apart.ts';
import { fixture } from '../../support/vendors/model-providers/provider.ts';

async function fetchedMessages(texts: readonly unknown[]): Promise<unknown> {
  const list = {
    async *pages() {
      yield texts;
    },
    messageOf: messageText,
    order: 'newest first',
  } as const;
  const pull = await withCommits({}, undefined, { commits: true }, list);
  return (pull as { commit_messages?: unknown }).commit_messages;
}

describe('withCommits', () => {
  it('keeps the newest messages that fit, each of them whole', async () => {
    const [large, half] = ['l'.repeat(65_537), 'h'.repeat(40_000)];
    expect(await fetchedMessages(['newest', large, half, half, 'oldest'])).toEqual(['newest', half, 'oldest']);
  });

  it('keeps the same messages of a page that a worker parsed', async () => {
    const texts = ['short', 'ü"\\\u0001'.repeat(2_000), 'l'.repeat(65_536), 'm'.repeat(1_000_000), 'last'];
    const apart = keepApart(texts, true) as unknown[];
    expect(apart.some((text) => text instanceof Uint8Array)).toBe(true);
    expect(await fetchedMessages(apart)).toEqual(await fetchedMessages(texts));
  });
});

type Any = Connector<unknown>;

describe.each([
  ['github', github as Any, 'pulls.get', 'pulls.list'],
  ['gitlab', gitlab as Any, 'merge_requests.get', 'merge_requests.list'],
  ['bitbucket', bitbucket as Any, 'pullrequests.get', 'pullrequests.list'],
])('a fetched pull request of %s', (folder, connector, one, list) => {
  const whole = fixture(folder, one);
  const translated = (source: 'fetch' | 'poll', event: string, content: unknown) =>
    connector.translate({ source, event, body: Buffer.from(JSON.stringify(content)) }, connector.unrestricted!());
  const item = (translation: ReturnType<typeof translated>) =>
    translation.outcome === 'items' ? translation.items[0] : undefined;

  it.each([
    ['unchanged', ['Fix\n\nTask: BUG-1', 'Begin', 'Begin'], ['Fix\n\nTask: BUG-1', 'Begin', 'Begin']],
    ['of an empty list', [], []],
    ['not, if one is no text', ['Fix', 7], undefined],
    ['not, if they are no list', 'Fix', undefined],
  ])('reads messages %s', (_, commit_messages, expected) => {
    const found = item(translated('fetch', one, { ...whole, commit_messages }));
    const plain = item(translated('fetch', one, whole)) as PullRequest;
    const read = expected && { commitMessages: expected, commitsSha: plain.headSha };
    expect(found).toEqual({ ...plain, ...read });
  });

  it('has no messages if none were read', () => {
    expect(item(translated('fetch', one, whole))).not.toHaveProperty('commitMessages');
    const page =
      folder === 'bitbucket'
        ? { values: [{ ...whole, commit_messages: ['x'] }] }
        : [{ ...whole, commit_messages: ['x'] }];
    expect(item(translated('poll', list, page))).not.toHaveProperty('commitMessages');
  });
});
