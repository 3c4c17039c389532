import { createHmac } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import type { Translation } from '../../../src/connectors/connector.ts';
import { gitlab } from '../../../src/connectors/gitlab/index.ts';
import type { PullRequest, WorkItem } from '../../../src/model/item.ts';
import { activeWith, inboxOf, openEndpoint, openTestStore } from '../../support/harness/intake.ts';
import { failure, itemOf, translationsOf } from '../../support/vendors/course.ts';
import { fixture } from '../../support/vendors/model-providers/provider.ts';

type Json = Record<string, unknown>;

const IGNORED = { outcome: 'ignored', reason: 'event_not_followed' };

describe('a webhook about a merge request', () => {
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

  it('about a comment lacks the people too', () => {
    const { assignees: _a, reviewers: _r, ...others } = common;
    const item = pullOf(ofHook(fixture('gitlab', 'note.on-merge-request'), 'Note Hook'));
    expect(item).toEqual({ ...others, ...ofProject, updatedAt: Date.UTC(2026, 2, 2, 8, 50) });
  });

  const reviewers = (...states: readonly string[]) => ({
    reviewers: states.map((state, index) => ({ id: 310 + index, username: `reviewer${index}`, state })),
  });
  const draft = { detailed_merge_status: 'draft_status' };
  const reset = (action: string) => ({ system_action: action });

  it.each<[string, Json, Json, string | undefined]>([
    ['an approval', reviewers('unreviewed', 'approved'), draft, 'approved'],
    ['an approval of several', reviewers('approved'), { detailed_merge_status: 'not_approved' }, 'none'],
    ['requested changes beside an approval', reviewers('approved', 'requested_changes'), draft, 'changes'],
    ['requested changes by the status', {}, { detailed_merge_status: 'requested_changes' }, 'changes'],
    ['a reviewer who is asked again', reviewers('unreviewed'), draft, 'none'],
    ['reviews without a decision', reviewers('reviewed', 'unapproved'), draft, 'none'],
    ['an approval by the action alone', {}, { ...draft, action: 'approved' }, undefined],
    ['a withdrawal by the action alone', reviewers('approved'), { ...draft, action: 'unapproved' }, 'approved'],
    ['states of accounts', reviewers('active'), draft, undefined],
    ['approvals that a push reset', reset('approvals_reset_on_push'), { system: true }, 'none'],
    ['approvals of owners that a push reset', reset('code_owner_approvals_reset_on_push'), {}, undefined],
  ])('tells the decision by %s', (_, beside, own, state) => {
    expect(pullOf(withAttributes(own, beside)).reviewDecision).toEqual(state && { state });
  });

  it.each<[action: string, changes: Json, isDated: boolean]>([
    ['approved', {}, true],
    ['unapproval', {}, true],
    ['reopen', {}, true],
    ['update', { draft: { previous: true, current: false } }, true],
    ['update', { reviewers: { previous: [], current: [] } }, true],
    ['update', { labels: { previous: [], current: [] } }, false],
  ])('by the action %s with the changes %j dates a change of the state: %s', (action, changes, isDated) => {
    const { phaseChangedAt } = pullOf(withAttributes({ action }, { changes }));
    expect(phaseChangedAt).toBe(isDated ? '2026-03-02T08:00:00.000Z' : undefined);
  });

  it.each([
    [{ id: 301, username: 'project_80200_bot_0a1b2c3d' }, true],
    [{ id: 301, username: 'ada' }, undefined],
    [{ id: 302, username: 'project_80200_bot_0a1b2c3d' }, undefined],
  ])('by %j tells whether the author is a bot: %s', (user, isBot) => {
    expect(pullOf(ofHook({ ...opened, user })).isBot).toBe(isBot);
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

  it('has its draft state under the old name too', () => {
    const isDraft = (fields: Json) => pullOf(withAttributes(fields)).draft;
    expect(isDraft({ draft: undefined, work_in_progress: true })).toBe(true);
    expect(isDraft({ draft: true, work_in_progress: false })).toBe(true);
    expect(isDraft({ draft: undefined, work_in_progress: undefined })).toBeUndefined();
  });

  it('has no people only if their list of numbers is empty', () => {
    const people = (fields: Json) => {
      const { assignees, reviewers: asked } = pullOf(
        withAttributes(fields, { assignees: undefined, reviewers: undefined }),
      );
      return [assignees, asked];
    };
    expect(people({ assignee_ids: [], reviewer_ids: [] })).toEqual([[], []]);
    for (const fields of [{}, { assignee_ids: undefined, reviewer_ids: undefined }])
      expect(people(fields)).toEqual([undefined, undefined]);
  });

  it.each(['Confidential Note Hook', 'Push Hook', 'Issue Hook', 'Pipeline Hook'])('is none as a %s', (event) => {
    expect(ofHook(opened, event)).toEqual(IGNORED);
  });

  it('of the whole server is read like any other', () => {
    expect(ofHook(opened, 'System Hook')).toEqual(ofHook(opened));
    for (const payload of [
      { event_name: 'project_create', project_id: 1 },
      { object_kind: 'push', project_id: 1 },
    ])
      expect(ofHook(payload, 'System Hook')).toEqual(IGNORED);
  });

  const { project, ...nameless } = opened;
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

  it('that names its project in the target is taken', () => {
    const path_with_namespace = (project as Json)['path_with_namespace'];
    const target = { path_with_namespace, visibility_level: 0, default_branch: 'main' };
    const object_attributes = { ...attributes, target_project_id: 80200, target };
    expect(pullOf(ofHook({ ...nameless, object_attributes }))).toEqual(pullOf(ofHook(opened)));
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

describe('an issue', () => {
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
    [{ type: 'Test Case' }, { type: 'test_case' }],
    [
      { state: 'closed', duplicated_to_id: 4401, closed_at: '2026-03-02 09:00:00 UTC' },
      { state: 'done', isDropped: true, closedAt: '2026-03-02T09:00:00.000Z' },
    ],
    [{ state: 'closed', duplicated_to_id: null }, { isDropped: undefined }],
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

  it('that is an incident of a deleted account says so', () => {
    const [incident] = list(fixture('gitlab', 'issues.list'));
    expect(incident).toMatchObject({
      state: 'done',
      rawState: 'closed',
      type: 'incident',
      author: null,
      assignees: [],
    });
  });

  it('keeps its key under another path, in another project and on another host', () => {
    const moved = { ...opened, project: { id: 9, path_with_namespace: 'acme/gateway' } };
    expect(itemOf(hook('Issue Hook', moved, { projects: ['acme/*'], host: 'git.example.com' }))).toMatchObject({
      ...{ key: 'gitlab:git.example.com:issue:4400', containerId: '9', containerName: 'acme/gateway' },
    });
  });

  it.each(['Issue Hook', 'Work Item Hook'])('that is a task arrives as %s', (event) => {
    const task = { identifier: '#6', type: 'task', state: 'done', description: '', assignees: [] };
    expect(itemOf(hook(event, fixture('gitlab', 'work_item.task')))).toMatchObject(task);
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
    const visible = (more?: object) => list(fixture('gitlab', 'issues.list'), more).filter(({ gone }) => !gone);
    expect(visible().map(({ identifier }) => identifier)).toEqual(['#7', '#4']);
    expect(visible(SECRET)).toHaveLength(3);
  });

  it.each(['Issue Hook', 'Work Item Hook', 'Confidential Issue Hook', 'Confidential Note Hook'])(
    'is ignored as %s unless issues are followed',
    (event) => {
      expect(hook(event, opened, { issues: false })).toEqual(IGNORED);
      expect(hook('Note Hook', note, { issues: false })).toMatchObject({ reason: 'not_a_merge_request' });
    },
  );
});

describe('a signature', () => {
  const KEY = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;
  const OTHER_KEY = `whsec_${Buffer.alloc(32, 8).toString('base64')}`;
  const TOKEN = 'a-secret-token';
  const NOW = Date.UTC(2026, 0, 5, 9);
  const body = Buffer.from(JSON.stringify(fixture('gitlab', 'merge_request.open')));
  const event = { 'x-gitlab-event': 'Merge Request Hook' };
  type Headers = Record<string, string | string[] | undefined>;

  function signed({ key = KEY, id = 'id-1', at = NOW } = {}) {
    const sentAt = Math.floor(at / 1_000);
    const bytes = Buffer.from(key.slice('whsec_'.length), 'base64');
    const digest = createHmac('sha256', bytes).update(`${id}.${sentAt}.`).update(body).digest('base64');
    return { ...event, 'webhook-id': id, 'webhook-timestamp': String(sentAt), 'webhook-signature': `v1,${digest}` };
  }
  const verify = (headers: Headers, secrets: readonly string[]) => gitlab.verify({ headers, body }, secrets, NOW);
  const resultOf = async (headers: Headers, secrets: readonly string[]) =>
    (await failure(verify(headers, secrets)))?.code ?? 'accepted';
  const wrong = signed({ key: OTHER_KEY });
  const withToken = { ...event, 'x-gitlab-token': TOKEN };
  const [accepted, mismatch] = ['accepted', 'signature_mismatch', 'delivery_malformed'] as const;

  const rows: readonly [of: string, headers: Headers, secrets: readonly string[], outcome: string][] = [
    ['of now', signed(), [KEY], accepted],
    [
      'beside one of another key',
      { ...signed(), 'webhook-signature': `${wrong['webhook-signature']} ${signed()['webhook-signature']}` },
      [KEY],
      accepted,
    ],
    ['beside a wrong token', { ...signed(), 'x-gitlab-token': 'wrong' }, [KEY], accepted],
    ['of 300 s ago', signed({ at: NOW - 300_000 }), [KEY], accepted],
    ['of 301 s ago', signed({ at: NOW - 301_000 }), [KEY], 'signature_expired'],
    ['of another key beside the right token', { ...wrong, 'x-gitlab-token': TOKEN }, [KEY, TOKEN], mismatch],
    [
      'of a key that is not configured beside the right token',
      { ...signed(), 'x-gitlab-token': TOKEN },
      [TOKEN],
      mismatch,
    ],
    ...['whsec_', 'whsec_AA==', 'whsec_not base64', `whsec_${'A'.repeat(28)}`].map(
      (key): [string, Headers, readonly string[], string] => [
        `of the weak key ${key}`,
        signed({ key }),
        [key],
        mismatch,
      ],
    ),
    ['replaced by the token', withToken, ['another', TOKEN], accepted],
    ...['A-secret-token', 'a-secret-token ', 'a-secret', '', KEY].map(
      (token): [string, Headers, readonly string[], string] => [
        `replaced by the token "${token}"`,
        { ...event, 'x-gitlab-token': token },
        [TOKEN, KEY],
        mismatch,
      ],
    ),
    ...['Note Hook', 'Something New Hook'].map((name): [string, Headers, readonly string[], string] => [
      `of the event "${name}"`,
      { ...withToken, 'x-gitlab-event': name },
      [TOKEN],
      accepted,
    ]),
  ];

  it.each(rows.map(([of, ...row]) => [of, row[2], row] as const))('%s: %s', async (_, outcome, [headers, secrets]) => {
    expect(await resultOf(headers, secrets)).toBe(outcome);
  });

  it('names the remedy if no secret is a signing token', async () => {
    await expect(verify(signed(), [TOKEN])).rejects.toMatchObject({ hint: expect.stringContaining('whsec_') });
  });

  it.each<[Headers, string | undefined]>([
    [{ ...signed(), 'idempotency-key': 'forged' }, 'id-1'],
    [{ ...withToken, 'idempotency-key': 'k-1' }, 'k-1'],
    [withToken, undefined],
    [{ ...withToken, 'idempotency-key': '../../../x' }, undefined],
    [{ ...withToken, 'x-gitlab-webhook-uuid': 'fresh-each-time' }, undefined],
  ])('with %j names the delivery %s', async (headers, deliveryId) => {
    const expected = { event: 'Merge Request Hook', ...(deliveryId && { deliveryId }) };
    expect(await verify(headers, [KEY, TOKEN])).toEqual(expected);
  });

  const open = async () => {
    const store = await openTestStore();
    const active = activeWith({ name: 'gitlab', connector: { ...gitlab } as never, secrets: [TOKEN, KEY] });
    const endpoint = await openEndpoint(store, [active]);
    const post = (headers: Record<string, string>) => endpoint.post('/webhooks/main/gitlab', body, headers);
    return { store, clock: endpoint.clock, post, now: () => signed({ at: endpoint.clock.now() }) };
  };
  const taken = (delivery: string) => ({ status: 202, body: `{"delivery":"${delivery}"}` });

  it('is accepted once, and not when it is old', async () => {
    const { store, clock, post, now } = await open();
    const headers = now();
    expect([await post(headers), await post(headers)]).toMatchObject([taken('new'), taken('repeated')]);
    await clock.advance(6 * 60_000);
    expect(await post(headers)).toMatchObject({ status: 401 });
    // GitLab signs a repetition anew, with the same id.
    expect(await post(now())).toMatchObject(taken('repeated'));
    expect(await inboxOf(store)).toMatchObject([{ event: 'Merge Request Hook', body: body.toString() }]);
  });

  it('replaced by a token is accepted once, although the server names no delivery', async () => {
    const { store, post } = await open();
    expect([await post(withToken), await post(withToken)]).toMatchObject([taken('new'), taken('repeated')]);
    expect(await post({ ...withToken, 'x-gitlab-token': 'another' })).toMatchObject({ status: 401 });
    expect(await inboxOf(store)).toHaveLength(1);
  });
});
