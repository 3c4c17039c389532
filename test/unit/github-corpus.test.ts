import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { describe, expect, it } from 'vitest';
import { github } from '../../src/connectors/github/index.ts';
import { slim } from '../../src/connectors/github/schema.ts';
import type { PullRequest } from '../../src/model/item.ts';

/** The payloads of `@octokit/webhooks-examples`: what GitHub and five versions of its server really sent. */
const require = createRequire(import.meta.url);
const root = require.resolve('@octokit/webhooks-examples/package.json');
const SERVERS = ['api.github.com', 'ghes-31', 'ghes-32', 'ghes-33', 'ghes-34', 'ghes-35'];

type Json = Readonly<Record<string, unknown>>;
interface Group {
  readonly name: string;
  readonly examples: readonly Json[];
}

const groups = SERVERS.flatMap((server) => {
  const text = readFileSync(root.replace('package.json', `${server}/index.json`), 'utf8');
  return (JSON.parse(text) as Group[]).map((group) => ({ ...group, server }));
});
const names = groups.flatMap(({ examples }) => examples.map((example) => at(example, 'repository.full_name')));
const repositories = [...new Set(names)].filter(
  (name): name is string => typeof name === 'string' && name.includes('/'),
);
const options = github.options.parse({ repositories: [...repositories, 'hellomouse/GNS'] });

/** What stands where, independent of the connector's own schema. */
const PATHS = {
  identifier: 'pull_request.number',
  repoId: 'pull_request.base.repo.id',
  title: 'pull_request.title',
  description: 'pull_request.body',
  headBranch: 'pull_request.head.ref',
  headSha: 'pull_request.head.sha',
  baseBranch: 'pull_request.base.ref',
  url: 'pull_request.html_url',
  author: 'pull_request.user.login',
  createdAt: 'pull_request.created_at',
  mergedAt: 'pull_request.merged_at',
  draft: 'pull_request.draft',
} as const satisfies Partial<Record<keyof PullRequest, string>>;
const NUMBERS = new Set(['identifier', 'repoId']);

function at(payload: unknown, path: string): unknown {
  return path
    .split('.')
    .reduce<unknown>((value, key) => (value as Record<string, unknown> | undefined)?.[key], payload);
}

/** A field that the payload lacks is absent. */
function expectedFields(payload: Json): Record<string, unknown> {
  const fields = Object.entries(PATHS).map(([field, path]) => {
    const value = at(payload, path);
    return [field, NUMBERS.has(field) ? String(value) : value] as const;
  });
  return Object.fromEntries(fields.filter(([, value]) => value !== undefined));
}

function pick(item: PullRequest): Record<string, unknown> {
  return Object.fromEntries(Object.entries(item).filter(([field]) => field in PATHS));
}

function expectedState(payload: Json): string {
  if (at(payload, 'pull_request.state') === 'open') return 'open';
  return at(payload, 'pull_request.merged_at') === null ? 'closed' : 'merged';
}

const translate = (event: string, example: unknown) =>
  github.translate({ source: 'webhook', event, body: Buffer.from(JSON.stringify(example)) }, options);

describe('every payload that carries a pull request becomes exactly that', () => {
  const carriers = groups.filter(({ name }) => /^pull_request(_review|_review_comment|_review_thread)?$/.test(name));

  it('finds them in the corpus', () => {
    const count = (name: string) =>
      carriers.filter((group) => group.name === name).reduce((sum, { examples }) => sum + examples.length, 0);
    expect(count('pull_request')).toBe(29 + 1 + 1 + 1 + 7 + 7);
    expect(count('pull_request_review')).toBe(4 + 1 + 1 + 1 + 2 + 2);
    expect(count('pull_request_review_comment')).toBe(5 + 1 + 1 + 1 + 2 + 2);
    expect(count('pull_request_review_thread')).toBe(3 + 1 + 1 + 1 + 1 + 1);
  });

  it.each(carriers)('$server $name', ({ name, examples }) => {
    for (const example of examples) {
      const translation = translate(name, example);
      if (translation.outcome !== 'items') throw new Error(`${translation.outcome}: ${JSON.stringify(example)}`);
      expect(translation.items).toHaveLength(1);
      expect(translation.references).toBeUndefined();
      const item = translation.items[0] as PullRequest;
      expect(pick(item)).toEqual(expectedFields(example));
      expect(item.state).toBe(expectedState(example));
      expect(item.updatedAt).toBe(Date.parse(String(at(example, 'pull_request.updated_at'))));
    }
  });

  it('reads the same from a pull request that was slimmed', () => {
    for (const { examples } of carriers)
      for (const example of examples) {
        const ofFetch = (pull: unknown) =>
          github.translate({ source: 'fetch', event: 'pulls.get', body: Buffer.from(JSON.stringify(pull)) }, options);
        const pull = at(example, 'pull_request');
        expect(ofFetch(slim(pull))).toEqual(ofFetch(pull));
        expect(JSON.stringify(slim(pull)).length).toBeLessThan(JSON.stringify(pull).length / 10);
        expect(slim(slim(pull))).toEqual(slim(pull));
      }
  });
});

describe('every other payload is ignored with a reason, or refers to a pull request', () => {
  const others = groups.filter(({ name }) => !name.startsWith('pull_request'));

  it.each(others)('$server $name', ({ name, examples }) => {
    for (const example of examples) {
      const translation = translate(name, example);
      if (translation.outcome !== 'ignored') throw new Error(`${translation.outcome}: ${JSON.stringify(example)}`);
      expect(translation.reason).toBe(name === 'issue_comment' ? 'not_a_pull_request' : 'event_not_followed');
    }
  });

  it('refers to the pull request of a conversation', () => {
    const comments = groups.filter(({ name }) => name === 'issue_comment').flatMap(({ examples }) => examples);
    expect(comments.length).toBeGreaterThan(0);
    for (const comment of comments) {
      const ofPull = { ...comment, issue: { ...(at(comment, 'issue') as object), pull_request: { url: 'unused' } } };
      const repoId = String(at(comment, 'repository.id'));
      const number = String(at(comment, 'issue.number'));
      expect(translate('issue_comment', ofPull)).toEqual({
        outcome: 'references',
        references: [
          {
            kind: 'pull_request',
            key: `github:github.com:${repoId}:pull:${number}`,
            locator: { repoId, number, repository: at(comment, 'repository.full_name') },
          },
        ],
      });
    }
  });
});
