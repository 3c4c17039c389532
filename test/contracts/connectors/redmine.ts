import { redmine } from '../../../src/connectors/redmine/index.ts';
import { fixture } from '../../support/vendors/model-providers/provider.ts';
import { type Exchange, from, hmacWebhook, ignored, profileOf } from './profile.ts';

const ORIGIN = 'https://redmine.example.com';
const LIST = '/issues.json';
const ISSUE = '/issues/318.json';
/** The watermark less the overlap of ten minutes. */
const QUERY = {
  project_id: 'website',
  subproject_id: '!*',
  status_id: '*',
  updated_on: '>=2026-02-28T23:50:00Z',
  sort: 'id',
  limit: '100',
};
const PAGES = 5;
/** By whose clock the walk begins. */
const headers = { date: 'Thu, 01 Jan 2026 00:00:00 GMT' };

const { issue } = fixture<{ issue: object }>('redmine', 'issues.get');

/** Page n of five holds two issues; their numbers have gaps. */
function page(number: number): Exchange {
  const issues = [10 * number, 10 * number + 3].map((id) => ({
    ...issue,
    id,
    updated_on: new Date(Date.UTC(2025, 11, 31, id % 24)).toISOString().replace('.000Z', 'Z'),
  }));
  return {
    path: LIST,
    query: number === 1 ? QUERY : { ...QUERY, issue_id: `>=${10 * number - 6}` },
    headers,
    body: { issues, total_count: 2 * (PAGES - number + 1), offset: 0, limit: 100 },
  };
}

const MODULES = { include: 'enabled_modules' };
const project = { id: 12, name: 'Website', identifier: 'website' };
const user: Exchange = { path: '/users/current.json', body: { user: { id: 3, login: 'sync' } } };

export const profile = profileOf({
  id: 'redmine',
  options: { url: `${ORIGIN}/`, apiKey: '0f0e0d0c-contract-key', projects: ['website'] },
  containerId: '5',
  origin: ORIGIN,
  webhook: hmacWebhook(redmine, {
    header: 'x-redmine-signature-256',
    prefix: 'sha256=',
    elsewhere: (_, secret) => ({ 'the key of the API in its place': { 'x-redmine-api-key': secret } }),
  }),
  fixtures: [
    { file: 'issue.created', source: 'webhook', event: 'webhook', outcome: 'references' },
    { file: 'issue.updated', source: 'webhook', event: 'webhook', outcome: 'references' },
    { file: 'issue.deleted', source: 'webhook', event: 'webhook', outcome: 'references' },
    ignored('time_entry.created', 'webhook', 'event_not_followed'),
    from('issues.list', 'poll', 'issues.list'),
    from('issues.old-version', 'poll', 'issues.list'),
    from('issues.get', 'fetch', 'issues.get'),
    {
      ...from('issues.closed', 'poll', 'issues.list'),
      document: 'https://www.redmine.org/projects/redmine/wiki/Rest_Issues',
      endings: [
        { state: 'done', isDropped: false, closedAt: '2026-03-03T09:00:00Z' },
        { state: 'done', isDropped: true, closedAt: '2026-03-03T10:00:00Z' },
        { state: 'in_progress', isDropped: false, closedAt: null },
      ],
    },
    from('issues.hook', 'fetch', 'issues.get'),
    { ...from('issues.hook.other-project', 'fetch', 'issues.get'), outcome: 'ignored', reason: 'project_not_in_scope' },
    from('issues.private', 'fetch', 'issues.get'),
    from('issues.gone', 'fetch', 'issues.gone'),
    {
      ...from('issues.gone.other-project', 'fetch', 'issues.gone'),
      outcome: 'ignored',
      reason: 'project_not_in_scope',
    },
  ],
  about: ['type', 'data', 'data.issue', 'data.issue.id'],
  leftOut: ['author', 'assigned_to'],
  poll: {
    unit: 'website',
    page,
    newest: '2025-12-31T23:00:00.000Z',
    switch: {
      refused: 403,
      shown: { path: '/projects/website.json', query: MODULES },
      off: { project: { ...project, enabled_modules: [{ id: 1, name: 'wiki' }] } },
      on: { project: { ...project, enabled_modules: [{ id: 2, name: 'issue_tracking' }] } },
    },
    foreignNext: { body: { issues: [issue], total_count: `https://evil.example${LIST}?issue_id=1` } },
  },
  fetch: {
    kind: 'work_item',
    reference: { issueId: '318', projectId: '12' },
    found: [{ path: ISSUE, body: { issue } }],
    gone: [
      { path: ISSUE, status: 404 },
      { path: '/projects/12.json', query: MODULES, body: { project } },
    ],
    unjudged: {
      reference: { issueId: '318', isFollowed: 'unknown' },
      found: [
        { path: ISSUE, body: { issue } },
        { path: '/projects/12.json', body: { project } },
      ],
      missing: [{ path: ISSUE, status: 404 }],
    },
  },
  check: {
    good: [
      user,
      {
        path: '/issue_statuses.json',
        body: {
          issue_statuses: [
            { id: 2, name: 'In Progress', is_closed: false },
            { id: 5, name: 'Closed', is_closed: true },
          ],
        },
      },
      { path: '/projects/website.json', query: MODULES, body: { project } },
      {
        path: LIST,
        query: { project_id: 'website', subproject_id: '!*', status_id: 'open', sort: 'id', limit: '100' },
        body: { issues: [issue], total_count: 1 },
      },
    ],
    refused: [{ ...user, status: 401, body: '' }],
  },
});
