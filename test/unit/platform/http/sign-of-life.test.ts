import { createServer, type Server, type Socket } from 'node:net';
import { afterEach, expect, it } from 'vitest';
import { signOfLife } from '../../../../src/platform/http/sign-of-life.ts';
import { listenLocally } from '../../../support/harness/listen.ts';

/** Longer than anything here takes. */
const PATIENCE = 60_000;
const servers: Server[] = [];

afterEach(() => {
  for (const server of servers.splice(0)) server.close();
});

async function listening(answer: (socket: Socket, request: string) => void): Promise<string> {
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.once('data', (chunk) => answer(socket, chunk.toString()));
  });
  servers.push(server);
  const { port } = new URL(await listenLocally(server));
  return `http://127.0.0.1:${port}/livez`;
}

it('reads the status, in however many pieces it comes', async () => {
  const requests: string[] = [];
  const address = await listening((socket, request) => {
    requests.push(request);
    socket.write('HTTP/1.1 5', () => socket.write('03 Service Unavailable\r\n\r\n'));
  });
  expect(await signOfLife(address, PATIENCE)).toBe(503);
  expect(requests).toEqual([`GET /livez HTTP/1.1\r\nHost: ${new URL(address).host}\r\nConnection: close\r\n\r\n`]);
});

it.each([
  ['an end without an answer', (socket: Socket) => void socket.end(), 'the connection ended'],
  ['another protocol', (socket: Socket) => void socket.write('x'.repeat(5_000)), 'the answer is not HTTP'],
])('does not take %s for life', async (_, answer, reason) => {
  const address = await listening(answer);
  await expect(signOfLife(address, PATIENCE)).rejects.toMatchObject({
    code: 'outcome_unknown',
    message: `GET ${address} got no answer: ${reason}`,
  });
});

it('gives up where nothing answers in time', async () => {
  const address = await listening(() => undefined);
  await expect(signOfLife(address, 20)).rejects.toMatchObject({ code: 'not_answering' });
});

it('says that nobody listens', async () => {
  const address = await listening(() => undefined);
  await new Promise((resolve) => servers.splice(0)[0]!.close(resolve));
  await expect(signOfLife(address, PATIENCE)).rejects.toMatchObject({ code: 'unreachable' });
});
