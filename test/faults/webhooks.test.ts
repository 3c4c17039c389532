import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { verifyWorkspaceWebhook } from '../../src/workspace-api/contract.ts';
import { startWebhookReceiver, type WebhookReceiver } from '../support/fakes/webhook-receiver.ts';
import { folderOfTest } from '../support/harness/folder.ts';
import { type Running, startWorksync } from '../support/harness/processes.ts';

/** A real `worksync workspace serve`, killed while events wait for their delivery. */

const EVENTS = 10;

interface Address {
  readonly url: string;
  readonly apiKey: string;
  readonly oauthToken: string;
}

let folder = '';
let receiver: WebhookReceiver;
let running: Running | undefined;

beforeEach(async () => {
  folder = folderOfTest('webhooks-killed');
  receiver = await startWebhookReceiver();
});

afterEach(async () => {
  await running?.end('SIGKILL');
  await receiver.close();
});

async function serve(): Promise<Address> {
  const limits = ['--quota', '0', '--burst', '0', '--allow-private-webhooks'];
  running = startWorksync(['workspace', 'serve', '--port', '0', '--db', join(folder, 's.db'), ...limits, '--json']);
  return JSON.parse(await running.says('\n')) as Address;
}

async function post({ url }: Address, credential: string, path: string, body: object) {
  const headers = { authorization: `Bearer ${credential}`, 'content-type': 'application/json' };
  const reply = await fetch(`${url}/workspaces/current${path}`, {
    method: 'POST',
    headers,
    body: JSON.stringify(body),
  });
  expect(reply.status).toBe(201);
  return (await reply.json()) as ReturnType<JSON['parse']>;
}

it('W65 kill -9 between commit and delivery: every event arrives after the restart, in order, the first under its id', async () => {
  const first = await serve();
  const { secret, key } = await post(first, first.oauthToken, '/webhooks', { url: receiver.url });
  receiver.answer('silent');
  const tasks: string[] = [];
  for (let n = 0; n < EVENTS; n++) {
    const task = await post(first, first.apiKey, '/bugs', { title: `bug ${n}` });
    tasks.push(task.taskId);
  }
  const [interrupted] = await receiver.count(1);
  await running!.end('SIGKILL');
  const before = receiver.received.length;
  expect(before).toBeLessThanOrEqual(2);

  receiver.answer(204);
  await serve();
  const after = (await receiver.count(before + EVENTS)).slice(before);
  expect(after.map(({ event }) => event.data.task.taskId)).toEqual(tasks);
  expect(after[0]!.event.id).toBe(interrupted!.event.id);
  expect(new Set(after.map(({ event }) => event.id)).size).toBe(EVENTS);
  for (const { headers, body } of after) verifyWorkspaceWebhook(headers, body, { secret, key });
});
