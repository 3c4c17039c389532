import { describe, expect, it } from 'vitest';
import { connectors } from '../../src/connectors/registry.ts';
import type { HttpRequest } from '../../src/platform/http/http-client.ts';
import { DESCRIPTIONS, undocumented } from '../support/vendors/vendor-requests/index.ts';

/**
 * That every request of every connector is documented is checked where requests are made: no test reaches a vendor, or its
 * stand-in, but through `documentedOnly` or `requireDocumented`. Here it is shown that this check refuses what is wrong.
 */

const OURS = { 'user-agent': 'worksync', accept: 'application/json' };

function ask(target: string, request: string, body?: unknown, headers: Record<string, string> = OURS) {
  const [method, url] = request.split(' ') as [HttpRequest['method'], string];
  return undocumented({ method, url, target, headers, ...(body === undefined ? {} : { body: JSON.stringify(body) }) });
}

const GITHUB = 'https://api.github.com';
const GITLAB = 'https://gitlab.com/api/v4';
const BITBUCKET = 'https://api.bitbucket.org/2.0';
const JIRA = 'https://acme.atlassian.net';
const SENTRY = 'https://sentry.io/api/0/organizations/acme';
const REDMINE = 'https://redmine.example.com/tracker';
const AZURE = 'https://dev.azure.com/acme';
const LINEAR = 'https://api.linear.app';
const SHORTCUT = 'https://api.app.shortcut.com/api/v3';
const TOKEN = { ...OURS, 'shortcut-token': 'a-token' };
const V = 'api-version=7.1';
const PATCH = { ...OURS, 'content-type': 'application/json-patch+json' };
const TYPED = { ...OURS, 'content-type': 'application/json' };

it('every vendor has a description', () => {
  const vendors = connectors.map(({ id }) => id).filter((id) => id !== 'generic');
  expect(Object.keys(DESCRIPTIONS).toSorted()).toEqual(vendors.toSorted());
});

type Case = readonly [vendor: string, request: string, body?: unknown, headers?: Record<string, string>];

