import { readFileSync } from 'node:fs';
import nock from 'nock';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { PullRequestEdit } from '../../src/connectors/connector.ts';
import { gitlab } from '../../src/connectors/gitlab/index.ts';
import { createHttpClient } from '../../src/http/http-client.ts';
import { silentLogger } from '../../src/lib/logger.ts';
import { silentMeter } from '../../src/lib/meter.ts';
import { noSteps } from '../../src/lib/steps.ts';
import { createTravellingClock } from '../support/travelling-clock.ts';
import { documentedOnly } from '../support/vendor-requests/index.ts';

const API = '/api/v4';
const PROJECT = `${API}/projects/80200`;
const LIST = `${PROJECT}/merge_requests`;
const { signal } = new AbortController();
const http = documentedOnly(createHttpClient({ steps: noSteps, meter: silentMeter }));
const git = gitlab.git!({ http, clock: createTravellingClock(), logger: silentLogger });
const access = { token: 'glpat-member', host: 'gitlab.com' };

/** As GitLab shows one alone; nobody is named on it. */
const MERGE_REQUEST = {
  ...(JSON.parse(
    readFileSync(new URL('../../src/connectors/gitlab/fixtures/merge_requests.get.json', import.meta.url), 'utf8'),
  ) as object),
  title: 'A change',
  description: 'Text',
  source_branch: 'feature',
  labels: [] as string[],
  assignees: [] as object[],
  reviewers: [] as object[],
};
const WANTED = { repoId: '80200', title: 'A change', description: 'Text', headBranch: 'feature', baseBranch: 'main' };
const FIELDS = { source_branch: 'feature', target_branch: 'main', title: 'A change', description: 'Text' };
const OPENED = { state: 'opened', scope: 'all', source_branch: 'feature', target_branch: 'main' };

const unexpected: string[] = [];
const note = (request: { method?: string; path?: string }) => unexpected.push(`${request.method} ${request.path}`);

beforeAll(() => {
  nock.disableNetConnect();
  nock.emitter.on('no match', note);
});
afterEach(() => {
  const left = nock.pendingMocks();
  const surprises = unexpected.splice(0);
  nock.cleanAll();
  if (left.length + surprises.length > 0) throw new Error(JSON.stringify({ left, surprises }));
});
afterAll(async () => {
  nock.emitter.off('no match', note);
  nock.enableNetConnect();
  nock.restore();
  await http.close();
});

/** GitLab, with the member's token on every request. */
function gitLab(origin = 'https://gitlab.com') {
  return nock(origin, { reqheaders: { authorization: 'Bearer glpat-member' } });
}

/** What is looked at before a request is opened: both branches are there, and differ. */
function beforeOpening(scope = gitLab()) {
  return scope
    .get(`${PROJECT}/repository/branches/main`)
    .reply(200, { name: 'main' })
    .get(`${PROJECT}/repository/commits`)
    .query({ ref_name: 'main..feature', per_page: '1' })
    .reply(200, [{ id: 'abc' }]);
}

const person = (id: number, username: string) => ({ id, username, name: username });
const nobody = Object.assign(new Error('reset'), { code: 'ECONNRESET' });
const failing = (code: string, errorCode?: string) => expect.objectContaining({ code, errorCode });

