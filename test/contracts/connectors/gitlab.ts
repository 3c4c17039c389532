import { createHmac } from 'node:crypto';
import { standardSignature } from '../../../src/connectors/kit/verify.ts';
import { fixture } from '../../support/vendors/model-providers/provider.ts';
import { type Exchange, from, ignored, profileOf, waits } from './profile.ts';

const ORIGIN = 'https://gitlab.com';
const PROJECT = '/api/v4/projects/acme%2Fplatform%2Fapi';
const LIST = `${PROJECT}/merge_requests`;
const BY_NUMBER = '/api/v4/projects/80200/merge_requests';
/** The watermark less the overlap of ten minutes. */
const QUERY = {
  state: 'all',
  scope: 'all',
  order_by: 'updated_at',
  sort: 'desc',
  per_page: '100',
  updated_after: '2026-02-28T23:50:00.000Z',
};
const PAGES = 5;
const SENT_AT = 1_750_000_000;

const mergeRequest = fixture('gitlab', 'merge_requests.get');

const keyOf = (secret: string) => Buffer.from(secret.replace('whsec_', ''), 'base64');
const asSecret = (word: string) => `whsec_${Buffer.from(word.padEnd(32, '.')).toString('base64')}`;

function sign(body: Buffer, secret: string, sentAt = SENT_AT, id = 'f5e5f430-f57b-4e6e-9fac-d9128cd7232f') {
  return { ...standardSignature(body, secret, { id, at: sentAt * 1_000 }), 'x-gitlab-event': 'Merge Request Hook' };
}

/** The newest first. */
function commitPage(messages: readonly string[], next?: string): Exchange {
  const link = `<${next}/projects/80200/merge_requests/12/commits?page=2&per_page=100>; rel="next"`;
  return {
    path: `${BY_NUMBER}/12/commits`,
    query: { per_page: '100', page: messages.includes('Three') ? '1' : '2' },
    headers: next ? { link } : {},
    body: messages.map((message) => ({ id: 'a', message })),
  };
}

/** As the page about GL14 documents them. */
const APPROVALS = JSON.stringify({
  ...{ user_has_approved: false, user_can_approve: true, approved: true },
  approved_by: [
    { user: { id: 1, username: 'ada', state: 'active' }, approved_at: '2026-01-05T08:00:00.000Z' },
    { user: { id: 2, username: 'bob', state: 'active' }, approved_at: '2026-01-05T09:00:00.000Z' },
  ],
});

/** Page n of five holds two merge requests, each an hour older than the one before. */
function page(number: number): Exchange {
  const ages = [2 * number - 2, 2 * number - 1];
  const body = ages.map((age) => ({
    ...mergeRequest,
    iid: 100 - age,
    updated_at: new Date(Date.UTC(2026, 2, 5, 12 - age)).toISOString(),
  }));
  const link = (rel: string, to: number) =>
    `<${ORIGIN}${BY_NUMBER}?${new URLSearchParams({ ...QUERY, page: String(to) }).toString()}>; rel="${rel}"`;
  const links = [...(number < PAGES ? [link('next', number + 1)] : []), link('first', 1), link('last', PAGES)];
  // The third page comes through something that drops the plain numbers.
  const plain: Record<string, string> =
    number === 3 ? {} : { 'x-next-page': number < PAGES ? String(number + 1) : '', 'x-total-pages': '5' };
  return {
    path: LIST,
    query: number === 1 ? QUERY : { ...QUERY, page: String(number) },
    headers: { link: links.join(', '), ...plain, ...(number === 1 ? { etag: 'W/"page-one"' } : {}) },
    body,
  };
}

const said = (message: string) => ({ message });
const date = 'Mon, 05 Jan 2026 09:00:00 GMT';

