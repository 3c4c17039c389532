import { describe, expect, it } from 'vitest';
import { bitbucket } from '../../../src/connectors/bitbucket/index.ts';
import type { Connector, Translation } from '../../../src/connectors/connector.ts';
import { github } from '../../../src/connectors/github/index.ts';
import { gitlab } from '../../../src/connectors/gitlab/index.ts';
import type { PullRequest, WorkItem } from '../../../src/model/item.ts';
import { itemOf, MALFORMED, translationsOf } from '../../support/vendors/course.ts';
import { fixture } from '../../support/vendors/model-providers/provider.ts';

/** The items that payloads of the three git providers become, beyond the captured payloads of the contract. */

type Json = Record<string, unknown>;
type Fact = readonly [of: string, fields: Json, expected: Partial<PullRequest>];

/** One vendor, and its pull request as the API shows it. */
interface Vendor {
  readonly connector: Connector<never>;
  readonly given: object;
  readonly events: readonly [list: string, one: string];
  readonly page: (pulls: readonly unknown[]) => unknown;
  readonly whole: Json;
  /** The name of the number. */
  readonly number: string;
  readonly locator: object;
  readonly key: string;
  readonly url: (address: string) => Json;
  readonly facts: readonly Fact[];
  /** Fields that another pull request of the page has lost, so that it is fetched. */
  readonly drifted: readonly Json[];
  readonly required: readonly string[];
  /** The repository under a new name. */
  readonly renamed: Json;
}

const hub = fixture('github', 'pulls.get');
const head = hub['head'] as object;
const lab = fixture('gitlab', 'merge_requests.get');
const created = fixture<{ pullrequest: Json; repository: object }>('bitbucket', 'pullrequest.created');
const bucket = created.pullrequest;
const source = bucket['source'] as object;
const UUID = '{7d3f4c1a-52be-4a0e-9c61-0b8a6f2e9d10}';
const OTHER = '{a1c0ffee-0001-4a5b-8c9d-000000000009}';
const MERGED = '2026-03-03T10:00:00Z';

const reverts = (rows: Readonly<Record<string, readonly [Json, string | null | undefined]>>): readonly Fact[] =>
  Object.entries(rows).map(([of, [fields, expected]]) => [of, fields, { reverts: expected }]);

const HASH = '4f1d2c3b5a694f1d2c3b5a694f1d2c3b5a694f1d';
/** A description by `git revert`, and these fields of a merge. */
const commits = (description: string, fields: Json, mergeCommits: readonly string[]): readonly Fact[] => [
  [
    'the commit that git reverts',
    { [description]: `Revert "Fix"\n\nThis reverts commit ${HASH}.` },
    { revertsCommit: HASH },
  ],
  ['the commits of the merge', fields, { mergeCommits }],
];

const took = (state: string | null | undefined, participated_on: string | null, approved = state === 'approved') => ({
  ...{ state, approved, participated_on },
});
const [EARLY, LATE] = ['2026-03-02T09:00:00.500000+00:00', '2026-03-02T10:00:00.000000+00:00'];
const decided = (participants: readonly object[] | undefined, reviewDecision: PullRequest['reviewDecision']): Fact => [
  `participants ${JSON.stringify(participants)}`,
  { participants },
  { reviewDecision },
];

