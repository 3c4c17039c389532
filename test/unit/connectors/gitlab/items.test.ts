import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { gitlab } from '../../../../src/connectors/gitlab/index.ts';
import type { PullRequest } from '../../../../src/model/item.ts';

type Json = Record<string, unknown>;

const fixture = (name: string) =>
  JSON.parse(
    readFileSync(new URL(`../../../../src/connectors/gitlab/fixtures/${name}.json`, import.meta.url), 'utf8'),
  ) as Json;
const options = gitlab.options.parse({ projects: ['Acme/Platform/API'] });
const rest = fixture('merge_requests.get');
const hook = fixture('merge_request.open');
const attributes = hook['object_attributes'] as Json;

const ofList = (list: unknown, given = options) =>
  gitlab.translate({ source: 'poll', event: 'merge_requests.list', body: Buffer.from(JSON.stringify(list)) }, given);
const ofHook = (payload: unknown, event = 'Merge Request Hook', given = options) =>
  gitlab.translate({ source: 'webhook', event, body: Buffer.from(JSON.stringify(payload)) }, given);
const withAttributes = (fields: Json, more: Json = {}) =>
  ofHook({ ...hook, object_attributes: { ...attributes, ...fields }, ...more });
const onlyItem = (translation: ReturnType<typeof ofList>): PullRequest => {
  if (translation.outcome !== 'items') throw new Error(translation.outcome);
  return translation.items[0] as PullRequest;
};
const reference = {
  kind: 'pull_request',
  key: 'gitlab:gitlab.com:80200:pull:12',
  locator: { projectId: '80200', iid: '12' },
};

describe('a whole merge request', () => {
  const common = {
    kind: 'pull_request',
    key: 'gitlab:gitlab.com:80200:pull:12',
    connector: 'gitlab',
    host: 'gitlab.com',
    repoId: '80200',
    repoName: 'acme/platform/api',
    identifier: '12',
    numberSign: '!',
    updatedAt: Date.UTC(2026, 2, 2, 8),
    url: 'https://gitlab.com/acme/platform/api/-/merge_requests/12',
    title: 'Answer with problem details (BUG-12)',
    description: 'Errors get a type and a title.\n\nSee BUG-12.',
    labels: ['api', 'errors'],
    assignees: ['ben'],
    reviewers: ['ben', 'cho'],
    createdAt: '2026-03-02T08:00:00.000Z',
    state: 'open',
    rawState: 'opened',
    draft: false,
    headBranch: 'bug-12-problem-details',
    headSha: '9f2c1a7be04d5c6f8a90b1e2d3c4f5a6b7c8d9e0',
    baseBranch: 'main',
    isFork: false,
    reverts: null,
  };
  const ofProject = { defaultBranch: 'main', isPublic: false };

  it('of a webhook has every field but the author and the time of the merge', () => {
    expect(onlyItem(ofHook(hook))).toEqual({ ...common, ...ofProject, isCreation: true });
  });

  it('of the API is the same, with those two', () => {
    expect(onlyItem(ofList([rest]))).toEqual({
      ...common,
      author: 'ada',
      mergedAt: null,
      closedAt: null,
      reviewDecision: { state: 'none' },
    });
  });

  it('of a comment is the same, without the people', () => {
    const { assignees: _a, reviewers: _r, ...others } = common;
    const item = onlyItem(ofHook(fixture('note.on-merge-request'), 'Note Hook'));
    expect(item).toEqual({ ...others, ...ofProject, updatedAt: Date.UTC(2026, 2, 2, 8, 50) });
  });

  it('keeps when it was merged', () => {
    const merged = { ...rest, state: 'merged', merged_at: '2026-03-03T10:00:00.120+02:00' };
    expect(onlyItem(ofList([merged]))).toMatchObject({ state: 'merged', mergedAt: '2026-03-03T08:00:00.120Z' });
    expect(onlyItem(ofHook(fixture('merge_request.merge')))).not.toHaveProperty('mergedAt');
  });

  it('takes no address that is not one of the web', () => {
    expect(onlyItem(ofList([{ ...rest, web_url: 'javascript:alert(1)' }]))).not.toHaveProperty('url');
  });
});

