import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createListener, type Server as Listener, type Socket } from 'node:net';
import { expect, it, onTestFinished } from 'vitest';
import {
  requestStreamed,
  type StreamedAnswer,
  type StreamedRequest,
} from '../../../../src/platform/http/streamed-request.ts';
import { listenLocally } from '../../../support/harness/listen.ts';

const PATIENCE = 60_000;
const MIB = 1024 * 1024;

async function portOf(server: Listener): Promise<string> {
  return await listenLocally(server);
}

async function listening(answer: (request: IncomingMessage, response: ServerResponse) => void): Promise<string> {
  const server = createServer(answer);
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return portOf(server);
}

const ask = (origin: string, more: Partial<StreamedRequest> = {}) =>
  requestStreamed({
    ...{ method: 'GET', origin, path: '/', headers: {}, patience: PATIENCE, longest: PATIENCE },
    ...more,
  });

async function textOf({ body }: StreamedAnswer): Promise<string> {
  const pieces: Buffer[] = [];
  for await (const piece of body) pieces.push(piece);
  return Buffer.concat(pieces).toString();
}

it('sends method, path as it is spelled, headers and body, and gives back status, headers and body', async () => {
  const origin = await listening((request, response) => {
    let heard = '';
    request.on('data', (piece) => (heard += piece));
    request.on('end', () => {
      const { 'content-length': length, 'x-one': one } = request.headers;
      response.writeHead(422, { 'x-two': ['a', 'b'] });
      response.end(JSON.stringify({ method: request.method, url: request.url, length, one, heard }));
    });
  });
  const body = Buffer.from('ä');
  const answer = await ask(origin, { method: 'PUT', path: '/a%2Fb/../c?d=%20', headers: { 'x-one': '1' }, body });
  expect(answer).toMatchObject({ status: 422, headers: { 'x-two': 'a, b' } });
  const heard = { method: 'PUT', url: '/a%2Fb/../c?d=%20', length: '2', one: '1', heard: 'ä' };
  expect(JSON.parse(await textOf(answer))).toEqual(heard);
});

it('gives on each part when it comes', async () => {
  const parts: ServerResponse[] = [];
  const origin = await listening((_, response) => {
    parts.push(response);
    response.write('first');
  });
  const { body } = await ask(origin);
  const pieces = body[Symbol.asyncIterator]();
  expect(String((await pieces.next()).value)).toBe('first');
  parts[0]?.end('second');
  expect(String((await pieces.next()).value)).toBe('second');
  expect((await pieces.next()).done).toBe(true);
});

it('says that nothing was sent where nobody listens', async () => {
  const server = createListener();
  const origin = await portOf(server);
  await new Promise((resolve) => server.close(resolve));
  await expect(ask(origin)).rejects.toMatchObject({ code: 'unreachable' });
});

it.each([
  ['after it was read', (socket: Socket) => socket.once('data', () => socket.destroy())],
  ['in the middle of the headers', (socket: Socket) => socket.once('data', () => socket.end('HTTP/1.1 200 OK\r\nx:'))],
])('does not know the outcome where the connection ends %s', async (_, end) => {
  const server = createListener((socket) => void end(socket.on('error', () => undefined)));
  onTestFinished(() => void server.close());
  await expect(ask(await portOf(server))).rejects.toMatchObject({ code: 'outcome_unknown' });
});

it('gives up where the answer does not begin in time', async () => {
  const origin = await listening(() => undefined);
  await expect(ask(origin, { patience: 50 })).rejects.toMatchObject({ code: 'not_answering' });
});

it('fails for its reader where the answer begins and does not end in time', async () => {
  const origin = await listening((_, response) => void response.write('begun'));
  const answer = await ask(origin, { longest: 50 });
  expect(answer.status).toBe(200);
  await expect(textOf(answer)).rejects.toMatchObject({ name: 'AbortError' });
});

it('fails for its reader where the answer is cut off', async () => {
  const origin = await listening((_, response) => {
    response.writeHead(200, { 'content-length': '10' });
    response.write('half', () => response.destroy());
  });
  await expect(textOf(await ask(origin))).rejects.toMatchObject({ code: 'ECONNRESET' });
});

it.each([
  [24 * MIB, undefined],
  [24 * MIB + 1, 'answer_too_large'],
])('reads an answer of %d bytes: %s', async (bytes, code) => {
  const origin = await listening((_, response) => response.end(Buffer.alloc(bytes)));
  const read = textOf(await ask(origin)).then(
    (text) => text.length,
    (error: { code?: string }) => error.code,
  );
  expect(await read).toBe(code ?? bytes);
});

it('ends its connection as soon as nobody waits any more, before and after the answer has begun', async () => {
  let isGone = Promise.withResolvers<void>();
  const origin = await listening((request, response) => {
    response.once('close', () => isGone.resolve());
    if (request.url === '/begins') response.write('begun');
    else left.abort();
  });
  let left = new AbortController();
  await expect(ask(origin, { signal: left.signal })).rejects.toMatchObject({ code: 'outcome_unknown' });
  await isGone.promise;
  left = new AbortController();
  isGone = Promise.withResolvers();
  const answer = await ask(origin, { path: '/begins', signal: left.signal });
  left.abort();
  await expect(textOf(answer)).rejects.toThrow('aborted');
  await isGone.promise;
});
