import { github } from '../../../src/connectors/github/index.ts';
import { fixture } from '../../support/vendors/model-providers/provider.ts';
import { type Exchange, from, hmacWebhook, ignored, profileOf, waits } from './profile.ts';

const ORIGIN = 'https://api.github.com';
const LIST = '/repos/acme/api/pulls';
const QUERY = { state: 'all', sort: 'updated', direction: 'desc', per_page: '100' };
const PAGES = 5;

const pull = fixture('github', 'pulls.get');

/** Page n of five holds two pull requests, each an hour older than the one before; GitHub links by id. */
function page(number: number): Exchange {
  const ages = [2 * number - 2, 2 * number - 1];
  const body = ages.map((age) => ({
    ...pull,
    number: 100 - age,
    updated_at: new Date(Date.UTC(2026, 2, 5, 12 - age)).toISOString(),
  }));
  const link = (rel: string, to: number) =>
    `<${ORIGIN}/repositories/70100/pulls?${new URLSearchParams({ ...QUERY, page: String(to) }).toString()}>; rel="${rel}"`;
  const links = [...(number < PAGES ? [link('next', number + 1)] : []), link('last', PAGES), link('first', 1)];
  return {
    path: LIST,
    query: number === 1 ? QUERY : { ...QUERY, page: String(number) },
    headers: { link: links.join(', '), ...(number === 1 ? { etag: 'W/"page-one"' } : {}) },
    body,
  };
}

/** The oldest first. */
function commitPage(messages: readonly string[], next?: string): Exchange {
  return {
    path: `${LIST}/12/commits`,
    query: { per_page: '100', ...(messages.includes('One') ? {} : { page: '2' }) },
    headers: next ? { link: `<${next}/repositories/70100/pulls/12/commits?per_page=100&page=2>; rel="next"` } : {},
    body: messages.map((message) => ({ sha: 'a', commit: { message } })),
  };
}

/** As the page about GH14 documents them: the author of the second is deleted, and the third is not submitted. */
const REVIEWS = JSON.stringify([
  {
    ...{ id: 80, user: { login: 'hubot', id: 1, type: 'User' }, body: 'Here is the body', state: 'APPROVED' },
    ...{ submitted_at: '2026-01-05T08:00:00Z', commit_id: 'ecdd80b', author_association: 'MEMBER' },
  },
  {
    ...{ id: 81, user: null, body: '', state: 'CHANGES_REQUESTED', submitted_at: '2026-01-05T08:10:00Z' },
    author_association: 'NONE',
  },
  { id: 82, user: { login: 'ada', id: 2 }, body: '', state: 'PENDING', author_association: 'OWNER' },
]);

const said = (message: string) => ({ message, documentation_url: 'https://docs.github.com/rest' });
const inAnHour = String(Math.floor(Date.UTC(2026, 0, 5, 10) / 1_000));

