import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import {
  type AddressInfo,
  createServer as createListener,
  type LookupFunction,
  type Server,
  type Socket,
} from 'node:net';
import { afterAll, describe, expect, it, onTestFinished } from 'vitest';
import { errorOfStatus, retryAfter } from '../../../../src/connectors/kit/refusal.ts';
import { proxiesOf, secretsOfProxies } from '../../../../src/platform/config/daemon-options.ts';
import { createOutboundProxy, createSharedLookup, REFUSED_FOR } from '../../../../src/platform/http/connect.ts';
import {
  askDaemon,
  requestStreamed,
  type StreamedAnswer,
  type StreamedRequest,
  signOfLife,
} from '../../../../src/platform/http/daemon-client.ts';
import { createHttpClient, type HttpClientOptions } from '../../../../src/platform/http/http-client.ts';
import { startConnectProxy } from '../../../support/fakes/connect-proxy.ts';
import { createTravellingClock } from '../../../support/fakes/travelling-clock.ts';
import { listenLocally } from '../../../support/harness/listen.ts';
import { answerByNock, nock } from '../../../support/harness/nock.ts';

const NOW = Date.UTC(2026, 10, 20, 12);

describe('the client with nock', () => {
  const told: string[] = [];
  const client = createHttpClient({ onSecret: (secret) => void told.push(secret) });
  answerByNock();
  afterAll(() => client.close());

  it.each([
    [{ authorization: 'Bearer a-token-of-some-kind' }, ['a-token-of-some-kind']],
    [{ authorization: `Basic ${btoa('user:the password')}` }, [btoa('user:the password'), 'the password']],
    [{ 'private-token': 'glpat-1234567', 'x-redmine-api-key': '0123456789' }, ['glpat-1234567', '0123456789']],
    [{ authorization: 'Bearer short', 'x-api-version': '12345678', 'user-agent': 'worksync-1.0' }, []],
  ])('tells the credentials of a request before it is sent: %j', async (headers, secrets) => {
    let before: string[] = [];
    nock('https://api.example.com')
      .get('/')
      .reply(() => {
        before = told.splice(0);
        return [200, ''];
      });
    await client.request({ method: 'GET', url: 'https://api.example.com/', headers, target: 'gh' });
    expect(before).toEqual(secrets);
  });
});

describe('errorOfStatus', () => {
  it.each<[code: string, statuses: readonly number[]]>([
    ['refused', [301, 400, 422]],
    ['unauthorized', [401]],
    ['forbidden', [403]],
    ['not_found', [404, 410]],
    ['conflict', [409]],
    ['rate_limited', [429]],
    ['server_failed', [408, 425, 500, 502, 503, 599]],
    ['answer_malformed', [200]],
  ])('is %s for %j', (code, statuses) => {
    for (const status of statuses) {
      const error = errorOfStatus({ status, headers: {} }, 'list things', NOW);
      expect(error).toMatchObject({ code, status, retryAfter: undefined, message: `list things: status ${status}` });
    }
  });

  it.each([
    ['30', 30_000],
    [new Date(NOW + 90_000).toUTCString(), 90_000],
    [new Date(NOW - 90_000).toUTCString(), 0],
    ['', undefined],
    ['3601', 3_600_000],
    ['Fri, 01 Jan 2100 00:00:00 GMT', 3_600_000],
  ])('reads Retry-After %j as %s ms', (value, expected) => {
    expect(retryAfter({ 'retry-after': value }, NOW)).toBe(expected);
  });
});

it('looks up a name once for all connections that wait for it, and anew after that', () => {
  const answers: Parameters<LookupFunction>[2][] = [];
  const lookup = createSharedLookup((_host, _options, answer) => void answers.push(answer));
  const heard: unknown[] = [];
  const connect = () => lookup('api.example', {}, (error, address) => heard.push(error?.code ?? address));
  for (let each = 0; each < 3; each++) connect();
  answers[0]?.(Object.assign(new Error('no such name'), { code: 'ENOTFOUND' }), '');
  connect();
  answers[1]?.(null, '192.0.2.1', 4);
  expect([heard, answers.length]).toEqual([['ENOTFOUND', 'ENOTFOUND', 'ENOTFOUND', '192.0.2.1'], 2]);
});

