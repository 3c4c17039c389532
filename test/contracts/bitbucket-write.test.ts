import nock from 'nock';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { bitbucket } from '../../src/connectors/bitbucket/index.ts';
import type { PullRequestEdit } from '../../src/connectors/connector.ts';
import { createHttpClient } from '../../src/http/http-client.ts';
import { silentLogger } from '../../src/lib/logger.ts';
import { silentMeter } from '../../src/lib/meter.ts';
import { noSteps } from '../../src/lib/steps.ts';
import { createTravellingClock } from '../support/travelling-clock.ts';
import { documentedOnly } from '../support/vendor-requests/index.ts';

const { signal } = new AbortController();
const http = documentedOnly(createHttpClient({ steps: noSteps, meter: silentMeter }));
const git = bitbucket.git!({ http, clock: createTravellingClock(), logger: silentLogger });
const access = { token: 'ATCTT3member', host: 'bitbucket.org' };

const REPO = '{7d3f4c1a-52be-4a0e-9c61-0b8a6f2e9d10}';
const ADA = '{11111111-1111-4111-8111-111111111111}';
const BOB = '{22222222-2222-4222-8222-222222222222}';
const CY = '{33333333-3333-4333-8333-333333333333}';
const REPOSITORY = { uuid: REPO, full_name: 'acme/api' };
const AT = `/repositories/acme/${encodeURIComponent(REPO)}`;
const PULLS = `${AT}/pullrequests`;

const account = (uuid: string, display_name: string) => ({ uuid, display_name });
const PULL = {
  id: 12,
  updated_on: '2026-01-05T09:00:00.123456+00:00',
  created_on: '2026-01-05T09:00:00.123456+00:00',
  state: 'OPEN',
  title: 'A change',
  description: 'Text',
  draft: false,
  links: { html: { href: 'https://bitbucket.org/acme/api/pull-requests/12' } },
  author: account(ADA, 'Ada'),
  reviewers: [account(BOB, 'Bob'), account(CY, 'Cy')],
  source: { branch: { name: 'feature' }, commit: { hash: '0123456789ab' } },
  destination: { branch: { name: 'main' }, repository: REPOSITORY },
};
const WANTED = { repoId: REPO, title: 'A change', description: 'Text', headBranch: 'feature', baseBranch: 'main' };
const BODY = {
  title: 'A change',
  description: 'Text',
  source: { branch: { name: 'feature' } },
  destination: { branch: { name: 'main' } },
};
const said = (message: string, fields?: object) => ({ type: 'error', error: { message, ...(fields && { fields }) } });

beforeAll(() => nock.disableNetConnect());
afterEach(() => {
  const left = nock.pendingMocks();
  nock.cleanAll();
  if (left.length > 0) throw new Error(`was never asked for: ${left.join(', ')}`);
});
afterAll(async () => {
  nock.enableNetConnect();
  nock.restore();
  await http.close();
});

/** Bitbucket, with the member's token on every request. */
function cloud(authorization = 'Bearer ATCTT3member') {
  return nock('https://api.bitbucket.org/2.0', { reqheaders: { authorization } });
}

function atRepository() {
  return cloud()
    .get(`/repositories/%7B%7D/${encodeURIComponent(REPO)}`)
    .query({ fields: 'uuid,full_name' })
    .reply(200, REPOSITORY);
}

/** Where no open request for these branches is there. */
function toBeOpened() {
  return atRepository().get(PULLS).query(true).reply(200, { values: [] });
}

function withDefaults(...users: readonly object[]) {
  return toBeOpened()
    .get(`${AT}/effective-default-reviewers`)
    .query(true)
    .reply(200, { values: users.map((user) => ({ type: 'default_reviewer', user })) });
}

const failing = (code: string, errorCode?: string) => expect.objectContaining({ code, errorCode });
const reset = Object.assign(new Error('reset'), { code: 'ECONNRESET' });

