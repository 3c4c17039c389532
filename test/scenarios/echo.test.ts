import { createHmac } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createWorld, WEBHOOK_SECRET, type World } from '../support/harness/daemon.ts';
import { answerByNock, nock } from '../support/harness/nock.ts';
import { OPENED_PULL as PULL } from '../support/vendors/github-payloads.ts';

/** What is opened through the workspace comes back as a webhook: the daemon takes it for what it is. */

const LATER = '2026-01-05T09:01:00Z';
const REPOSITORY = PULL.base.repo;
const UUID = '{7d3f4c1a-52be-4a0e-9c61-0b8a6f2e9d10}';
const CLOUD_REPOSITORY = { uuid: UUID, full_name: 'acme/api' };
const hex = (body: string) => `sha256=${createHmac('sha256', WEBHOOK_SECRET).update(body).digest('hex')}`;

interface Vendor {
  readonly provider: 'github' | 'gitlab' | 'bitbucket';
  readonly repoId: string;
  readonly url: string;
  /** Stands for the vendor: `created` is called when the request is there, before it is answered. */
  stand(created: () => Promise<void>): void;
  /** The webhooks of the opening, and of the end a minute later. */
  readonly payload: object;
  readonly closing: object;
  readonly closed: 'closed' | 'declined';
  headers(body: string, isClosing: boolean): Record<string, string>;
}

const github: Vendor = {
  provider: 'github',
  repoId: '70100',
  url: PULL.html_url,
  stand(created) {
    const scope = nock('https://api.github.com').persist();
    scope.get('/repositories/70100').reply(200, REPOSITORY).get('/repos/acme/api/branches/feature').reply(200, {});
    nock('https://api.github.com')
      .post('/repos/acme/api/pulls')
      .reply(201, () => created().then(() => PULL));
  },
  payload: { action: 'opened', number: 12, pull_request: PULL, repository: REPOSITORY, sender: { login: 'ada' } },
  closing: {
    action: 'closed',
    number: 12,
    pull_request: { ...PULL, state: 'closed', updated_at: LATER },
    repository: REPOSITORY,
    sender: { login: 'ada' },
  },
  closed: 'closed',
  headers: (body) => ({ 'x-github-event': 'pull_request', 'x-hub-signature-256': hex(body) }),
};

const COMMON = {
  iid: 12,
  title: 'A change',
  description: 'Text',
  state: 'opened',
  draft: false,
  source_branch: 'feature',
  target_branch: 'main',
};
const MERGE_REQUEST = {
  ...COMMON,
  id: 990012,
  project_id: 80200,
  // The API has milliseconds, the webhook whole seconds.
  created_at: '2026-01-05T09:00:00.417Z',
  updated_at: '2026-01-05T09:00:00.417Z',
  author: { id: 301, username: 'ada' },
  labels: [],
  assignees: [],
  reviewers: [],
  merged_at: null,
  sha: 'abc',
  references: { full: 'acme/api!12' },
  web_url: 'https://gitlab.com/acme/api/-/merge_requests/12',
};

const hook = (action: string, state: string, updated: string) => ({
  object_kind: 'merge_request',
  user: { id: 301, username: 'ada' },
  project: { id: 80200, path_with_namespace: 'acme/api' },
  object_attributes: {
    ...COMMON,
    id: 990012,
    action,
    state,
    author_id: 301,
    assignee_ids: [],
    reviewer_ids: [],
    created_at: '2026-01-05 09:00:00 UTC',
    updated_at: updated,
    last_commit: { id: 'abc' },
    url: MERGE_REQUEST.web_url,
  },
  labels: [],
  changes: {},
});

const gitlab: Vendor = {
  provider: 'gitlab',
  repoId: '80200',
  url: MERGE_REQUEST.web_url,
  stand(created) {
    const project = '/api/v4/projects/80200';
    const scope = nock('https://gitlab.com').persist();
    scope.get(`${project}/repository/branches/feature`).reply(200, {});
    scope.get(`${project}/repository/branches/main`).reply(200, {});
    scope
      .get(`${project}/repository/commits`)
      .query(true)
      .reply(200, [{ id: 'abc' }]);
    nock('https://gitlab.com')
      .post(`${project}/merge_requests`)
      .reply(201, () => created().then(() => MERGE_REQUEST));
  },
  payload: hook('open', 'opened', '2026-01-05 09:00:00 UTC'),
  closing: hook('close', 'closed', '2026-01-05 09:01:00 UTC'),
  closed: 'closed',
  headers: () => ({ 'x-gitlab-event': 'Merge Request Hook', 'x-gitlab-token': WEBHOOK_SECRET }),
};

const CLOUD_PULL = {
  id: 12,
  title: 'A change',
  description: 'Text',
  state: 'OPEN',
  draft: false,
  created_on: '2026-01-05T09:00:00.125750+00:00',
  updated_on: '2026-01-05T09:00:00.301250+00:00',
  links: { html: { href: 'https://bitbucket.org/acme/api/pull-requests/12' } },
  author: { uuid: '{a1c0ffee-0001-4a5b-8c9d-000000000001}', display_name: 'Ada' },
  reviewers: [],
  participants: [],
  source: { branch: { name: 'feature' }, commit: { hash: '0123456789ab' }, repository: CLOUD_REPOSITORY },
  destination: { branch: { name: 'main' }, repository: CLOUD_REPOSITORY },
};

