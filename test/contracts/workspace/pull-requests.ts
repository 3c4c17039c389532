import { readFile } from 'node:fs/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
import { github as connector } from '../../../src/connectors/github/index.ts';
import { createHttpClient } from '../../../src/platform/http/http-client.ts';
import { silentLogger } from '../../../src/platform/lib/logger.ts';
import { silentMeter } from '../../../src/platform/lib/meter.ts';
import { noSteps } from '../../../src/platform/lib/steps.ts';
import { createTravellingClock } from '../../support/fakes/travelling-clock.ts';
import { NO_QUOTA, startWorkspaceService } from '../../support/fakes/workspace-service.ts';
import { startGithub } from '../../support/vendors/github-stand-in.ts';
import { expectRefused, failure } from './general.ts';
import { ask, type Target, unique } from './target.ts';

const PATH = '/workspaces/current/pull-requests';
const UUID = '{5d3a8f5e-1f5c-4b1a-9c55-0a1b2c3d4e5f}';

export function describePullRequests(held: { readonly it: Target }): void {
  const call = (method: string, body?: unknown, query = '') => ask(held.it, method, PATH + query, { body });
  const record = (fields: object = {}) => ({
    provider: 'github',
    repoId: unique('repo'),
    identifier: '7',
    title: 'A change',
    headBranch: 'feature',
    baseBranch: 'main',
    ...fields,
  });

  describe('W59 POST with identifier records', () => {
    it('W53 201 with the record, every field of W58 present', async () => {
      const given = record();
      const reply = await call('POST', given);
      expect(reply.status).toBe(201);
      expect(reply.body).toEqual({
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
        createdAt: expect.stringMatching(/Z$/),
        updatedAt: expect.stringMatching(/Z$/),
        mergedAt: null,
      });
    });

    it('keeps the fields given, times as UTC', async () => {
      const given = record({
        description: 'Text',
        state: 'merged',
        draft: true,
        url: `https://example.com/${unique('pr')}`,
        author: 'ada',
        reviewers: ['bob'],
        labels: ['l'],
        assignees: ['cy'],
      });
      const times = { createdAt: '2026-01-01T01:00:00+01:00', mergedAt: '2026-01-02T00:00:00Z' };
      const reply = await call('POST', { ...given, ...times });
      expect(reply.body).toMatchObject(given);
      expect(Date.parse(reply.body.createdAt)).toBe(Date.parse('2026-01-01T00:00:00Z'));
      expect(Date.parse(reply.body.mergedAt)).toBe(Date.parse('2026-01-02T00:00:00Z'));
    });

    it('W59 the same again: 200 with the same record', async () => {
      const given = record({ labels: ['x'] });
      const first = await call('POST', given);
      const second = await call('POST', given);
      expect([second.status, second.body]).toEqual([200, first.body]);
    });

    it('W59 200 replaces the fields given and keeps absent ones; null and [] clear', async () => {
      const given = record({ description: 'old', labels: ['x'], author: 'ada' });
      await call('POST', given);
      const { repoId } = given;
      const kept = await call('POST', record({ repoId, title: 'New' }));
      expect(kept.status).toBe(200);
      expect(kept.body).toMatchObject({ title: 'New', description: 'old', labels: ['x'], author: 'ada' });
      const cleared = await call('POST', record({ repoId, description: null, labels: [] }));
      expect(cleared.body).toMatchObject({ description: null, labels: [], author: 'ada' });
    });

    it('W52 provider + repoId + identifier together identify one request', async () => {
      const given = record();
      for (const other of [
        given,
        { ...given, identifier: '8' },
        { ...given, repoId: unique('r') },
        { ...given, provider: 'gitlab' },
      ])
        expect((await call('POST', other)).status).toBe(201);
    });

    it('W57 a number is accepted for repoId and identifier, a string returned', async () => {
      const repoId = Math.floor(Math.random() * 2 ** 48);
      const reply = await call('POST', record({ repoId, identifier: 12 }));
      expect(reply.body).toMatchObject({ repoId: String(repoId), identifier: '12' });
      expect((await call('POST', record({ repoId: String(repoId), identifier: '12' }))).status).toBe(200);
    });

    it('twenty concurrent records make one', async () => {
      const given = record();
      const replies = await Promise.all(Array.from({ length: 20 }, () => call('POST', given)));
      expect(replies.filter(({ status }) => status === 201)).toHaveLength(1);
      expect(replies.filter(({ status }) => status === 200)).toHaveLength(19);
    });

    it.each(['provider', 'repoId', 'headBranch', 'baseBranch', 'title'])('W53 400 without %s', async (name) => {
      await expectRefused(call('POST', record({ [name]: undefined })), 400);
    });

    it.each([
      ['an unknown provider', { provider: 'sourceforge' }],
      ['an unknown state', { state: 'stale' }],
      ['declined outside Bitbucket', { state: 'declined' }],
      ['a draft that is no boolean', { draft: 'yes' }],
      ['an address that is not http', { url: 'file:///etc/passwd' }],
      ['an unparsable mergedAt', { mergedAt: 'then' }],
      ['labels of objects', { labels: [{}] }],
    ])('400 for %s', async (_what, fields) => {
      await expectRefused(call('POST', record(fields)), 400);
    });

    it('a head in a fork may have the name of the base', async () => {
      expect((await call('POST', record({ headBranch: 'main' }))).status).toBe(201);
    });
  });

  describe('W59 POST without identifier', () => {
    it('W61 403 provider_not_connected without a stored token', async () => {
      await expectRefused(call('POST', record({ identifier: undefined })), 403, 'provider_not_connected');
    });

    it('W59 400 for head = base', async () => {
      const body = record({ identifier: undefined, headBranch: 'main' });
      await expectRefused(call('POST', body), 400);
    });
  });

  describe('W74 pull-request-records', () => {
    const records = (method: string, body?: unknown, query = '') =>
      ask(held.it, method, `/workspaces/current/pull-request-records${query}`, { body });

    it('W74 POST records: 201 new, 200 with the same record, and GET lists it', async () => {
      const given = record({ labels: ['x'] });
      const first = await records('POST', given);
      const again = await records('POST', given);
      const listed = await records('GET', undefined, `?repoId=${given.repoId}`);
      expect([first.status, again.status, listed.status]).toEqual([201, 200, 200]);
      expect(again.body).toEqual(first.body);
      expect(listed.body).toEqual({ pullRequests: [first.body], nextCursor: null });
      expect((await call('GET', undefined, `?repoId=${given.repoId}`)).body).toEqual(listed.body);
    });

    it('W74 200 replaces the fields given and keeps absent ones', async () => {
      const given = record({ description: 'old', labels: ['x'] });
      await records('POST', given);
      const replaced = await records('POST', record({ repoId: given.repoId, title: 'New', labels: [] }));
      expect(replaced.status).toBe(200);
      expect(replaced.body).toMatchObject({ title: 'New', description: 'old', labels: [] });
    });

    it('W74 400 without an identifier: nothing is opened at the provider', async () => {
      await expectRefused(records('POST', record({ identifier: undefined })), 400);
    });
  });

  describe('W58 taskIds', () => {
    it('W58 come from the work-item links with that address, read-only', async () => {
      const url = `https://example.com/${unique('pr')}`;
      const given = record({ url });
      await call('POST', given);
      const taskIds: string[] = [];
      const links: string[] = [];
      for (let n = 0; n < 2; n++) {
        const task = await ask(held.it, 'POST', '/workspaces/current/bugs', { body: { title: 'linked' } });
        const link = await ask(held.it, 'POST', `/tasks/${task.body.taskId}/work-items`, { body: { url } });
        taskIds.push(task.body.taskId);
        links.push(`/tasks/${task.body.taskId}/work-items/${link.body.workItemId}`);
      }
      const listed = async () => (await call('GET', undefined, `?repoId=${given.repoId}`)).body.pullRequests[0].taskIds;
      expect(await listed()).toEqual(taskIds);
      expect((await call('POST', { ...given, taskIds: ['tsk_forged'] })).body.taskIds).toEqual(taskIds);
      await ask(held.it, 'DELETE', links[0]!);
      expect(await listed()).toEqual([taskIds[1]]);
      const moved = await call('POST', { ...given, url: `${url}/elsewhere` });
      expect(moved.body.taskIds).toEqual([]);
    });
  });

  describe('W59 PATCH edits', () => {
    it('W53 200 with the updated record; what is not named is kept', async () => {
      const given = record({ description: 'kept', labels: ['kept'] });
      const before = await call('POST', given);
      const { provider, repoId, identifier } = given;
      const fields = { title: 'Edited', baseBranch: 'next', draft: true, reviewers: ['bob'], assignees: ['cy'] };
      const reply = await call('PATCH', { provider, repoId, identifier, ...fields });
      expect(reply.status).toBe(200);
      expect(reply.body).toEqual({ ...before.body, ...fields, updatedAt: reply.body.updatedAt });
      expect((await call('GET', undefined, `?repoId=${repoId}`)).body.pullRequests).toEqual([reply.body]);
    });

    it('merging sets mergedAt', async () => {
      const given = record();
      await call('POST', given);
      const reply = await call('PATCH', { ...given, state: 'merged' });
      expect(reply.body).toMatchObject({ state: 'merged', mergedAt: expect.stringMatching(/Z$/) });
    });

    it.each(['provider', 'repoId', 'identifier'])('W52, W53 400 without %s', async (name) => {
      await expectRefused(call('PATCH', { ...record(), [name]: undefined }), 400);
    });
  });

  describe('W60 Bitbucket', () => {
    const bitbucket = (fields: object = {}) => record({ provider: 'bitbucket', ...fields });

    it.each([
      ['labels', { labels: ['x'] }],
      ['assignees', { assignees: ['x'] }],
      ['empty labels', { labels: [] }],
    ])('W54, W60 400 unsupported_field for %s', async (_what, fields) => {
      await expectRefused(call('POST', bitbucket(fields)), 400, 'unsupported_field');
      const given = bitbucket();
      await call('POST', given);
      await expectRefused(call('PATCH', { ...given, ...fields }), 400, 'unsupported_field');
    });

    it('W54 reviewers are account UUIDs, with or without braces', async () => {
      const reviewers = [UUID, UUID.slice(1, -1)];
      expect((await call('POST', bitbucket({ reviewers }))).body.reviewers).toEqual(reviewers);
      for (const wrong of ['ada', UUID.slice(1), '{}'])
        await expectRefused(call('POST', bitbucket({ reviewers: [wrong] })), 400);
    });

    it('W60 closing sets declined', async () => {
      const given = bitbucket();
      await call('POST', given);
      expect((await call('PATCH', { ...given, state: 'closed' })).body.state).toBe('declined');
    });

    it('W55, W60 a declined request is final: any update answers 409', async () => {
      const given = bitbucket({ state: 'declined' });
      const first = await call('POST', given);
      for (const fields of [{ state: 'open' }, { title: 'x' }, { state: 'declined' }])
        await expectRefused(call('PATCH', { ...given, ...fields }), 409, 'pull_request_declined');
      await expectRefused(call('POST', { ...given, state: 'open' }), 409, 'pull_request_declined');
      const same = await call('POST', given);
      expect([same.status, same.body]).toEqual([200, first.body]);
    });
  });

  describe('W61 GET lists', () => {
    it('W53, W61 filters by provider, repoId, state and headBranch; newest first; in pages', async () => {
      const repoId = unique('repo');
      const rows = [
        { identifier: '1', state: 'open', headBranch: 'a' },
        { identifier: '2', state: 'merged', headBranch: 'a' },
        { identifier: '3', state: 'closed', headBranch: 'b' },
      ];
      for (const row of rows) await call('POST', record({ repoId, ...row }));
      await call('POST', record({ repoId, provider: 'gitlab', identifier: '4' }));
      const ids = async (query: string) => {
        const { body } = await call('GET', undefined, `?repoId=${repoId}&${query}`);
        return body.pullRequests.map((one: { identifier: string }) => one.identifier);
      };
      expect(await ids('')).toEqual(['4', '3', '2', '1']);
      expect(await ids('provider=github')).toEqual(['3', '2', '1']);
      expect(await ids('state=merged')).toEqual(['2']);
      expect(await ids('state=merged,closed')).toEqual(['3', '2']);
      expect(await ids('headBranch=a')).toEqual(['2', '1']);
      const first = await call('GET', undefined, `?repoId=${repoId}&limit=3`);
      expect(first.body.pullRequests).toHaveLength(3);
      const rest = await call('GET', undefined, `?repoId=${repoId}&limit=3&cursor=${first.body.nextCursor}`);
      expect(rest.body.pullRequests.map((one: { identifier: string }) => one.identifier)).toEqual(['1']);
      expect(rest.body.nextCursor).toBeNull();
    });

    it.each(['provider=sourceforge', 'state=odd'])('400 for %s', async (query) => {
      await expectRefused(call('GET', undefined, `?${query}`), 400);
    });
  });
}