describe('facts for rules', () => {
  const reviewers = (...states: readonly string[]) => ({
    reviewers: states.map((state, index) => ({ id: 310 + index, username: `reviewer${index}`, state })),
  });
  const draft = { detailed_merge_status: 'draft_status' };

  it.each<[string, Json, Json, string | undefined]>([
    ['an approval', reviewers('unreviewed', 'approved'), draft, 'approved'],
    [
      'an approval, where another one is required',
      reviewers('approved'),
      { detailed_merge_status: 'not_approved' },
      'none',
    ],
    ['requested changes beside an approval', reviewers('approved', 'requested_changes'), draft, 'changes'],
    ['requested changes by the reason alone', {}, { detailed_merge_status: 'requested_changes' }, 'changes'],
    ['reviews without a decision', reviewers('reviewed', 'unapproved'), draft, 'none'],
    ['an approval by the action alone', {}, { ...draft, action: 'approved' }, undefined],
    [
      'an approval that was taken back by the action alone',
      reviewers('approved'),
      { ...draft, action: 'unapproved' },
      'approved',
    ],
    ['states of accounts', reviewers('active'), draft, undefined],
    ['approvals that a push reset', { system_action: 'approvals_reset_on_push' }, { system: true }, 'none'],
    ['approvals of owners that a push reset', { system_action: 'code_owner_approvals_reset_on_push' }, {}, undefined],
  ])('read the decision from %s', (_, beside, own, state) => {
    expect(onlyItem(withAttributes(own, beside)).reviewDecision).toEqual(state && { state });
  });

  it.each([
    [{ visibility_level: 20 }, true],
    [{ visibility_level: 10 }, false],
    [{ visibility_level: 5 }, undefined],
    [{ visibility_level: null }, undefined],
  ])('of a project with %j say whether it is public: %s', (fields, isPublic) => {
    const project = { ...(hook['project'] as Json), ...fields };
    expect(onlyItem(ofHook({ ...hook, project })).isPublic).toBe(isPublic);
  });

  it.each([
    [80300, true],
    [null, true],
    [80200, false],
    [undefined, undefined],
  ])('of the source project %s say whether it is a fork: %s', (source_project_id, isFork) => {
    expect(onlyItem(withAttributes({ source_project_id })).isFork).toBe(isFork);
    expect(onlyItem(ofList([{ ...rest, source_project_id }])).isFork).toBe(isFork);
  });

  it.each([
    ['project_80200_bot_0a1b2c3d', true],
    ['group_345_bot1', true],
    ['service_account_group_345_6018816a18e515214e0c34c2b33523fc', true],
    ['project_manager', undefined],
    ['ada', undefined],
  ])('of the author %s say whether it is a bot: %s', (username, isBot) => {
    expect(onlyItem(ofList([{ ...rest, author: { username } }])).isBot).toBe(isBot);
    expect(onlyItem(ofHook({ ...hook, user: { id: 301, username } })).isBot).toBe(isBot);
    expect(onlyItem(ofHook({ ...hook, user: { id: 302, username } })).isBot).toBeUndefined();
  });

  it.each([
    ['Revert "Fix login"\n\nThis reverts merge request !7', '7'],
    ['Back to the old form.\n\nReverts: !7', '7'],
    ['This reverts commit 4f1d2c3b5a69', null],
    ['The earlier This reverts merge request !7 was wrong.', null],
    [null, null],
    [undefined, undefined],
  ])('read the reverted merge request from %j', (description, expected) => {
    const body = Buffer.from(JSON.stringify({ ...rest, description }));
    const fetched = gitlab.translate({ source: 'fetch', event: 'merge_requests.get', body }, options);
    expect(onlyItem(fetched).reverts).toBe(expected);
  });

  it.each([
    [{ state: 'opened', closed_at: '2026-03-03T09:00:00.100Z' }, null],
    [{ state: 'closed', closed_at: '2026-03-03T09:00:00.100Z' }, '2026-03-03T09:00:00.000Z'],
    [{ state: 'merged', closed_at: null, merged_at: '2026-03-03T10:00:00.100Z' }, '2026-03-03T10:00:00.000Z'],
    [{ state: 'merged', closed_at: null, merged_at: undefined }, undefined],
  ])('of %j read the closing time to the second', (fields, closedAt) => {
    expect(onlyItem(ofList([{ ...rest, ...fields }])).closedAt).toBe(closedAt);
  });
});