describe('hasBranch', () => {
  it.each([
    ['is there', [{ name: 'fix/one' }], true],
    ['is not', [], false],
  ])('asks by a query, so that a slash is no path: %s', async (_, values, expected) => {
    const query = { q: 'name = "fix/one"', pagelen: '1', fields: 'values.name' };
    atRepository().get(`${AT}/refs/branches`).query(query).reply(200, { values });
    expect(await git.hasBranch(access, { repoId: REPO, branch: 'fix/one' }, signal)).toBe(expected);
  });

  it('a quote in a name ends nothing', async () => {
    const q = 'name = "a\\" OR name != \\"b"';
    atRepository()
      .get(`${AT}/refs/branches`)
      .query((query) => query['q'] === q)
      .reply(200, { values: [{ name: 'something else' }] });
    expect(await git.hasBranch(access, { repoId: REPO, branch: 'a" OR name != "b' }, signal)).toBe(false);
  });

  it('looks into the fork where the branch names one', async () => {
    atRepository()
      .get('/repositories/ada/api/refs/branches')
      .query(true)
      .reply(200, { values: [{ name: 'feature' }] });
    expect(await git.hasBranch(access, { repoId: REPO, branch: 'ada/api:feature' }, signal)).toBe(true);
  });

  it('a repository may be named without braces, or by workspace/slug', async () => {
    atRepository().get(`${AT}/refs/branches`).query(true).reply(200, { values: [] });
    expect(await git.hasBranch(access, { repoId: REPO.slice(1, -1).toUpperCase(), branch: 'x' }, signal)).toBe(false);
    cloud().get('/repositories/acme/api').query(true).reply(200, REPOSITORY);
    cloud().get(`${AT}/refs/branches`).query(true).reply(200, { values: [] });
    expect(await git.hasBranch(access, { repoId: 'acme/api', branch: 'x' }, signal)).toBe(false);
  });

  it('an unknown repository is not a missing branch', async () => {
    cloud()
      .get(/repositories/)
      .reply(404, said('Repository not found'));
    await expect(git.hasBranch(access, { repoId: REPO, branch: 'x' }, signal)).rejects.toEqual(failing('not_found'));
  });

  it('another repository is not taken for the one that was asked for', async () => {
    cloud()
      .get(/repositories/)
      .reply(200, { ...REPOSITORY, uuid: ADA });
    await expect(git.hasBranch(access, { repoId: REPO, branch: 'x' }, signal)).rejects.toEqual(
      failing('answer_malformed'),
    );
  });

  it.each(['../../user', 'acme', '{7d3f}', '12'])('refuses the repository %s', async (repoId) => {
    await expect(git.hasBranch(access, { repoId, branch: 'main' }, signal)).rejects.toEqual(
      failing('refused', 'validation_failed'),
    );
  });

  it('an API token of a person goes with their e-mail address', async () => {
    // printf 'ada@example.com:ATATT3x' | base64
    const person = { ...access, token: 'ada@example.com:ATATT3x' };
    const basic = 'Basic YWRhQGV4YW1wbGUuY29tOkFUQVRUM3g=';
    cloud(basic).get('/repositories/acme/api').query(true).reply(200, REPOSITORY);
    cloud(basic)
      .get(`${AT}/refs/branches`)
      .query(true)
      .reply(200, { values: [{ name: 'main' }] });
    expect(await git.hasBranch(person, { repoId: 'acme/api', branch: 'main' }, signal)).toBe(true);
  });
});

