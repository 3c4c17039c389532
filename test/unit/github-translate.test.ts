import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { github } from '../../src/connectors/github/index.ts';
import type { PullRequest } from '../../src/model/item.ts';

const fixture = (name: string) =>
  readFileSync(new URL(`../../src/connectors/github/fixtures/${name}.json`, import.meta.url), 'utf8');
const options = github.options.parse({ repositories: ['Acme/API'] });
const whole = JSON.parse(fixture('pulls.get')) as Record<string, unknown>;

const ofList = (pulls: unknown, given = options) =>
  github.translate({ source: 'poll', event: 'pulls.list', body: Buffer.from(JSON.stringify(pulls)) }, given);
const ofWebhook = (payload: unknown, event = 'pull_request') =>
  github.translate({ source: 'webhook', event, body: Buffer.from(JSON.stringify(payload)) }, options);
const onlyItem = (translation: ReturnType<typeof ofList>): PullRequest => {
  if (translation.outcome !== 'items') throw new Error(translation.outcome);
  return translation.items[0] as PullRequest;
};

describe('a whole pull request', () => {
  it('becomes an item with every field that is mirrored', () => {
    expect(onlyItem(ofWebhook(JSON.parse(fixture('pull_request.opened'))))).toEqual({
      kind: 'pull_request',
      key: 'github:github.com:70100:pull:12',
      connector: 'github',
      host: 'github.com',
      repoId: '70100',
      repoName: 'acme/api',
      identifier: '12',
      updatedAt: Date.UTC(2026, 2, 2, 8),
      url: 'https://github.com/acme/api/pull/12',
      title: 'Answer with problem details (BUG-12)',
      description: 'Errors get a type and a title.\n\nSee BUG-12.',
      author: 'ada',
      labels: ['api', 'errors'],
      assignees: ['ben'],
      reviewers: ['acme/platform', 'ben', 'cho'],
      createdAt: '2026-03-02T08:00:00Z',
      state: 'open',
      rawState: 'open',
      draft: false,
      headBranch: 'bug-12-problem-details',
      headSha: expect.stringMatching(/^[0-9a-f]{40}$/),
      baseBranch: 'main',
      mergedAt: null,
    });
  });

  it('is the same whatever the order of its lists', () => {
    const reversed = { ...whole };
    for (const list of ['labels', 'assignees', 'requested_reviewers', 'requested_teams'])
      reversed[list] = (whole[list] as unknown[]).toReversed();
    expect(ofList([reversed])).toEqual(ofList([whole]));
  });

  it('belongs to its host', () => {
    const ghes = github.options.parse({ host: 'GHE.example.com', repositories: ['acme/api'] });
    expect(onlyItem(ofList([whole], ghes)).key).toBe('github:ghe.example.com:70100:pull:12');
  });

  it('writes times in UTC', () => {
    const item = onlyItem(ofList([{ ...whole, created_at: '2026-03-02T10:00:00+02:00' }]));
    expect(item.createdAt).toBe('2026-03-02T08:00:00.000Z');
  });

  it('keeps an empty description and a deleted account as null', () => {
    expect(onlyItem(ofList([{ ...whole, body: null, user: null }]))).toMatchObject({ description: null, author: null });
  });

  it('takes no address that is not one of the web', () => {
    expect(onlyItem(ofList([{ ...whole, html_url: 'javascript:alert(1)' }]))).not.toHaveProperty('url');
  });
});

describe('state', () => {
  const merged = '2026-03-03T10:00:00Z';
  it.each([
    [{ state: 'open', merged_at: null }, 'open'],
    [{ state: 'closed', merged_at: null }, 'closed'],
    [{ state: 'closed', merged_at: merged }, 'merged'],
    [{ state: 'closed', merged_at: null, merged: false }, 'closed'],
    [{ state: 'closed', merged: true }, 'merged'],
    [{ state: 'closed', merged: false }, 'closed'],
    [{ state: 'open', merged: null, merged_at: null }, 'open'],
  ])('%j is %s', (fields, state) => {
    const { state: _s, merged: _m, merged_at: _a, ...rest } = whole;
    expect(onlyItem(ofList([{ ...rest, ...fields }])).state).toBe(state);
  });
});

describe('a pull request that has drifted', () => {
  it.each([
    ['an unknown state', { state: 'parked' }],
    ['closed, and nothing about a merge', { state: 'closed', merged: undefined, merged_at: undefined }],
    ['no title', { title: undefined }],
    ['a head of another kind', { head: 'main' }],
    ['no base branch', { base: { repo: { id: 70100, full_name: 'acme/api' } } }],
  ])('%s: it is asked for, its neighbours are taken', (_, fields) => {
    const drifted = { ...whole, number: 13, ...fields };
    expect(ofList([drifted])).toMatchObject({ outcome: 'references', references: [{ locator: { number: '13' } }] });
    expect(ofList([whole, drifted])).toMatchObject({
      outcome: 'items',
      items: [{ identifier: '12' }],
      references: [{ key: 'github:github.com:70100:pull:13' }],
    });
  });

  it('is taken as it is once it was fetched: asking again would never end', () => {
    const body = Buffer.from(JSON.stringify({ ...whole, state: 'parked' }));
    const item = onlyItem(github.translate({ source: 'fetch', event: 'pulls.get', body }, options));
    expect(item).not.toHaveProperty('state');
  });

  it.each([
    ['requested_reviewers', 'reviewers'],
    ['requested_teams', 'reviewers'],
    ['labels', 'labels'],
    ['assignees', 'assignees'],
    ['draft', 'draft'],
    ['body', 'description'],
  ])('without %s leaves %s absent, not empty', (field, name) => {
    const { [field]: _, ...rest } = whole;
    expect(onlyItem(ofList([rest]))).not.toHaveProperty(name);
    expect(onlyItem(ofList([{ ...rest, [field]: 7 }]))).not.toHaveProperty(name);
  });

  it.each(['number', 'updated_at'])('without %s is malformed', (field) => {
    const { [field]: _, ...rest } = whole;
    expect(() => ofList([rest])).toThrow(expect.objectContaining({ code: 'delivery_malformed' }));
  });

  it('finds the repository of an event where its base names none', () => {
    const event = { action: 'opened', pull_request: { ...whole, base: { ref: 'main' } } };
    expect(() => ofWebhook(event)).toThrow(expect.objectContaining({ code: 'delivery_malformed' }));
    const item = onlyItem(ofWebhook({ ...event, repository: { id: 70100, full_name: 'acme/api' } }));
    expect(item.repoId).toBe('70100');
  });
});

describe('scope', () => {
  const other = JSON.parse(fixture('pull_request.other-repository')) as object;
  const outside = { outcome: 'ignored', reason: 'repository_not_in_scope' };

  it('leaves out webhooks of other repositories', () => {
    expect(ofWebhook(other)).toEqual(outside);
    expect(
      ofWebhook(
        { issue: { number: 4, pull_request: {} }, repository: { id: 70200, full_name: 'acme/web' } },
        'issue_comment',
      ),
    ).toEqual(outside);
  });

  it('takes what was asked for, also under a new name', () => {
    const renamed = { ...whole, base: { ref: 'main', repo: { id: 70100, full_name: 'acme/gateway' } } };
    expect(onlyItem(ofList([renamed])).repoName).toBe('acme/gateway');
  });

  it('lets no webhook pass for a page or a fetched object', () => {
    for (const event of ['pulls.list', 'pulls.get', 'pulls.gone'])
      expect(ofWebhook([whole], event)).toEqual({ outcome: 'ignored', reason: 'event_not_followed' });
  });
});
