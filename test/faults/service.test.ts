import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { verifyWorkspaceWebhook } from '../../src/workspace-api/contract.ts';
import { ask as request } from '../contracts/workspace/target.ts';
import { startWebhookReceiver } from '../support/fakes/webhook-receiver.ts';
import { sampleOf } from '../support/harness/depth.ts';
import type { Running } from '../support/harness/processes.ts';
import { useScratch } from '../support/harness/scratch.ts';

const EVENTS = 10;

const CLIENTS = 50;

interface Address {
  readonly url: string;
  readonly apiKey: string;
  readonly oauthToken: string;
}

const scratch = useScratch('service');
let running: Running;

async function serve(quota: number, ...more: readonly string[]): Promise<Address> {
  const limits = ['--quota', String(quota), '--burst', '0', ...more];
  const place = ['--port', '0', '--db', join(scratch.folder, 's.db')];
  running = scratch.start(['workspace', 'serve', ...place, ...limits, '--json']);
  return JSON.parse(await running.says('\n')) as Address;
}

/** Resolves with undefined if no whole answer came. */
const ask = (url: string, token: string, method: string, path: string, body?: object) =>
  request({ url, token }, method, path, { body }).catch(() => undefined);

/** Answers that clients received, and requests whose outcome they do not know. */
interface Book {
  sent: number;
  acknowledged: number;
  /** Every state that a task may have: the last one that was acknowledged, and one whose answer never came. */
  readonly titles: Map<string, string[]>;
  readonly links: Map<string, string[]>;
  readonly records: string[];
  readonly keys: string[];
}

const ROOT = '/workspaces/current';

/** Works until the service refuses or is gone; a mix of writes and reads, each client on its own tasks. */
async function work(client: number, { url, apiKey }: Address, book: Book, noted: () => void): Promise<void> {
  const call = async (method: string, path: string, body?: object) => {
    book.sent += 1;
    const answer = await ask(url, apiKey, method, path, body);
    if (answer === undefined || answer.status === 429) return undefined;
    expect([path, answer.status < 300]).toEqual([path, true]);
    book.acknowledged += 1;
    noted();
    return answer.body;
  };
  for (let n = 0; ; n++) {
    const title = `task ${client}.${n}`;
    const task = await call('POST', `${ROOT}/${n % 3 === 0 ? 'ideas' : 'bugs'}`, { title });
    if (!task) return;
    book.keys.push(task.key);
    book.titles.set(task.taskId, [title]);
    const link = `https://example.com/${client}/${n}`;
    if (!(await call('POST', `/tasks/${task.taskId}/work-items`, { url: link }))) return;
    book.links.set(task.taskId, [link]);
    if (!(await call('GET', `${ROOT}/tasks/${task.taskId}`))) return;
    book.titles.get(task.taskId)!.push(`${title}, changed`);
    if (!(await call('PUT', `${ROOT}/tasks/${task.taskId}`, { title: `${title}, changed` }))) return;
    book.titles.set(task.taskId, [`${title}, changed`]);
    const named = { repoId: String(client), identifier: String(n), title, headBranch: 'a', baseBranch: 'b' };
    if (!(await call('POST', `${ROOT}/pull-requests`, { provider: 'github', ...named }))) return;
    book.records.push(`${client}/${n}`);
    if (!(await call('GET', `${ROOT}/tasks?limit=5`))) return;
  }
}

async function killedUnderLoad(address: Address, killAt: number): Promise<Book> {
  const book: Book = { sent: 0, acknowledged: 0, titles: new Map(), links: new Map(), records: [], keys: [] };
  const noted = () => {
    if (book.acknowledged === killAt) running.child.kill('SIGKILL');
  };
  await Promise.all(Array.from({ length: CLIENTS }, (_, client) => work(client, address, book, noted)));
  await running.ended;
  return book;
}