const VENDORS: readonly Vendor[] = (
  [
    {
      ...{ connector: github, given: { repositories: ['Acme/API'] }, events: ['pulls.list', 'pulls.get'] },
      ...{ page: (pulls: unknown) => pulls, whole: hub, number: 'number', key: 'github:github.com:70100:pull' },
      ...{ locator: { number: '13' }, url: (html_url: string) => ({ html_url }) },
      facts: [
        ['a merged one by its time', { state: 'closed', merged_at: MERGED, merged: undefined }, { state: 'merged' }],
        ['a merged one by its flag', { state: 'closed', merged_at: undefined, merged: true }, { state: 'merged' }],
        [
          'one that is not merged by its flag',
          { state: 'closed', merged_at: undefined, merged: false },
          { state: 'closed' },
        ],
        ['an App', { user: { login: 'renovate[bot]' } }, { isBot: true }],
        ['an author of an unknown type', { user: { login: 'ada' } }, { isBot: undefined }],
        ['a deleted account', { user: null }, { isBot: undefined, author: null }],
        ['a head in a deleted fork', { head: { ...head, repo: null } }, { isFork: true }],
        [
          'the commit that tries the merge',
          { state: 'open', merged_at: null, merge_commit_sha: HASH },
          { mergeCommits: undefined },
        ],
        ...commits('body', { state: 'closed', merged_at: MERGED, merge_commit_sha: HASH }, [HASH]),
        ...reverts({
          'the line of the button': [{ body: 'Reverts acme/api#7\r\n\r\nIt broke the build.' }, '7'],
          'a line about another repository': [{ body: 'Reverts acme/web#7' }, null],
          'a line in prose': [{ body: 'Nobody Reverts acme/api#7' }, null],
          'the branch of the button': [{ head: { ...head, ref: 'revert-7-fix-login' } }, '7'],
        }),
      ],
      drifted: [
        ...[{ state: 'parked' }, { state: 'closed', merged: undefined, merged_at: undefined }, { title: undefined }],
        ...[{ head: 'main' }, { base: { repo: { id: 70100, full_name: 'acme/api' } } }],
      ],
      required: ['number', 'updated_at'],
      renamed: { base: { ref: 'main', repo: { id: 70100, full_name: 'acme/gateway' } } },
    },
    {
      ...{ connector: gitlab, given: { projects: ['Acme/Platform/API'] } },
      ...{ events: ['merge_requests.list', 'merge_requests.get'], page: (pulls: unknown) => pulls, whole: lab },
      ...{ number: 'iid', key: 'gitlab:gitlab.com:80200:pull', locator: { projectId: '80200', iid: '13' } },
      url: (web_url: string) => ({ web_url }),
      facts: [
        ['a fork', { source_project_id: 80300 }, { isFork: true }],
        ['a deleted fork', { source_project_id: null }, { isFork: true }],
        ...['project_80200_bot_0a1b2c3d', 'service_account_group_345_6018816a18e515214e0c34c2b33523fc'].map(
          (username): Fact => [username, { author: { username } }, { isBot: true }],
        ),
        [
          'project_manager',
          { author: { username: 'project_manager' } },
          { isBot: undefined, author: 'project_manager' },
        ],
        ['an open one', { state: 'opened', closed_at: '2026-03-03T09:00:00.100Z' }, { state: 'open', closedAt: null }],
        [
          'a closed one',
          { state: 'closed', closed_at: '2026-03-03T09:00:00.100Z' },
          { closedAt: '2026-03-03T09:00:00.000Z' },
        ],
        [
          'a merged one',
          { state: 'merged', closed_at: null, merged_at: '2026-03-03T10:00:00.120+02:00' },
          { state: 'merged', mergedAt: '2026-03-03T08:00:00.120Z', closedAt: '2026-03-03T08:00:00.000Z' },
        ],
        [
          'a merged one without a time',
          { state: 'merged', closed_at: null, merged_at: undefined },
          { closedAt: undefined },
        ],
        ...commits('description', { merge_commit_sha: HASH, squash_commit_sha: 'c0ffee' }, [HASH, 'c0ffee']),
        ...reverts({
          'the line of the button': [{ description: 'Revert "Fix"\n\nThis reverts merge request !7' }, '7'],
          'a line in prose': [{ description: 'The earlier This reverts merge request !7 was wrong.' }, null],
        }),
      ],
      drifted: [{ state: 'locked' }, { state: 7 }, { title: 7 }, { source_branch: 7 }, { target_branch: 7 }],
      required: ['iid', 'updated_at'],
      renamed: { references: { full: 'acme/gateway!12' } },
    },
    {
      ...{ connector: bitbucket, given: { repositories: ['Acme/API'] } },
      ...{ events: ['pullrequests.list', 'pullrequests.get'], page: (values: unknown) => ({ values }), whole: bucket },
      ...{ number: 'id', key: `bitbucket:bitbucket.org:${UUID}:pull`, locator: { repoId: UUID, number: '13' } },
      url: (href: string) => ({ links: { html: { href } } }),
      facts: [
        ['lists that Bitbucket has not', { labels: ['x'], assignees: [] }, { labels: undefined, assignees: undefined }],
        ['an App', { author: { uuid: UUID, type: 'app_user' } }, { isBot: true }],
        ['a deleted account', { description: '', author: null }, { description: '', author: null }],
        ['the queue', { queued: true }, { isQueued: true }],
        ['a fork', { source: { ...source, repository: { uuid: OTHER } } }, { isFork: true }],
        [
          'a deleted fork',
          { source: { branch: { name: 'patch-1' }, commit: null, repository: null } },
          { isFork: true, headBranch: 'patch-1', headSha: undefined },
        ],
        ['an unreadable reviewer', { reviewers: [{ uuid: UUID }, { nickname: 'ada' }] }, { reviewers: undefined }],
        decided([took(null, LATE)], { state: 'none' }),
        decided([took('approved', EARLY), took('approved', LATE), took(null, '2026-03-02T11:00:00+00:00')], {
          ...{ state: 'approved', at: '2026-03-02T10:00:00.000Z' },
        }),
        decided([took('changes_requested', EARLY), took('approved', LATE)], {
          ...{ state: 'changes', at: '2026-03-02T09:00:00.500Z' },
        }),
        decided([took(undefined, null, true)], { state: 'approved' }),
        decided(undefined, undefined),
        ...commits('description', { state: 'MERGED', merge_commit: { hash: '4f1d2c3b5a69' } }, ['4f1d2c3b5a69']),
        ...reverts({
          'the title of the button': [{ title: 'Revert "Merged in fix-login (pull request #7)"' }, '7'],
          'the revert of a revert': [{ title: 'Revert "Revert "Fix" (pull request #7)" (pull request #8)' }, '8'],
          'a title in prose': [{ title: 'Like "Fix login" (pull request #7)' }, null],
          'the branch of the button': [{ source: { branch: { name: 'revert-pr-7' } } }, '7'],
          'a trailer': [{ description: 'Back to the old form.\n\nReverts: #7' }, '7'],
        }),
        ...(
          [
            ['08:00:00.301250+00:00', 301, 250],
            ['08:00:00Z', 0, 0],
            ['10:00:00.301999+02:00', 301, 999],
          ] as const
        ).map(
          ([time, milliseconds, version]): Fact => [
            time,
            { updated_on: `2026-03-02T${time}` },
            { updatedAt: Date.UTC(2026, 2, 2, 8, 0, 0, milliseconds), version } as Partial<PullRequest>,
          ],
        ),
      ],
      drifted: [
        ...[{ state: 'PARKED' }, { title: undefined }, { source: 'main' }, { source: null }],
        { destination: { repository: { uuid: UUID, full_name: 'acme/api' } } },
      ],
      required: ['id', 'updated_on'],
      renamed: { destination: { branch: { name: 'main' }, repository: { uuid: UUID, full_name: 'acme/gateway' } } },
    },
  ] as const
).map((vendor) => vendor as unknown as Vendor);

