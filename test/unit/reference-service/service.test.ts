import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import BetterSqlite from 'better-sqlite3';
import { describe, expect, it, onTestFinished } from 'vitest';
import { github as connector } from '../../../src/connectors/github/index.ts';
import { createHttpClient } from '../../../src/platform/http/http-client.ts';
import { systemRandom } from '../../../src/platform/lib/clock.ts';
import { silentLogger } from '../../../src/platform/lib/telemetry.ts';
import type { Variant } from '../../../src/reference-service/http/variant.ts';
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
});

it('a second service on the same file is refused as locked, and may start after the first has closed', async () => {
  const file = temporaryFile();
  const first = await startWorkspaceService({ file });
  await expect(startWorkspaceService({ file })).rejects.toMatchObject({ code: 'locked' });
  await first.close();
  const second = await startWorkspaceService({ file });
  await second.close();
});

it('W19 stores no secret in clear', async () => {
  const file = temporaryFile();
  const running = await startWorkspaceService({ file });
  const { secret } = (await running.client(running.oauthToken).createApiKey({ body: { description: 'x' } }, {})).body;
  await running.close();
  const bytes = await readFile(file, 'latin1');
  for (const clear of [secret, running.apiKey, running.oauthToken]) expect(bytes).not.toContain(clear.slice(10));
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

const LITERAL: Variant = { isLiteral: true, headerPrefix: 'X-One-' };
const PULL = { provider: 'github', repoId: '70100', title: 'A', headBranch: 'feature', baseBranch: 'main' };

async function startLiteral({ isConnected = false, variant = LITERAL } = {}) {
  const clock = createTravellingClock();
  const provider = await startGithub();
  const http = createHttpClient();
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
