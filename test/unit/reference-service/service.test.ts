import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import BetterSqlite from 'better-sqlite3';
import fc from 'fast-check';
import { describe, expect, it, onTestFinished } from 'vitest';
import { github as connector } from '../../../src/connectors/github/index.ts';
import { createHttpClient } from '../../../src/platform/http/http-client.ts';
import { systemRandom } from '../../../src/platform/lib/clock.ts';
import { noSteps, silentLogger, silentMeter } from '../../../src/platform/lib/telemetry.ts';
import { createWindows } from '../../../src/reference-service/http/quota-log.ts';
import { OWN_VARIANT, type Variant } from '../../../src/reference-service/http/variant.ts';
import { createWorkspaceService } from '../../../src/reference-service/service.ts';
import { ask } from '../../contracts/workspace/target.ts';
import { createTravellingClock } from '../../support/fakes/travelling-clock.ts';
import { startWebhookReceiver } from '../../support/fakes/webhook-receiver.ts';
import {
  NO_QUOTA,
  SPECIFIED_QUOTA,
  startWorkspaceService,
  type TestServiceOptions,
} from '../../support/fakes/workspace-service.ts';
import { folderOfTest } from '../../support/harness/folder.ts';
import { startGithub } from '../../support/vendors/github-stand-in.ts';

const temporaryFile = () => join(folderOfTest('service'), 'service.db');

async function start(options: TestServiceOptions = {}) {
  const running = await startWorkspaceService({ clock: createTravellingClock(), ...options });
  onTestFinished(() => running.close());
  return running;
}

it('makes its key and token at the first start and keeps them over 25 others', async () => {
  const file = temporaryFile();
  const clock = createTravellingClock();
  const seen = new Set<string>();
  const isNew: boolean[] = [];
  for (let n = 0; n < 25; n++) {
    const running = await startWorkspaceService({ clock, file });
    for (const secret of [running.apiKey, running.oauthToken]) seen.add(secret);
    expect(running.isTokenNew).toBe(running.isKeyNew);
    isNew.push(running.isKeyNew);
    expect((await running.client().listTasks({}, {})).status).toBe(200);
    await running.close();
  }
  expect(seen.size).toBe(2);
  expect(isNew).toEqual([true, ...Array.from({ length: 24 }, () => false)]);
});

/** Changes a closed service's database beside it. */
function change(file: string, statement: string): void {
  const raw = new BetterSqlite(file);
  raw.exec(statement);
  raw.close();
}

describe('the credentials of the first start', () => {
  it.each<
    [what: string, isNew: [key: boolean, token: boolean], oldWork: [key: boolean, token: boolean], statement: string]
  >([
    ['a revoked key alone', [true, false], [false, true], `update api_keys set revoked_at = created_at`],
    ['a revoked token alone', [false, true], [true, false], `update oauth_tokens set revoked_at = created_at`],
    [
      'both of a file from before they were stored, while the old ones go on to work',
      [true, true],
      [true, true],
      `update facts set value = json_remove(value, '$.sealedKey', '$.sealedToken') where name = 'start_credentials'`,
    ],
    ['both where the key that sealed them is another', [true, true], [false, false], ''],
  ])('are made anew: %s', async (_what, isNew, oldWork, statement) => {
    const file = temporaryFile();
    const first = await startWorkspaceService({ file });
    await first.close();
    change(file, statement);
    const secretKey = statement === '' ? Buffer.alloc(32, 7) : undefined;
    const second = await startWorkspaceService({ file, secretKey });
    const works = async (credential: string) =>
      (await ask({ url: second.url, token: credential }, 'GET', '/workspaces/current/tasks')).status === 200;
    expect([second.isKeyNew, second.isTokenNew, second.workspaceId]).toEqual([...isNew, first.workspaceId]);
    expect([await works(first.apiKey), await works(first.oauthToken)]).toEqual(oldWork);
    expect([await works(second.apiKey), await works(second.oauthToken)]).toEqual([true, true]);
    await second.close();
    const third = await start({ file, secretKey });
    expect([third.isKeyNew, third.isTokenNew]).toEqual([false, false]);
    expect([third.apiKey, third.oauthToken]).toEqual([second.apiKey, second.oauthToken]);
  });

  it('keeps no service from starting where the workspace has as many keys as it may', async () => {
    const file = temporaryFile();
    const first = await startWorkspaceService({ file });
    const owner = first.client(first.oauthToken);
    await owner.revokeApiKey({ apiKeyId: first.apiKeyId }, {});
    for (let key = 0; key < 20; key++) await owner.createApiKey({ body: { description: `${key}` } }, {});
    await first.close();
    const second = await start({ file });
    expect(second.isKeyNew).toBe(false);
    await expect(second.client().listTasks({}, {})).rejects.toMatchObject({ code: 'unauthorized' });
  });
});