describe('hasBranch', () => {
  it('encodes a slash in a branch name', async () => {
    gitLab().get(`${PROJECT}/repository/branches/fix%2Fone`).reply(200, {});
    expect(await git.hasBranch(access, { repoId: '80200', branch: 'fix/one' }, signal)).toBe(true);
  });

  it('404 means no, where the project is there', async () => {
    gitLab().get(`${PROJECT}/repository/branches/main`).reply(404).get(PROJECT).reply(200, {});
    expect(await git.hasBranch(access, { repoId: '80200', branch: 'main' }, signal)).toBe(false);
  });

  it('an unknown project is not a missing branch', async () => {
    gitLab().get(`${PROJECT}/repository/branches/main`).reply(404).get(PROJECT).reply(404);
    await expect(git.hasBranch(access, { repoId: '80200', branch: 'main' }, signal)).rejects.toEqual(
      failing('not_found'),
    );
  });

  it('a project may be named by its path, a branch by its fork too', async () => {
    gitLab()
      .get(`${API}/projects/acme%2Fapi/repository/branches/main`)
      .reply(200, {})
      .get(`${API}/projects/ada%2Fapi/repository/branches/feature`)
      .reply(200, {});
    expect(await git.hasBranch(access, { repoId: 'acme/api', branch: 'main' }, signal)).toBe(true);
    expect(await git.hasBranch(access, { repoId: '80200', branch: 'ada/api:feature' }, signal)).toBe(true);
  });

  it.each([
    ['../../user', 'main'],
    ['acme', 'main'],
    ['other.example:1', 'main'],
    ['80200', '../x:main'],
    ['80200', 'ada:main'],
  ])('refuses the project %s with the branch %s', async (repoId, branch) => {
    const asked = (async () => git.hasBranch(access, { repoId, branch }, signal))();
    await expect(asked).rejects.toEqual(failing('refused', 'validation_failed'));
  });
});