async function expectAllThere({ url, oauthToken }: Address, book: Book): Promise<void> {
  const get = async (path: string) => (await ask(url, oauthToken, 'GET', path))!.body;
  const { tasks } = await get(`${ROOT}/tasks?all=true`);
  const found = new Map<string, string>(
    tasks.map((task: { taskId: string; title: string }) => [task.taskId, task.title]),
  );
  const lost = [...book.titles].filter(([taskId, titles]) => !titles.includes(found.get(taskId) ?? ''));
  expect(lost).toEqual([]);
  expect(new Set(book.keys).size).toBe(book.keys.length);
  for (const [taskId, links] of book.links) {
    const { workItems } = await get(`/tasks/${taskId}/work-items`);
    expect(workItems.map((item: { url: string }) => item.url)).toEqual(links);
  }
  const records: string[] = [];
  for (let cursor = ''; ; ) {
    const { pullRequests, nextCursor } = await get(`${ROOT}/pull-requests?limit=100${cursor}`);
    for (const { repoId, identifier } of pullRequests) records.push(`${repoId}/${identifier}`);
    if (nextCursor === null) break;
    cursor = `&cursor=${nextCursor}`;
  }
  expect(new Set(records).size).toBe(records.length);
  expect(records).toEqual(expect.arrayContaining(book.records));
}

/** Requests that the service still accepts. */
async function whatIsLeft({ url, apiKey }: Address): Promise<number> {
  let accepted = 0;
  const client = async () => {
    while ((await ask(url, apiKey, 'GET', `${ROOT}/tasks?limit=1`))?.status === 200) accepted += 1;
  };
  await Promise.all(Array.from({ length: CLIENTS }, client));
  return accepted;
}

const QUOTAS: readonly (readonly [quota: number, row: number])[] = [
  [60, 1],
  [800, 20],
  [1_600, 40],
];
it.each(sampleOf(QUOTAS, 3))(
  '50 clients, kill -9 in the middle of a quota of %d: all acknowledged is there, all sent is counted',
  async (quota, row) => {
    const first = await serve(quota);
    const book = await killedUnderLoad(first, quota / 2);
    expect(book.acknowledged).toBeGreaterThanOrEqual(quota / 2);
    // Key and token are those of the first start, and are shown there alone.
    const again = { ...first, url: (await serve(quota)).url };
    await expectAllThere(again, book);
    const left = await whatIsLeft(again);
    // Never fewer than what was acknowledged; more only by what was on its way, and by the rest of one row.
    expect(left).toBeLessThanOrEqual(quota - book.acknowledged);
    expect(left).toBeGreaterThanOrEqual(quota - book.sent - (row - 1));
  },
);

it('W65 kill -9 between commit and delivery: every event arrives after the restart, in order, the first under its id', async () => {
  const receiver = await startWebhookReceiver();
  onTestFinished(() => receiver.close());
  const first = await serve(0, '--allow-private-webhooks');
  const post = async (credential: string, path: string, body: object) => {
    const answer = await ask(first.url, credential, 'POST', `${ROOT}${path}`, body);
    expect(answer?.status).toBe(201);
    return answer?.body;
  };
  const { secret, key } = await post(first.oauthToken, '/webhooks', { url: receiver.url });
  receiver.answer('silent');
  const tasks: string[] = [];
  for (let n = 0; n < EVENTS; n++) {
    tasks.push((await post(first.apiKey, '/bugs', { title: `bug ${n}` })).taskId);
  }
  const [interrupted] = await receiver.count(1);
  await running.end('SIGKILL');
  const before = receiver.received.length;
  expect(before).toBeLessThanOrEqual(2);

  receiver.answer(204);
  await serve(0, '--allow-private-webhooks');
  const after = (await receiver.count(before + EVENTS)).slice(before);
  expect(after.map(({ event }) => event.data.task.taskId)).toEqual(tasks);
  expect(after[0]!.event.id).toBe(interrupted!.event.id);
  expect(new Set(after.map(({ event }) => event.id)).size).toBe(EVENTS);
  for (const { headers, body } of after) verifyWorkspaceWebhook(headers, body, { secret, key });
});