it('a second service on the same file is refused as locked, and may start after the first has closed', async () => {
  const file = temporaryFile();
  const first = await startWorkspaceService({ file });
  await expect(startWorkspaceService({ file })).rejects.toMatchObject({ code: 'locked' });
  await first.close();
  const second = await startWorkspaceService({ file });
  await second.close();
});

it('keeps what it acknowledged over a restart', async () => {
  const file = temporaryFile();
  const first = await startWorkspaceService({ file });
  const task = (await first.client().createBug({ body: { title: 'kept' } }, {})).body;
  await first.client().addWorkItem({ taskId: task.taskId, body: { url: 'https://example.com/1' } }, {});
  await first.close();
  const second = await start({ file });
  expect((await second.client().getTask({ taskId: task.taskId }, {})).body).toEqual(task);
  expect(await second.service.statistics()).toMatchObject({ tasks: 1, workItems: 1, pullRequests: 0 });
});

it('W19 stores no secret in clear', async () => {
  const file = temporaryFile();
  const running = await startWorkspaceService({ file });
  const { secret } = (await running.client(running.oauthToken).createApiKey({ body: { description: 'x' } }, {})).body;
  await running.close();
  const bytes = await readFile(file, 'latin1');
  for (const clear of [secret, running.apiKey, running.oauthToken]) expect(bytes).not.toContain(clear.slice(10));
});

it('writes lastUsedAt of a key at most once a minute', async () => {
  const clock = createTravellingClock();
  const running = await start({ clock, quota: NO_QUOTA });
  const lastUsed = async () => {
    const { body } = await running.client(running.oauthToken).listApiKeys({}, {});
    return Date.parse(body.apiKeys[0]?.lastUsedAt ?? '');
  };
  const begin = clock.now();
  for (let second = 0; second < 120; second += 20) {
    await running.client().listTasks({}, {});
    // A write that joins the queue after the note proves that the note is committed.
    await running.service.addTeam({ workspaceId: running.workspaceId, teamId: 'team_x', name: 'X' });
    expect(await lastUsed()).toBe(begin + (second < 60 ? 0 : 60_000));
    await clock.advance(20_000);
  }
});

it('W71 answers 500 without insides when the database fails, and tells the log', async () => {
  const file = temporaryFile();
  const logged: unknown[] = [];
  let failing = false;
  const service = await createWorkspaceService({
    file,
    clock: createTravellingClock(),
    random: systemRandom(),
    quota: SPECIFIED_QUOTA,
    logger: { ...silentLogger, error: (fields) => void logged.push(fields['err']) },
    steps: {
      reached(_kind, edge) {
        if (failing && edge === 'before') throw new Error('disk on fire');
      },
    },
  });
  onTestFinished(() => service.close());
  const url = await service.listen({ host: '127.0.0.1', port: 0 });
  const { apiKey } = await service.startCredentials();
  const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' };
  const post = () => fetch(`${url}/workspaces/current/bugs`, { method: 'POST', headers, body: '{"title":"x"}' });
  failing = true;
  const failed = await post();
  expect([failed.status, await failed.json()]).toEqual([
    500,
    { code: 500, message: expect.not.stringContaining('fire'), errorCode: 'internal_error' },
  ]);
  expect(logged).toEqual([expect.objectContaining({ message: 'disk on fire' })]);
  // A read and a refusal write nothing, but their count must be durable before they are answered.
  for (const path of ['/workspaces/current/tasks', '/nothing/here'])
    expect((await fetch(url + path, { headers })).status).toBe(500);
  failing = false;
  expect((await post()).status).toBe(201);
});

it('no read shows less than what was acknowledged before it, whoever else reads and writes', async () => {
  const running = await startWorkspaceService({ quota: NO_QUOTA });
  onTestFinished(() => running.close());
  const client = running.client();
  const task = async (taskId: string) => (await client.getTask({ taskId }, {})).body.title;
  await Promise.all(
    Array.from({ length: 20 }, async (_, at) => {
      const { taskId } = (await client.createBug({ body: { title: `${at}` } }, {})).body;
      for (let n = 0; n < 15; n++) {
        const title = `${at}.${n}`;
        await client.updateTask({ taskId, body: { title } }, {});
        expect(await Promise.all([task(taskId), task(taskId)])).toEqual([title, title]);
      }
    }),
  );
});

