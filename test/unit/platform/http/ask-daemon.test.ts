import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { afterEach, expect, it } from 'vitest';
import { askDaemon } from '../../../../src/platform/http/ask-daemon.ts';
import { listenLocally } from '../../../support/harness/listen.ts';

const PATIENCE = 60_000;
const servers: Server[] = [];

afterEach(() => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
});

async function listening(answer: (request: IncomingMessage, response: ServerResponse) => void): Promise<string> {
  const server = createServer(answer);
  servers.push(server);
  return `${await listenLocally(server)}/x`;
}

it('sends the token and the body as JSON, and returns the answer whatever its status', async () => {
  const url = await listening((request, response) => {
    let body = '';
    request.on('data', (chunk) => (body += chunk));
    request.on('end', () => {
      const { authorization, 'content-type': type } = request.headers;
      response.writeHead(422).end(JSON.stringify({ method: request.method, authorization, type, body }));
    });
  });
  const { status, body } = await askDaemon({ method: 'POST', url, token: 'abc', body: { a: 'ä' }, patience: PATIENCE });
  expect(status).toBe(422);
  const heard = { method: 'POST', authorization: 'Bearer abc', type: 'application/json', body: '{"a":"ä"}' };
  expect(JSON.parse(body.toString())).toEqual(heard);
});

it('refuses an answer beyond 16 MiB', async () => {
  const url = await listening((_request, response) => response.end(Buffer.alloc(16 * 1024 * 1024 + 1)));
  await expect(askDaemon({ method: 'GET', url, token: 'abc', patience: PATIENCE })).rejects.toMatchObject({
    code: 'answer_too_large',
  });
});

it.each([
  ['a part of an answer', (_: unknown, response: ServerResponse) => response.write('a', () => response.destroy())],
  ['none', (_: unknown, response: ServerResponse) => response.destroy()],
])('does not know the outcome after %s', async (_, answer) => {
  const url = await listening(answer);
  await expect(askDaemon({ method: 'GET', url, token: 'abc', patience: PATIENCE })).rejects.toMatchObject({
    code: 'outcome_unknown',
  });
});

it('gives up where the answer takes too long', async () => {
  const url = await listening((_request, response) => void response.write('a'));
  await expect(askDaemon({ method: 'GET', url, token: 'abc', patience: 50 })).rejects.toMatchObject({
    code: 'not_answering',
  });
});

it('says that nobody listens', async () => {
  const url = await listening(() => undefined);
  await new Promise((resolve) => servers.splice(0)[0]!.close(resolve));
  await expect(askDaemon({ method: 'GET', url, token: 'abc', patience: PATIENCE })).rejects.toMatchObject({
    code: 'unreachable',
  });
});