describe('times', () => {
  it.each([
    '2026-03-02 08:00:00 UTC',
    '2026-03-02 10:00:00 +0200',
    '2026-03-02 04:30:00 -0330',
    '2026-03-02T08:00:00Z',
    '2026-03-02T08:00:00.999Z',
    '2026-03-02T10:00:00+02:00',
  ])('%s is read to the second', (time) => {
    expect(onlyItem(withAttributes({ updated_at: time })).updatedAt).toBe(Date.UTC(2026, 2, 2, 8));
  });

  it.each(['2026-03-02 08:00:00', '2026-03-02 08:00:00 CET', 'yesterday', 1_772_438_400, null])(
    '%j is none: what has it is fetched, and what was fetched with it is malformed',
    (time) => {
      expect(withAttributes({ updated_at: time })).toEqual({ outcome: 'references', references: [reference] });
      expect(() => ofList([{ ...rest, updated_at: time }])).toThrow(
        expect.objectContaining({ code: 'delivery_malformed' }),
      );
    },
  );
});

describe('state', () => {
  it.each(['locked', 'parked', 7, undefined])('%j makes intake fetch it, and the stored one stays', (state) => {
    expect(withAttributes({ state })).toEqual({ outcome: 'references', references: [reference] });
    expect(
      ofList([
        { ...rest, iid: 13 },
        { ...rest, state },
      ]),
    ).toMatchObject({ outcome: 'items', items: [{ identifier: '13' }], references: [reference] });
    const body = Buffer.from(JSON.stringify({ ...rest, state }));
    const item = onlyItem(gitlab.translate({ source: 'fetch', event: 'merge_requests.get', body }, options));
    expect(item).not.toHaveProperty('state');
  });

  it('reads draft under its old name too', () => {
    expect(onlyItem(withAttributes({ draft: undefined, work_in_progress: true })).draft).toBe(true);
    expect(onlyItem(withAttributes({ draft: true, work_in_progress: false })).draft).toBe(true);
  });
});

describe('people', () => {
  const nobody = { assignees: undefined, reviewers: undefined };

  it('are an empty list only where the list of numbers is empty', () => {
    const item = onlyItem(withAttributes({ assignee_ids: [], reviewer_ids: [] }, nobody));
    expect(item).toMatchObject({ assignees: [], reviewers: [] });
  });

  it('are absent where the event has only numbers, or no list', () => {
    for (const fields of [{}, { assignee_ids: undefined, reviewer_ids: undefined }]) {
      const item = onlyItem(withAttributes(fields, nobody));
      expect(item).not.toHaveProperty('assignees');
      expect(item).not.toHaveProperty('reviewers');
    }
  });

  it('who act do not count as the author', () => {
    expect(onlyItem(ofHook(hook))).not.toHaveProperty('author');
  });
});

describe('a payload that has drifted', () => {
  it.each(['title', 'source_branch', 'target_branch', 'description'])('without %s is fetched', (field) => {
    expect(withAttributes({ [field]: undefined })).toMatchObject({ outcome: 'references' });
    expect(ofList([{ ...rest, [field]: 7 }])).toMatchObject({ outcome: 'references' });
  });

  it.each(['labels', 'assignees', 'reviewers', 'draft', 'sha'])('without %s leaves it absent', (field) => {
    const fields = { draft: undefined, work_in_progress: undefined };
    const { [field]: _, ...less } = field === 'draft' ? { ...rest, ...fields } : rest;
    expect(onlyItem(ofList([less]))).not.toHaveProperty(field === 'sha' ? 'headSha' : field);
  });

  it.each(['object_kind', 'object_attributes'])('without %s is malformed', (field) => {
    const { [field]: _, ...less } = hook;
    expect(() => ofHook(less)).toThrow(expect.objectContaining({ code: 'delivery_malformed' }));
  });
});