it('an answer that is kept has passed the checks of every request', async () => {
  const running = await startWorkspaceService({ quota: NO_QUOTA });
  onTestFinished(() => running.close());
  const { taskId } = (await running.client().createBug({ body: { title: 'x' } }, {})).body;
  const path = `${running.url}/workspaces/current/tasks/${taskId}`;
  const get = async (credential: string, headers: object = {}) =>
    (await fetch(path, { headers: { authorization: `Bearer ${credential}`, ...headers } })).status;
  expect([await get(running.apiKey), await get(running.apiKey), await get(running.oauthToken)]).toEqual([
    200, 200, 200,
  ]);
  const other = await running.service.addWorkspace();
  const userId = await running.service.addUser({ workspaceId: other, name: 'Eve', role: 'owner' });
  const foreign = await running.service.mintToken({ workspaceId: other, userId, role: 'owner', ttl: null });
  expect(await get(running.apiKey)).toBe(200);
  expect([await get('wsk_unknown'), await get(foreign.secret)]).toEqual([401, 404]);
  expect(await get(running.apiKey, { 'x-service-api-version': '3' })).toBe(400);
});

const quota = fc.record({
  requests: fc.integer({ min: 0, max: 12 }),
  window: fc.integer({ min: 1, max: 900 }),
  burst: fc.integer({ min: 0, max: 6 }),
  burstWindow: fc.integer({ min: 1, max: 90 }),
});

it('both windows refuse as a count over all accepted times does, and name the shortest sufficient wait', () => {
  fc.assert(
    fc.property(quota, fc.array(fc.integer({ min: 0, max: 120 }), { maxLength: 120 }), (caps, pauses) => {
      const windows = createWindows(caps);
      const accepted: number[] = [];
      let now = 0;
      for (const pause of pauses) {
        now += pause;
        const full = (cap: number, length: number) =>
          cap > 0 && accepted.filter((time) => time > now - length).length >= cap;
        const wait = windows.wait(now);
        expect(wait > 0).toBe(full(caps.requests, caps.window) || full(caps.burst, caps.burstWindow));
        expect([wait === 0 || windows.wait(now + wait - 0.5) > 0, windows.wait(now + wait)]).toEqual([true, 0]);
        if (wait > 0) continue;
        windows.add(now);
        accepted.push(now);
      }
    }),
  );
});

const LITERAL: Variant = { isLiteral: true, headerPrefix: 'X-One-' };
const PULL = { provider: 'github', repoId: '70100', title: 'A', headBranch: 'feature', baseBranch: 'main' };

async function startLiteral({ isConnected = false, variant = LITERAL } = {}) {
  const clock = createTravellingClock();
  const provider = await startGithub();
  const http = createHttpClient({ steps: noSteps, meter: silentMeter });
  const providers = { github: connector.git!({ http, clock, logger: silentLogger }) };
  const running = await startWorkspaceService({ clock, quota: NO_QUOTA, providers, variant });
  onTestFinished(async () => {
    await running.close();
    await http.close();
    await provider.close();
  });
  const { workspaceId, userId, oauthToken: token, url } = running;
  const member = { workspaceId, userId, provider: 'github', host: 'github.com', apiUrl: provider.url };
  if (isConnected) await running.service.connectProvider({ ...member, token: 'ghp_ada' });
  const call = (method: string, path: string, body?: unknown, headers?: Record<string, string>) =>
    ask({ url, token }, method, path, { body, headers });
  return { provider, call };
}

it.each([
  ['opens a pull request at the provider', true],
  ['answers 403 provider_not_connected to a member without a token there', false],
])('W59 whatever the identifier says, %s', async (_what, isConnected) => {
  const { provider, call } = await startLiteral({ isConnected });
  const reply = await call('POST', '/workspaces/current/pull-requests', { ...PULL, identifier: '9000' });
  expect(reply).toMatchObject(
    isConnected
      ? { status: 201, body: { identifier: '1' } }
      : { status: 403, body: { code: 403, errorCode: 'provider_not_connected' } },
  );
  expect(provider.pulls).toHaveLength(isConnected ? 1 : 0);
});

