import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { describe, expect, it } from 'vitest';
import { github } from '../../../../src/connectors/github/index.ts';
import { slim, slimIssue } from '../../../../src/connectors/github/schema.ts';
import type { PullRequest, WorkItem } from '../../../../src/model/item.ts';

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

describe('every payload that carries an issue becomes exactly that, where issues are followed', () => {
  const followed = github.options.parse({ repositories: [...repositories, 'hellomouse/GNS'], issues: true });
  const ofIssues = (event: string, example: unknown) =>
    github.translate({ source: 'webhook', event, body: Buffer.from(JSON.stringify(example)) }, followed);
  const carriers = groups.filter(({ name }) => name === 'issues' || name === 'issue_comment');

  it.each(carriers)('$server $name', ({ name, examples }) => {
    for (const example of examples) {
      const id = String(at(example, 'issue.id'));
      const repoId = String(at(example, 'repository.id'));
      const number = String(at(example, 'issue.number'));
      const key = `github:github.com:issue:${id}`;
      const translation = ofIssues(name, example);
      const left = name === 'issues' && /^(deleted|transferred)$/.test(String(at(example, 'action')));
      // One of the examples says nothing of the state: the API is asked.
      if (left || at(example, 'issue.state') === undefined) {
        const locator = { repoId, id, number, repository: at(example, 'repository.full_name') };
        const references = 'references' in translation ? (translation.references ?? []) : [];
        expect(references[0]).toEqual({ kind: 'work_item', key, locator });
        continue;
      }
      if (translation.outcome !== 'items') throw new Error(`${translation.outcome}: ${String(at(example, 'action'))}`);
      expect(translation.items).toHaveLength(1);
      expect(translation.references).toBeUndefined();
      const item = translation.items[0] as WorkItem;
      expect(item).toMatchObject({
        kind: 'work_item',
        key,
        identifier: `#${number}`,
        containerId: repoId,
        containerName: at(example, 'repository.full_name'),
        title: at(example, 'issue.title'),
        description: at(example, 'issue.body'),
        url: at(example, 'issue.html_url'),
        author: at(example, 'issue.user.login'),
        createdAt: at(example, 'issue.created_at'),
        updatedAt: Date.parse(String(at(example, 'issue.updated_at'))),
      });
      expect(item.state).toBe(at(example, 'issue.state') === 'closed' ? 'done' : 'open');
      expect(github.reference(item)).toMatchObject({ key, locator: { repoId, id, number } });
    }
  });

  it('reads the same from an issue that was slimmed', () => {
    for (const { examples } of carriers)
      for (const example of examples) {
        const issue = at(example, 'issue');
        const repository = { id: 1, full_name: 'acme/api' };
        const ofFetch = (content: unknown) =>
          github.translate(
            { source: 'fetch', event: 'issues.get', body: Buffer.from(JSON.stringify({ repository, issue: content })) },
            followed,
          );
        expect(ofFetch(slimIssue(issue))).toEqual(ofFetch(issue));
      }
  });
});
