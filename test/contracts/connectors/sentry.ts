import { sentry } from '../../../src/connectors/sentry/index.ts';
import { fixture } from '../../support/vendors/model-providers/provider.ts';
import { type Exchange, from, hmacWebhook, ignored, profileOf, waits } from './profile.ts';

const ORIGIN = 'https://sentry.example.com';
const API = '/api/0';
const LIST = `${API}/organizations/acme/issues/`;
const ISSUE = `${LIST}1170820242/`;
const QUERY = { project: '41', query: '', sort: 'date', limit: '100', collapse: 'stats' };
const PAGES = 5;

const issue = fixture('sentry', 'issues.get');

/** A next page is always named; the last one has no results. */
const link = (cursor: string, results: boolean, host = ORIGIN) => ({
  link:
    `<${host}${LIST}?&cursor=1:0:1>; rel="previous"; results="false"; cursor="1:0:1", ` +
    `<${host}${LIST}?&cursor=${cursor}>; rel="next"; results="${results}"; cursor="${cursor}"`,
});

/** Page n of five holds two issues, each an hour older than the one before. */
function page(number: number): Exchange {
  const issues = [2 * number - 2, 2 * number - 1].map((age) => ({
    ...issue,
    id: String(10_100 - age),
    lastSeen: new Date(Date.UTC(2026, 2, 5, 12 - age)).toISOString(),
  }));
  return {
    path: LIST,
    query: number === 1 ? QUERY : { ...QUERY, cursor: `177000000000${number}:0:0` },
    headers: link(`177000000000${number + 1}:0:0`, number < PAGES),
    body: issues,
  };
}

const said = (detail: string) => ({ detail });
const headers = {
  date: 'Mon, 05 Jan 2026 09:00:00 GMT',
  'x-sentry-rate-limit-limit': '40',
  'x-sentry-rate-limit-reset': String(Date.UTC(2026, 0, 5, 9, 0, 20) / 1_000),
  'x-sentry-rate-limit-concurrentlimit': '25',
};

export const profile = profileOf({
  id: 'sentry',
  options: { host: 'sentry.example.com', organization: 'acme', token: 'sntrys_contract', projects: ['41'] },
  origin: ORIGIN,
  webhook: hmacWebhook(sentry, {
    header: 'sentry-hook-signature',
    headers: { 'sentry-hook-resource': 'issue', 'request-id': '6f1c9a0458bd4b5c8a1a1b7e32a0c0de' },
    elsewhere: (hex) => ({ 'the header of the former plugins': { 'sentry-app-signature': hex } }),
  }),
  fixtures: [
    { ...from('issue.created', 'webhook', 'issue'), endings: [{ state: 'open', isDropped: false }] },
    { ...from('issue.resolved', 'webhook', 'issue'), endings: [{ state: 'done', isDropped: false }] },
    { ...from('issue.archived', 'webhook', 'issue'), endings: [{ state: 'done', isDropped: true }] },
    from('issue.assigned.team', 'webhook', 'issue'),
    { file: 'issue.drifted', source: 'webhook', event: 'issue', outcome: 'references' },
    ignored('issue.other-project', 'issue', 'project_not_in_scope'),
    ignored('comment.created', 'comment', 'event_not_followed'),
    from('issues.list', 'poll', 'issues.list'),
    from('issues.get', 'fetch', 'issues.get'),
    from('issues.gone', 'fetch', 'issues.gone'),
  ],
  about: ['data', 'data.issue', 'data.issue.id'],
  leftOut: ['type', 'id'],
  tests: [
    {
      name: 'a new integration',
      event: 'installation',
      payload: { action: 'created', data: { installation: { status: 'installed' } } },
      reason: 'event_not_followed',
    },
    {
      name: 'the button of an alert, with an event that never was',
      event: 'event_alert',
      payload: { action: 'triggered', data: { triggered_rule: 'Test', event: { issue_id: '1' } } },
      reason: 'event_not_followed',
    },
  ],
  poll: {
    unit: '41',
    page,
    // Only the cursor of the link is used.
    foreignNext: { headers: link('https://evil.example', true), body: [issue] },
  },
  fetch: {
    kind: 'work_item',
    reference: { id: '1170820242', projectId: '41', shortId: 'FRONT-END-9' },
    found: [{ path: ISSUE, body: issue }],
    gone: [
      { path: ISSUE, status: 404, body: said('The requested resource does not exist') },
      { path: `${API}/projects/acme/41/`, body: { id: '41', slug: 'front-end' } },
    ],
    unjudged: { reference: { id: '1170820242', isFollowed: 'unknown' } },
  },
  limits: {
    'only a reset': waits(20_000, { ...headers, 'x-sentry-rate-limit-remaining': '0' }),
    'too many at one time': waits(
      5_000,
      { ...headers, 'x-sentry-rate-limit-remaining': '12', 'x-sentry-rate-limit-concurrentremaining': '0' },
      said('You are attempting to go over the allowed concurrency limit.'),
    ),
  },
  check: {
    good: [
      { path: `${API}/organizations/acme/`, body: { slug: 'acme', name: 'Acme' } },
      { path: LIST, query: { ...QUERY, sort: 'new' }, headers: link('1:0:0', false), body: '[]' },
    ],
    refused: [{ path: `${API}/organizations/acme/`, status: 401, body: said('Invalid token') }],
  },
});
