import { readFile } from 'node:fs/promises';
import { expect, it, onTestFinished } from 'vitest';
import { github as connector } from '../../../src/connectors/github/index.ts';
import { createHttpClient } from '../../../src/platform/http/http-client.ts';
import { silentLogger } from '../../../src/platform/lib/logger.ts';
import { silentMeter } from '../../../src/platform/lib/meter.ts';
import { noSteps } from '../../../src/platform/lib/steps.ts';
import { createTravellingClock } from '../../support/fakes/travelling-clock.ts';
import { NO_QUOTA, startWorkspaceService } from '../../support/fakes/workspace-service.ts';
import { startGithub } from '../../support/vendors/github-stand-in.ts';
import { expectRefused, failure } from './general.ts';
import { ask } from './target.ts';

const PATH = '/workspaces/current/pull-requests';
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