describe('scope', () => {
  it('takes pages and fetched objects, also under a new path', () => {
    const moved = { ...rest, references: { full: 'acme/gateway!12' } };
    expect(onlyItem(ofList([moved])).repoName).toBe('acme/gateway');
  });

  it.each(['Confidential Note Hook', 'Push Hook', 'Issue Hook', 'Pipeline Hook'])('does not follow %s', (event) => {
    expect(ofHook(hook, event)).toEqual({ outcome: 'ignored', reason: 'event_not_followed' });
  });
});

describe('a webhook that names its project elsewhere', () => {
  const { project, ...nameless } = hook;
  const path = (project as Json)['path_with_namespace'];
  const unjudged = { ...reference, locator: { ...reference.locator, isFollowed: 'unknown' } };

  it.each<[string, Json]>([
    ['project_id', { project_id: 80200 }],
    ['object_attributes.target_project_id', { object_attributes: { ...attributes, target_project_id: 80200 } }],
    ['a project without its path', { project: { id: 80200 } }],
  ])('by %s alone, is fetched and judged then', (_, more) => {
    const { target_project_id: __, target: ___, ...own } = attributes;
    expect(ofHook({ ...nameless, object_attributes: own, ...more })).toEqual({
      outcome: 'references',
      references: [unjudged],
    });
  });

  it('and its path in the target, is taken as it is', () => {
    const own = {
      ...attributes,
      target_project_id: 80200,
      target: { path_with_namespace: path, visibility_level: 0, default_branch: 'main' },
    };
    expect(onlyItem(ofHook({ ...nameless, object_attributes: own }))).toEqual(onlyItem(ofHook(hook)));
  });

  it('by its number is judged by the number where the configuration names that', () => {
    const byNumber = (given: object) =>
      ofHook({ ...nameless, project_id: 80200 }, undefined, gitlab.options.parse(given));
    expect(byNumber({ projects: ['80200'] }).outcome).toBe('items');
    expect(byNumber({ projects: ['acme/*'], exclude: ['80200'] })).toEqual({
      outcome: 'ignored',
      reason: 'project_not_in_scope',
    });
  });

  it('nowhere is malformed', () => {
    const { target_project_id: _, target: __, ...own } = attributes;
    expect(() => ofHook({ ...nameless, object_attributes: own })).toThrow(
      expect.objectContaining({ code: 'delivery_malformed' }),
    );
  });

  it('what was fetched is judged by its path', () => {
    const fetched = (payload: unknown) =>
      gitlab.translate(
        { source: 'fetch', event: 'merge_requests.judged', body: Buffer.from(JSON.stringify(payload)) },
        options,
      );
    expect(fetched(rest)).toMatchObject({ outcome: 'items', items: [{ key: reference.key }] });
    expect(fetched({ ...rest, references: { full: 'other/web!12' } })).toEqual({
      outcome: 'ignored',
      reason: 'project_not_in_scope',
    });
    expect(fetched({ ...rest, references: undefined })).toMatchObject({ outcome: 'ignored' });
  });
});

it('a hook of the whole server brings merge requests like any other, and nothing else', () => {
  expect(ofHook(hook, 'System Hook')).toEqual(ofHook(hook));
  for (const payload of [
    { event_name: 'project_create', project_id: 1 },
    { object_kind: 'push', project_id: 1 },
  ])
    expect(ofHook(payload, 'System Hook')).toEqual({ outcome: 'ignored', reason: 'event_not_followed' });
});
