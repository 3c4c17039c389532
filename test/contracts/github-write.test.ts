import nock from 'nock';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { PullRequestEdit } from '../../src/connectors/connector.ts';
import { github } from '../../src/connectors/github/index.ts';
import { createHttpClient } from '../../src/http/http-client.ts';
import { silentLogger } from '../../src/lib/logger.ts';
import { silentMeter } from '../../src/lib/meter.ts';
import { noSteps } from '../../src/lib/steps.ts';
import { createTravellingClock } from '../support/travelling-clock.ts';
import { documentedOnly } from '../support/vendor-requests/index.ts';

const ORIGIN = 'https://api.github.com';
const { signal } = new AbortController();
const http = documentedOnly(createHttpClient({ steps: noSteps, meter: silentMeter }));
const git = github.git!({ http, clock: createTravellingClock(), logger: silentLogger });
const access = { token: 'ghp_member', host: 'github.com' };
const REPOSITORY = { id: 70100, full_name: 'acme/api' };

const PULL = {
  number: 12,
  node_id: 'PR_12',
  updated_at: '2026-01-05T09:00:00Z',
  created_at: '2026-01-05T09:00:00Z',
  state: 'open',
  title: 'A change',
  body: 'Text',
  draft: false,
  merged: false,
  merged_at: null,
  html_url: 'https://github.com/acme/api/pull/12',
  user: { login: 'ada' },
  labels: [] as object[],
  assignees: [] as object[],
  requested_reviewers: [] as object[],
  requested_teams: [] as object[],
  head: { ref: 'feature', sha: 'abc' },
  base: { ref: 'main', repo: REPOSITORY },
};

const WANTED = { repoId: '70100', title: 'A change', description: 'Text', headBranch: 'feature', baseBranch: 'main' };
const invalid = (...errors: object[]) => ({ message: 'Validation Failed', errors });

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

/** GitHub, with the member's token on every request. */
function gitHub() {
  return nock(ORIGIN, { reqheaders: { authorization: 'Bearer ghp_member' } });
}

function atRepository() {
  return gitHub().get('/repositories/70100').reply(200, REPOSITORY);
}

const failing = (code: string, errorCode?: string) => expect.objectContaining({ code, errorCode });

describe('hasBranch', () => {
  it.each([
    [200, true],
    [404, false],
  ])('%i means %s; a slash stays within its segment', async (status, expected) => {
    atRepository().get('/repos/acme/api/branches/fix%2Fone').reply(status, {});
    expect(await git.hasBranch(access, { repoId: '70100', branch: 'fix/one' }, signal)).toBe(expected);
  });

  it('a repository may be named by owner/name too', async () => {
    gitHub().get('/repos/acme/api').reply(200, REPOSITORY).get('/repos/acme/api/branches/main').reply(200, {});
    expect(await git.hasBranch(access, { repoId: 'acme/api', branch: 'main' }, signal)).toBe(true);
  });

  it('an unknown repository is not a missing branch', async () => {
    gitHub().get('/repositories/70100').reply(404, { message: 'Not Found' });
    await expect(git.hasBranch(access, { repoId: '70100', branch: 'main' }, signal)).rejects.toEqual(
      failing('not_found'),
    );
  });

  it.each(['../../user', 'acme', 'other.example:1', '1e3'])('refuses the repository %s', async (repoId) => {
    await expect(git.hasBranch(access, { repoId, branch: 'main' }, signal)).rejects.toEqual(
      failing('refused', 'validation_failed'),
    );
  });
});