describe.each(VENDORS)('a pull request of $connector.id', (vendor) => {
  const { connector, given, page, whole, key, number } = vendor;
  const translations = translationsOf({ connector, given });
  const listed = (...pulls: unknown[]) => translations.page(vendor.events[0], page(pulls));
  const fetched = (fields: Json) =>
    itemOf<PullRequest>(translations.fetched(vendor.events[1], { ...whole, ...fields }));
  const withFields = (fields: Json) => itemOf<PullRequest>(listed({ ...whole, ...fields }));

  it.each(vendor.facts)('of %s has these facts', (_, fields, expected) => {
    const item = withFields(fields);
    expect(Object.fromEntries(Object.keys(expected).map((name) => [name, item[name as keyof PullRequest]]))).toEqual(
      expected,
    );
  });

  it('has no address that is not one of the web', () => {
    expect(withFields(vendor.url('javascript:alert(1)'))).not.toHaveProperty('url');
  });

  it('is followed under a new name of its repository', () => {
    expect(withFields(vendor.renamed).repoName).toBe('acme/gateway');
  });

  it.each(vendor.drifted)('with %j is fetched, and its neighbours are taken', (fields) => {
    const drifted = { ...whole, [number]: 13, ...fields };
    const references = [{ kind: 'pull_request', key: `${key}:13`, locator: vendor.locator }];
    expect(listed(drifted)).toMatchObject({ outcome: 'references', references });
    expect(listed(whole, drifted)).toMatchObject({ outcome: 'items', items: [{ identifier: '12' }], references });
  });

  it('in an unknown state is taken after a fetch without one', () => {
    expect(fetched({ state: 'PARKED' })).not.toHaveProperty('state');
  });

  it.each(vendor.required)('without %s is malformed', (field) => {
    const { [field]: _, ...rest } = whole;
    expect(() => listed(rest)).toThrow(MALFORMED);
  });
});

