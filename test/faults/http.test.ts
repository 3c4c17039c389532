import dns from 'node:dns';
import { once } from 'node:events';
import { createServer as createHttpServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { syncBuiltinESMExports } from 'node:module';
import { type AddressInfo, connect, createServer as createNetServer, type Server, type Socket } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import type { SyncError } from '../../src/model/errors.ts';
import {
  createHttpClient,
  type HttpClient,
  type HttpClientOptions,
  type HttpRequest,
} from '../../src/platform/http/http-client.ts';
import { createServer } from '../../src/platform/http/server.ts';
import { createTravellingClock } from '../support/fakes/travelling-clock.ts';

const closing: (() => unknown)[] = [];

afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

function client(options: HttpClientOptions = {}): HttpClient {
  const made = createHttpClient(options);
  closing.push(() => made.close());
  return made;
}

async function listen(server: Server): Promise<number> {
  const sockets = new Set<Socket>();
  server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  closing.push(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

/** A peer that speaks bytes. `onRequest` is called with the number of the request, once its head has come. */
async function rawPeer(onRequest: (socket: Socket, request: number) => void) {
  let requests = 0;
  const port = await listen(
    createNetServer((socket) => {
      socket.on('data', (chunk) => {
        if (chunk.includes('HTTP/1.1\r\n')) onRequest(socket, ++requests);
      });
    }),
  );
  return { url: `http://127.0.0.1:${port}/thing?q=1`, requests: () => requests };
}

async function httpPeer(answer: (request: IncomingMessage, response: ServerResponse) => void) {
  const connections = { count: 0 };
  const server = createHttpServer(answer);
  server.on('connection', () => connections.count++);
  return { url: `http://127.0.0.1:${await listen(server)}/thing`, connections };
}

const get = (url: string, more: Partial<HttpRequest> = {}): HttpRequest => ({
  method: 'GET',
  url,
  target: 'peer',
  ...more,
});
const post = (url: string, more: Partial<HttpRequest> = {}) => get(url, { method: 'POST', body: '{}', ...more });

async function failure(promise: Promise<unknown>): Promise<SyncError> {
  return promise.then(
    () => expect.unreachable('the request should have failed'),
    (error: SyncError) => error,
  );
}

it('many requests to one host share its connections, and all are answered', async () => {
  const held: ServerResponse[] = [];
  const { url, connections } = await httpPeer((_request, response) => void held.push(response));
  const http = client();
  const answers = Array.from({ length: 100 }, () => http.request(get(url)));
  await expect.poll(() => held.length).toBe(64);
  expect(connections.count).toBe(64);
  let ended = 0;
  const done = Promise.all(answers).then((all) => all.map(({ status }) => status));
  const answer = () => {
    for (const response of held.splice(0)) {
      response.end();
      ended++;
    }
    return ended;
  };
  await expect.poll(answer).toBe(100);
  expect(new Set(await done)).toEqual(new Set([200]));
  expect(connections.count).toBe(64);
});

const silent = () => undefined;
const CREATED = 'HTTP/1.1 201 Created\r\ncontent-length: 100\r\n\r\n{"a"';

it.each<[what: string, code: string, peer: (socket: Socket) => void, options?: HttpClientOptions]>([
  [
    'a peer that does not speak TLS',
    'unreachable',
    (socket) => socket.once('data', () => socket.end('HTTP/1.1 400\r\n')),
  ],
  [
    'one that hangs up in the handshake',
    'unreachable',
    (socket) => socket.once('data', () => socket.resetAndDestroy()),
  ],
  ['a TLS handshake that never ends', 'unreachable', silent, { timeouts: { connect: 200 } }],
])('certainly not sent: %s [A19]', async (_what, code, peer, options) => {
  const port = await listen(createNetServer(peer));
  expect((await failure(client(options).request(post(`https://127.0.0.1:${port}/`)))).code).toBe(code);
});

describe('certainly not sent', () => {
  it('a refused connection, and an unknown name', async () => {
    const server = createNetServer();
    const port = await listen(server);
    server.close();
    await once(server, 'close');
    expect(await failure(client().request(post(`http://127.0.0.1:${port}/secret?token=abc`)))).toMatchObject({
      code: 'unreachable',
      message: `POST http://127.0.0.1:${port}/secret was not sent: ECONNREFUSED`,
      hint: expect.stringContaining('Nothing listens'),
    });
    expect((await failure(client().request(post('http://no-such-host.invalid/')))).code).toBe('unreachable');
  });

  it('a signal that has fired, before or while connecting', async () => {
    const peer = await rawPeer(silent);
    expect((await failure(client().request(post(peer.url, { signal: AbortSignal.abort() })))).code).toBe('aborted');
    const port = await listen(createNetServer(silent));
    const stop = new AbortController();
    const pending = failure(client().request(post(`https://127.0.0.1:${port}/`, { signal: stop.signal })));
    setImmediate(() => stop.abort());
    expect((await pending).code).toBe('aborted');
    expect(peer.requests()).toBe(0);
  });
});

describe('of unknown outcome', () => {
  it.each<
    [what: string, answer: (socket: Socket) => unknown, failure: object, timeouts?: HttpClientOptions['timeouts']]
  >([
    ['a reset after the request arrived', (socket) => socket.resetAndDestroy(), { status: undefined }],
    [
      'a half-open peer that never answers',
      silent,
      { message: expect.stringContaining('UND_ERR_HEADERS_TIMEOUT') },
      { headers: 300 },
    ],
    ['a body that stops in the middle', (socket) => socket.write(CREATED), { status: 201 }, { body: 300 }],
    ['a body that drips past the total time', drip, {}, { total: 400 }],
    ['an answer that is shorter than its length', (socket) => socket.end(CREATED), {}],
    [
      'a chunked answer without its end',
      (socket) => socket.end('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\n{"a\r\n'),
      {},
    ],
    ['an answer that is not HTTP', (socket) => socket.end('SSH-2.0-OpenSSH_9.2\r\n'), {}],
  ])('%s', async (_what, answer, expected, timeouts) => {
    const peer = await rawPeer(answer);
    const error = await failure(client(timeouts && { timeouts }).request(post(peer.url)));
    expect(error).toMatchObject({ code: 'outcome_unknown', ...expected });
    expect(peer.requests()).toBe(1);
  });

  function drip(socket: Socket): void {
    socket.write('HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n');
    const timer = setInterval(() => socket.write('x'), 20);
    socket.on('close', () => clearInterval(timer));
  }

  it.each([
    ['a name or a handshake that never ends', '', 'https:'],
    ['an answer that never begins', '', 'http:'],
    ['a head that never ends', 'HTTP/1.1 200 OK\r\ncontent-length: 9\r\n', 'http:'],
    ['a body that never ends', CREATED, 'http:'],
  ])('is open for 30 seconds at most, whatever it waits for: %s', async (_name, answer, protocol) => {
    const clock = createTravellingClock();
    const asked = Promise.withResolvers<void>();
    const port = await listen(
      createNetServer((socket) => {
        socket.once('data', () => {
          socket.write(answer);
          asked.resolve();
        });
      }),
    );
    // With the default limits. The given clock measures that of the whole; the others would end sooner.
    const pending = failure(client({ clock }).request(post(`${protocol}//127.0.0.1:${port}/`)));
    await asked.promise;
    await clock.advance(29_999);
    const nothingYet = new Promise<string>((resolve) => void setImmediate(() => resolve('nothing yet')));
    expect(await Promise.race([pending, nothingYet])).toBe('nothing yet');
    await clock.advance(1);
    expect((await pending).message).toMatch(/in time|out of time/);
  });

  it('a write that is aborted in flight; a read is merely aborted', async () => {
    for (const [method, code] of [
      ['POST', 'outcome_unknown'],
      ['GET', 'aborted'],
      ['HEAD', 'aborted'],
    ] as const) {
      const stop = new AbortController();
      const peer = await rawPeer(() => stop.abort());
      const error = await failure(client().request(get(peer.url, { method, signal: stop.signal })));
      expect([method, error.code]).toEqual([method, code]);
    }
  });
});

describe('answers', () => {
  it('cuts an answer that is too large, whether or not it names its length', async () => {
    const peer = await httpPeer((request, response) => {
      if (request.method === 'POST') response.setHeader('content-length', 5_000_000);
      response.on('error', () => undefined);
      for (let piece = 0; piece < 50; piece++) response.write(Buffer.alloc(100_000));
      response.end();
    });
    const http = client();
    for (const request of [get(peer.url), post(peer.url)])
      expect((await failure(http.request({ ...request, largestAnswer: 1_000_000 }))).code).toBe('answer_too_large');
    expect((await http.request(get(peer.url))).body.length).toBe(5_000_000);
  });

  it('takes 16 MiB by default and not a byte more [A18]', async () => {
    const peer = await httpPeer((request, response) =>
      response.end(Buffer.alloc(16 * 1024 * 1024 + Number(request.headers['x-more']))),
    );
    const http = client();
    expect((await http.request(get(peer.url, { headers: { 'x-more': '0' } }))).body.length).toBe(16 * 1024 * 1024);
    expect((await failure(http.request(get(peer.url, { headers: { 'x-more': '1' } })))).code).toBe('answer_too_large');
  });

  it('does not follow a redirect [A4]', async () => {
    const elsewhere = await rawPeer(() => undefined);
    for (const status of [301, 302, 303, 307, 308]) {
      const peer = await httpPeer((_request, response) =>
        response.writeHead(status, { location: elsewhere.url }).end(),
      );
      expect((await client().request(post(peer.url))).status).toBe(status);
    }
    expect(elsewhere.requests()).toBe(0);
  });
});

describe('blocked addresses', () => {
  const spellings = '127.0.0.1 2130706433 0x7f.1 017700000001 [::ffff:127.0.0.1] [::1] 0.0.0.0 localhost'.split(' ');
  const loopback = ['127.0.0.0/8', '::1/128', '0.0.0.0/8'];

  it.each(['http:', 'https:'])(
    'every spelling of loopback over %s, and no connection is made [A4]',
    async (protocol) => {
      let connections = 0;
      const port = await listen(createNetServer(() => connections++));
      const http = client({ blockedRanges: loopback });
      for (const host of spellings) {
        const error = await failure(http.request(post(`${protocol}//${host}:${port}/`)));
        expect([host, error.code]).toEqual([host, 'address_blocked']);
      }
      expect(connections).toBe(0);
    },
  );

  const METADATA_ADDRESSES = `http://169.254.169.254/latest/meta-data/ https://169.254.169.254/ http://2852039166/ http://0xa9.0xfe.0xa9.0xfe/
    http://[::ffff:169.254.169.254]/ http://[::ffff:a9fe:a9fe]/ http://[64:ff9b::a9fe:a9fe]/ http://[2002:a9fe:a9fe::1]/
    http://[fe80::1]/ http://[fd00:ec2::254]/ http://100.100.100.200/`;

  it.each(METADATA_ADDRESSES.split(/\s+/))('always: %s [A4]', async (url) => {
    expect((await failure(client().request(get(url)))).code).toBe('address_blocked');
  });
});

describe('a name that resolves to another address after it was checked', () => {
  /** Sets the next answers of the system's resolver; the last one repeats. */
  function resolveTo(...answers: readonly (readonly string[])[]): void {
    const left = [...answers];
    const own = dns.lookup;
    const fake = ((_name: string, { all }: { all?: boolean }, tell: (...said: unknown[]) => void) => {
      const found = ((left.length > 1 ? left.shift() : left[0]) ?? []).map((address) => ({ address, family: 4 }));
      setImmediate(() => (all ? tell(null, found) : tell(null, found[0]?.address, 4)));
    }) as unknown as typeof dns.lookup;
    dns.lookup = fake;
    syncBuiltinESMExports();
    closing.push(() => {
      dns.lookup = own;
      syncBuiltinESMExports();
    });
  }

  const METADATA = '169.254.169.254';

  it.each(['http:', 'https:'])(
    'is looked at again for each connection (DNS rebinding) over %s [A4]',
    async (protocol) => {
      const peer = await httpPeer((_request, response) => response.setHeader('connection', 'close').end('ok'));
      const { port } = new URL(peer.url);
      resolveTo(['127.0.0.1'], [METADATA]);
      const http = client();
      expect((await http.request(get(`http://rebound.example:${port}/`))).status).toBe(200);
      expect((await failure(http.request(get(`${protocol}//rebound.example:${port}/`)))).code).toBe('address_blocked');
      expect(peer.connections.count).toBe(1);
    },
  );

  it.each(['http:', 'https:'])(
    'is not followed to one of several addresses that is blocked over %s [A4]',
    async (protocol) => {
      const peer = await httpPeer((_request, response) => response.end('ok'));
      const { port } = new URL(peer.url);
      for (const addresses of [['127.0.0.1', METADATA], [METADATA, '127.0.0.1'], ['127.0.0.1']]) {
        resolveTo(addresses);
        const http = client({ blockedRanges: ['127.0.0.0/8'] });
        expect((await failure(http.request(get(`${protocol}//several.example:${port}/`)))).code).toBe(
          'address_blocked',
        );
      }
      expect(peer.connections.count).toBe(0);
    },
  );
});

describe('the server', () => {
  it('answers 408 to a slow-loris, in the head or in the body, within the time-out and half a second', async () => {
    const server = createServer({ requestTimeout: 1_000 });
    server.post('/webhooks/a', async () => 'ok');
    closing.push(() => server.close());
    const address = new URL(await server.listen({ host: '127.0.0.1', port: 0 }));
    const drip = async (head: string) => {
      const socket = connect(Number(address.port), '127.0.0.1');
      socket.write(head);
      // Never at the moments at which the server looks, and no more once it has answered: a reset would take the answer away.
      const timer = setInterval(() => socket.write('a'), 130);
      socket.on('error', () => undefined);
      let text = '';
      socket.on('data', (chunk) => {
        clearInterval(timer);
        text += String(chunk);
      });
      await new Promise((resolve) => socket.once('close', resolve));
      clearInterval(timer);
      return text;
    };
    const [inHead, inBody] = await Promise.all([
      drip('POST /webhooks/a HTTP/1.1\r\nhost: x\r\nx-slow: '),
      drip('POST /webhooks/a HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n'),
    ]);
    for (const text of [inHead, inBody]) expect(text).toMatch(/^HTTP\/1\.1 408 /);
  });

  it('closes a connection whose sender reads nothing of its answer, and leaves the others alone', async () => {
    const server = createServer();
    const answer = Buffer.alloc(32 * 1024 * 1024, 97);
    server.get('/large', async () => answer);
    closing.push(() => server.close());
    const address = new URL(await server.listen({ host: '127.0.0.1', port: 0 }));
    const sockets: Socket[] = [];
    server.server.on('connection', (socket: Socket) => void sockets.push(socket));
    const mute = connect(Number(address.port), '127.0.0.1');
    mute.on('error', () => undefined).pause();
    mute.write('GET /large HTTP/1.1\r\nhost: x\r\n\r\n');
    // The timer that an answer sets, and Node restarts with each piece that is read; its end is played.
    await expect.poll(() => sockets[0]?.timeout).toBe(30_000);
    sockets[0]?.emit('timeout');
    const read = await fetch(`${address.origin}/large`);
    expect((await read.arrayBuffer()).byteLength).toBe(answer.length);
    expect(sockets.map(({ destroyed }) => destroyed)).toEqual([true, false]);
    mute.destroy();
  });

  it.each([
    ['nobody is trusted', undefined, '203.0.113.9', 'http 10.0.0.7'],
    ['a trusted proxy', ['10.0.0.0/8'], '203.0.113.9', 'https 203.0.113.9'],
    ['an address that somebody put before it', ['10.0.0.0/8'], '198.51.100.1, 203.0.113.9', 'https 203.0.113.9'],
    ['two trusted proxies', ['10.0.0.0/8', '192.0.2.1'], '203.0.113.9, 192.0.2.1', 'https 203.0.113.9'],
    ['somebody else', ['10.1.0.0/16'], '203.0.113.9', 'http 10.0.0.7'],
  ])('where a request comes from: %s', async (_name, trustedProxies, forwarded, expected) => {
    const server = createServer({ trustedProxies });
    closing.push(() => server.close());
    server.get('/', async (request) => `${request.protocol} ${request.ip}`);
    const headers = { 'x-forwarded-for': forwarded, 'x-forwarded-proto': 'https' };
    const answer = await server.inject({ method: 'GET', url: '/', remoteAddress: '10.0.0.7', headers });
    expect(answer.body).toBe(expected);
  });

  it.each([
    ['Authorization', 'Basic YTpi', 'Basic YTpj'],
    ['authorization', 'Basic YTpi', 'Basic YTpi'],
    ['Proxy-Authorization', 'Basic YTpi', 'Basic YTpj'],
    ['Host', 'a', 'b'],
    ['Content-Type', 'application/json', 'text/plain'],
  ])('refuses %s twice: somebody on the way may have looked at the other one [A1]', async (name, first, second) => {
    const server = createServer();
    const seen: unknown[] = [];
    server.post('/webhooks/a', async (request) => void seen.push(request.headers));
    closing.push(() => server.close());
    const { port } = new URL(await server.listen({ host: '127.0.0.1', port: 0 }));
    const send = async (...lines: string[]) => {
      const socket = connect(Number(port), '127.0.0.1');
      const head = ['POST /webhooks/a HTTP/1.1', ...lines, 'Connection: close', 'Content-Length: 2'];
      socket.write(`${head.join('\r\n')}\r\n\r\n{}`);
      return (await socket.toArray()).join('').split(' ')[1];
    };
    const host = name === 'Host' ? [] : ['Host: a'];
    expect(await send(...host, `${name}: ${first}`, `${name.toUpperCase()}: ${second}`)).toBe('400');
    expect(seen).toEqual([]);
    expect(await send(...host, `${name}: ${first}`)).toBe('200');
  });
});