describe('openPullRequest', () => {
  it('creates, and answers with what GitHub made', async () => {
    const body = { title: 'A change', head: 'feature', base: 'main', body: 'Text', draft: true };
    atRepository()
      .post('/repos/acme/api/pulls', body)
      .reply(201, { ...PULL, draft: true });
    const written = await git.openPullRequest(access, { ...WANTED, draft: true }, signal);
    expect(written).toEqual({
      repoId: '70100',
      pullRequest: expect.objectContaining({ identifier: '12', state: 'open', draft: true, author: 'ada' }),
    });
  });

  it('sets labels, assignees and reviewers through their own addresses', async () => {
    const after = {
      ...PULL,
      labels: [{ name: 'bug' }],
      assignees: [{ login: 'cy' }],
      requested_reviewers: [{ login: 'bob' }],
      requested_teams: [{ slug: 'core' }],
    };
    atRepository()
      .post('/repos/acme/api/pulls')
      .reply(201, PULL)
      .patch('/repos/acme/api/issues/12', { labels: ['bug'], assignees: ['cy'] })
      .reply(200, { labels: [{ name: 'Bug' }], assignees: [{ login: 'cy' }] })
      .post('/repos/acme/api/pulls/12/requested_reviewers', { reviewers: ['bob'], team_reviewers: ['core'] })
      .reply(201, after)
      .get('/repos/acme/api/pulls/12')
      .reply(200, after);
    const extras = { labels: ['bug'], assignees: ['cy'], reviewers: ['bob', 'acme/core'] };
    const { pullRequest, refused } = await git.openPullRequest(access, { ...WANTED, ...extras }, signal);
    expect(refused).toBeUndefined();
    expect(pullRequest).toMatchObject({ labels: ['bug'], assignees: ['cy'], reviewers: ['acme/core', 'bob'] });
  });

  it('reports a refused reviewer, together with the pull request that was opened', async () => {
    atRepository()
      .post('/repos/acme/api/pulls')
      .reply(201, PULL)
      .post('/repos/acme/api/pulls/12/requested_reviewers')
      .reply(422, { message: 'Reviews may only be requested from collaborators.' });
    const { pullRequest, refused } = await git.openPullRequest(access, { ...WANTED, reviewers: ['eve'] }, signal);
    expect(pullRequest).toMatchObject({ identifier: '12' });
    expect(refused).toEqual(failing('refused', 'validation_failed'));
    expect(refused?.message).toContain('eve');
  });

  it('reports labels that GitHub silently ignores', async () => {
    atRepository()
      .post('/repos/acme/api/pulls')
      .reply(201, PULL)
      .patch('/repos/acme/api/issues/12')
      .reply(200, { labels: [], assignees: [] });
    const { refused } = await git.openPullRequest(access, { ...WANTED, labels: ['bug'] }, signal);
    expect(refused).toEqual(failing('forbidden'));
  });

  it('names an open pull request that exists already', async () => {
    atRepository()
      .post('/repos/acme/api/pulls')
      .reply(
        422,
        invalid({
          resource: 'PullRequest',
          code: 'custom',
          message: 'A pull request already exists for acme:feature.',
        }),
      )
      .get('/repos/acme/api/pulls')
      .query({ head: 'acme:feature', base: 'main', state: 'open' })
      .reply(200, [{ number: 9, html_url: 'https://github.com/acme/api/pull/9' }]);
    const opened = git.openPullRequest(access, WANTED, signal);
    await expect(opened).rejects.toEqual(failing('refused', 'pull_request_exists'));
    await expect(opened).rejects.toThrow('#9 https://github.com/acme/api/pull/9');
  });

  it.each([
    ['no_commits_between', invalid({ code: 'custom', message: 'No commits between main and feature' })],
    ['branch_not_found', invalid({ resource: 'PullRequest', field: 'head', code: 'invalid' })],
    ['branch_not_found', invalid({ resource: 'PullRequest', field: 'base', code: 'invalid' })],
    ['validation_failed', invalid({ resource: 'PullRequest', field: 'title', code: 'missing_field' })],
    ['validation_failed', { message: 'Draft pull requests are not supported in this repository.' }],
    ['validation_failed', { unexpected: true }],
  ])('422 is %s for %j', async (errorCode, body) => {
    atRepository().post('/repos/acme/api/pulls').reply(422, body);
    await expect(git.openPullRequest(access, WANTED, signal)).rejects.toEqual(failing('refused', errorCode));
  });

  it.each([
    [401, 'unauthorized'],
    [403, 'forbidden'],
    [404, 'not_found'],
  ])('%i is %s', async (status, code) => {
    atRepository().post('/repos/acme/api/pulls').reply(status, { message: 'Resource not accessible' });
    await expect(git.openPullRequest(access, WANTED, signal)).rejects.toEqual(failing(code));
  });

  it('after a creation without an answer, takes the pull request that exists, and sends nothing again', async () => {
    atRepository()
      .post('/repos/acme/api/pulls')
      .replyWithError(Object.assign(new Error('reset'), { code: 'ECONNRESET' }))
      .get('/repos/acme/api/pulls')
      .query(true)
      .reply(200, [{ number: 12 }])
      .get('/repos/acme/api/pulls/12')
      .reply(200, PULL);
    expect((await git.openPullRequest(access, WANTED, signal)).pullRequest.identifier).toBe('12');
  });

  it('after a creation without an answer, where none exists, leaves the outcome unknown and sends nothing again', async () => {
    atRepository().post('/repos/acme/api/pulls').reply(502).get('/repos/acme/api/pulls').query(true).reply(200, []);
    await expect(git.openPullRequest(access, WANTED, signal)).rejects.toEqual(failing('server_failed'));
  });

  it('qualifies ids by the host of a self-hosted server', async () => {
    const own = { token: 'ghp_member', host: 'ghe.example.com' };
    nock('https://ghe.example.com')
      .get('/api/v3/repositories/70100')
      .reply(200, REPOSITORY)
      .post('/api/v3/repos/acme/api/pulls')
      .reply(201, PULL);
    const wanted = { ...WANTED, repoId: 'ghe.example.com:70100' };
    expect((await git.openPullRequest(own, wanted, signal)).repoId).toBe('ghe.example.com:70100');
  });
});

