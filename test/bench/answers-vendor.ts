import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { parentPort } from 'node:worker_threads';

/** A thread that answers every request with one page of 100 pull requests, 25 MB. Its first message is its port. */
const body = 'Some "words" of a description, with é and a line\n'.repeat(4_700);
const repository = { id: 1, full_name: 'acme/app' };
const pulls = Array.from({ length: 100 }, (_, at) => ({
  ...{ number: at + 1, updated_at: '2026-01-03T00:00:00Z', state: 'open', title: `Pull ${at}`, body },
  ...{ html_url: `https://github.com/acme/app/pull/${at + 1}`, user: { login: 'ada' }, labels: [{ name: 'bug' }] },
  ...{ head: { ref: 'work', sha: 'a'.repeat(40), repo: repository }, base: { ref: 'main', repo: repository } },
}));
const page = Buffer.from(JSON.stringify(pulls));
const server = createServer((_request, response) => {
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': page.length }).end(page);
});
server.listen(0, '127.0.0.1', () => parentPort?.postMessage((server.address() as AddressInfo).port));