describe('GitHub', () => {
  const { hook } = translationsOf({ connector: github, given: { repositories: ['acme/api'] } });
  const outside = { outcome: 'ignored', reason: 'repository_not_in_scope' };
  const opened = fixture('github', 'pull_request.opened');

  it.each([
    ['reopened', '2026-03-02T08:00:00.000Z'],
    ['labeled', undefined],
  ])('by the action %s dates a change of the state: %s', (action, phaseChangedAt) => {
    const at = { updated_at: '2026-03-02T08:00:00Z' };
    const pull = itemOf(hook('pull_request', { action, pull_request: { ...hub, ...at } }));
    expect(pull.phaseChangedAt).toBe(phaseChangedAt);
  });

  const reviewed = fixture<{ review: object }>('github', 'pull_request_review.submitted');
  const ofReview = (review: object | null) =>
    itemOf(hook('pull_request_review', { ...reviewed, review: review && { ...reviewed.review, ...review } }));

  it.each([[{ state: 'pending' }], [{ submitted_at: null }], [{ id: undefined }], [null]])(
    'reports no review that cannot be read: %j',
    (review) => expect(ofReview(review)).not.toHaveProperty('reviews'),
  );

  it('counts the repository of the pull request before the one of the event', () => {
    const repository = { id: 70100, full_name: 'acme/api' };
    const other = { ref: 'main', repo: { id: 70999, full_name: 'acme/secrets' } };
    expect(hook('pull_request', { repository, pull_request: { ...hub, base: other } })).toEqual(outside);
    expect(hook('pull_request', { repository: other.repo, pull_request: hub }).outcome).toBe('items');
    const commented = { issue: { number: 4, pull_request: {} }, repository: { id: 70200, full_name: 'acme/web' } };
    expect(hook('issue_comment', commented)).toEqual(outside);
  });

  const body = (text: string) =>
    github.translate(
      { source: 'webhook', event: 'pull_request', body: Buffer.from(text) },
      github.options.parse({ repositories: ['acme/api'] }),
    );
  const json = JSON.stringify(opened);

  it('sends the same delivery as a form with the JSON in its one field', () => {
    expect(body(new URLSearchParams({ payload: json }).toString())).toEqual(body(json));
  });

  const comment = fixture<{ issue: Json }>('github', 'issue_comment.on-pull-request');
  const commented = (fields: Json = {}) =>
    hook('issue_comment', { ...comment, issue: { ...comment.issue, ...fields } });

  it('reports with a comment what a comment may change', () => {
    const key = 'github:github.com:70100:pull:12';
    const told = { key, state: 'open', mergedAt: null, labels: [], author: 'ada' };
    expect(commented()).toMatchObject({ outcome: 'references', references: [{ key }], partialItems: [told] });
    expect(commented({ state: 'closed' })).toMatchObject({ partialItems: [{ state: 'closed' }] });
    const merged = { state: 'closed', pull_request: { merged_at: '2026-03-02T09:00:00Z' } };
    expect(commented(merged)).toMatchObject({ partialItems: [{ state: 'merged' }] });
  });
});