describe('editPullRequest', () => {
  const edit = (fields: Partial<PullRequestEdit>) =>
    git.editPullRequest(access, { repoId: '70100', identifier: '12', ...fields }, signal);
  const atPull = (pull = PULL) => atRepository().get('/repos/acme/api/pulls/12').reply(200, pull);

  it('sends title, description, base and state, and nothing that was not given', async () => {
    const fields = { title: 'New', body: '', base: 'next', state: 'closed' };
    atPull()
      .patch('/repos/acme/api/pulls/12', fields)
      .reply(200, PULL)
      .get('/repos/acme/api/pulls/12')
      .reply(200, { ...PULL, title: 'New', state: 'closed' });
    const written = await edit({ title: 'New', description: null, baseBranch: 'next', state: 'closed' });
    expect(written.pullRequest).toMatchObject({ title: 'New', state: 'closed' });
  });

  it('an edit without fields writes nothing', async () => {
    atPull();
    expect((await edit({})).pullRequest).toMatchObject({ title: 'A change' });
  });

  it('reviewers replace: the missing are asked, the others are no longer', async () => {
    atPull({ ...PULL, requested_reviewers: [{ login: 'Bob' }, { login: 'cy' }], requested_teams: [{ slug: 'core' }] })
      .post('/repos/acme/api/pulls/12/requested_reviewers', { reviewers: ['dan'], team_reviewers: [] })
      .reply(201, PULL)
      .delete('/repos/acme/api/pulls/12/requested_reviewers', { reviewers: ['cy'], team_reviewers: ['core'] })
      .reply(200, PULL)
      .get('/repos/acme/api/pulls/12')
      .reply(200, { ...PULL, requested_reviewers: [{ login: 'Bob' }, { login: 'dan' }] });
    expect((await edit({ reviewers: ['bob', 'dan'] })).pullRequest).toMatchObject({ reviewers: ['Bob', 'dan'] });
  });

  it.each([
    [true, 'convertPullRequestToDraft'],
    [false, 'markPullRequestReadyForReview'],
  ])('draft %s is the mutation %s', async (draft, mutation) => {
    atPull({ ...PULL, draft: !draft })
      .post(
        '/graphql',
        (body) => body.query.includes(`${mutation}(input: {pullRequestId: $id})`) && body.variables.id === 'PR_12',
      )
      .reply(200, { data: { [mutation]: { pullRequest: { isDraft: draft } } } })
      .get('/repos/acme/api/pulls/12')
      .reply(200, { ...PULL, draft });
    expect((await edit({ draft })).pullRequest).toMatchObject({ draft });
  });

  it('sends no draft state that the pull request has already', async () => {
    atPull({ ...PULL, draft: true });
    expect((await edit({ draft: true })).pullRequest).toMatchObject({ draft: true });
  });

  it.each([
    ['FORBIDDEN', 'forbidden'],
    ['NOT_FOUND', 'not_found'],
    ['RATE_LIMITED', 'rate_limited'],
    ['UNPROCESSABLE', 'refused'],
  ])('GraphQL says %s with status 200: %s', async (type, code) => {
    atPull()
      .post('/graphql')
      .reply(200, { data: null, errors: [{ type, message: 'no' }] });
    await expect(edit({ draft: true })).rejects.toEqual(failing(code));
  });

  it('after a refusal reads again what was written before it', async () => {
    atPull()
      .patch('/repos/acme/api/pulls/12')
      .reply(200, PULL)
      .patch('/repos/acme/api/issues/12')
      .reply(403, { message: 'Must have admin rights' })
      .get('/repos/acme/api/pulls/12')
      .reply(200, { ...PULL, title: 'New' });
    const { pullRequest, refused } = await edit({ title: 'New', labels: ['bug'] });
    expect(pullRequest).toMatchObject({ title: 'New' });
    expect(refused).toEqual(failing('forbidden'));
  });

  it('says that a base branch is missing', async () => {
    atPull()
      .patch('/repos/acme/api/pulls/12')
      .reply(422, invalid({ field: 'base', code: 'invalid' }));
    await expect(edit({ baseBranch: 'gone' })).rejects.toEqual(failing('refused', 'branch_not_found'));
  });

  it('refuses to merge', async () => {
    await expect(edit({ state: 'merged' })).rejects.toEqual(failing('refused', 'unsupported_field'));
  });

  it('an unknown pull request is not found', async () => {
    atRepository().get('/repos/acme/api/pulls/12').reply(404, { message: 'Not Found' });
    await expect(edit({ title: 'x' })).rejects.toEqual(failing('not_found'));
  });
});