describe('openPullRequest', () => {
  it('creates, and answers with what GitLab made; a draft is one by its title', async () => {
    beforeOpening()
      .post(LIST, { ...FIELDS, title: 'Draft: A change' })
      .reply(201, { ...MERGE_REQUEST, title: 'Draft: A change', draft: true });
    const written = await git.openPullRequest(access, { ...WANTED, draft: true }, signal);
    expect(written).toEqual({
      repoId: '80200',
      pullRequest: expect.objectContaining({ identifier: '12', state: 'open', draft: true, author: 'ada' }),
    });
  });

  it('names labels with commas, people by their numbers, each asked for once', async () => {
    const named = { labels: 'bug,api', assignee_ids: [302], reviewer_ids: [302, 303] };
    const held = {
      labels: ['api', 'bug'],
      assignees: [person(302, 'ben')],
      reviewers: [person(303, 'cho'), person(302, 'ben')],
    };
    beforeOpening()
      .get(`${API}/users`)
      .query({ username: 'ben' })
      .reply(200, [person(302, 'ben')])
      .get(`${API}/users`)
      .query({ username: 'cho' })
      .reply(200, [person(303, 'cho')])
      .post(LIST, { ...FIELDS, ...named })
      .reply(201, { ...MERGE_REQUEST, ...held });
    const wanted = { ...WANTED, labels: ['bug', 'api'], assignees: ['Ben'], reviewers: ['ben', 'cho'] };
    const { pullRequest, refused } = await git.openPullRequest(access, wanted, signal);
    expect(refused).toBeUndefined();
    expect(pullRequest).toMatchObject({ labels: ['api', 'bug'], assignees: ['ben'], reviewers: ['ben', 'cho'] });
  });

  it('an unknown reviewer refuses everything before anything is written', async () => {
    beforeOpening().get(`${API}/users`).query({ username: 'eve' }).reply(200, []);
    const opened = git.openPullRequest(access, { ...WANTED, reviewers: ['eve'] }, signal);
    await expect(opened).rejects.toEqual(failing('refused', 'validation_failed'));
    await expect(opened).rejects.toThrow('"eve"');
  });

  it('reports a reviewer that GitLab silently ignores, together with what was opened', async () => {
    beforeOpening()
      .get(`${API}/users`)
      .query({ username: 'eve' })
      .reply(200, [person(9, 'eve')])
      .post(LIST)
      .reply(201, MERGE_REQUEST);
    const { pullRequest, refused } = await git.openPullRequest(access, { ...WANTED, reviewers: ['eve'] }, signal);
    expect(pullRequest).toMatchObject({ identifier: '12' });
    expect(refused).toEqual(failing('forbidden'));
    expect(refused?.message).toContain('eve');
  });

  it('refuses a label with a comma, which would become two', async () => {
    beforeOpening();
    await expect(git.openPullRequest(access, { ...WANTED, labels: ['a,b'] }, signal)).rejects.toEqual(
      failing('refused', 'validation_failed'),
    );
  });

  it('one that exists already is named; one of a fork with the same branch is another', async () => {
    const fork = { iid: 8, source_project_id: 5, target_project_id: 80200 };
    const own = {
      ...fork,
      iid: 9,
      source_project_id: 80200,
      web_url: 'https://gitlab.com/acme/api/-/merge_requests/9',
    };
    beforeOpening()
      .post(LIST)
      .reply(409, { message: ['Another open merge request already exists for this source branch: !9'] })
      .get(LIST)
      .query(OPENED)
      .reply(200, [fork, own]);
    const opened = git.openPullRequest(access, WANTED, signal);
    await expect(opened).rejects.toEqual(failing('refused', 'pull_request_exists'));
    await expect(opened).rejects.toThrow('!9 https://gitlab.com/acme/api/-/merge_requests/9');
  });

  it('another conflict stays one', async () => {
    beforeOpening().post(LIST).reply(409, { message: 'locked' }).get(LIST).query(OPENED).reply(200, []);
    await expect(git.openPullRequest(access, WANTED, signal)).rejects.toEqual(failing('conflict'));
  });

  it('a missing base, a missing head and an empty difference are told apart, before anything is written', async () => {
    const commits = { ref_name: 'main..feature', per_page: '1' };
    gitLab().get(`${PROJECT}/repository/branches/main`).reply(404).get(PROJECT).reply(200, {});
    const noBase = git.openPullRequest(access, WANTED, signal);
    await expect(noBase).rejects.toEqual(failing('refused', 'branch_not_found'));
    await expect(noBase).rejects.toThrow('baseBranch');
    const branch = () => gitLab().get(`${PROJECT}/repository/branches/main`).reply(200, {});
    branch().get(`${PROJECT}/repository/commits`).query(commits).reply(404);
    const noHead = git.openPullRequest(access, WANTED, signal);
    await expect(noHead).rejects.toEqual(failing('refused', 'branch_not_found'));
    await expect(noHead).rejects.toThrow('headBranch');
    branch().get(`${PROJECT}/repository/commits`).query(commits).reply(200, []);
    await expect(git.openPullRequest(access, WANTED, signal)).rejects.toEqual(failing('refused', 'no_commits_between'));
  });

  it.each([
    [400, { message: { title: ['is too long (maximum is 255 characters)'] } }, 'title is too long'],
    [400, { error: 'title is missing' }, 'title is missing'],
    [422, { message: ["You can't use same project/branch for source and target"] }, 'same project/branch'],
    [422, { unexpected: true }, 'status 422'],
  ])('%i with %j is validation_failed, in the words of GitLab', async (status, body, words) => {
    beforeOpening().post(LIST).reply(status, body);
    const opened = git.openPullRequest(access, WANTED, signal);
    await expect(opened).rejects.toEqual(failing('refused', 'validation_failed'));
    await expect(opened).rejects.toThrow(words);
  });

  it.each([
    [401, 'unauthorized'],
    [403, 'forbidden'],
    [404, 'not_found'],
    [429, 'rate_limited'],
    [301, 'refused'],
  ])('%i is %s, and nothing is repeated', async (status, code) => {
    beforeOpening().post(LIST).reply(status, { message: 'no' });
    await expect(git.openPullRequest(access, WANTED, signal)).rejects.toEqual(failing(code));
  });

  it('an answer that is no merge request is malformed', async () => {
    beforeOpening().post(LIST).reply(201, '<html>');
    await expect(git.openPullRequest(access, WANTED, signal)).rejects.toEqual(failing('answer_malformed'));
  });

  it('after a creation without an answer, takes the pull request that exists, and sends nothing again', async () => {
    beforeOpening()
      .post(LIST)
      .replyWithError(nobody)
      .get(LIST)
      .query(OPENED)
      .reply(200, [{ iid: 12, source_project_id: 80200, target_project_id: 80200 }])
      .get(`${LIST}/12`)
      .reply(200, MERGE_REQUEST);
    expect((await git.openPullRequest(access, WANTED, signal)).pullRequest.identifier).toBe('12');
  });

  it('where nothing is there, or that cannot be seen, its fate stays open: it is not sent again', async () => {
    beforeOpening().post(LIST).reply(502).get(LIST).query(OPENED).reply(200, []);
    await expect(git.openPullRequest(access, WANTED, signal)).rejects.toEqual(failing('server_failed'));
    beforeOpening().post(LIST).replyWithError(nobody).get(LIST).query(OPENED).reply(500);
    await expect(git.openPullRequest(access, WANTED, signal)).rejects.toEqual(failing('outcome_unknown'));
  });

  it('from a fork it is opened there, towards the number of this project', async () => {
    gitLab()
      .get(`${API}/projects/acme%2Fapi/repository/branches/main`)
      .reply(200, {})
      .get(`${API}/projects/acme%2Fapi`)
      .reply(200, { id: 80200 })
      .post(`${API}/projects/ada%2Fapi/merge_requests`, { ...FIELDS, target_project_id: 80200 })
      .reply(201, { ...MERGE_REQUEST, source_project_id: 5 });
    const wanted = { ...WANTED, repoId: 'acme/api', headBranch: 'ada/api:feature' };
    expect((await git.openPullRequest(access, wanted, signal)).repoId).toBe('80200');
  });

  it('qualifies ids by the host of a self-hosted server', async () => {
    const own = { ...access, host: 'git.example.com' };
    beforeOpening(gitLab('https://git.example.com')).post(LIST).reply(201, MERGE_REQUEST);
    const wanted = { ...WANTED, repoId: 'git.example.com:80200' };
    expect((await git.openPullRequest(own, wanted, signal)).repoId).toBe('git.example.com:80200');
  });
});