/** A server, and a proxy that leads every name to it. */
async function openNetwork(environment: Record<string, string> = {}, options: HttpClientOptions = {}) {
  const heard: string[] = [];
  const server = createServer(({ method, url, headers }, response) => {
    heard.push(`${method} ${headers.host}${url}`);
    response.end('answer');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const proxy = await startConnectProxy({ leadTo: () => ({ host: '127.0.0.1', port }) });
  const clock = createTravellingClock();
  const proxies = proxiesOf({ HTTPS_PROXY: proxy.address, HTTP_PROXY: proxy.address, ...environment });
  const http = createHttpClient({ clock, proxies, ...options });
  onTestFinished(async () => {
    await http.close();
    await proxy.close();
    server.close();
  });
  const get = (url: string) => http.request({ method: 'GET', url, target: 'vendor' });
  const failure = (url: string) =>
    get(url).then(
      () => undefined,
      (error: unknown) => error,
    );
  return { heard, proxy, port, clock, get, failure };
}

describe('a proxy that requires a password', () => {
  it('opens a tunnel for each server, also over plain HTTP, and sees no request', async () => {
    const { heard, proxy, get } = await openNetwork();
    expect((await get('http://api.vendor.example/items?a=1')).body.toString()).toBe('answer');
    expect(proxy.asked).toEqual(['api.vendor.example:80']);
    expect(heard).toEqual(['GET api.vendor.example/items?a=1']);
  });

  it('is not asked for loopback, whatever NO_PROXY says, nor for what NO_PROXY lists', async () => {
    const { heard, proxy, port, get, failure } = await openNetwork({ NO_PROXY: 'inside.example' });
    await get(`http://127.0.0.1:${port}/embedded`);
    await get(`http://localhost:${port}/embedded`);
    expect(await failure('http://inside.example:1/')).toMatchObject({ code: 'unreachable' });
    expect(proxy.asked).toEqual([]);
    expect(heard).toHaveLength(2);
  });

  it('a tunnel that does not come about is unreachable: nothing was sent', async () => {
    const { heard, proxy, failure } = await openNetwork();
    proxy.answerWith(403);
    expect(await failure('http://api.vendor.example/')).toMatchObject({
      code: 'unreachable',
      message: expect.stringContaining('the proxy answered 403'),
    });
    expect(heard).toEqual([]);
  });
});

it('after a 407 nothing is sent for five minutes, and then it is tried again', async () => {
  const proxy = await startConnectProxy({ leadTo: () => ({ host: '127.0.0.1', port: 1 }) });
  const clock = createTravellingClock();
  const proxies = proxiesOf({ HTTP_PROXY: proxy.address.replace(/:[^:@]*@/, ':wrong-password@') });
  const http = createHttpClient({ clock, proxies });
  onTestFinished(async () => {
    await http.close();
    await proxy.close();
  });
  const failure = () =>
    http
      .request({ method: 'POST', url: 'http://api.vendor.example/', target: 'vendor' })
      .catch((error: unknown) => error);
  const first = await failure();
  expect(first).toMatchObject({ code: 'proxy_refused', retryAfter: REFUSED_FOR });
  expect(JSON.stringify([first, String(first)])).not.toContain('wrong-password');
  expect(await failure()).toMatchObject({ code: 'proxy_refused' });
  expect(proxy.asked).toHaveLength(1);
  await clock.advance(REFUSED_FOR);
  expect(await failure()).toMatchObject({ code: 'proxy_refused' });
  expect(proxy.asked).toHaveLength(2);
});

it('each form of a password is a secret', () => {
  const proxies = proxiesOf({ HTTPS_PROXY: 'http://me:pass%20word@proxy.example:3128' });
  expect(secretsOfProxies(proxies!)).toEqual(['pass%20word', 'pass word', btoa('me:pass word')]);
});

describe('targets behind a proxy', () => {
  const blockedRanges = ['10.0.0.0/8', '169.254.0.0/16'];
  const answers: Record<string, readonly string[]> = {
    'inside.example': ['10.0.0.7'],
    'both.example': ['10.0.0.7', '203.0.113.7'],
    'outside.example': ['203.0.113.7'],
  };
  function open() {
    const resolve = (name: string, _options: unknown, done: (error: Error | null, found: unknown) => void) => {
      const found = answers[name];
      done(
        found ? null : new Error('ENOTFOUND'),
        (found ?? []).map((address) => ({ address, family: 4 })),
      );
    };
    const proxies = { httpProxy: 'http://10.0.0.1:3128', httpsProxy: 'http://10.0.0.1:3128', noProxy: '' };
    const deps = { proxies, blockedRanges, clock: createTravellingClock(), agent: {} };
    const proxy = createOutboundProxy({ ...deps, resolve: resolve as never });
    onTestFinished(() => proxy.close());
    return proxy;
  }

  it.each([
    ['http://10.1.2.3/', 'blocked'],
    ['http://0x0a.1/', 'blocked'],
    ['http://[::ffff:10.1.2.3]/', 'blocked'],
    ['http://169.254.169.254/', 'blocked'],
    ['https://metadata.google.internal/', 'blocked'],
    ['https://inside.example/', 'blocked'],
    ['https://both.example/', 'sent'],
    ['https://outside.example/', 'sent'],
    ['https://nobody-knows.example/', 'sent'],
    ['http://127.0.0.1:8080/', 'direct'],
    ['http://[::1]/', 'direct'],
    ['http://service.localhost/', 'direct'],
  ])('%s is %s', async (url, expected) => {
    const route = await open().routeTo(new URL(url));
    const word = route === undefined ? 'direct' : typeof route === 'string' ? route : 'sent';
    expect(word).toBe(expected);
  });
});

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
