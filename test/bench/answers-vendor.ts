import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { parentPort } from 'node:worker_threads';

/**
 * A thread that answers every request with 25 MB: a page of 100 pull requests, or, where tasks are asked for, a list of 120 of
 * them with long descriptions. Its first message is its port.
 */
const body = 'Some "words" of a description, with é and a line\n'.repeat(4_700);
const repository = { id: 1, full_name: 'acme/app' };
const pulls = Array.from({ length: 100 }, (_, at) => ({
  ...{ number: at + 1, updated_at: '2026-01-03T00:00:00Z', state: 'open', title: `Pull ${at}`, body },
  ...{ html_url: `https://github.com/acme/app/pull/${at + 1}`, user: { login: 'ada' }, labels: [{ name: 'bug' }] },
  ...{ head: { ref: 'work', sha: 'a'.repeat(40), repo: repository }, base: { ref: 'main', repo: repository } },
}));
const page = Buffer.from(JSON.stringify(pulls));
const tasks = Array.from({ length: 120 }, (_, at) => ({
  ...{ taskId: `task-${at}`, key: `BUG-${at + 1}`, title: `Bug ${at}`, status: 'open', workspaceId: 'ws' },
  ...{ description: body.slice(0, 200_000), createdAt: '2026-01-03T00:00:00Z', updatedAt: '2026-01-03T00:00:00Z' },
}));
const list = Buffer.from(JSON.stringify({ tasks, nextCursor: null }));
const server = createServer(({ url }, response) => {
  const answer = url?.includes('/tasks') ? list : page;
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': answer.length }).end(answer);
});
server.listen(0, '127.0.0.1', () => parentPort?.postMessage((server.address() as AddressInfo).port));
