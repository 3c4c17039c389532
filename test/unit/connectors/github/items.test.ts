import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { github } from '../../../../src/connectors/github/index.ts';
import type { PullRequest, WorkItem } from '../../../../src/model/item.ts';

const fixture = (name: string) =>
  readFileSync(new URL(`../../../../src/connectors/github/fixtures/${name}.json`, import.meta.url), 'utf8');
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
      isCreation: true,
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
      defaultBranch: 'main',
      isFork: false,
      isPublic: false,
      isBot: false,
      isAuthorMember: true,
      reverts: null,
      closedAt: null,
      mergedAt: null,
    });
  });

  it('is the same whatever the order of its lists', () => {
    const reversed = { ...whole };
    for (const list of ['labels', 'assignees', 'requested_reviewers', 'requested_teams'])
      reversed[list] = (whole[list] as unknown[]).toReversed();
    expect(ofList([reversed])).toEqual(ofList([whole]));
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

describe('facts for rules', () => {
  const facts = (fields: object) => onlyItem(ofList([{ ...whole, ...fields }]));
  const base = whole['base'] as { readonly ref: string; readonly repo: object };
  const head = whole['head'] as object;

  it.each<[string, object, Partial<PullRequest>]>([
    ['an App', { user: { login: 'renovate[bot]' } }, { isBot: true }],
    ['a bot by its type', { user: { login: 'Copilot', type: 'Bot' } }, { isBot: true }],
    ['a person', { user: { login: 'ada', type: 'User' } }, { isBot: false }],
    ['an author of an unknown type', { user: { login: 'ada' } }, { isBot: undefined }],
    ['a deleted account', { user: null }, { isBot: undefined }],
    ['an owner', { author_association: 'OWNER' }, { isAuthorMember: true }],
    ['a collaborator', { author_association: 'COLLABORATOR' }, { isAuthorMember: true }],
    ['a contributor', { author_association: 'CONTRIBUTOR' }, { isAuthorMember: undefined }],
    ['a public repository', { base: { ...base, repo: { ...base.repo, private: false } } }, { isPublic: true }],
    [
      'a repository that says nothing',
      { base: { ref: 'main', repo: { id: 70100, full_name: 'acme/api' } } },
      { isPublic: undefined, defaultBranch: undefined },
    ],
    ['a head in a fork', { head: { ...head, repo: { id: 70300 } } }, { isFork: true }],
    ['a head in a deleted fork', { head: { ...head, repo: null } }, { isFork: true }],
    ['a head without a repository', { head: { ...head, repo: undefined } }, { isFork: undefined }],
    [
      'a close without merge',
      { state: 'closed', closed_at: '2026-03-03T09:00:00Z' },
      { closedAt: '2026-03-03T09:00:00Z' },
    ],
  ])('of %s', (_, fields, expected) => {
    const item = facts(fields);
    for (const [name, value] of Object.entries(expected)) expect(item[name as keyof PullRequest]).toEqual(value);
  });

  it.each<[string, object, string | null | undefined]>([
    ['the line of the button', { body: 'Reverts acme/api#7\r\n\r\nIt broke the build.' }, '7'],
    ['the line under an old spelling of the name', { body: 'Reverts Acme/API#7' }, '7'],
    ['a pull request of another repository', { body: 'Reverts acme/web#7' }, null],
    ['a line in prose', { body: 'Nobody Reverts acme/api#7' }, null],
    ['the branch of the button', { head: { ...head, ref: 'revert-7-fix-login' } }, '7'],
    ['a trailer', { body: 'Back to the old form.\n\nReverts: #7' }, '7'],
    ['an empty description', { body: null }, null],
    ['no description', { body: undefined }, undefined],
  ])('reads the reverted pull request from %s', (_, fields, expected) => {
    expect(facts(fields).reverts).toBe(expected);
  });

  it.each([
    ['enqueued', true],
    ['dequeued', false],
    ['synchronize', undefined],
  ])('of the action %s say whether it is queued: %s', (action, isQueued) => {
    expect(onlyItem(ofWebhook({ action, pull_request: whole })).isQueued).toBe(isQueued);
  });

  const reviewed = JSON.parse(fixture('pull_request_review.submitted')) as { readonly review: object };
  const ofReview = (review: object | null) =>
    onlyItem(ofWebhook({ ...reviewed, review: review && { ...reviewed.review, ...review } }, 'pull_request_review'));

  it.each([
    [
      { state: 'changes_requested', author_association: 'NONE' },
      { reviewer: 'cho', state: 'changes' },
    ],
    [
      { state: 'commented', user: null, author_association: 'NONE' },
      { reviewer: 'ghost', state: 'commented' },
    ],
    [{ state: 'dismissed' }, { reviewer: 'cho', state: 'dismissed', isMember: true }],
  ])('of the review %j', (review, expected) => {
    expect(ofReview(review).reviews).toEqual({ 77: { at: '2026-03-02T09:00:00Z', ...expected } });
  });

  it.each([[{ state: 'pending' }], [{ submitted_at: null }], [{ id: undefined }], [null]])(
    'do not contain a review that cannot be read: %j',
    (review) => expect(ofReview(review)).not.toHaveProperty('reviews'),
  );
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

  it('is taken as it is after a fetch, since another fetch would bring the same', () => {
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

  it('reads the lists in the forms that GitHub documents: null, null elements, teams among the reviewers', () => {
    const lists = {
      labels: [null, { name: 'api' }],
      assignees: null,
      requested_reviewers: [null, { login: 'ben' }, { slug: 'platform' }],
      requested_teams: [],
    };
    const item = onlyItem(ofWebhook({ action: 'edited', pull_request: { ...whole, ...lists } }));
    expect(item).toMatchObject({ labels: ['api'], reviewers: ['acme/platform', 'ben'] });
    expect(item).not.toHaveProperty('assignees');
  });

  it('without the slug of a team leaves reviewers absent', () => {
    expect(onlyItem(ofList([{ ...whole, requested_teams: [{ name: 'Platform' }] }]))).not.toHaveProperty('reviewers');
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

  it('goes by the repository that the pull request itself names, where a payload names two', () => {
    const repository = { id: 70100, full_name: 'acme/api' };
    const base = { ref: 'main', repo: { id: 70999, full_name: 'acme/secrets' } };
    expect(ofWebhook({ action: 'edited', repository, pull_request: { ...whole, base } })).toEqual(outside);
    expect(ofWebhook({ action: 'edited', repository: base.repo, pull_request: whole }).outcome).toBe('items');
  });

  it('leaves out webhooks of other repositories', () => {
    expect(ofWebhook(other)).toEqual(outside);
    expect(
      ofWebhook(
        { issue: { number: 4, pull_request: {} }, repository: { id: 70200, full_name: 'acme/web' } },
        'issue_comment',
      ),
    ).toEqual(outside);
  });

  it('takes pages and fetched objects, also under a new name', () => {
    const renamed = { ...whole, base: { ref: 'main', repo: { id: 70100, full_name: 'acme/gateway' } } };
    expect(onlyItem(ofList([renamed])).repoName).toBe('acme/gateway');
  });
});

describe('issues', () => {
  const followed = github.options.parse({ repositories: ['acme/api'], issues: true });
  const closed = JSON.parse(fixture('issues.closed')) as { issue: object; repository: object };
  const ofIssue = (action: string, changes: object = {}, given = followed, event = 'issues', more: object = {}) =>
    github.translate(
      {
        source: 'webhook',
        event,
        body: Buffer.from(JSON.stringify({ ...closed, ...more, action, issue: { ...closed.issue, ...changes } })),
      },
      given,
    );

  it.each([
    [{ state: 'open', state_reason: null }, 'open', 'open'],
    [{ state: 'open', state_reason: 'reopened' }, 'open', 'open (reopened)'],
    [{ state: 'closed', state_reason: 'not_planned' }, 'done', 'closed (not_planned)'],
    [{ state: 'closed', state_reason: undefined }, 'done', 'closed'],
  ])('with %j is %s', (changes, state, rawState) => {
    expect(ofIssue('edited', changes)).toMatchObject({ outcome: 'items', items: [{ state, rawState }] });
  });

  it.each([
    [{ state: 'closed', state_reason: 'not_planned' }, true],
    [{ state: 'closed', state_reason: 'duplicate' }, true],
    [{ state: 'closed', state_reason: 'completed' }, false],
    [{ state: 'closed', state_reason: null }, false],
    [{ state: 'open', state_reason: 'reopened' }, false],
    [{ state: 'closed', state_reason: undefined }, undefined],
    [{ state: 'closed', state_reason: 'of_tomorrow' }, undefined],
  ])('with %j are dropped: %s', (changes, isDropped) => {
    const { items } = ofIssue('edited', changes) as { items: readonly WorkItem[] };
    expect(items[0]?.isDropped).toBe(isDropped);
  });

  it('have no type where GitHub says so, and an unknown one where it says nothing', () => {
    expect(ofIssue('untyped', { type: null })).toMatchObject({ items: [{ type: null }] });
    const { items } = ofIssue('edited', { type: undefined }) as { items: readonly object[] };
    expect(items[0]).not.toHaveProperty('type');
  });

  it('of an unknown state are fetched', () => {
    expect(ofIssue('edited', { state: 'snoozed' })).toMatchObject({
      outcome: 'references',
      references: [{ kind: 'work_item' }],
    });
  });

  it('that were deleted are asked for', () => {
    const locator = { repoId: '70100', repository: 'acme/api', number: '13', id: '880013' };
    const references = [{ kind: 'work_item', key: 'github:github.com:issue:880013', locator }];
    expect(ofIssue('deleted')).toEqual({ outcome: 'references', references });
  });

  it('are fetched at both places after a transfer, as far as those are followed, and the old one names the new one', () => {
    const delivery = { source: 'webhook' as const, event: 'issues', body: Buffer.from(fixture('issues.transferred')) };
    const keys = (...repositories: string[]) => {
      const translation = github.translate(delivery, github.options.parse({ repositories, issues: true }));
      return 'references' in translation ? translation.references?.map(({ key }) => key) : translation;
    };
    expect(keys('acme/api')).toEqual(['github:github.com:issue:880013']);
    expect(keys('acme/web')).toEqual(['github:github.com:issue:990002']);
    expect(keys('acme/api', 'acme/web')).toHaveLength(2);
    const both = github.options.parse({ repositories: ['acme/api', 'acme/web'], issues: true });
    expect(github.translate(delivery, both)).toMatchObject({
      items: [{ key: 'github:github.com:issue:880013', movedTo: 'github:github.com:issue:990002' }],
    });
    expect(keys('acme/other')).toEqual({ outcome: 'ignored', reason: 'repository_not_in_scope' });
  });

  it('are left alone unless they are asked for', () => {
    expect(ofIssue('opened', {}, options)).toEqual({ outcome: 'ignored', reason: 'event_not_followed' });
    const comment = JSON.parse(fixture('issue_comment.on-issue')) as unknown;
    expect(ofWebhook(comment, 'issue_comment')).toEqual({ outcome: 'ignored', reason: 'not_a_pull_request' });
  });

  it('stay when only a comment of theirs is deleted', () => {
    expect(ofIssue('deleted', {}, followed, 'issue_comment', { comment: { id: 1 } })).toMatchObject({
      outcome: 'items',
    });
  });
});

describe('a form', () => {
  const json = fixture('pull_request.opened');
  const ofBytes = (text: string) =>
    github.translate({ source: 'webhook', event: 'pull_request', body: Buffer.from(text) }, options);

  it('with the JSON in its one field is the same delivery', () => {
    expect(ofBytes(new URLSearchParams({ payload: json }).toString())).toEqual(ofBytes(json));
    expect(ofBytes(`payload=${encodeURIComponent(json)}`)).toEqual(ofBytes(json));
  });

  it.each(['payload=', 'payload=%7B', 'payload=null&payload=7', `other=${encodeURIComponent(json)}`, 'payload=%ff%fe'])(
    'that reads %s is malformed',
    (text) => {
      expect(() => ofBytes(text)).toThrow(expect.objectContaining({ code: 'delivery_malformed' }));
    },
  );
});

describe('a comment on a pull request', () => {
  const comment = JSON.parse(fixture('issue_comment.on-pull-request')) as { issue: Record<string, unknown> };
  const commented = (fields: object = {}) =>
    ofWebhook({ ...comment, issue: { ...comment.issue, ...fields } }, 'issue_comment');

  it('tells all that a comment may change, for a pull request that is held', () => {
    expect(commented()).toMatchObject({
      outcome: 'references',
      references: [{ key: 'github:github.com:70100:pull:12' }],
      told: [{ key: 'github:github.com:70100:pull:12', state: 'open', mergedAt: null, labels: [], author: 'ada' }],
    });
    for (const field of ['headBranch', 'headSha', 'baseBranch', 'reviewers'])
      expect(commented()).not.toHaveProperty(['told', '0', field]);
  });

  it.each<[string, object, string]>([
    ['closed', { state: 'closed' }, 'closed'],
    ['merged', { state: 'closed', pull_request: { merged_at: '2026-03-02T09:00:00Z' } }, 'merged'],
  ])('tells that it is %s', (_, fields, state) => {
    expect(commented(fields)).toMatchObject({ told: [{ state }] });
  });

  it('tells nothing where a server does not say whether it was merged', () => {
    expect(commented({ state: 'closed', pull_request: {} })).not.toHaveProperty('told');
  });
});