describe('an issue of GitHub', () => {
  const given = { repositories: ['acme/api'] };
  const { hook } = translationsOf({ connector: github, given: { ...given, issues: true } });
  const closed = fixture<{ issue: object }>('github', 'issues.closed');
  const ofIssue = (changes: object = {}, action = 'edited', more: object = {}) =>
    hook('issues', { ...closed, action, issue: { ...closed.issue, ...changes } }, more);
  const key = 'github:github.com:issue:880013';

  it.each<[object, Partial<WorkItem>]>([
    [
      { state: 'open', state_reason: 'reopened' },
      { state: 'open', rawState: 'open (reopened)', isDropped: false },
    ],
    [
      { state: 'closed', state_reason: 'not_planned' },
      { state: 'done', rawState: 'closed (not_planned)', isDropped: true },
    ],
    [{ state: 'closed', state_reason: 'duplicate' }, { isDropped: true }],
    [{ state: 'closed', state_reason: null }, { isDropped: false }],
    [{ state: 'closed', state_reason: 'of_tomorrow' }, { isDropped: undefined }],
    [{ labels: ['plain', { name: 'api' }] }, { labels: ['api', 'plain'] }],
  ])('with %j is %j', (changes, expected) => {
    const item = itemOf(ofIssue(changes));
    expect(Object.fromEntries(Object.keys(expected).map((name) => [name, item[name as keyof WorkItem]]))).toEqual(
      expected,
    );
  });

  it('is fetched in an unknown state, or if it was deleted', () => {
    const locator = { repoId: '70100', repository: 'acme/api', number: '13', id: '880013' };
    const references = [{ kind: 'work_item', key, locator }];
    expect(ofIssue({ state: 'snoozed' })).toMatchObject({ outcome: 'references', references });
    expect(ofIssue({}, 'deleted')).toEqual({ outcome: 'references', references });
    expect(hook('issue_comment', { ...closed, action: 'deleted', comment: { id: 1 } })).toMatchObject({
      outcome: 'items',
    });
  });

  it('is fetched at both places after a transfer, as far as they are followed, and the old one names the new', () => {
    const transferred = (...repositories: string[]) =>
      hook('issues', fixture('github', 'issues.transferred'), { repositories });
    const moved = { key: 'github:github.com:issue:990002' };
    expect(transferred('acme/api')).toMatchObject({
      ...{ references: [{ key }], partialItems: [{ key, movedAway: 'acme/web' }] },
    });
    expect(transferred('acme/web')).toMatchObject({ references: [moved] });
    expect(transferred('acme/api', 'acme/web')).toMatchObject({
      ...{ references: [{ key }, moved], items: [{ key, movedTo: moved.key }] },
    });
    expect(transferred('acme/other')).toEqual({ outcome: 'ignored', reason: 'repository_not_in_scope' });
  });
});

describe('Bitbucket', () => {
  const { hook } = translationsOf({ connector: bitbucket, given: { repositories: ['acme/api'] } });
  const ofHook = (payload: unknown) => itemOf<PullRequest>(hook('pullrequest:updated', payload));

  it('shows every field that is mirrored', () => {
    expect(ofHook(created)).toEqual({
      ...{ kind: 'pull_request', key: `bitbucket:bitbucket.org:${UUID}:pull:12`, connector: 'bitbucket' },
      ...{ host: 'bitbucket.org', repoId: UUID, repoName: 'acme/api', identifier: '12' },
      ...{ updatedAt: Date.UTC(2026, 2, 2, 8, 0, 0, 301), version: 250 },
      url: 'https://bitbucket.org/acme/api/pull-requests/12',
      title: 'Answer with problem details (BUG-12)',
      description: 'Errors get a type and a title.\n\nSee BUG-12.',
      author: '{a1c0ffee-0001-4a5b-8c9d-000000000001}',
      reviewers: ['{b2c0ffee-0002-4a5b-8c9d-000000000002}', '{c3c0ffee-0003-4a5b-8c9d-000000000003}'],
      ...{ createdAt: '2026-03-02T08:00:00.125Z', state: 'open', rawState: 'OPEN', draft: false },
      ...{ headBranch: 'bug-12-problem-details', headSha: '4f1d2c3b5a69', baseBranch: 'main' },
      ...{
        reviewDecision: { state: 'none' },
        isPublic: false,
        isFork: false,
        isQueued: false,
        reverts: null,
        revertsCommit: null,
      },
    });
  });
});

const IGNORED = { outcome: 'ignored', reason: 'event_not_followed' };

