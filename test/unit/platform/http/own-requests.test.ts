import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createListener, type Server, type Socket } from 'node:net';
import { describe, expect, it, onTestFinished } from 'vitest';
import { askDaemon } from '../../../../src/platform/http/ask-daemon.ts';
import { signOfLife } from '../../../../src/platform/http/sign-of-life.ts';
import {
  requestStreamed,
  type StreamedAnswer,
  type StreamedRequest,
} from '../../../../src/platform/http/streamed-request.ts';
import { listenLocally } from '../../../support/harness/listen.ts';

/** Milliseconds, longer than anything here takes. */
const PATIENCE = 60_000;
const MIB = 1024 * 1024;

type Answer = (request: IncomingMessage, response: ServerResponse) => void;

/** The origin of a server that answers so. */
async function serving(answer: Answer): Promise<string> {
  const server = createServer(answer);
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return await listenLocally(server);
}

/** The origin of a server below HTTP. */
async function accepting(answer: (socket: Socket, request: string) => void): Promise<string> {
  const server = createListener((socket) => {
    socket.on('error', () => undefined);
    socket.once('data', (chunk) => answer(socket, chunk.toString()));
  });
  onTestFinished(() => void server.close());
  return await originOf(server);
}

async function originOf(server: Server): Promise<string> {
  return `http://127.0.0.1:${new URL(await listenLocally(server)).port}`;
}

/** An origin at which nothing listens any more. */
async function closed(): Promise<string> {
  const server = createListener();
  const origin = await originOf(server);
  await new Promise((resolve) => server.close(resolve));
  return origin;
}

const ask = (origin: string, patience = PATIENCE) =>
  askDaemon({ method: 'GET', url: `${origin}/x`, token: 'abc', patience });
const look = (origin: string, patience = PATIENCE) => signOfLife(`${origin}/livez`, patience);
const stream = (origin: string, more: Partial<StreamedRequest> = {}) =>
  requestStreamed({
    ...{ method: 'GET', origin, path: '/', headers: {}, patience: PATIENCE, longest: PATIENCE },
    ...more,
  });

async function textOf({ body }: StreamedAnswer): Promise<string> {
  const pieces: Buffer[] = [];
  for await (const piece of body) pieces.push(piece);
  return Buffer.concat(pieces).toString();
}

describe.each<[what: string, send: (origin: string, patience?: number) => Promise<unknown>]>([
  ['a question to the daemon', ask],
  ['a look for a sign of life', look],
  ['a streamed request', (origin, patience) => stream(origin, { ...(patience && { patience }) })],
])('%s', (_what, send) => {
  it('is unreachable if nothing listens', async () => {
    await expect(send(await closed())).rejects.toMatchObject({ code: 'unreachable' });
  });

  it('gives up if nothing is answered in time', async () => {
    await expect(send(await accepting(() => undefined), 50)).rejects.toMatchObject({ code: 'not_answering' });
  });

  it.each<[what: string, answer: (socket: Socket) => unknown]>([
    ['without an answer', (socket) => socket.destroy()],
    ['within the headers', (socket) => socket.end('HTTP/1.1')],
  ])('has an unknown outcome if the connection ends %s', async (_end, answer) => {
    await expect(send(await accepting(answer))).rejects.toMatchObject({ code: 'outcome_unknown' });
  });
});

describe('askDaemon', () => {
  it('sends the token and the body as JSON, and returns the answer whatever its status', async () => {
    const origin = await serving((request, response) => {
      let body = '';
      request.on('data', (chunk) => (body += chunk));
      request.on('end', () => {
        const { authorization, 'content-type': type } = request.headers;
        response.writeHead(422).end(JSON.stringify({ method: request.method, authorization, type, body }));
      });
    });
    const sent = { method: 'POST', url: `${origin}/x`, token: 'abc', body: { a: 'ä' }, patience: PATIENCE } as const;
    const { status, body } = await askDaemon(sent);
    expect(status).toBe(422);
    const heard = { method: 'POST', authorization: 'Bearer abc', type: 'application/json', body: '{"a":"ä"}' };
    expect(JSON.parse(body.toString())).toEqual(heard);
  });

  it.each<[what: string, answer: (response: ServerResponse) => unknown, code: string]>([
    ['is beyond 16 MiB', (response) => response.end(Buffer.alloc(16 * MIB + 1)), 'answer_too_large'],
    ['is cut off', (response) => response.write('a', () => response.destroy()), 'outcome_unknown'],
  ])('refuses an answer that %s', async (_what, answer, code) => {
    await expect(ask(await serving((_request, response) => void answer(response)))).rejects.toMatchObject({ code });
  });
});

