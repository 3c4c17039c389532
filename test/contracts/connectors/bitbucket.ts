import { bitbucket } from '../../../src/connectors/bitbucket/index.ts';
import { fixture } from '../../support/vendors/model-providers/provider.ts';
import { type Exchange, from, hmacWebhook, ignored, profileOf, waits } from './profile.ts';

const ORIGIN = 'https://api.bitbucket.org';
const REPOSITORY = '/2.0/repositories/acme/api';
const LIST = `${REPOSITORY}/pullrequests`;
const UUID = '{7d3f4c1a-52be-4a0e-9c61-0b8a6f2e9d10}';
const BY_ID = `/2.0/repositories/acme/${encodeURIComponent(UUID)}`;
const ANYWHERE = `/2.0/repositories/%7B%7D/${encodeURIComponent(UUID)}`;
const FIELDS =
  'id,title,description,state,draft,queued,merge_commit.hash,created_on,updated_on,links.html.href,author.uuid,author.type,reviewers,participants,source.branch.name,source.commit.hash,source.repository.uuid,destination.branch.name,destination.repository.uuid,destination.repository.full_name,destination.repository.is_private,destination.repository.mainbranch.name';
const QUERY = {
  state: ['OPEN', 'MERGED', 'DECLINED', 'SUPERSEDED'],
  q: 'updated_on >= 2026-02-28T23:50:00.000+00:00',
  sort: '-updated_on',
  pagelen: '50',
  fields: `next,${FIELDS.split(',')
    .map((field) => `values.${field}`)
    .join(',')}`,
};
const PAGES = 5;

const pull = fixture('bitbucket', 'pullrequests.get');

function linkTo(page: number): string {
  const pairs = Object.entries({ ...QUERY, page: String(page) }).flatMap(([name, values]) =>
    [values].flat().map((value) => [name, value]),
  );
  return `${ORIGIN}${LIST}?${new URLSearchParams(pairs).toString()}`;
}

/** The newest first; Bitbucket links by the repository's name. */
function commitPage(messages: readonly string[], next?: string): Exchange {
  const isFirst = messages.includes('Three');
  const query = { pagelen: '100', fields: 'next,values.message', ...(isFirst ? {} : { page: 'Tq9' }) };
  const link = `${next}${LIST}/12/commits?${new URLSearchParams({ ...query, page: 'Tq9' }).toString()}`;
  const values = messages.map((message) => ({ message }));
  return { path: `${BY_ID}/pullrequests/12/commits`, query, body: { values, ...(next && { next: link }) } };
}

/** Page n of five holds two pull requests, each an hour older than the one before. */
function page(number: number): Exchange {
  const ages = [2 * number - 2, 2 * number - 1];
  const values = ages.map((age) => ({
    ...pull,
    id: 100 - age,
    updated_on: new Date(Date.UTC(2026, 2, 5, 12 - age)).toISOString().replace('Z', '250+00:00'),
  }));
  return {
    path: LIST,
    query: number === 1 ? QUERY : { ...QUERY, page: String(number) },
    // Sent by Bitbucket, and not relied upon.
    headers: { etag: '"not-kept"' },
    body: { values, ...(number < PAGES ? { next: linkTo(number + 1) } : {}) },
  };
}

const said = (message: string) => ({ type: 'error', error: { message } });