export const profile = profileOf({
  id: 'gitlab',
  options: { token: 'glpat-contract', projects: ['acme/platform/api'], issues: true },
  containerId: '80200',
  origin: ORIGIN,
  webhook: {
    signatureHeader: 'webhook-signature',
    secrets: [asSecret('present'), asSecret('upcoming'), asSecret('retired')],
    sentAt: SENT_AT * 1_000,
    required: ['x-gitlab-event'],
    sign,
    vector: {
      // Computed outside this program, from the rules of Standard Webhooks.
      secret: 'whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=',
      body: '{"object_kind":"merge_request"}',
      headers: {
        'webhook-id': 'f5e5f430-f57b-4e6e-9fac-d9128cd7232f',
        'webhook-timestamp': '1750000000',
        'webhook-signature': 'v1,dqTGfM7zFJcswV+BxNDPvvv5Fv42/Ejc5cfWSKWZMUM=',
        'x-gitlab-event': 'Merge Request Hook',
      },
    },
    forgeries(body, secret) {
      const good = sign(body, secret);
      const signature = good['webhook-signature'];
      const { 'webhook-signature': _, ...unsigned } = good;
      const bodyOnly = createHmac('sha256', keyOf(secret)).update(body).digest('base64');
      const text = createHmac('sha256', secret).update(`${good['webhook-id']}.${SENT_AT}.`).update(body);
      return {
        'the signing token as the secret token': { ...unsigned, 'x-gitlab-token': secret },
        'a wrong signature beside the signing token': { ...sign(body, asSecret('retired')), 'x-gitlab-token': secret },
        'a signature over the body alone': { ...good, 'webhook-signature': `v1,${bodyOnly}` },
        'a key that is the text of the token': { ...good, 'webhook-signature': `v1,${text.digest('base64')}` },
        'another id than was signed': { ...good, 'webhook-id': 'another' },
        'another time than was signed': { ...good, 'webhook-timestamp': String(SENT_AT + 1) },
        'a request of six minutes ago': sign(body, secret, SENT_AT - 360),
        'a request of six minutes from now': sign(body, secret, SENT_AT + 360),
        'no id': { ...good, 'webhook-id': '' },
        'a time that is no number': { ...good, 'webhook-timestamp': 'now' },
        'two times': { ...good, 'webhook-timestamp': [String(SENT_AT), String(SENT_AT)] },
        'another version alone': { ...good, 'webhook-signature': signature.replace('v1,', 'v2,') },
        'no version': { ...good, 'webhook-signature': signature.replace('v1,', '') },
      };
    },
  },
  fixtures: [
    ...['open', 'draft', 'merge', 'unknown-action'].map((name) => ({
      file: `merge_request.${name}`,
      source: 'webhook' as const,
      event: 'Merge Request Hook',
      outcome: 'items' as const,
    })),
    ...['locked', 'image'].map((name) => ({
      file: `merge_request.${name}`,
      source: 'webhook' as const,
      event: 'Merge Request Hook',
      outcome: 'references' as const,
    })),
    ignored('merge_request.other-project', 'Merge Request Hook', 'project_not_in_scope'),
    {
      ...from('merge_request.approved', 'webhook', 'Merge Request Hook'),
      document: 'https://docs.gitlab.com/user/project/integrations/webhook_events/#merge-request-events',
      facts: { reviewDecision: { state: 'approved' } },
    },
    from('note.on-merge-request', 'webhook', 'Note Hook'),
    from('note.on-issue', 'webhook', 'Note Hook'),
    ignored('note.on-commit', 'Note Hook', 'not_followed_there'),
    from('issue.open', 'webhook', 'Issue Hook'),
    { file: 'issue.image', source: 'webhook', event: 'Issue Hook', outcome: 'references' },
    from('issue.confidential', 'webhook', 'Confidential Issue Hook'),
    ignored('issue.other-project', 'Issue Hook', 'project_not_in_scope'),
    from('work_item.task', 'webhook', 'Work Item Hook'),
    ignored('work_item.epic', 'Issue Hook', 'not_in_a_project'),
    {
      ...from('merge_requests.list', 'poll', 'merge_requests.list'),
      facts: { isFork: false, closedAt: '2026-03-03T10:00:00.000Z', isPublic: undefined, defaultBranch: undefined },
    },
    {
      ...from('merge_requests.get', 'fetch', 'merge_requests.get'),
      facts: { isFork: false, closedAt: null, reviewDecision: { state: 'none' } },
    },
    { ...from('issues.list', 'poll', 'issues.list'), facts: { isDropped: true, closedAt: '2026-03-04T12:00:00.000Z' } },
    { ...from('issues.get', 'fetch', 'issues.get'), facts: { isDropped: false, closedAt: null } },
    from('issues.gone', 'fetch', 'issues.gone'),
  ],
  restricted: {
    event: 'Confidential Issue Hook',
    payload: fixture('gitlab', 'issue.confidential'),
    options: { issues: true, confidential: true },
  },
  about: [
    'object_kind',
    'object_attributes',
    'object_attributes.id',
    'object_attributes.iid',
    'merge_request',
    'merge_request.iid',
    'issue',
    'issue.id',
    'issue.iid',
  ],
  tests: [
    {
      name: 'the button for pushes, with a push that never was',
      event: 'Push Hook',
      payload: { object_kind: 'push', event_name: 'push', project_id: 15, total_commits_count: 4 },
      reason: 'event_not_followed',
    },
    {
      name: 'the button for merge requests, with the first one of the project as it is',
      event: 'Merge Request Hook',
      payload: fixture('gitlab', 'merge_request.open'),
    },
    {
      name: "the button of a server's own hook",
      event: 'System Hook',
      payload: { event_name: 'project_create', name: 'Web', path_with_namespace: 'acme/web', project_id: 74 },
      reason: 'event_not_followed',
    },
  ],
  poll: {
    unit: 'acme/platform/api',
    page,
    besides: [{ path: PROJECT, body: { id: 80200, path_with_namespace: 'acme/platform/api' } }],
    switch: {
      refused: 403,
      shown: { path: '/api/v4/projects/acme%2Fplatform%2Fapi' },
      off: {
        path_with_namespace: 'acme/platform/api',
        merge_requests_access_level: 'disabled',
        merge_requests_enabled: false,
      },
      // Only for its members.
      on: {
        path_with_namespace: 'acme/platform/api',
        merge_requests_access_level: 'private',
        merge_requests_enabled: false,
      },
    },
    validator: { etag: 'W/"page-one"', header: 'if-none-match' },
    foreignNext: {
      headers: { link: `<https://gitlab.com.evil.example${LIST}?page=2>; rel="next"` },
      body: [mergeRequest],
    },
  },
  fetch: {
    reference: { projectId: '80200', iid: '12' },
    found: [{ path: `${BY_NUMBER}/12`, body: mergeRequest }],
    gone: [
      { path: `${BY_NUMBER}/12`, status: 404, body: said('404 Not found') },
      { path: BY_NUMBER, query: { state: 'all', scope: 'all', 'iids[]': '12' }, body: '[]' },
    ],
    unjudged: {
      reference: { projectId: '80200', iid: '12', isFollowed: 'unknown' },
      missing: [
        { path: `${BY_NUMBER}/12`, status: 404, body: said('404 Not found') },
        { path: BY_NUMBER, query: { state: 'all', scope: 'all', 'iids[]': '12' }, body: '[]' },
      ],
    },
    reviews: {
      of: { path: `${BY_NUMBER}/12`, body: { ...mergeRequest, detailed_merge_status: 'mergeable' } },
      answer: { path: `${BY_NUMBER}/12/approvals`, body: APPROVALS },
      facts: { reviewDecision: { state: 'approved', at: '2026-01-05T09:00:00.000Z' } },
    },
    commits: {
      pages: [commitPage(['Three', 'Two'], `${ORIGIN}/api/v4`), commitPage(['One'])],
      foreignNext: commitPage(['Three'], 'https://evil.example/api/v4'),
    },
  },
  limits: {
    '429 with retry-after and plain text': waits(90_000, { 'retry-after': '90' }, 'Retry later\n'),
    'retry-after as a date': waits(300_000, { 'retry-after': 'Mon, 05 Jan 2026 09:05:00 GMT' }, 'Retry later'),
    'only a reset': waits(
      240_000,
      { date, 'ratelimit-reset': String(Date.parse(date) / 1_000 + 240), 'ratelimit-remaining': '0' },
      'Retry later',
    ),
  },
  check: {
    good: [
      {
        path: '/api/v4/personal_access_tokens/self',
        body: { id: 1, name: 'worksync', scopes: ['read_api'], active: true, expires_at: '2026-12-01' },
      },
      { path: PROJECT, body: { id: 80200, path_with_namespace: 'acme/platform/api', archived: false } },
      {
        path: LIST,
        query: { state: 'all', scope: 'all', per_page: '1' },
        headers: { 'ratelimit-limit': '2000', 'ratelimit-remaining': '1990' },
        body: '[]',
      },
      { path: `${PROJECT}/issues`, query: { state: 'all', scope: 'all', per_page: '1' }, body: '[]' },
    ],
    refused: [
      { path: '/api/v4/personal_access_tokens/self', status: 401, body: said('401 Unauthorized') },
      { path: PROJECT, status: 401, body: said('401 Unauthorized') },
    ],
  },
});
