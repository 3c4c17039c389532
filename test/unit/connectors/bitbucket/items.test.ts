import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { bitbucket } from '../../../../src/connectors/bitbucket/index.ts';
import type { PullRequest } from '../../../../src/model/item.ts';

const fixture = (name: string) =>
  JSON.parse(
    readFileSync(new URL(`../../../../src/connectors/bitbucket/fixtures/${name}.json`, import.meta.url), 'utf8'),
  ) as Readonly<Record<string, unknown>>;
const options = bitbucket.options.parse({ repositories: ['Acme/API'] });
const UUID = '{7d3f4c1a-52be-4a0e-9c61-0b8a6f2e9d10}';
const created = fixture('pullrequest.created');
const whole = created['pullrequest'] as Readonly<Record<string, unknown>>;

const ofWebhook = (payload: unknown, event = 'pullrequest:updated') =>
  bitbucket.translate({ source: 'webhook', event, body: Buffer.from(JSON.stringify(payload)) }, options);
const ofList = (...values: object[]) =>
  bitbucket.translate(
    { source: 'poll', event: 'pullrequests.list', body: Buffer.from(JSON.stringify({ values })) },
    options,
  );
const onlyItem = (translation: ReturnType<typeof ofList>): PullRequest => {
  if (translation.outcome !== 'items') throw new Error(translation.outcome);
  expect(translation.items).toHaveLength(1);
  return translation.items[0] as PullRequest;
};
const withFields = (fields: object) => onlyItem(ofList({ ...whole, ...fields }));

describe('a whole pull request', () => {
  it('becomes an item with every field that is mirrored', () => {
    expect(onlyItem(ofWebhook(created))).toEqual({
      kind: 'pull_request',
      key: `bitbucket:bitbucket.org:${UUID}:pull:12`,
      connector: 'bitbucket',
      host: 'bitbucket.org',
      repoId: UUID,
      repoName: 'acme/api',
      identifier: '12',
      updatedAt: Date.UTC(2026, 2, 2, 8, 0, 0, 301),
      version: 250,
      url: 'https://bitbucket.org/acme/api/pull-requests/12',
      title: 'Answer with problem details (BUG-12)',
      description: 'Errors get a type and a title.\n\nSee BUG-12.',
      author: '{a1c0ffee-0001-4a5b-8c9d-000000000001}',
      reviewers: ['{b2c0ffee-0002-4a5b-8c9d-000000000002}', '{c3c0ffee-0003-4a5b-8c9d-000000000003}'],
      createdAt: '2026-03-02T08:00:00.125Z',
      state: 'open',
      rawState: 'OPEN',
      draft: false,
      headBranch: 'bug-12-problem-details',
      headSha: '4f1d2c3b5a69',
      baseBranch: 'main',
      reviewDecision: { state: 'none' },
      isPublic: false,
      isFork: false,
      isQueued: false,
      reverts: null,
    });
  });

  it('is the same whatever the order of its reviewers', () => {
    expect(withFields({ reviewers: (whole['reviewers'] as unknown[]).toReversed() })).toEqual(withFields({}));
  });

  it('keeps an empty description and a deleted account', () => {
    expect(withFields({ description: '', author: null })).toMatchObject({ description: '', author: null });
  });

  it('takes no address that is not one of the web', () => {
    expect(withFields({ links: { html: { href: 'javascript:alert(1)' } } })).not.toHaveProperty('url');
  });

  it('never says anything of labels, assignees or the time of a merge or a closing', () => {
    for (const state of ['OPEN', 'MERGED', 'DECLINED'])
      for (const field of ['labels', 'assignees', 'mergedAt', 'closedAt'])
        expect(withFields({ state, labels: ['x'], assignees: [] })).not.toHaveProperty(field);
  });
});

describe('facts for rules', () => {
  const took = (state: string | null | undefined, participated_on: string | null, approved = state === 'approved') => ({
    state,
    approved,
    participated_on,
  });
  const [EARLY, LATE] = ['2026-03-02T09:00:00.500000+00:00', '2026-03-02T10:00:00.000000+00:00'];

  it.each<[string, readonly object[] | undefined, PullRequest['reviewDecision']]>([
    ['nobody', [], { state: 'none' }],
    ['a comment', [took(null, LATE)], { state: 'none' }],
    [
      'two approvals and a comment',
      [took('approved', EARLY), took('approved', LATE), took(null, '2026-03-02T11:00:00+00:00')],
      { state: 'approved', at: '2026-03-02T10:00:00.000Z' },
    ],
    [
      'requested changes beside a later approval',
      [took('changes_requested', EARLY), took('approved', LATE)],
      { state: 'changes', at: '2026-03-02T09:00:00.500Z' },
    ],
    ['an approval of an old payload', [took(undefined, null, true)], { state: 'approved' }],
    ['a payload without participants', undefined, undefined],
  ])('read the decision from %s', (_, participants, decision) => {
    expect(withFields({ participants }).reviewDecision).toEqual(decision);
  });

  it.each<[string, object, string | null | undefined]>([
    ['the title of the button', { title: 'Revert "Merged in fix-login (pull request #7)"' }, '7'],
    ['the revert of a revert', { title: 'Revert "Revert "Fix login" (pull request #7)" (pull request #8)' }, '8'],
    ['a title in prose', { title: 'Like "Fix login" (pull request #7)' }, null],
    ['the branch of the button', { source: { branch: { name: 'revert-pr-7' } } }, '7'],
    ['a trailer', { description: 'Back to the old form.\n\nReverts: #7' }, '7'],
    ['a payload without a description', { description: undefined }, undefined],
  ])('read the reverted pull request from %s', (_, fields, reverts) => {
    expect(withFields(fields).reverts).toBe(reverts);
  });

  const source = whole['source'] as object;
  it.each<[string, object, Partial<PullRequest>]>([
    ['an App', { author: { uuid: UUID, type: 'app_user' } }, { isBot: true }],
    ['an account', { author: { uuid: UUID, type: 'user' } }, { isBot: undefined }],
    ['the queue', { queued: true }, { isQueued: true }],
    [
      'a fork',
      { source: { ...source, repository: { uuid: '{a1c0ffee-0001-4a5b-8c9d-000000000009}' } } },
      { isFork: true },
    ],
    ['a deleted fork', { source: { ...source, repository: null } }, { isFork: true }],
    ['a source without a repository', { source: { ...source, repository: undefined } }, { isFork: undefined }],
  ])('of %s', (_, fields, expected) => {
    const item = withFields(fields);
    for (const [name, value] of Object.entries(expected)) expect(item[name as keyof PullRequest]).toEqual(value);
  });

  it('take the visibility only from the repository of the pull request', () => {
    const repository = { ...(created['repository'] as object), is_private: false };
    expect(onlyItem(ofWebhook({ ...created, repository })).isPublic).toBe(true);
    const other = { ...repository, uuid: '{a1c0ffee-0001-4a5b-8c9d-000000000009}' };
    expect(onlyItem(ofWebhook({ ...created, repository: other })).isPublic).toBeUndefined();
  });
});