export const profile = profileOf({
  id: 'bitbucket',
  options: { token: 'ATCTT3contract', repositories: ['acme/api'] },
  containerId: '{7d3f4c1a-52be-4a0e-9c61-0b8a6f2e9d10}',
  origin: ORIGIN,
  webhook: hmacWebhook(bitbucket, {
    header: 'x-hub-signature',
    prefix: 'sha256=',
    headers: { 'x-event-key': 'pullrequest:created' },
  }),
  fixtures: [
    from('pullrequest.created', 'webhook', 'pullrequest:created'),
    from('pullrequest.draft', 'webhook', 'pullrequest:created'),
    from('pullrequest.updated', 'webhook', 'pullrequest:updated'),
    {
      ...from('pullrequest.approved', 'webhook', 'pullrequest:approved'),
      facts: { reviewDecision: { state: 'approved', at: '2026-03-03T07:00:00.000Z' } },
    },
    {
      ...from('pullrequest.changes_request_created', 'webhook', 'pullrequest:changes_request_created'),
      facts: { reviewDecision: { state: 'changes', at: '2026-03-03T07:30:00.250Z' } },
    },
    from('pullrequest.comment_created', 'webhook', 'pullrequest:comment_created'),
    from('pullrequest.fulfilled', 'webhook', 'pullrequest:fulfilled'),
    from('pullrequest.rejected', 'webhook', 'pullrequest:rejected'),
    { ...from('pullrequest.superseded-fork-deleted', 'webhook', 'pullrequest:updated'), facts: { isFork: true } },
    from('pullrequest.unknown-key', 'webhook', 'pullrequest:of_tomorrow'),
    { file: 'pullrequest.unknown-state', source: 'webhook', event: 'pullrequest:updated', outcome: 'references' },
    ignored('pullrequest.other-repository', 'pullrequest:created', 'repository_not_in_scope'),
    ignored('repo.push', 'repo:push', 'event_not_followed'),
    from('pullrequests.list', 'poll', 'pullrequests.list'),
    {
      ...from('pullrequests.get', 'fetch', 'pullrequests.get'),
      facts: { defaultBranch: 'main', reviewDecision: { state: 'approved', at: '2026-03-02T08:00:00.301Z' } },
    },
    from('pullrequests.gone', 'fetch', 'pullrequests.gone'),
  ],
  about: ['pullrequest', 'pullrequest.id'],
  tests: [
    { name: 'the button of a server', event: 'diagnostics:ping', payload: { test: true }, reason: 'test_delivery' },
  ],
  poll: {
    unit: 'acme/api',
    page,
    foreignNext: {
      body: { values: [pull], next: linkTo(2).replace(ORIGIN, 'https://api.bitbucket.org.evil.example') },
    },
  },
  fetch: {
    reference: { repoId: UUID, repository: 'acme/api', number: '12' },
    found: [{ path: `${BY_ID}/pullrequests/12`, query: { fields: FIELDS }, body: pull }],
    gone: [
      { path: `${BY_ID}/pullrequests/12`, query: { fields: FIELDS }, status: 404, body: said('Not found') },
      { path: ANYWHERE, query: { fields: 'uuid,full_name' }, body: { uuid: UUID, full_name: 'acme/new' } },
    ],
    commits: {
      pages: [commitPage(['Three', 'Two'], ORIGIN), commitPage(['One'])],
      foreignNext: commitPage(['Three'], 'https://evil.example'),
    },
  },
  limits: {
    '429 with nothing said': waits(300_000),
    '429 with its text': waits(300_000, {}, said('Rate limit for this resource has been exceeded')),
    'a short retry-after': waits(60_000, { 'retry-after': '1' }),
    'retry-after as a date': waits(1_200_000, { 'retry-after': 'Mon, 05 Jan 2026 09:20:00 GMT' }),
    'retry-after that asks for days': waits(3_600_000, { 'retry-after': '999999' }),
  },
  statuses: {
    // Bitbucket's own: it ran out of time on its side.
    555: 'server_failed',
  },
  check: {
    good: [
      { path: REPOSITORY, query: { fields: 'uuid,full_name' }, body: { uuid: UUID, full_name: 'acme/api' } },
      {
        path: LIST,
        query: { pagelen: '1', fields: 'values.id' },
        headers: { 'x-ratelimit-limit': '1200', 'x-ratelimit-nearlimit': 'false' },
        body: '{"values":[]}',
      },
    ],
    refused: [
      { path: REPOSITORY, query: { fields: 'uuid,full_name' }, status: 401, body: said('Token is invalid or expired') },
    ],
  },
});