const bitbucket: Vendor = {
  provider: 'bitbucket',
  repoId: UUID,
  url: CLOUD_PULL.links.html.href,
  stand(created) {
    const place = `/2.0/repositories/acme/${encodeURIComponent(UUID)}`;
    const scope = nock('https://api.bitbucket.org').persist();
    scope
      .get(`/2.0/repositories/%7B%7D/${encodeURIComponent(UUID)}`)
      .query(true)
      .reply(200, CLOUD_REPOSITORY)
      .get(`${place}/refs/branches`)
      .query(true)
      .reply(200, { values: [{ name: 'feature' }] })
      .get(`${place}/pullrequests`)
      .query(true)
      .reply(200, { values: [] })
      .get(`${place}/effective-default-reviewers`)
      .query(true)
      .reply(200, { values: [] });
    nock('https://api.bitbucket.org')
      .post(`${place}/pullrequests`)
      .query(true)
      .reply(201, () => created().then(() => CLOUD_PULL));
  },
  payload: { actor: CLOUD_PULL.author, pullrequest: CLOUD_PULL, repository: CLOUD_REPOSITORY },
  closing: {
    actor: CLOUD_PULL.author,
    pullrequest: { ...CLOUD_PULL, state: 'DECLINED', updated_on: '2026-01-05T09:01:00.301250+00:00' },
    repository: CLOUD_REPOSITORY,
  },
  closed: 'declined',
  headers: (body, isClosing) => ({
    'x-event-key': isClosing ? 'pullrequest:rejected' : 'pullrequest:created',
    'x-hub-signature': hex(body),
  }),
};

const connection = (connector: string, scope: object) => ({
  ...{ connector, webhookSecrets: WEBHOOK_SECRET, poll: 'off' },
  ...scope,
});

let world: World;
answerByNock('127.0.0.1');
beforeEach(async () => {
  world = await createWorld({
    memberTokens: { github: 'ghp_ada', gitlab: 'glpat-ada', bitbucket: 'ATCTT3ada' },
    config: {
      connections: {
        github: connection('github', { repositories: ['acme/api'] }),
        gitlab: connection('gitlab', { projects: ['acme/api'] }),
        bitbucket: connection('bitbucket', { repositories: ['acme/api'] }),
      },
    },
  });
  await world.settled();
});
afterEach(() => world.close());

let deliveries = 0;

async function deliver({ provider, payload, closing, headers }: Vendor, isClosing = false): Promise<void> {
  const body = JSON.stringify(isClosing ? closing : payload);
  const id = `delivery-${++deliveries}`;
  const ids = { 'x-github-delivery': id, 'idempotency-key': id, 'x-request-uuid': id };
  const answer = await fetch(`${world.daemon().address}/webhooks/test/${provider}`, {
    method: 'POST',
    body,
    headers: { 'content-type': 'application/json', ...ids, ...headers(body, isClosing) },
  });
  expect(answer.status).toBe(202);
}

const records = () => world.records();

/** Lets time pass while a request to the vendor is open, until the record is there in this state. */
async function recorded(state: string): Promise<void> {
  for (let turn = 0; turn < 2_000; turn++) {
    for (let pause = 0; pause < 10; pause++) await new Promise((resolve) => setImmediate(resolve));
    if ((await records()).some((each) => each.state === state)) return;
    await world.clock.advance(1_000);
  }
  throw new Error('the daemon did not record it');
}

const ARRIVALS: Readonly<Record<string, (vendor: Vendor) => () => Promise<void>>> = {
  'before the answer, and is recorded by then': (vendor) => async () => {
    await deliver(vendor);
    await recorded('open');
  },
  'while it is answered': (vendor) => () => deliver(vendor),
  'after the answer': () => async () => {},
};

const WANTED = { title: 'A change', description: 'Text', headBranch: 'feature', baseBranch: 'main' };

describe.each([github, gitlab, bitbucket])('opened through the workspace at $provider', (vendor) => {
  const { provider, repoId, url, closed } = vendor;
  const open = async () => (await world.people.createPullRequest({ body: { provider, repoId, ...WANTED } }, {})).body;

  it.each(Object.entries(ARRIVALS))(
    'its webhook comes %s: one request more at most, and one record',
    async (_, arrival) => {
      const { received: before } = await world.requests();
      vendor.stand(arrival(vendor));
      const opened = await open();
      expect(opened).toMatchObject({ identifier: '12', url });
      // After the answer, and twice: vendors repeat themselves.
      await deliver(vendor);
      await world.settled();
      await deliver(vendor);
      await world.settled();

      expect((await world.requests()).received - before).toBeLessThanOrEqual(1);
      expect(await records()).toMatchObject([{ provider, repoId, identifier: '12', ...WANTED, state: 'open' }]);
      expect((await records())[0]?.author).toBe(opened.author);
    },
  );

  it('closed before the answer comes: the answer, older than that, opens nothing again', async () => {
    vendor.stand(async () => {
      await deliver(vendor);
      await recorded('open');
      await deliver(vendor, true);
      await recorded(closed);
    });
    expect(await open()).toMatchObject({ identifier: '12', state: closed });
    await deliver(vendor, true);
    await world.settled();
    expect(await records()).toMatchObject([{ identifier: '12', ...WANTED, state: closed, url }]);
  });
});