describe('time', () => {
  it.each([
    ['2026-03-02T08:00:00.301250+00:00', 301, 250],
    ['2026-03-02T08:00:00.301999+00:00', 301, 999],
    ['2026-03-02T08:00:00.000001+00:00', 0, 1],
    ['2026-03-02T08:00:00.3+00:00', 300, 0],
    ['2026-03-02T08:00:00+00:00', 0, 0],
    ['2026-03-02T08:00:00Z', 0, 0],
    ['2026-03-02T10:00:00.301250+02:00', 301, 250],
  ])('%s is kept to the microsecond', (updated_on, milliseconds, version) => {
    expect(withFields({ updated_on })).toMatchObject({
      updatedAt: Date.UTC(2026, 2, 2, 8, 0, 0, milliseconds),
      version,
    });
  });
});

describe('a pull request of a deleted fork', () => {
  it.each([
    { branch: { name: 'patch-1' }, commit: null, repository: null },
    { branch: { name: 'patch-1' }, repository: null },
  ])('from %j is taken without its hash', (source) => {
    const item = withFields({ source });
    expect(item).toMatchObject({ headBranch: 'patch-1', repoId: UUID });
    expect(item).not.toHaveProperty('headSha');
  });

  it('without a branch is fetched', () => {
    expect(ofList({ ...whole, source: null })).toMatchObject({ outcome: 'references' });
  });
});

describe('a pull request that has drifted', () => {
  it.each([
    ['an unknown state', { state: 'PARKED' }],
    ['no title', { title: undefined }],
    ['a source of another kind', { source: 'main' }],
    ['no base branch', { destination: { repository: { uuid: UUID, full_name: 'acme/api' } } }],
  ])('%s: it is asked for, its neighbours are taken', (_, fields) => {
    const drifted = { ...whole, id: 13, ...fields };
    const wanted = { kind: 'pull_request', locator: { repoId: UUID, repository: 'acme/api', number: '13' } };
    expect(ofList(drifted)).toMatchObject({ outcome: 'references', references: [wanted] });
    expect(ofList(whole, drifted)).toMatchObject({
      outcome: 'items',
      items: [{ identifier: '12' }],
      references: [{ ...wanted, key: `bitbucket:bitbucket.org:${UUID}:pull:13` }],
    });
  });

  it('is taken as it is after a fetch, since another fetch would bring the same', () => {
    const body = Buffer.from(JSON.stringify({ ...whole, state: 'PARKED' }));
    const item = onlyItem(bitbucket.translate({ source: 'fetch', event: 'pullrequests.get', body }, options));
    expect(item).toMatchObject({ rawState: 'PARKED' });
    expect(item).not.toHaveProperty('state');
  });

  it.each([
    ['reviewers', 'reviewers'],
    ['draft', 'draft'],
    ['description', 'description'],
    ['author', 'author'],
    ['created_on', 'createdAt'],
  ])('without %s leaves %s absent, not empty', (field, name) => {
    const { [field]: _, ...rest } = whole;
    expect(onlyItem(ofList(rest))).not.toHaveProperty(name);
    expect(withFields({ [field]: 7 })).not.toHaveProperty(name);
  });

  it('knows no reviewers where one of them cannot be read', () => {
    expect(withFields({ reviewers: [{ uuid: UUID }, { nickname: 'ada' }] })).not.toHaveProperty('reviewers');
    expect(withFields({ reviewers: [] }).reviewers).toEqual([]);
  });

  it.each(['id', 'updated_on'])('without %s is malformed', (field) => {
    const { [field]: _, ...rest } = whole;
    expect(() => ofList(rest)).toThrow(expect.objectContaining({ code: 'delivery_malformed' }));
  });

  it('finds the repository of an event where its destination names none', () => {
    const pullrequest = { ...whole, destination: { branch: { name: 'main' } } };
    expect(onlyItem(ofWebhook({ ...created, pullrequest })).repoId).toBe(UUID);
    expect(() => ofWebhook({ pullrequest })).toThrow(expect.objectContaining({ code: 'delivery_malformed' }));
  });
});

describe('scope', () => {
  it('takes pages and fetched objects, also under a new name', () => {
    const destination = { branch: { name: 'main' }, repository: { uuid: UUID, full_name: 'acme/gateway' } };
    expect(withFields({ destination }).repoName).toBe('acme/gateway');
  });
});