export const profile = profileOf({
  id: 'github',
  options: { token: 'ghp_contract', repositories: ['acme/api'], issues: true },
  containerId: '70100',
  origin: ORIGIN,
  webhook: hmacWebhook(github, {
    header: 'x-hub-signature-256',
    prefix: 'sha256=',
    headers: { 'x-github-event': 'ping', 'x-github-delivery': '72d3162e-cc78-11e3-81ab-4c9367dc0958' },
    vector: {
      // GitHub documentation, "Testing the webhook payload validation".
      secret: "It's a Secret to Everybody",
      body: 'Hello, World!',
      headers: {
        'x-hub-signature-256': 'sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17',
        'x-github-event': 'ping',
        'x-github-delivery': '72d3162e-cc78-11e3-81ab-4c9367dc0958',
      },
    },
    elsewhere: (hex) => ({ 'only the older header': { 'x-hub-signature': `sha256=${hex}` } }),
  }),
  fixtures: [
    ...['opened', 'draft', 'merged'].map((name) => from(`pull_request.${name}`, 'webhook', 'pull_request')),
    {
      ...from('pull_request.enqueued', 'webhook', 'pull_request'),
      document: 'https://docs.github.com/en/webhooks/webhook-events-and-payloads?actionType=enqueued#pull_request',
    },
    from('pull_request.unknown-action', 'webhook', 'pull_request'),
    ignored('pull_request.other-repository', 'pull_request', 'repository_not_in_scope'),
    from('pull_request_review.submitted', 'webhook', 'pull_request_review'),
    { file: 'issue_comment.on-pull-request', source: 'webhook', event: 'issue_comment', outcome: 'references' },
    from('issue_comment.on-issue', 'webhook', 'issue_comment'),
    {
      ...from('issues.closed', 'webhook', 'issues'),
      facts: {
        closedAt: '2026-03-02T10:00:00Z',
        isPublic: false,
        isBot: false,
        isAuthorMember: undefined,
        isDropped: false,
      },
    },
    { file: 'issues.transferred', source: 'webhook', event: 'issues', outcome: 'references' },
    {
      ...from('issues.list', 'poll', 'issues.list'),
      facts: { closedAt: null, isPublic: false, isAuthorMember: true, isDropped: false },
    },
    {
      ...from('issues.get', 'fetch', 'issues.get'),
      facts: {
        closedAt: '2026-03-02T10:00:00Z',
        isPublic: undefined,
        isBot: false,
        isAuthorMember: undefined,
        isDropped: false,
      },
    },
    ignored('ping', 'ping', 'test_delivery'),
    from('pulls.list', 'poll', 'pulls.list'),
    from('pulls.get', 'fetch', 'pulls.get'),
  ],
  about: [
    'pull_request',
    'pull_request.number',
    'issue',
    'issue.id',
    'issue.number',
    'repository',
    'repository.id',
    'repository.full_name',
  ],
  tests: [
    {
      name: 'a new webhook',
      event: 'ping',
      payload: { zen: 'Keep it logically awesome.', hook_id: 1, hook: { type: 'Repository', id: 1 } },
      reason: 'test_delivery',
    },
  ],
  poll: {
    unit: 'acme/api',
    page,
    switch: {
      refused: 404,
      shown: { path: '/repos/acme/api' },
      off: { id: 70100, full_name: 'acme/api', has_pull_requests: false },
      on: { id: 70100, full_name: 'acme/api', has_pull_requests: true },
    },
    validator: { etag: 'W/"page-one"', header: 'if-none-match' },
    foreignNext: {
      headers: { link: '<https://api.github.com.evil.example/repos/acme/api/pulls?page=2>; rel="next"' },
      body: [{ ...pull, updated_at: '2026-03-05T12:00:00Z' }],
    },
  },
  fetch: {
    reference: { repoId: '70100', repository: 'acme/api', number: '12' },
    found: [{ path: `${LIST}/12`, body: pull }],
    gone: [
      { path: `${LIST}/12`, status: 404, body: said('Not Found') },
      { path: '/repos/acme/api', body: { id: 70100, full_name: 'acme/api' } },
    ],
    reviews: {
      of: { path: `${LIST}/12`, body: pull },
      answer: { path: `${LIST}/12/reviews`, query: { per_page: '100' }, body: REVIEWS },
      facts: {
        reviews: {
          80: { reviewer: 'hubot', state: 'approved', at: '2026-01-05T08:00:00Z', isMember: true },
          81: { reviewer: 'ghost', state: 'changes', at: '2026-01-05T08:10:00Z' },
        },
      },
    },
    commits: {
      pages: [commitPage(['One', 'Two'], ORIGIN), commitPage(['Three'])],
      foreignNext: commitPage(['One'], 'https://evil.example'),
    },
  },
  limits: {
    'primary limit, 403': waits(
      3_600_000,
      { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': inAnHour },
      said('API rate limit exceeded for user ID 1.'),
      403,
    ),
    'secondary limit, 403 with retry-after': waits(
      90_000,
      { 'retry-after': '90' },
      said('You have exceeded a secondary rate limit.'),
      403,
    ),
    'secondary limit, 403 with a short retry-after': waits(
      60_000,
      { 'retry-after': '1' },
      said('You have exceeded a secondary rate limit.'),
      403,
    ),
    'secondary limit, 403 by its text alone': waits(60_000, {}, said('You have exceeded a secondary rate limit.'), 403),
    'retry-after as a date': waits(300_000, { 'retry-after': 'Mon, 05 Jan 2026 09:05:00 GMT' }),
  },
  check: {
    good: [
      { path: '/user', body: { login: 'worksync-bot', id: 1 } },
      { path: '/repos/acme/api', body: { id: 70100, full_name: 'acme/api', archived: false } },
      { path: LIST, query: { state: 'all', per_page: '1' }, body: '[]' },
      {
        path: '/repos/acme/api/issues',
        query: { state: 'all', per_page: '1' },
        headers: { 'x-ratelimit-limit': '5000', 'x-ratelimit-remaining': '4990' },
        body: '[]',
      },
    ],
    refused: [
      { path: '/user', status: 401, body: said('Bad credentials') },
      { path: '/repos/acme/api', status: 401, body: said('Bad credentials') },
    ],
  },
});