describe('a webhook of GitLab about a merge request', () => {
  const { hook, page, fetched } = translationsOf({ connector: gitlab, given: { projects: ['acme/platform/api'] } });
  const rest = fixture('gitlab', 'merge_requests.get');
  const opened = fixture('gitlab', 'merge_request.open');
  const attributes = opened['object_attributes'] as Json;
  const ofHook = (payload: unknown, event = 'Merge Request Hook') => hook(event, payload);
  const withAttributes = (fields: Json, more: Json = {}) =>
    ofHook({ ...opened, object_attributes: { ...attributes, ...fields }, ...more });
  const pullOf = (translation: Translation) => itemOf<PullRequest>(translation);
  const reference = {
    ...{ kind: 'pull_request', key: 'gitlab:gitlab.com:80200:pull:12' },
    locator: { projectId: '80200', iid: '12' },
  };
  const asked = { outcome: 'references', references: [reference] };
  const common = {
    ...{ kind: 'pull_request', key: reference.key, connector: 'gitlab', host: 'gitlab.com', repoId: '80200' },
    ...{ repoName: 'acme/platform/api', identifier: '12', numberSign: '!', updatedAt: Date.UTC(2026, 2, 2, 8) },
    url: 'https://gitlab.com/acme/platform/api/-/merge_requests/12',
    title: 'Answer with problem details (BUG-12)',
    description: 'Errors get a type and a title.\n\nSee BUG-12.',
    ...{ labels: ['api', 'errors'], assignees: ['ben'], reviewers: ['ben', 'cho'] },
    ...{ createdAt: '2026-03-02T08:00:00.000Z', state: 'open', rawState: 'opened', draft: false },
    ...{ headBranch: 'bug-12-problem-details', headSha: '9f2c1a7be04d5c6f8a90b1e2d3c4f5a6b7c8d9e0' },
    ...{ baseBranch: 'main', isFork: false, reverts: null, revertsCommit: null },
  };
  const ofProject = { defaultBranch: 'main', isPublic: false };

  it('has every field but the author and the time of the merge', () => {
    expect(pullOf(ofHook(opened))).toEqual({ ...common, ...ofProject, isCreation: true });
    expect(pullOf(ofHook(fixture('gitlab', 'merge_request.merge')))).not.toHaveProperty('mergedAt');
    expect(pullOf(page('merge_requests.list', [rest]))).toEqual({
      ...{ ...common, author: 'ada', mergedAt: null, closedAt: null, reviewDecision: { state: 'none' } },
    });
  });

  const reviewers = (...states: readonly string[]) => ({
    reviewers: states.map((state, index) => ({ id: 310 + index, username: `reviewer${index}`, state })),
  });
  const draft = { detailed_merge_status: 'draft_status' };
  const reset = (action: string) => ({ system_action: action });

  it.each<[string, Json, Json, string | undefined]>([
    ['an approval', reviewers('unreviewed', 'approved'), draft, 'approved'],
    ['requested changes beside an approval', reviewers('approved', 'requested_changes'), draft, 'changes'],
    ['requested changes by the status', {}, { detailed_merge_status: 'requested_changes' }, 'changes'],
    ['a reviewer who is asked again', reviewers('unreviewed'), draft, 'none'],
    ['an approval by the action alone', {}, { ...draft, action: 'approved' }, undefined],
    ['states of accounts', reviewers('active'), draft, undefined],
    ['approvals that a push reset', reset('approvals_reset_on_push'), { system: true }, 'none'],
    ['approvals of owners that a push reset', reset('code_owner_approvals_reset_on_push'), {}, undefined],
  ])('tells the decision by %s', (_, beside, own, state) => {
    expect(pullOf(withAttributes(own, beside)).reviewDecision).toEqual(state && { state });
  });

  it.each<[action: string, changes: Json, isDated: boolean]>([
    ['approved', {}, true],
    ['reopen', {}, true],
    ['update', { draft: { previous: true, current: false } }, true],
    ['update', { labels: { previous: [], current: [] } }, false],
  ])('by the action %s with the changes %j dates a change of the state: %s', (action, changes, isDated) => {
    const { phaseChangedAt } = pullOf(withAttributes({ action }, { changes }));
    expect(phaseChangedAt).toBe(isDated ? '2026-03-02T08:00:00.000Z' : undefined);
  });

  it.each([
    ...['2026-03-02 08:00:00 UTC', '2026-03-02 10:00:00 +0200', '2026-03-02 04:30:00 -0330'],
    ...['2026-03-02T08:00:00Z', '2026-03-02T08:00:00.999Z', '2026-03-02T10:00:00+02:00'],
  ])('has the time %s to the second', (updated_at) => {
    expect(pullOf(withAttributes({ updated_at })).updatedAt).toBe(Date.UTC(2026, 2, 2, 8));
  });

  it.each<Json>([
    ...['2026-03-02 08:00:00', '2026-03-02 08:00:00 CET', 'yesterday', 1_772_438_400, null].map((updated_at) => ({
      updated_at,
    })),
    ...['locked', 'parked', 7, undefined].map((state) => ({ state })),
    ...['title', 'source_branch', 'target_branch', 'description'].map((name) => ({ [name]: undefined })),
  ])('with %j is fetched', (fields) => {
    expect(withAttributes(fields)).toEqual(asked);
  });

  it('of the whole server is read like any other', () => {
    expect(ofHook(opened, 'System Hook')).toEqual(ofHook(opened));
    for (const payload of [
      { event_name: 'project_create', project_id: 1 },
      { object_kind: 'push', project_id: 1 },
    ])
      expect(ofHook(payload, 'System Hook')).toEqual(IGNORED);
  });

  const { project: _project, ...nameless } = opened;
  const { target_project_id: _id, target: _target, ...own } = attributes;

  it.each<[string, Json]>([
    ['project_id', { project_id: 80200 }],
    ['target_project_id', { object_attributes: { ...own, target_project_id: 80200 } }],
    ['a project without its path', { project: { id: 80200 } }],
  ])('that names its project by %s alone is judged after a fetch', (_, more) => {
    const locator = { ...reference.locator, isFollowed: 'unknown' };
    expect(ofHook({ ...nameless, object_attributes: own, ...more })).toEqual({
      ...{ outcome: 'references', references: [{ ...reference, locator }] },
    });
  });

  it('that names its project by number is judged by a configured number', () => {
    const byNumber = (scope: object) => hook('Merge Request Hook', { ...nameless, project_id: 80200 }, scope);
    expect(byNumber({ projects: ['80200'] }).outcome).toBe('items');
    expect(byNumber({ projects: ['acme/*'], exclude: ['80200'] })).toMatchObject({ reason: 'project_not_in_scope' });
  });

  it('is judged by the path after a fetch', () => {
    const judged = (more: Json) => fetched('merge_requests.judged', { ...rest, ...more });
    expect(judged({})).toMatchObject({ outcome: 'items', items: [{ key: reference.key }] });
    expect(judged({ references: { full: 'other/web!12' } })).toMatchObject({ reason: 'project_not_in_scope' });
    expect(judged({ references: undefined }).outcome).toBe('ignored');
  });
});