const WANTED = { provider: 'github', repoId: '70100', title: 'A change', headBranch: 'feature', baseBranch: 'main' };

/** A service whose owner is connected to a GitHub of the test, unless told otherwise. */
async function connected({ token = 'ghp_ada' }: { token?: string | null } = {}) {
  const clock = createTravellingClock();
  const standIn = await startGithub();
  const http = createHttpClient({ steps: noSteps, meter: silentMeter });
  const providers = { github: connector.git!({ http, clock, logger: silentLogger }) };
  const running = await startWorkspaceService({ clock, quota: NO_QUOTA, providers });
  onTestFinished(async () => {
    await running.close();
    await http.close();
    await standIn.close();
  });
  const { workspaceId, userId, service } = running;
  const connect = (member: string, given: string) =>
    service.connectProvider({
      workspaceId,
      userId: member,
      provider: 'github',
      host: 'github.com',
      apiUrl: standIn.url,
      token: given,
    });
  if (token !== null) await connect(userId, token);
  const server = { url: running.url, token: running.oauthToken };
  const call = (method: string, body?: unknown, as?: string) =>
    ask(server, method, PATH, { body, ...(as === undefined ? {} : { as }) });
  return { standIn, running, connect, call, open: (fields: object = {}) => call('POST', { ...WANTED, ...fields }) };
}

