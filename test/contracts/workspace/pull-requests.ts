import { readFile } from 'node:fs/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
import { github as connector } from '../../../src/connectors/github/index.ts';
import { createHttpClient } from '../../../src/platform/http/http-client.ts';
import { silentLogger } from '../../../src/platform/lib/telemetry.ts';
import { createTravellingClock } from '../../support/fakes/travelling-clock.ts';
import { NO_QUOTA, startWorkspaceService } from '../../support/fakes/workspace-service.ts';
import { startGithub } from '../../support/vendors/github-stand-in.ts';
import { expectRefused, failure } from './general.ts';
import { ask, requestsTo, type Target, TIME, unique } from './target.ts';

const PATH = '/workspaces/current/pull-requests';
const RECORDS = '/workspaces/current/pull-request-records';
const UUID = '{5d3a8f5e-1f5c-4b1a-9c55-0a1b2c3d4e5f}';

const record = (fields: object = {}) => ({
  provider: 'github',
  repoId: unique('repo'),
  identifier: '7',
  title: 'A change',
  headBranch: 'feature',
  baseBranch: 'main',
  ...fields,
});

export function describePullRequests(held: { readonly it: Target }): void {
  const { call: at, create } = requestsTo(held);
  const call = (method: string, body?: unknown, query = '') => ask(held.it, method, PATH + query, { body });
  const list = async (query: string) => (await call('GET', undefined, `?${query}`)).body;

  describe.each([
    ['W53, W59 with identifier at pull-requests', PATH],
    ['W74 at pull-request-records', RECORDS],
  ])('%s, POST records', (_rules, path) => {
    const post = (body: object) => ask(held.it, 'POST', path, { body });

    it('W53, W58, W59, W61, W74 201 with every field; the same again is 200 with the same record; GET lists it', async () => {
      const given = record();
      const { status, body } = await post(given);
      expect(status).toBe(201);
      expect(body).toEqual({
        ...given,
        description: null,
        state: 'open',
        draft: false,
        url: null,
        author: null,
        reviewers: [],
        labels: [],
        assignees: [],
        taskIds: [],
        createdAt: TIME,
        updatedAt: TIME,
        mergedAt: null,
      });
      expect(await post(given)).toMatchObject({ status: 200, body });
      for (const each of [PATH, RECORDS])
        expect((await ask(held.it, 'GET', `${each}?repoId=${given.repoId}`)).body).toEqual({
          pullRequests: [body],
          nextCursor: null,
        });
    });

    it('W59, W74 200 replaces the fields given and keeps absent ones; null and [] clear', async () => {
      const kept = { description: 'old', labels: ['x'], author: 'ada' };
      const { repoId } = (await post(record(kept))).body;
      expect(await post(record({ repoId, title: 'New' }))).toMatchObject({
        status: 200,
        body: { title: 'New', ...kept },
      });
      const cleared = { description: null, labels: [] };
      expect((await post(record({ repoId, ...cleared }))).body).toMatchObject({ ...cleared, author: 'ada' });
    });

    it.each([
      ...['provider', 'repoId', 'headBranch', 'baseBranch', 'title'].map((name) => ({ [name]: undefined })),
      { provider: 'sourceforge' },
      { state: 'stale' },
      { state: 'declined' },
      { url: 'file:///etc/passwd' },
    ])('W53, W58, W67 400 for %o', async (fields) => {
      await expectRefused(post(record(fields)), 400);
    });
  });

  it('W52, W57 provider, repoId and identifier together identify a request, also as numbers', async () => {
    const repoId = Math.floor(Math.random() * 2 ** 48);
    const { body } = await call('POST', record({ repoId, identifier: 12 }));
    expect(body).toMatchObject({ repoId: String(repoId), identifier: '12' });
    expect((await call('POST', record({ repoId: String(repoId), identifier: '12' }))).status).toBe(200);
    for (const other of [{ identifier: '8' }, { repoId: unique('r') }, { provider: 'gitlab' }])
      expect((await call('POST', record({ repoId, identifier: '12', ...other }))).status).toBe(201);
  });

  it('W59, W61, W74 without identifier nothing is recorded: 403 without a stored token, 400 for head = base', async () => {
    // The head of a record may have the name of the base, because it may lie in a fork.
    expect((await call('POST', record({ headBranch: 'main' }))).status).toBe(201);
    const unnamed = { identifier: undefined };
    await expectRefused(call('POST', record(unnamed)), 403, 'provider_not_connected');
    await expectRefused(call('POST', record({ ...unnamed, headBranch: 'main' })), 400);
    await expectRefused(at('POST', '/pull-request-records', record(unnamed)), 400);
  });

  it('W58 taskIds come from the work-item links with that address, read-only', async () => {
    const url = `https://example.com/${unique('pr')}`;
    const given = record({ url });
    await call('POST', given);
    const taskIds: string[] = [];
    const links: string[] = [];
    for (let n = 0; n < 2; n++) {
      const { taskId } = await create('/bugs', { title: 'linked' });
      const { workItemId } = await create(`/tasks/${taskId}/work-items`, { url });
      taskIds.push(taskId);
      links.push(`/tasks/${taskId}/work-items/${workItemId}`);
    }
    const listed = async () => (await list(`repoId=${given.repoId}`)).pullRequests[0].taskIds;
    expect(await listed()).toEqual(taskIds);
    expect((await call('POST', { ...given, taskIds: ['tsk_forged'] })).body.taskIds).toEqual(taskIds);
    await at('DELETE', links[0]!);
    expect(await listed()).toEqual([taskIds[1]]);
    expect((await call('POST', { ...given, url: `${url}/elsewhere` })).body.taskIds).toEqual([]);
  });

  describe('W59 PATCH edits', () => {
    it('W53 200 with the updated record; fields that are not named are kept; merging sets mergedAt', async () => {
      const given = record({ description: 'kept', labels: ['kept'] });
      const before = await call('POST', given);
      const { provider, repoId, identifier } = given;
      const fields = { title: 'Edited', baseBranch: 'next', draft: true, reviewers: ['bob'], assignees: ['cy'] };
      const { status, body } = await call('PATCH', { provider, repoId, identifier, ...fields });
      expect(status).toBe(200);
      expect(body).toEqual({ ...before.body, ...fields, updatedAt: body.updatedAt });
      expect((await list(`repoId=${repoId}`)).pullRequests).toEqual([body]);
      const merged = await call('PATCH', { provider, repoId, identifier, state: 'merged' });
      expect(merged.body).toMatchObject({ state: 'merged', mergedAt: TIME });
    });
  });

  describe('W60 Bitbucket', () => {
    const bitbucket = (fields: object = {}) => record({ provider: 'bitbucket', ...fields });

    it.each([{ labels: ['x'] }, { assignees: ['x'] }, { labels: [] }])(
      'W54, W60 400 unsupported_field for %o',
      async (fields) => {
        await expectRefused(call('POST', bitbucket(fields)), 400, 'unsupported_field');
        const given = bitbucket();
        await call('POST', given);
        await expectRefused(call('PATCH', { ...given, ...fields }), 400, 'unsupported_field');
      },
    );

    it('W54 reviewers are account UUIDs, with or without braces', async () => {
      const reviewers = [UUID, UUID.slice(1, -1)];
      expect((await call('POST', bitbucket({ reviewers }))).body.reviewers).toEqual(reviewers);
      for (const wrong of ['ada', UUID.slice(1), '{}'])
        await expectRefused(call('POST', bitbucket({ reviewers: [wrong] })), 400);
    });

    it('W55, W60 closing sets declined, which is final: any update answers 409', async () => {
      const given = bitbucket();
      await call('POST', given);
      const { body } = await call('PATCH', { ...given, state: 'closed' });
      expect(body.state).toBe('declined');
      for (const fields of [{ state: 'open' }, { title: 'x' }, { state: 'declined' }])
        await expectRefused(call('PATCH', { ...given, ...fields }), 409, 'pull_request_declined');
      await expectRefused(call('POST', { ...given, state: 'open' }), 409, 'pull_request_declined');
      expect(await call('POST', { ...given, state: 'declined' })).toMatchObject({ status: 200, body });
    });
  });

  it('W53, W61 the list filters by provider, repoId, state and headBranch; newest first; in pages', async () => {
    const repoId = unique('repo');
    for (const row of [
      { identifier: '1', state: 'open', headBranch: 'a' },
      { identifier: '2', state: 'merged', headBranch: 'a' },
      { identifier: '3', state: 'closed', headBranch: 'b' },
      { identifier: '4', provider: 'gitlab' },
    ])
      await call('POST', record({ repoId, ...row }));
    const ids = async (query: string) =>
      (await list(`repoId=${repoId}&${query}`)).pullRequests.map((one: { identifier: string }) => one.identifier);
    for (const [query, expected] of [
      ['', '4321'],
      ['provider=github', '321'],
      ['state=merged', '2'],
      ['state=merged,closed', '32'],
      ['headBranch=a', '21'],
      ['limit=3', '432'],
    ])
      expect([query, (await ids(query!)).join('')]).toEqual([query, expected]);
    const { nextCursor } = await list(`repoId=${repoId}&limit=3`);
    expect(await list(`repoId=${repoId}&limit=3&cursor=${nextCursor}`)).toMatchObject({
      pullRequests: [{ identifier: '1' }],
      nextCursor: null,
    });
    for (const query of ['provider=sourceforge', 'state=odd'])
      await expectRefused(call('GET', undefined, `?${query}`), 400);
  });
}