describe('an issue of GitLab', () => {
  const { hook, page, fetched } = translationsOf({
    connector: gitlab,
    given: { projects: ['acme/platform/api'], issues: true },
  });
  const opened = fixture<{ project: object; object_attributes: Json }>('gitlab', 'issue.open');
  const withAttributes = (fields: Json) =>
    hook('Issue Hook', { ...opened, object_attributes: { ...opened.object_attributes, ...fields } });
  const list = (pulls: unknown, more: object = {}) => {
    const translation = page('issues.list', pulls, more);
    return translation.outcome === 'items' ? (translation.items as WorkItem[]) : [];
  };
  const ISSUE = {
    ...{ kind: 'work_item', key: 'gitlab:gitlab.com:issue:4400', connector: 'gitlab', host: 'gitlab.com' },
    ...{
      containerId: '80200',
      containerName: 'acme/platform/api',
      identifier: '#4',
      state: 'open',
      rawState: 'opened',
    },
    ...{ title: 'Errors have no type', description: 'Callers must parse the text.', labels: ['api', 'errors'] },
    ...{ assignees: ['ben'], type: 'issue', url: 'https://gitlab.com/acme/platform/api/-/issues/4' },
    ...{ createdAt: '2026-03-01T08:00:00.000Z', isDropped: false },
  };
  const updatedAt = Date.parse('2026-03-02T08:55:00Z');
  const onIssue = fixture<{ object_attributes: object }>('gitlab', 'note.on-issue');
  const commented = (noteable_type: string) => {
    return { ...onIssue, object_attributes: { ...onIssue.object_attributes, noteable_type } };
  };

  it('has its author from the API alone, and its people from all but a comment', () => {
    const ofHook = { ...ISSUE, isPublic: false, isCreation: true, updatedAt: Date.parse('2026-03-01T08:00:00Z') };
    expect(itemOf(hook('Issue Hook', opened))).toEqual(ofHook);
    const { assignees: _, ...known } = ISSUE;
    expect(itemOf(hook('Note Hook', fixture('gitlab', 'note.on-issue')))).toEqual({
      ...known,
      isPublic: false,
      updatedAt,
    });
    for (const noteable_type of ['Issue', 'WorkItem'])
      expect(itemOf(hook('Note Hook', commented(noteable_type)))).toMatchObject({ key: ISSUE.key, title: ISSUE.title });
    expect(hook('Note Hook', commented('Commit'))).toMatchObject({ outcome: 'ignored' });
    expect(list([fixture('gitlab', 'issues.get')])).toEqual([{ ...ISSUE, author: 'ada', closedAt: null, updatedAt }]);
  });

  it.each<[Json, Partial<WorkItem>]>([
    [
      { state: 'closed', duplicated_to_id: 4401, closed_at: '2026-03-02 09:00:00 UTC' },
      { state: 'done', isDropped: true, closedAt: '2026-03-02T09:00:00.000Z' },
    ],
    [{ state: 'closed', duplicated_to_id: null }, { isDropped: undefined }],
    [{ state: 'closed', moved_to_id: 4500 }, { movedTo: 'gitlab:gitlab.com:issue:4500' }],
    [
      { state: 'opened', duplicated_to_id: null, closed_at: null },
      { isDropped: false, closedAt: null },
    ],
  ])('with %j has %j', (fields, expected) => {
    const item = itemOf(withAttributes(fields));
    expect(Object.fromEntries(Object.keys(expected).map((name) => [name, item[name as keyof WorkItem]]))).toEqual(
      expected,
    );
  });

  it.each(['state', 'title', 'description'])('without %s is fetched', (field) => {
    const locator = { projectId: '80200', iid: '4', id: '4400' };
    const references = [{ kind: 'work_item', key: ISSUE.key, locator }];
    expect(withAttributes({ [field]: undefined })).toEqual({ outcome: 'references', references });
  });

  const confidential = fixture('gitlab', 'issue.confidential');
  const note = fixture<{ issue: Json }>('gitlab', 'note.on-issue');
  const secretNote = { ...note, issue: { ...note.issue, confidential: true } };
  const HIDDEN = ['connector', 'containerId', 'gone', 'host', 'identifier', 'key', 'kind', 'updatedAt'];
  const SECRET = { confidential: true };

  it.each<[string, Translation]>([
    ['of its own event', hook('Confidential Issue Hook', confidential)],
    ['of the event of all issues', hook('Issue Hook', confidential)],
    ['with an unreadable flag', withAttributes({ confidential: 'maybe' })],
    ['of a comment', hook('Confidential Note Hook', secretNote)],
    ['that was fetched', fetched('issues.get', { ...fixture('gitlab', 'issues.get'), ...SECRET })],
  ])('that is confidential %s is gone, without its content', (_, translation) => {
    expect(Object.keys(itemOf(translation)).sort()).toEqual(HIDDEN);
  });

  it('that is confidential is followed if configured', () => {
    const locator = { projectId: '80200', iid: '5' };
    expect(hook('Confidential Issue Hook', confidential, SECRET)).toMatchObject({ references: [{ locator }] });
    expect(hook('Confidential Note Hook', secretNote, SECRET).outcome).toBe('references');
    expect(hook('Issue Hook', opened, SECRET).outcome).toBe('items');
    const visible = (more?: object) => list(fixture('gitlab', 'issues.list'), more).filter(({ gone }) => !gone);
    expect(visible().map(({ identifier }) => identifier)).toEqual(['#7', '#4']);
    expect(visible(SECRET)).toHaveLength(3);
  });

  it('is ignored unless issues are followed', () => {
    expect(hook('Issue Hook', opened, { issues: false })).toEqual(IGNORED);
    expect(hook('Note Hook', note, { issues: false })).toMatchObject({ reason: 'not_a_merge_request' });
  });
});