describe('openPullRequest', () => {
  const open = (more: object = {}) => git.openPullRequest(access, { ...WANTED, ...more }, signal);

  it('creates, and answers with what Bitbucket made', async () => {
    const body = { ...BODY, draft: true, reviewers: [{ uuid: BOB }, { uuid: CY }] };
    toBeOpened()
      .post(PULLS, body)
      .reply(201, { ...PULL, draft: true });
    expect(await open({ draft: true, reviewers: [BOB.slice(1, -1).toUpperCase(), CY] })).toEqual({
      repoId: REPO,
      pullRequest: expect.objectContaining({
        identifier: '12',
        state: 'open',
        draft: true,
        author: ADA,
        reviewers: [BOB, CY],
      }),
    });
  });

  it('asks the default reviewers where none are named: the API alone would leave them out', async () => {
    withDefaults(account(BOB, 'Bob'))
      .post(PULLS, { ...BODY, reviewers: [{ uuid: BOB }] })
      .reply(201, PULL);
    expect((await open()).pullRequest.identifier).toBe('12');
  });

  it('asks nobody where the list is empty', async () => {
    toBeOpened()
      .post(PULLS, { ...BODY, reviewers: [] })
      .reply(201, PULL);
    expect((await open({ reviewers: [] })).pullRequest.identifier).toBe('12');
  });

  it.each([403, 404])('opens without default reviewers where they may not be read (%i)', async (status) => {
    toBeOpened()
      .get(`${AT}/effective-default-reviewers`)
      .query(true)
      .reply(status, said('no'))
      .post(PULLS, { ...BODY, reviewers: [] })
      .reply(201, PULL);
    expect((await open()).pullRequest.identifier).toBe('12');
  });

  it('a default reviewer who is the author is left out', async () => {
    const fields = { reviewers: ['Ada is the author and cannot be included as a reviewer.'] };
    withDefaults(account(ADA, 'Ada'), account(BOB, 'Bob'))
      .post(PULLS, { ...BODY, reviewers: [{ uuid: ADA }, { uuid: BOB }] })
      .reply(400, said('Bad request', fields))
      .post(PULLS, { ...BODY, reviewers: [{ uuid: BOB }] })
      .reply(201, PULL);
    expect((await open()).pullRequest.identifier).toBe('12');
  });

  it('all default reviewers are left out where it is not said which one is wrong', async () => {
    withDefaults(account(ADA, 'Ada'), account(BOB, 'Bob'))
      .post(PULLS, { ...BODY, reviewers: [{ uuid: ADA }, { uuid: BOB }] })
      .reply(400, said('Malformed reviewers list'))
      .post(PULLS, { ...BODY, reviewers: [] })
      .reply(201, PULL);
    expect((await open()).pullRequest.identifier).toBe('12');
  });

  it('a reviewer who was asked for and is refused is told, and nothing is opened', async () => {
    toBeOpened()
      .post(PULLS)
      .reply(400, said('reviewers: Bob is not a member of this workspace', { reviewers: ['…'] }));
    const opened = open({ reviewers: [BOB] });
    await expect(opened).rejects.toEqual(failing('refused', 'validation_failed'));
    await expect(opened).rejects.toThrow('not a member');
  });

  it('one that exists already is named, and not written over', async () => {
    const terms = [
      'state = "OPEN"',
      'source.repository.full_name = "acme/api"',
      'source.branch.name = "feature"',
      'destination.branch.name = "main"',
    ];
    atRepository()
      .get(PULLS)
      .query({ q: terms.join(' AND '), pagelen: '1', fields: 'values.id,values.links.html.href' })
      .reply(200, { values: [{ id: 9, links: { html: { href: 'https://bitbucket.org/acme/api/pull-requests/9' } } }] });
    const opened = open();
    await expect(opened).rejects.toEqual(failing('refused', 'pull_request_exists'));
    await expect(opened).rejects.toThrow('#9 https://bitbucket.org/acme/api/pull-requests/9');
  });

  it('from a fork', async () => {
    const source = { branch: { name: 'feature' }, repository: { full_name: 'ada/api' } };
    atRepository()
      .get(PULLS)
      .query(({ q }) => String(q).includes('source.repository.full_name = "ada/api"'))
      .reply(200, { values: [] })
      .post(PULLS, { ...BODY, source, reviewers: [] })
      .reply(201, PULL);
    expect((await open({ headBranch: 'ada/api:feature', reviewers: [] })).pullRequest.identifier).toBe('12');
  });

  it.each([
    ['no_commits_between', said('There are no changes to be pulled')],
    ['branch_not_found', said('Bad request', { source: ['branch not found: feature'] })],
    ['branch_not_found', said('destination: branch not found: main')],
    ['validation_failed', said('title: This field is required.', { title: ['This field is required.'] })],
    ['validation_failed', { unexpected: true }],
  ])('400 is %s for %j', async (errorCode, body) => {
    toBeOpened().post(PULLS).reply(400, body);
    await expect(open({ reviewers: [] })).rejects.toEqual(failing('refused', errorCode));
  });

  it.each([
    [401, 'unauthorized'],
    [403, 'forbidden'],
    [404, 'not_found'],
    [429, 'rate_limited'],
  ])('%i is %s', async (status, code) => {
    toBeOpened().post(PULLS).reply(status, said('Your credentials lack one or more required privilege scopes.'));
    await expect(open({ reviewers: [] })).rejects.toEqual(failing(code));
  });

  it('after a creation without an answer, takes the pull request that exists, and sends nothing again', async () => {
    toBeOpened()
      .post(PULLS)
      .replyWithError(reset)
      .get(PULLS)
      .query(true)
      .reply(200, { values: [{ id: 12 }] })
      .get(`${PULLS}/12`)
      .query(true)
      .reply(200, PULL);
    expect((await open({ reviewers: [] })).pullRequest.identifier).toBe('12');
  });

  it.each([502, 555])('where nothing is there after %i, its fate stays open: it is not sent again', async (status) => {
    toBeOpened().post(PULLS).reply(status).get(PULLS).query(true).reply(200, { values: [] });
    await expect(open({ reviewers: [] })).rejects.toEqual(failing('server_failed'));
  });

  it.each([{ labels: ['bug'] }, { assignees: [ADA] }, { labels: [] }])('%j is not supported', async (more) => {
    await expect(open(more)).rejects.toEqual(failing('refused', 'unsupported_field'));
  });

  it('a reviewer by name is not looked up', async () => {
    toBeOpened();
    await expect(open({ reviewers: ['bob'] })).rejects.toEqual(failing('refused', 'validation_failed'));
  });
});