describe('signOfLife', () => {
  it('reads the status, in however many pieces it comes', async () => {
    const requests: string[] = [];
    const origin = await accepting((socket, request) => {
      requests.push(request);
      socket.write('HTTP/1.1 5', () => socket.write('03 Service Unavailable\r\n\r\n'));
    });
    expect(await look(origin)).toBe(503);
    expect(requests).toEqual([`GET /livez HTTP/1.1\r\nHost: ${new URL(origin).host}\r\nConnection: close\r\n\r\n`]);
  });

  it('does not take another protocol for life', async () => {
    const origin = await accepting((socket) => void socket.write('x'.repeat(5_000)));
    const message = `GET ${origin}/livez got no answer: the answer is not HTTP`;
    await expect(look(origin)).rejects.toMatchObject({ code: 'outcome_unknown', message });
  });
});

describe('requestStreamed', () => {
  it('sends method, path as it is spelled, headers and body, and returns status, headers and body', async () => {
    const origin = await serving((request, response) => {
      let heard = '';
      request.on('data', (piece) => (heard += piece));
      request.on('end', () => {
        const { 'content-length': length, 'x-one': one } = request.headers;
        response.writeHead(422, { 'x-two': ['a', 'b'] });
        response.end(JSON.stringify({ method: request.method, url: request.url, length, one, heard }));
      });
    });
    const path = '/a%2Fb/../c?d=%20';
    const answer = await stream(origin, { method: 'PUT', path, headers: { 'x-one': '1' }, body: Buffer.from('ä') });
    expect(answer).toMatchObject({ status: 422, headers: { 'x-two': 'a, b' } });
    expect(JSON.parse(await textOf(answer))).toEqual({ method: 'PUT', url: path, length: '2', one: '1', heard: 'ä' });
  });

  it('passes on each part when it comes', async () => {
    const parts: ServerResponse[] = [];
    const origin = await serving((_, response) => {
      parts.push(response);
      response.write('first');
    });
    const { body } = await stream(origin);
    const pieces = body[Symbol.asyncIterator]();
    expect(String((await pieces.next()).value)).toBe('first');
    parts[0]?.end('second');
    expect(String((await pieces.next()).value)).toBe('second');
    expect((await pieces.next()).done).toBe(true);
  });

  it.each<[what: string, answer: Answer, error: object]>([
    ['does not end in time', (_, response) => void response.write('begun'), { name: 'AbortError' }],
    [
      'is cut off',
      (_, response) => void response.writeHead(200, { 'content-length': '10' }).write('a', () => response.destroy()),
      { code: 'ECONNRESET' },
    ],
    ['exceeds 24 MiB', (_, response) => void response.end(Buffer.alloc(24 * MIB + 1)), { code: 'answer_too_large' }],
  ])('fails for its reader if the answer %s', async (what, answer, error) => {
    const answered = await stream(await serving(answer), { longest: what === 'does not end in time' ? 50 : PATIENCE });
    expect(answered.status).toBe(200);
    await expect(textOf(answered)).rejects.toMatchObject(error);
  });

  it('reads an answer of 24 MiB', async () => {
    const origin = await serving((_, response) => void response.end(Buffer.alloc(24 * MIB)));
    expect((await textOf(await stream(origin))).length).toBe(24 * MIB);
  });

  it('ends its connection as soon as nobody waits any more, before and after the answer has begun', async () => {
    let isGone = Promise.withResolvers<void>();
    const origin = await serving((request, response) => {
      response.once('close', () => isGone.resolve());
      if (request.url === '/begins') response.write('begun');
      else left.abort();
    });
    let left = new AbortController();
    await expect(stream(origin, { signal: left.signal })).rejects.toMatchObject({ code: 'outcome_unknown' });
    await isGone.promise;
    left = new AbortController();
    isGone = Promise.withResolvers();
    const answer = await stream(origin, { path: '/begins', signal: left.signal });
    left.abort();
    await expect(textOf(answer)).rejects.toThrow('aborted');
    await isGone.promise;
  });
});