/** Opening and editing on the provider; the provider is a stand-in of the test. */
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

  it('W59 labels, assignees and reviewers are set there too', async () => {
    const { open, standIn } = await connected();
    const extras = { labels: ['bug'], assignees: ['cy'], reviewers: ['bob'] };
    expect((await open(extras)).body).toMatchObject(extras);
    expect(standIn.pulls[0]).toMatchObject({ labels: [{ name: 'bug' }], requested_reviewers: [{ login: 'bob' }] });
  });

  it('W56 an API key writes with the token of its creator', async () => {
    const { call, running, standIn } = await connected();
    expect((await call('POST', WANTED, running.apiKey)).status).toBe(201);
    expect(standIn.requests.at(-1)).toMatch(/ ada$/);
  });

  it('W61 403 provider_not_connected without a stored token of this member, or with one that is refused', async () => {
    const { open, call, running, standIn } = await connected({ token: null });
    await expectRefused(open(), 403, 'provider_not_connected');
    const { service, workspaceId } = running;
    const other = await service.addUser({ workspaceId, name: 'Bob', role: 'member' });
    await service.connectProvider({
      workspaceId,
      userId: other,
      provider: 'github',
      host: 'github.com',
      apiUrl: standIn.url,
      token: 'ghp_revoked',
    });
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

  it('W59 409 pull_request_exists for the same head and base; the message names the one that is there', async () => {
    const { open, standIn } = await connected();
    await open();
    const again = await open({ title: 'Once more' });
    expect(again).toMatchObject(failure(409, 'pull_request_exists'));
    expect(again.body.message).toContain('#1 https://github.com/acme/api/pull/1');
    expect(standIn.pulls).toHaveLength(1);
    expect((await open({ baseBranch: 'next' })).status).toBe(201);
  });

  it('W59 of ten that open the same at once one does', async () => {
    const { open, standIn, call } = await connected();
    const replies = await Promise.all(Array.from({ length: 10 }, () => open()));
    expect(replies.filter(({ status }) => status === 201)).toHaveLength(1);
    expect(replies.filter(({ body }) => body.errorCode === 'pull_request_exists')).toHaveLength(9);
    expect(standIn.pulls).toHaveLength(1);
    expect((await call('GET')).body.pullRequests).toHaveLength(1);
  });

  it('W59 403 where the member has no right there', async () => {
    const { open } = await connected({ token: 'ghp_reader' });
    await expectRefused(open(), 403);
  });

  it('W59 400 for a bad reviewer; what was opened is recorded, and the message says so', async () => {
    const { open, call } = await connected();
    const reply = await open({ reviewers: ['eve'] });
    expect(reply).toMatchObject(failure(400, 'validation_failed'));
    expect(reply.body.message).toMatch(/^#1 .*eve/);
    expect((await call('GET')).body.pullRequests).toMatchObject([{ identifier: '1', reviewers: [] }]);
  });

  it('502 provider_unavailable where the provider does not answer', async () => {
    const { open, standIn } = await connected();
    await standIn.close();
    await expectRefused(open(), 502, 'provider_unavailable');
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

  it('W59 PATCH changes the record only where the member has no token', async () => {
    const { call, standIn } = await connected({ token: null });
    await call('POST', { ...WANTED, identifier: '7' });
    const reply = await call('PATCH', { ...WANTED, identifier: '7', title: 'Edited' });
    expect(reply).toMatchObject({ status: 200, body: { title: 'Edited' } });
    expect(standIn.requests).toEqual([]);
  });

  it('W59 a record never contacts the provider; PATCH of an unknown target is 404 before anything is asked', async () => {
    const { call, standIn } = await connected();
    expect((await call('POST', { ...WANTED, identifier: '7' })).status).toBe(201);
    await expectRefused(call('PATCH', { ...WANTED, identifier: '8', title: 'x' }), 404);
    expect(standIn.requests).toEqual([]);
  });

  it('a stored token is encrypted, and is replaced by the next one', async () => {
    const { running, connect, open, standIn } = await connected();
    await connect(running.userId, 'ghp_reader');
    await expectRefused(open(), 403);
    expect(standIn.requests.at(-1)).toMatch(/ reader$/);
    for (const end of ['', '-wal'])
      expect((await readFile(running.file + end)).toString('latin1')).not.toMatch(/ghp_(ada|reader)/);
  });
}