describe('what is not is refused', () => {
  const cases: readonly (readonly [why: RegExp, ...Case])[] = [
    // Routes.
    [/no such route/, 'github', `GET ${GITHUB}/repos/acme/api/pull`],
    [/no such route/, 'github', `DELETE ${GITHUB}/repos/acme/api/pulls/1`],
    [/no such route/, 'github', `GET ${GITHUB}/repositories/12/nothing`],
    [/no such route/, 'github', `PATCH ${GITHUB}/repositories/12`, {}],
    [/no such route/, 'gitlab', `GET https://gitlab.com/projects/1`],
    [/no such route/, 'gitlab', `GET ${GITLAB}/projects/acme/web/merge_requests`],
    [/no such route/, 'bitbucket', 'GET https://api.bitbucket.org/repositories/acme'],
    [/no such route/, 'jira', `GET ${JIRA}/rest/api/3/search?jql=x`],
    [/no such route/, 'sentry', `GET ${SENTRY}/issues`],
    [/no such route/, 'redmine', `GET ${REDMINE}/issues`],
    [/no such route/, 'azure-boards', `GET https://dev.azure.com/_apis/projects?${V}`],
    [/no such route/, 'linear', `GET ${LINEAR}/graphql`],
    // Parameters, and their values.
    [/query.*Unrecognized key: "since"/s, 'github', `GET ${GITHUB}/repos/acme/api/pulls?since=2026-01-01T00:00:00Z`],
    [/query.*direction/s, 'github', `GET ${GITHUB}/repos/acme/api/pulls?direction=down`],
    [/query.*per_page/s, 'github', `GET ${GITHUB}/repos/acme/api/pulls?per_page=many`],
    [/query.*state/s, 'gitlab', `GET ${GITLAB}/projects/1/issues?state=open`],
    [/query.*non_archived/s, 'gitlab', `GET ${GITLAB}/projects/1/issues?non_archived=true`],
    [/query.*pagelen/s, 'bitbucket', `GET ${BITBUCKET}/repositories/acme/api/pullrequests?pagelen=100`],
    [/query.*state/s, 'bitbucket', `GET ${BITBUCKET}/repositories/acme/api/pullrequests?state=CLOSED`],
    [/query.*orderBy/s, 'jira', `GET ${JIRA}/rest/api/3/issue/1/comment?orderBy=updated`],
    [/query.*sort/s, 'sentry', `GET ${SENTRY}/issues/?sort=lastSeen`],
    [/query.*status_id/s, 'redmine', `GET ${REDMINE}/issues.json?status_id=all`],
    [/query.*api-version/s, 'azure-boards', `GET ${AZURE}/_apis/projects?api-version=5.0`],
    // Bodies and headers.
    [/body.*state/s, 'github', `PATCH ${GITHUB}/repos/acme/api/pulls/1`, { state: 'merged' }],
    [/body.*Unrecognized key: "draft"/s, 'github', `PATCH ${GITHUB}/repos/acme/api/pulls/1`, { draft: true }],
    [/body.*head/s, 'github', `POST ${GITHUB}/repos/acme/api/pulls`, { base: 'main', title: 't' }],
    [/body/, 'github', `GET ${GITHUB}/user`, {}],
    [/headers.*user-agent/s, 'github', `GET ${GITHUB}/user`, undefined, { accept: 'application/json' }],
    [
      /body.*isDraft_/s,
      'github',
      `POST ${GITHUB}/graphql`,
      {
        query: 'mutation { markPullRequestReadyForReview(input: {pullRequestId: "a"}) { pullRequest { isDraft_ } } }',
        variables: {},
      },
    ],
    [/body.*label/s, 'gitlab', `PUT ${GITLAB}/projects/1/merge_requests/2`, { labels: ['a'] }],
    [/body.*content/s, 'bitbucket', `POST ${BITBUCKET}/repositories/acme/api/pullrequests/1/comments`, { text: 'a' }],
    [/body.*body/s, 'jira', `POST ${JIRA}/rest/api/3/issue/1/comment`, { body: 'plain text' }],
    [/body.*status/s, 'sentry', `PUT ${SENTRY}/issues/7/`, { status: 'closed' }],
    [/body.*note/s, 'redmine', `PUT ${REDMINE}/issues/1.json`, { issue: { note: 'a' } }, TYPED],
    [/no such route/, 'shortcut', `GET ${SHORTCUT}/story/7`],
    [/body.*sort/s, 'shortcut', `POST ${SHORTCUT}/stories/search`, { sort: 'id' }, TOKEN],
    [/body.*state/s, 'shortcut', `PUT ${SHORTCUT}/stories/7`, { state: 'done' }, TOKEN],
    [/headers.*shortcut-token/s, 'shortcut', `GET ${SHORTCUT}/member`],
    [/headers.*content-type/s, 'azure-boards', `PATCH ${AZURE}/_apis/wit/workitems/7?${V}`, [], TYPED],
    [/body.*op/s, 'azure-boards', `PATCH ${AZURE}/_apis/wit/workitems/7?${V}`, [{ op: 'set', path: '/rev' }], PATCH],
    [/body.*nothing/s, 'linear', `POST ${LINEAR}/graphql`, { query: '{ issue(id: "a") { nothing } }', variables: {} }],
    [
      /body.*\$id/s,
      'linear',
      `POST ${LINEAR}/graphql`,
      { query: 'query($id: String!) { issue(id: $id) { id } }', variables: { id: 7 } },
    ],
    [
      /body.*declared nowhere/s,
      'linear',
      `POST ${LINEAR}/graphql`,
      { query: '{ viewer { id } }', variables: { a: 1 } },
    ],
  ];
  for (const [why, vendor, request, body, headers] of cases)
    it(`${vendor}: ${request} (${why.source})`, () => expect(ask(vendor, request, body, headers)).toMatch(why));
});