describe('editPullRequest', () => {
  const edit = (fields: Partial<PullRequestEdit>) =>
    git.editPullRequest(access, { repoId: REPO, identifier: '12', ...fields }, signal);
  const atPull = (pull: object = PULL) => atRepository().get(`${PULLS}/12`).query(true).reply(200, pull);
  const kept = [{ uuid: BOB }, { uuid: CY }];

  it('sends what differs, and the reviewers whole: left out they would be cleared', async () => {
    const body = { title: 'New', description: '', destination: { branch: { name: 'next' } }, reviewers: kept };
    atPull()
      .put(`${PULLS}/12`, body)
      .reply(200, { ...PULL, title: 'New' });
    const edited = await edit({ title: 'New', description: null, baseBranch: 'next', draft: false });
    expect(edited.pullRequest).toMatchObject({ title: 'New', reviewers: [BOB, CY] });
    expect(edited).not.toHaveProperty('refused');
  });

  it.each([{}, { title: 'A change', draft: false, reviewers: [CY, BOB] }, { state: 'open' }] as const)(
    '%j changes nothing, so nothing is written',
    async (fields) => {
      atPull();
      expect((await edit(fields)).pullRequest).toMatchObject({ title: 'A change' });
    },
  );

  it('reviewers replace', async () => {
    atPull()
      .put(`${PULLS}/12`, { reviewers: [{ uuid: CY }] })
      .reply(200, { ...PULL, reviewers: [account(CY, 'Cy')] });
    expect((await edit({ reviewers: [CY] })).pullRequest).toMatchObject({ reviewers: [CY] });
  });

  it('a kept reviewer who has left the workspace does not stop an edit', async () => {
    atPull()
      .put(`${PULLS}/12`, { title: 'New', reviewers: kept })
      .reply(400, said('Bad request', { reviewers: ['Cy is not a member of this workspace'] }))
      .put(`${PULLS}/12`, { title: 'New', reviewers: [{ uuid: BOB }] })
      .reply(200, { ...PULL, title: 'New' });
    expect((await edit({ title: 'New' })).pullRequest).toMatchObject({ title: 'New' });
  });

  it('nothing is written where the reviewers cannot be read', async () => {
    const { reviewers: _, ...unread } = PULL;
    atPull(unread);
    await expect(edit({ title: 'New' })).rejects.toEqual(failing('answer_malformed'));
  });

  it.each([true, false])('draft %s', async (draft) => {
    atPull({ ...PULL, draft: !draft })
      .put(`${PULLS}/12`, { draft, reviewers: kept })
      .reply(200, { ...PULL, draft });
    expect((await edit({ draft })).pullRequest).toMatchObject({ draft });
  });

  it.each(['closed', 'declined'] as const)('%s declines', async (state) => {
    atPull()
      .post(`${PULLS}/12/decline`)
      .reply(200, { ...PULL, state: 'DECLINED' });
    expect((await edit({ state })).pullRequest).toMatchObject({ state: 'declined' });
  });

  it('after a refusal reads again what was written before it', async () => {
    atPull()
      .put(`${PULLS}/12`)
      .reply(200, { ...PULL, title: 'New' })
      .post(`${PULLS}/12/decline`)
      .reply(403, said('no'))
      .get(`${PULLS}/12`)
      .query(true)
      .reply(200, { ...PULL, title: 'New' });
    const { pullRequest, refused } = await edit({ title: 'New', state: 'declined' });
    expect(pullRequest).toMatchObject({ title: 'New', state: 'open' });
    expect(refused).toEqual(failing('forbidden'));
  });

  it.each([
    ['DECLINED', 'pull_request_declined'],
    ['SUPERSEDED', 'pull_request_declined'],
    ['MERGED', undefined],
  ])('%s is final: no edit, no reopening', async (state, errorCode) => {
    atPull({ ...PULL, state });
    await expect(edit({ state: 'open' })).rejects.toEqual(failing('conflict', errorCode));
  });

  it('a request that was closed meanwhile is a conflict', async () => {
    atPull().put(`${PULLS}/12`).reply(400, said('Can only update an open pull request.'));
    await expect(edit({ title: 'New' })).rejects.toEqual(failing('conflict'));
  });

  it.each([
    ['carried out', { ...PULL, title: 'New', state: 'DECLINED' }, undefined],
    ['not carried out', { ...PULL, title: 'New' }, 'server_failed'],
  ])('a decline that timed out on the other side, %s', async (_, after, code) => {
    atPull()
      .put(`${PULLS}/12`)
      .reply(200, { ...PULL, title: 'New' })
      .post(`${PULLS}/12/decline`)
      .reply(555)
      .get(`${PULLS}/12`)
      .query(true)
      .reply(200, after);
    expect((await edit({ title: 'New', state: 'declined' })).refused?.code).toBe(code);
  });

  it('an edit without an answer is looked for', async () => {
    const after = { ...PULL, title: 'New', reviewers: [account(CY, 'Cy')] };
    atPull().put(`${PULLS}/12`).replyWithError(reset).get(`${PULLS}/12`).query(true).reply(200, after);
    expect(await edit({ title: 'New', reviewers: [CY] })).not.toHaveProperty('refused');
  });

  it('says that a base branch is missing', async () => {
    atPull()
      .put(`${PULLS}/12`)
      .reply(400, said('Bad request', { destination: ['branch not found: gone'] }));
    await expect(edit({ baseBranch: 'gone' })).rejects.toEqual(failing('refused', 'branch_not_found'));
  });

  it.each([{ state: 'merged' }, { labels: [] }, { assignees: [] }] as const)('%j is not supported', async (fields) => {
    await expect(edit(fields)).rejects.toEqual(failing('refused', 'unsupported_field'));
  });

  it('an unknown pull request is not found', async () => {
    atRepository().get(`${PULLS}/12`).query(true).reply(404, said('Not found'));
    await expect(edit({ title: 'x' })).rejects.toEqual(failing('not_found'));
  });
});