it('W74 has no record route: 404 with the error object', async () => {
  const { call } = await startLiteral();
  for (const [method, body] of [['GET'], ['POST', PULL]] as const) {
    const missing = await call(method, '/workspaces/current/pull-request-records', body);
    const error = { code: 404, message: expect.any(String), errorCode: 'not_found' };
    expect([missing.status, missing.body]).toEqual([404, error]);
  }
  expect((await call('GET', '/openapi.json')).text).not.toContain('pull-request-records');
});

it('takes further statuses by their words, and refuses all others', async () => {
  const { call } = await startLiteral({ variant: { ...LITERAL, statuses: { live: { word: 'Live', final: true } } } });
  const { taskId } = (await call('POST', '/workspaces/current/bugs', { title: 'A' })).body;
  const [live, other, listed] = [
    await call('PUT', `/workspaces/current/tasks/${taskId}`, { status: 'Live' }),
    await call('PUT', `/workspaces/current/tasks/${taskId}`, { status: 'live' }),
    await call('GET', '/workspaces/current/tasks?status=Live'),
  ];
  expect([live.status, live.body.status, typeof live.body.completedAt]).toEqual([200, 'Live', 'string']);
  expect([other.status, other.body.errorCode, other.body.message]).toEqual([
    ...[400, 'validation_failed'],
    'status: expected one of open, planned, in_progress, review, blocked, completed, cancelled, merged, idea, Live',
  ]);
  expect(listed.body.tasks).toHaveLength(1);
});

it('shows tasks without a key, and adds a second link for the same address', async () => {
  const { call } = await startLiteral();
  const { body: created } = await call('POST', '/workspaces/current/bugs', { title: 'x' });
  const { taskId } = created;
  const path = `/workspaces/current/tasks/${taskId}`;
  const shown = [created, (await call('GET', path)).body, (await call('PUT', path, { title: 'y' })).body];
  const listed = (await call('GET', '/workspaces/current/tasks?all=true')).body.tasks;
  for (const task of [...shown, ...listed]) expect([task.taskId, 'key' in task]).toEqual([taskId, false]);
  const links = `/tasks/${taskId}/work-items`;
  const ids = new Set<string>();
  for (let n = 0; n < 3; n++) {
    const added = await call('POST', links, { url: 'https://example.com/1' });
    expect(added.status).toBe(201);
    ids.add(added.body.workItemId);
  }
  const [first] = ids;
  expect((await call('DELETE', `${links}/${first}`)).status).toBe(204);
  expect(await call('DELETE', `${links}/${first}`)).toMatchObject({ status: 404, body: { errorCode: 'not_found' } });
  expect((await call('GET', links)).body.workItems).toHaveLength(2);
});

it('W75 names its version header after the prefix', async () => {
  const { call } = await startLiteral({ variant: { ...OWN_VARIANT, headerPrefix: 'X-One-' } });
  const list = (version: Record<string, string>) => call('GET', '/workspaces/current/tasks', undefined, version);
  expect((await list({ 'x-one-api-version': '3' })).body.errorCode).toBe('unsupported_api_version');
  expect((await list({ 'x-one-api-version': '2', 'x-service-api-version': '3' })).status).toBe(200);
});

it('W75 sends webhooks in the public form: shared key only, resources flat in camelCase', async () => {
  const { call } = await startLiteral();
  const receiver = await startWebhookReceiver();
  onTestFinished(() => receiver.close());
  const hook = (await call('POST', '/workspaces/current/webhooks', { url: `${receiver.url}/hook` })).body;
  expect([typeof hook.key, hook.secret]).toEqual(['string', undefined]);
  const { taskId, workspaceId } = (await call('POST', '/workspaces/current/bugs', { title: 'x' })).body;
  const url = 'https://example.com/1';
  const { workItemId } = (await call('POST', `/tasks/${taskId}/work-items`, { url })).body;
  const [first, second] = await receiver.count(2);
  expect(first!.headers).toMatchObject({ 'x-one-event-type': 'task.created', 'x-one-webhook-key': hook.key });
  expect(Object.keys(first!.headers).filter((name) => /signature|x-service/.test(name))).toEqual([]);
  const [task, link] = [first!.event, second!.event];
  expect(task.data).toEqual({
    resource: { type: 'task', id: taskId, taskId, workspaceId },
    actor: { type: 'user', id: expect.any(String) },
    task: expect.not.objectContaining({ key: expect.anything() }),
  });
  expect(link.data.resource).toEqual({ type: 'workItem', id: workItemId, workItemId, taskId, workspaceId });
  expect(link.data.workItem).toMatchObject({ workItemId, taskId, url });
});