const WANTED = { provider: 'github', repoId: '70100', title: 'A change', headBranch: 'feature', baseBranch: 'main' };

/** A service whose owner is connected to a GitHub of the test, unless told otherwise. */
async function connected({ token = 'ghp_ada' }: { token?: string | null } = {}) {
  const clock = createTravellingClock();
  const standIn = await startGithub();
  const http = createHttpClient();
  const providers = { github: connector.git!({ http, clock, logger: silentLogger }) };
  const running = await startWorkspaceService({ clock, quota: NO_QUOTA, providers });
  onTestFinished(async () => {
    await running.close();
    await http.close();
    await standIn.close();
  });
  const { workspaceId, userId, service } = running;
  const place = { workspaceId, provider: 'github', host: 'github.com', apiUrl: standIn.url };
  const connect = (member: string, given: string) =>
    service.connectProvider({ ...place, userId: member, token: given });
  if (token !== null) await connect(userId, token);
  const server = { url: running.url, token: running.oauthToken };
  const call = (method: string, body?: unknown, as?: string) =>
    ask(server, method, PATH, { body, ...(as === undefined ? {} : { as }) });
  return { standIn, running, connect, call, open: (fields: object = {}) => call('POST', { ...WANTED, ...fields }) };
}

export function describeProvider(): void {
  it('W59 201: opened on the provider with the member’s token, and recorded', async () => {
    const { open, call, standIn } = await connected();
    const reply = await open({ description: 'Text', draft: true });
    expect(reply.status).toBe(201);
    expect(reply.body).toMatchObject({
      ...WANTED,
      identifier: '1',
      description: 'Text',
      draft: true,
      state: 'open',
      author: 'ada',
      url: 'https://github.com/acme/api/pull/1',
    });
    expect((await call('GET')).body.pullRequests).toEqual([reply.body]);
    expect(standIn.requests.every((request) => request.endsWith(' ada'))).toBe(true);
  });

  it('W56, W59 an API key writes with the token of its creator, labels, assignees and reviewers too', async () => {
    const { call, running, standIn } = await connected();
    const extras = { labels: ['bug'], assignees: ['cy'], reviewers: ['bob'] };
    expect(await call('POST', { ...WANTED, ...extras }, running.apiKey)).toMatchObject({ status: 201, body: extras });
    expect(standIn.pulls[0]).toMatchObject({ labels: [{ name: 'bug' }], requested_reviewers: [{ login: 'bob' }] });
    expect(standIn.requests.at(-1)).toMatch(/ ada$/);
  });

  it('W61 403 provider_not_connected without a stored token of this member, or with one that is refused', async () => {
    const { open, call, connect, running, standIn } = await connected({ token: null });
    await expectRefused(open(), 403, 'provider_not_connected');
    const { service, workspaceId } = running;
    const other = await service.addUser({ workspaceId, name: 'Bob', role: 'member' });
    await connect(other, 'ghp_revoked');
    await expectRefused(open(), 403, 'provider_not_connected');
    expect(standIn.requests).toEqual([]);
    const { secret } = await service.mintToken({ workspaceId, userId: other, role: 'member', ttl: null });
    await expectRefused(call('POST', WANTED, secret), 403, 'provider_not_connected');
  });

  it.each([
    ['branch_not_found', 400, { headBranch: 'gone' }],
    ['branch_not_found', 400, { baseBranch: 'gone' }],
    ['validation_failed', 400, { headBranch: 'main' }],
    ['no_commits_between', 400, { headBranch: 'same' }],
    ['not_found', 404, { repoId: '99' }],
    ['validation_failed', 400, { repoId: '../secrets' }],
  ])('W59 %s, %i for %j, and nothing is recorded', async (errorCode, status, fields) => {
    const { open, call, standIn } = await connected();
    expect(await open(fields)).toMatchObject(failure(status, errorCode));
    expect((await call('GET')).body.pullRequests).toEqual([]);
    expect(standIn.pulls).toEqual([]);
  });

  it('W59 409 pull_request_exists, which names the one with the same head and base, also of ten at once', async () => {
    const { open, standIn, call } = await connected();
    const replies = await Promise.all(Array.from({ length: 10 }, () => open()));
    expect(replies.filter(({ status }) => status === 201)).toHaveLength(1);
    const refused = replies.filter(({ body }) => body.errorCode === 'pull_request_exists');
    expect(refused).toHaveLength(9);
    expect(refused[0]).toMatchObject(failure(409, 'pull_request_exists'));
    expect((await open({ title: 'Once more' })).body.message).toContain('#1 https://github.com/acme/api/pull/1');
    expect(standIn.pulls).toHaveLength(1);
    expect((await call('GET')).body.pullRequests).toHaveLength(1);
    expect((await open({ baseBranch: 'next' })).status).toBe(201);
  });

  it('W59 400 for a bad reviewer; what was opened is recorded, and the message says so', async () => {
    const { open, call } = await connected();
    const reply = await open({ reviewers: ['eve'] });
    expect(reply).toMatchObject(failure(400, 'validation_failed'));
    expect(reply.body.message).toMatch(/^#1 .*eve/);
    expect((await call('GET')).body.pullRequests).toMatchObject([{ identifier: '1', reviewers: [] }]);
  });

  it('W59 PATCH goes to the provider first, and the record says what it holds then', async () => {
    const { open, call, standIn } = await connected();
    const { provider, repoId, identifier } = (await open()).body;
    const target = { provider, repoId, identifier };
    const fields = { title: 'Edited', baseBranch: 'next', draft: true, labels: ['bug'], reviewers: ['bob'] };
    const reply = await call('PATCH', { ...target, ...fields });
    expect(reply).toMatchObject({ status: 200, body: fields });
    expect(standIn.pulls[0]).toMatchObject({ title: 'Edited', draft: true, base: { ref: 'next' } });
    expect(await call('PATCH', { ...target, draft: false, state: 'closed' })).toMatchObject({
      status: 200,
      body: { draft: false, state: 'closed' },
    });
    await expectRefused(call('PATCH', { ...target, baseBranch: 'gone' }), 400, 'branch_not_found');
    await expectRefused(call('PATCH', { ...target, state: 'merged' }), 400, 'unsupported_field');
    expect((await call('GET')).body.pullRequests).toMatchObject([{ title: 'Edited', state: 'closed' }]);
  });

  it('W59 a record never contacts the provider; PATCH of an unknown target is 404 before anything is asked', async () => {
    const { call, standIn } = await connected();
    expect((await call('POST', { ...WANTED, identifier: '7' })).status).toBe(201);
    await expectRefused(call('PATCH', { ...WANTED, identifier: '8', title: 'x' }), 404);
    expect(standIn.requests).toEqual([]);
  });

  it('W56, W59 a stored token is encrypted, and is replaced by the next one: 403 without a right there', async () => {
    const { running, connect, open, standIn } = await connected();
    await connect(running.userId, 'ghp_reader');
    await expectRefused(open(), 403);
    expect(standIn.requests.at(-1)).toMatch(/ reader$/);
    for (const end of ['', '-wal'])
      expect((await readFile(running.file + end)).toString('latin1')).not.toMatch(/ghp_(ada|reader)/);
  });
}
