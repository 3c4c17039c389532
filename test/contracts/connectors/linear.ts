import { linear } from '../../../src/connectors/linear/index.ts';
import { fixture } from '../../support/vendors/model-providers/provider.ts';
import { type Exchange, from, hmacWebhook, ignored, profileOf, waits } from './profile.ts';

const ORGANIZATION = '9f2c1a7b-04d5-4c6f-8a90-b1e2d3c4f5a6';
const TEAM = '72b2a2dc-6f4f-4423-9d34-24b5bd10634a';
const ISSUE = '2174add1-f7c8-44e3-bbf3-2d60b5ea8bc9';
const PAGES = 5;
/** The watermark less the overlap of ten minutes. */
const VARIABLES = {
  filter: { team: { key: { eq: 'ENG' } }, updatedAt: { gte: '2026-02-28T23:50:00.000Z' } },
  orderBy: 'updatedAt',
  first: 50,
};

const issue = fixture('linear', 'issues.get');

const asked = (variables: object, reply: Omit<Exchange, 'path' | 'method' | 'sent'> = {}): Exchange => ({
  method: 'POST',
  path: '/graphql',
  sent: { variables },
  ...reply,
});
const answer = (data: object) => ({ data });
const refused = (code: string, message: string) => {
  return { errors: [{ message, extensions: { code, userError: true } }] };
};

/** Page n of five holds two issues, each an hour older than the one before. */
function page(number: number): Exchange {
  const nodes = [2 * number - 2, 2 * number - 1].map((age) => ({
    ...issue,
    id: ISSUE.replace('2174add1', `2174add${age}`),
    identifier: `ENG-${200 - age}`,
    updatedAt: new Date(Date.UTC(2026, 2, 5, 12 - age)).toISOString(),
  }));
  const pageInfo = { hasNextPage: number < PAGES, endCursor: `cursor-${number}` };
  const variables = number === 1 ? VARIABLES : { ...VARIABLES, after: `cursor-${number - 1}` };
  return asked(variables, { body: answer({ issues: { nodes, pageInfo } }) });
}

const one = { issueId: ISSUE, teamId: TEAM };
/** No team has that id. */
const alone = { issueId: ISSUE, teamId: ISSUE };
const date = 'Mon, 05 Jan 2026 09:00:00 GMT';
const reset = String(Date.parse(date) + 240_000);

export const profile = profileOf({
  id: 'linear',
  options: { organizationId: ORGANIZATION, apiKey: 'lin_api_contract', teams: ['ENG'] },
  containerId: TEAM,
  origin: 'https://api.linear.app',
  webhook: hmacWebhook(linear, {
    header: 'linear-signature',
    headers: { 'linear-event': 'Issue', 'linear-delivery': '234d1a4e-b617-4388-90fe-adc3633d6b72' },
  }),
  fixtures: [
    from('issue.update', 'webhook', 'Issue'),
    from('issue.create.nobody', 'webhook', 'Issue'),
    { file: 'issue.drifted', source: 'webhook', event: 'Issue', outcome: 'references' },
    from('issue.remove', 'webhook', 'Issue'),
    ignored('issue.other-team', 'Issue', 'team_not_in_scope'),
    ignored('issue.other-organisation', 'Issue', 'organization_not_configured'),
    { file: 'comment.create', source: 'webhook', event: 'Comment', outcome: 'references' },
    ignored('comment.on-project-update', 'Comment', 'not_an_issue'),
    ignored('project.update', 'Project', 'event_not_followed'),
    from('issues.list', 'poll', 'issues.list'),
    from('issues.get', 'fetch', 'issues.get'),
    {
      ...from('issues.closed', 'poll', 'issues.list'),
      document: 'https://www.npmjs.com/package/@linear/sdk',
      endings: [
        { state: 'done', isDropped: false, closedAt: '2026-03-03T09:00:00.250Z' },
        { state: 'done', isDropped: true, closedAt: '2026-03-03T10:00:00.000Z' },
        { state: 'done', isDropped: true, closedAt: '2026-03-03T10:30:00.000Z' },
        { state: 'in_progress', isDropped: false, closedAt: null },
      ],
    },
    {
      ...from('issue.completed', 'webhook', 'Issue'),
      document: 'https://www.npmjs.com/package/@linear/sdk',
      endings: [{ state: 'done', isDropped: false, closedAt: '2026-03-02T09:30:00.480Z' }],
    },
    from('issues.gone', 'fetch', 'issues.gone'),
  ],
  about: ['data', 'data.id'],
  poll: {
    unit: 'ENG',
    page,
    foreignNext: {
      body: answer({
        issues: { nodes: [issue], pageInfo: { hasNextPage: true, endCursor: 'https://evil.example/graphql' } },
      }),
    },
  },
  fetch: {
    kind: 'work_item',
    reference: { issueId: ISSUE, teamId: TEAM, identifier: 'ENG-123' },
    found: [asked(one, { body: answer({ issues: { nodes: [issue] }, teams: { nodes: [{ id: TEAM }] } }) })],
    gone: [asked(one, { body: answer({ issues: { nodes: [] }, teams: { nodes: [{ id: TEAM }] } }) })],
    hidden: [
      asked(one, { body: answer({ issues: { nodes: [] }, teams: { nodes: [] } }) }),
      asked(
        { filter: { id: { eq: TEAM } } },
        { body: answer({ teams: { nodes: [], pageInfo: { hasNextPage: false } } }) },
      ),
    ],
    unjudged: {
      reference: { issueId: ISSUE, isFollowed: 'unknown' },
      found: [asked(alone, { body: answer({ issues: { nodes: [issue] }, teams: { nodes: [] } }) })],
      missing: [asked(alone, { body: answer({ issues: { nodes: [] }, teams: { nodes: [] } }) })],
    },
  },
  limits: {
    '400 with its code and a reset': waits(
      240_000,
      {
        date,
        'x-ratelimit-requests-limit': '2500',
        'x-ratelimit-requests-remaining': '0',
        'x-ratelimit-requests-reset': reset,
      },
      refused('RATELIMITED', 'Rate limit exceeded'),
      400,
    ),
    'the code with 200, for complexity': waits(
      240_000,
      {
        date,
        'x-ratelimit-requests-limit': '2500',
        'x-ratelimit-requests-remaining': '2000',
        'x-ratelimit-requests-reset': String(Date.parse(date) + 1_000),
        'x-ratelimit-complexity-limit': '3000000',
        'x-ratelimit-complexity-remaining': '10',
        'x-ratelimit-complexity-reset': reset,
      },
      refused('RATELIMITED', 'Rate limit exceeded'),
      200,
    ),
    'a plain 429': waits(90_000, { 'retry-after': '90' }),
    'nothing but the code': waits(60_000, {}, refused('RATELIMITED', ''), 400),
  },
  check: {
    good: [
      asked({}, { body: answer({ viewer: { name: 'Sync' }, organization: { id: ORGANIZATION, urlKey: 'acme' } }) }),
      asked(
        { filter: { key: { eq: 'ENG' } } },
        {
          body: answer({
            teams: { nodes: [{ id: TEAM, key: 'ENG', name: 'Engineering' }], pageInfo: { hasNextPage: false } },
          }),
        },
      ),
    ],
    refused: [asked({}, { status: 401, body: refused('AUTHENTICATION_ERROR', 'Authentication required') })],
  },
});
