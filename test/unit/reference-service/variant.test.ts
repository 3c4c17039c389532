import { expect, it, onTestFinished } from 'vitest';
import { github as connector } from '../../../src/connectors/github/index.ts';
import { createHttpClient } from '../../../src/platform/http/http-client.ts';
import { silentLogger } from '../../../src/platform/lib/logger.ts';
import { silentMeter } from '../../../src/platform/lib/meter.ts';
import { noSteps } from '../../../src/platform/lib/steps.ts';
import { OWN_VARIANT, type Variant } from '../../../src/reference-service/http/variant.ts';
import { ask } from '../../contracts/workspace/target.ts';
import { createTravellingClock } from '../../support/fakes/travelling-clock.ts';
import { startWebhookReceiver } from '../../support/fakes/webhook-receiver.ts';
import { NO_QUOTA, startWorkspaceService } from '../../support/fakes/workspace-service.ts';
import { startGithub } from '../../support/vendors/github-stand-in.ts';

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

it('W59 opens a pull request at the provider whatever the identifier says', async () => {
  const { provider, call } = await startLiteral({ isConnected: true });
  const opened = await call('POST', '/workspaces/current/pull-requests', { ...PULL, identifier: '9000' });
  expect([opened.status, opened.body.identifier, provider.pulls.length]).toEqual([201, '1', 1]);
});

it('answers 403 provider_not_connected to a member without a provider token', async () => {
  const { provider, call } = await startLiteral();
  const refused = await call('POST', '/workspaces/current/pull-requests', { ...PULL, identifier: '7' });
  expect(refused).toMatchObject({ status: 403, body: { code: 403, errorCode: 'provider_not_connected' } });
  expect(provider.pulls).toEqual([]);
});

it.each(['GET', 'POST'])('has no record route: 404 to %s with the error object', async (method) => {
  const { call } = await startLiteral();
  const missing = await call(method, '/workspaces/current/pull-request-records', method === 'GET' ? undefined : PULL);
  expect([missing.status, missing.body]).toEqual([
    404,
    { code: 404, message: expect.any(String), errorCode: 'not_found' },
  ]);
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

it('shows tasks without a key', async () => {
  const { call } = await startLiteral();
  const { body: created } = await call('POST', '/workspaces/current/bugs', { title: 'x' });
  const { taskId } = created;
  const path = `/workspaces/current/tasks/${taskId}`;
  const shown = [created, (await call('GET', path)).body, (await call('PUT', path, { title: 'y' })).body];
  const listed = (await call('GET', '/workspaces/current/tasks?all=true')).body.tasks;
  for (const task of [...shown, ...listed]) expect([task.taskId, 'key' in task]).toEqual([taskId, false]);
});

it('adds a second link for the same address, and answers 404 to the removal of an unknown one', async () => {
  const { call } = await startLiteral();
  const { taskId } = (await call('POST', '/workspaces/current/bugs', { title: 'x' })).body;
  const links = `/tasks/${taskId}/work-items`;
  const added = [];
  for (let n = 0; n < 3; n++) added.push(await call('POST', links, { url: 'https://example.com/1' }));
  expect(added.map(({ status }) => status)).toEqual([201, 201, 201]);
  const ids = added.map(({ body }) => body.workItemId as string);
  expect(new Set(ids).size).toBe(3);
  expect((await call('DELETE', `${links}/${ids[0]}`)).status).toBe(204);
  expect(await call('DELETE', `${links}/${ids[0]}`)).toMatchObject({ status: 404, body: { errorCode: 'not_found' } });
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