describe('editPullRequest', () => {
  const ONE = `${LIST}/12`;
  const edit = (fields: Partial<PullRequestEdit>) =>
    git.editPullRequest(access, { repoId: '80200', identifier: '12', ...fields }, signal);
  const atRequest = (present: object = MERGE_REQUEST) => gitLab().get(ONE).reply(200, present);

  it('sends what was given in one request, and nothing that was not', async () => {
    const fields = { title: 'New', description: '', target_branch: 'next', state_event: 'close' };
    atRequest()
      .put(ONE, fields)
      .reply(200, { ...MERGE_REQUEST, title: 'New', state: 'closed', target_branch: 'next' });
    const written = await edit({ title: 'New', description: null, baseBranch: 'next', state: 'closed' });
    expect(written.refused).toBeUndefined();
    expect(written.pullRequest).toMatchObject({ title: 'New', state: 'closed', baseBranch: 'next' });
  });

  it.each([{}, { state: 'open' as const }, { draft: false }])(
    '%j changes nothing and writes nothing',
    async (given) => {
      atRequest();
      expect((await edit(given)).pullRequest).toMatchObject({ title: 'A change' });
    },
  );

  it('lists replace what is there; empty ones clear it', async () => {
    atRequest({ ...MERGE_REQUEST, labels: ['old'], reviewers: [person(303, 'cho')], assignees: [person(302, 'ben')] })
      .get(`${API}/users`)
      .query({ username: 'dan' })
      .reply(200, [person(304, 'dan')])
      .put(ONE, { labels: '', assignee_ids: [0], reviewer_ids: [304] })
      .reply(200, { ...MERGE_REQUEST, reviewers: [person(304, 'dan')] });
    const { pullRequest, refused } = await edit({ labels: [], assignees: [], reviewers: ['dan'] });
    expect(refused).toBeUndefined();
    expect(pullRequest).toMatchObject({ labels: [], assignees: [], reviewers: ['dan'] });
  });

  it('who stays though they were taken away is told', async () => {
    const present = { ...MERGE_REQUEST, reviewers: [person(303, 'cho')] };
    atRequest(present)
      .put(ONE, { reviewer_ids: [0] })
      .reply(200, present);
    const { refused } = await edit({ reviewers: [] });
    expect(refused).toEqual(failing('forbidden'));
    expect(refused?.message).toContain('cho');
  });

  it.each([
    ['A change', { draft: true }, 'Draft: A change'],
    ['Draft: A change', { draft: false }, 'A change'],
    ['[Draft] draft: A change', { draft: false }, 'A change'],
    ['Draft: A change', { title: 'New' }, 'Draft: New'],
    ['Draft: A change', { title: 'New', draft: false }, 'New'],
    ['A change', { title: '(draft) New', draft: true }, '(draft) New'],
  ])('%j with %j becomes %j', async (title, given, sent) => {
    atRequest({ ...MERGE_REQUEST, title })
      .put(ONE, { title: sent })
      .reply(200, { ...MERGE_REQUEST, title: sent });
    expect((await edit(given)).pullRequest).toMatchObject({ title: sent });
  });

  it('what is closed is reopened; what is merged stays so, and that is told', async () => {
    atRequest({ ...MERGE_REQUEST, state: 'closed' })
      .put(ONE, { state_event: 'reopen' })
      .reply(200, MERGE_REQUEST);
    expect((await edit({ state: 'open' })).refused).toBeUndefined();
    const merged = { ...MERGE_REQUEST, state: 'merged' };
    atRequest(merged).put(ONE, { state_event: 'reopen' }).reply(200, merged);
    const { pullRequest, refused } = await edit({ state: 'open' });
    expect(pullRequest).toMatchObject({ state: 'merged' });
    expect(refused).toEqual(failing('conflict'));
  });

  it('towards a base that another open request has already: named', async () => {
    atRequest()
      .put(ONE, { target_branch: 'next' })
      .reply(409, { message: ['Another open merge request already exists for this source branch: !7'] })
      .get(LIST)
      .query({ ...OPENED, target_branch: 'next' })
      .reply(200, [{ iid: 7, source_project_id: 80200, target_project_id: 80200 }]);
    const edited = edit({ baseBranch: 'next' });
    await expect(edited).rejects.toEqual(failing('refused', 'pull_request_exists'));
    await expect(edited).rejects.toThrow('!7');
  });

  it('an edit without an answer is not repeated: what GitLab holds tells whether it was carried out', async () => {
    atRequest()
      .put(ONE)
      .replyWithError(nobody)
      .get(ONE)
      .reply(200, { ...MERGE_REQUEST, title: 'New' });
    const carried = await edit({ title: 'New' });
    expect(carried.refused).toBeUndefined();
    expect(carried.pullRequest).toMatchObject({ title: 'New' });
    atRequest().put(ONE).replyWithError(nobody).get(ONE).reply(200, MERGE_REQUEST);
    expect((await edit({ title: 'New' })).refused).toEqual(failing('outcome_unknown'));
    atRequest().put(ONE).reply(503).get(ONE).reply(503);
    expect((await edit({ title: 'New' })).refused).toEqual(failing('server_failed'));
  });

  it.each([
    [400, 'refused', 'validation_failed'],
    [422, 'refused', 'validation_failed'],
    [403, 'forbidden', undefined],
    [401, 'unauthorized', undefined],
    [429, 'rate_limited', undefined],
  ])('%i is %s', async (status, code, errorCode) => {
    atRequest().put(ONE).reply(status, { message: 'no' });
    await expect(edit({ title: 'x' })).rejects.toEqual(failing(code, errorCode));
  });

  it.each(['merged', 'declined'] as const)('%s is nothing that is set here', async (state) => {
    await expect(edit({ state })).rejects.toEqual(failing('refused', 'unsupported_field'));
  });

  it.each(['x', '0', '1/../2', ''])('refuses the number %j', async (identifier) => {
    await expect(edit({ identifier })).rejects.toEqual(failing('refused', 'validation_failed'));
  });

  it('an unknown pull request is not found', async () => {
    gitLab().get(ONE).reply(404, { message: '404 Not found' });
    await expect(edit({ title: 'x' })).rejects.toEqual(failing('not_found'));
  });
});
