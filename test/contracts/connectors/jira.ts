import { jira } from '../../../src/connectors/jira/index.ts';
import { fixture } from '../../support/vendors/model-providers/provider.ts';
import { type Exchange, from, hmacWebhook, ignored, profileOf, waits } from './profile.ts';

const ORIGIN = 'https://acme.atlassian.net';
const SEARCH = '/rest/api/3/search/jql';
const ISSUE = '/rest/api/3/issue/10023';
const FIELDS =
  'project,updated,summary,description,status,resolution,resolutiondate,statuscategorychangedate,priority,issuetype,assignee,reporter,creator,labels,created';
/** The watermark less the overlap of ten minutes, as milliseconds: no time zone of a profile changes its meaning. */
const SINCE = Date.UTC(2026, 1, 28, 23, 50);
const QUERY = {
  jql: `project = "ENG" AND updated >= ${SINCE} ORDER BY updated DESC`,
  fields: FIELDS,
  maxResults: '100',
};
const PAGES = 5;
const CLOUD_ID = '11223344-a1b2-4b33-8444-def123456789';

const issue = fixture<{ fields: object }>('jira', 'issues.get');
const created = fixture<{ issue: { fields: object } }>('jira', 'issue_created');

/** Page n of five holds two issues, each an hour older than the one before. */
function page(number: number): Exchange {
  const issues = [2 * number - 2, 2 * number - 1].map((age) => ({
    ...issue,
    id: String(10_100 - age),
    key: `ENG-${200 - age}`,
    fields: { ...issue.fields, updated: new Date(Date.UTC(2026, 2, 5, 12 - age)).toISOString().replace('Z', '+0000') },
  }));
  return {
    path: SEARCH,
    query: number === 1 ? QUERY : { ...QUERY, nextPageToken: `Ch0jU3${number}==` },
    body: number < PAGES ? { issues, nextPageToken: `Ch0jU3${number + 1}==`, isLast: false } : { issues, isLast: true },
  };
}

const said = (message: string) => ({ errorMessages: [message], errors: {} });
const date = 'Mon, 05 Jan 2026 09:00:00 GMT';
const tenant: Exchange = { path: '/_edge/tenant_info', body: { cloudId: CLOUD_ID } };

export const profile = profileOf({
  id: 'jira',
  options: {
    site: 'acme.atlassian.net',
    cloudId: CLOUD_ID,
    email: 'sync@example.com',
    token: 'ATATT-contract',
    projects: ['ENG'],
  },
  containerId: '10008',
  origin: ORIGIN,
  webhook: hmacWebhook(jira, {
    header: 'x-hub-signature',
    prefix: 'sha256=',
    headers: { 'x-atlassian-webhook-identifier': '6f1c9a04-58bd-4b5c-8a1a-1b7e32a0c0de' },
    elsewhere: () => ({ 'the token of an app in its place': { authorization: 'Bearer e30.e30.sig' } }),
  }),
  fixtures: [
    from('issue_created', 'webhook', 'webhook'),
    { file: 'issue_updated.described', source: 'webhook', event: 'webhook', outcome: 'references' },
    ignored('issue_updated.other-project', 'webhook', 'project_not_in_scope'),
    from('issue_deleted', 'webhook', 'webhook'),
    { file: 'comment_created', source: 'webhook', event: 'webhook', outcome: 'references' },
    ignored('sprint_started', 'webhook', 'event_not_followed'),
    from('issues.list', 'poll', 'issues.list'),
    from('issues.get', 'fetch', 'issues.get'),
    {
      ...from('issues.closed', 'poll', 'issues.list'),
      document: 'https://developer.atlassian.com/cloud/jira/platform/rest/v3/api-group-issues/',
      endings: [
        { state: 'done', isDropped: false, closedAt: '2026-03-03T09:00:00.250Z' },
        { state: 'done', isDropped: true, closedAt: '2026-03-03T10:00:00.000Z' },
        { state: 'in_progress', isDropped: false, closedAt: null },
        { state: 'done', isDropped: false, closedAt: '2026-03-03T12:00:00.000Z' },
      ],
    },
    from('issues.gone', 'fetch', 'issues.gone'),
  ],
  restricted: {
    event: 'webhook',
    payload: {
      ...created,
      issue: { ...created.issue, fields: { ...created.issue.fields, security: { id: '10021' } } },
    },
  },
  about: ['webhookEvent', 'issue', 'issue.id'],
  leftOut: ['content'],
  poll: {
    unit: 'ENG',
    page,
    foreignNext: { body: { issues: [issue], nextPageToken: `https://evil.example${SEARCH}`, isLast: false } },
  },
  fetch: {
    kind: 'work_item',
    reference: { issueId: '10023', projectId: '10008', issueKey: 'ENG-123' },
    found: [{ path: ISSUE, query: { fields: FIELDS }, body: issue }],
    gone: [
      { path: ISSUE, query: { fields: FIELDS }, status: 404, body: said('Issue does not exist') },
      { path: '/rest/api/3/project/10008', body: { id: '10008', key: 'ENG' } },
    ],
    unjudged: { reference: { issueId: '10023', isFollowed: 'unknown' } },
  },
  limits: {
    '429 with retry-after': waits(90_000, { 'retry-after': '90', 'ratelimit-reason': 'jira-burst-based' }),
    'only a reset': waits(240_000, {
      date,
      'x-ratelimit-reset': '2026-01-05T09:04:00Z',
      'ratelimit-reason': 'jira-quota-global-based',
    }),
  },
  check: {
    good: [
      tenant,
      { path: '/rest/api/3/myself', body: { accountId: 'a', displayName: 'Sync', timeZone: 'Asia/Tokyo' } },
      { path: '/rest/api/3/project/ENG', body: { id: '10008', key: 'ENG', name: 'Engineering' } },
      {
        path: SEARCH,
        query: { jql: 'project = "ENG" ORDER BY created ASC', fields: 'id', maxResults: '1' },
        body: { issues: [{ id: '10001' }], isLast: true },
      },
    ],
    refused: [tenant, { path: '/rest/api/3/myself', status: 401, body: said('Client must be authenticated') }],
  },
});
