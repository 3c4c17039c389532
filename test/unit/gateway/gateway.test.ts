import { once } from 'node:events';
import { createServer as createUpstream, type IncomingHttpHeaders, type IncomingMessage, request } from 'node:http';
import { type AddressInfo, createServer as createSocket, type Server as SocketServer } from 'node:net';
import { text } from 'node:stream/consumers';
import { describe, expect, it, onTestFinished, test } from 'vitest';
import { createCache, type Reading } from '../../../src/gateway/cache.ts';
import { gatewayRoutes } from '../../../src/gateway/gateway.ts';
import type { Outgoing } from '../../../src/gateway/outgoing.ts';
import type { Upstream } from '../../../src/gateway/upstream.ts';
import type { TrafficLimits } from '../../../src/platform/http/admission.ts';
import { createHttpClient } from '../../../src/platform/http/http-client.ts';
import { createServer, listen } from '../../../src/platform/http/server.ts';
import { systemClock, systemRandom } from '../../../src/platform/lib/clock.ts';
import { silentLogger, silentMeter } from '../../../src/platform/lib/telemetry.ts';
import { createTravellingClock } from '../../support/fakes/travelling-clock.ts';

const MEBIBYTE = 1_048_576;

/** A gateway with one workspace, whose key `wsk_a` is known after the first answer. */
async function openGateway(upstream: SocketServer, options: { versionHeader?: string; limits?: TrafficLimits } = {}) {
  const { versionHeader = 'x-own-version', limits } = options;
  await new Promise<void>((resolve) => upstream.listen(0, '127.0.0.1', resolve));
  const { port } = upstream.address() as AddressInfo;
  const http = createHttpClient();
  const capture = { answered: async () => undefined, failed: async () => undefined, unproved: async () => undefined };
  const workspace = {
    name: 'one',
    settings: { freshFor: 15_000, longestWait: 20_000, keyPrefix: 'wsk_', versionHeader },
    workspaceId: async () => 'w-1',
    hasTask: async () => false,
    capture,
    logger: silentLogger,
    nextSlotAt: () => 0,
    pass: async ({ method, path, headers, room }) => ({
      ...(await http.request({
        ...{ method, headers, room, url: `http://127.0.0.1:${port}${path}` },
        ...{ target: 'workspace', largestAnswer: 100 * MEBIBYTE },
      })),
      sentAt: 0,
      asOf: 0,
    }),
  } as Partial<Upstream> as Upstream;
  const server = createServer({ limits });
  const tokens = { find: async () => undefined, recall: () => undefined } as never;
  gatewayRoutes(server, {
    ...{ upstreams: () => [workspace], upstream: () => workspace, tokens, meter: silentMeter },
    ...{ clock: systemClock(), random: systemRandom() },
  });
  const address = await listen(server, { host: '127.0.0.1', port: 0 });
  onTestFinished(async () => {
    await server.close();
    await http.close();
    upstream.close();
  });
  const ask = (path = '/workspaces/w-1/tasks', headers: Record<string, string> = {}) =>
    fetch(`${address}/api/v1${path}`, { headers: { authorization: 'Bearer wsk_a', ...headers } });
  return { ask, address, traffic: server.traffic, held: () => server.traffic.bodies.held() };
}

describe('a body that has to make room for others', () => {
  const KIBIBYTE = 1_024;

  it.each([
    ['usual', 503, 'overloaded'],
    ['suspected', 429, 'rate_limit_exceeded'],
  ])('of a %s sender is refused with the error object and a delay: %i', async (sender, status, errorCode) => {
    const { address, traffic } = await openGateway(
      createUpstream((_request, response) => void response.end('{}')),
      { limits: { bytes: 300 * KIBIBYTE } },
    );
    if (sender === 'suspected') for (let count = 0; count < 100; count++) traffic.failed('127.0.0.1');
    const url = `${address}/api/v1/workspaces/w-1/bugs`;
    const headers = { authorization: 'Bearer wsk_a', 'content-type': 'application/json' };
    const half = request(url, { method: 'POST', headers: { ...headers, 'content-length': 250 * KIBIBYTE } });
    const answered = once(half, 'response') as Promise<[IncomingMessage]>;
    half.write(Buffer.alloc(200 * KIBIBYTE));
    await expect.poll(() => traffic.bodies.held()).toBe(200 * KIBIBYTE);
    const other = await fetch(url, { method: 'POST', headers, body: Buffer.alloc(200 * KIBIBYTE) });
    expect(other.status).toBe(200);
    const [response] = await answered;
    expect(response.statusCode).toBe(status);
    expect(response.headers['retry-after']).toMatch(/^\d+$/);
    expect(JSON.parse(await text(response))).toEqual({ code: status, message: expect.any(String), errorCode });
  });
});

it.each([
  ['a status that HTTP does not have', 'HTTP/1.1 600 Odd\r\ncontent-length: 2\r\n\r\n{}'],
  ['a length that is no number', 'HTTP/1.1 200 OK\r\ncontent-length: ten\r\n\r\n{}'],
])('an answer that is no HTTP becomes 502 answer_malformed: %s', async (_what, text) => {
  const upstream = createSocket((socket) => void socket.once('data', () => socket.end(text)));
  const { ask } = await openGateway(upstream);
  const answer = await ask();
  expect([answer.status, await answer.json()]).toMatchObject([502, { errorCode: 'answer_malformed' }]);
});

it('a read that two callers request together is sent again for the second caller if the first one is refused', async () => {
  const arrived = Promise.withResolvers<void>();
  let reads = 0;
  const upstream = createUpstream(({ url }, response) => {
    const isFirst = url?.endsWith('/tasks/t1') === true && reads++ === 0;
    if (isFirst) arrived.resolve();
    setTimeout(() => response.writeHead(isFirst ? 403 : 200).end('{}'), isFirst ? 200 : 0);
  });
  const { ask } = await openGateway(upstream);
  const second = { authorization: 'Bearer wsk_b' };
  for (const headers of [{}, second]) expect((await ask('/workspaces/w-1/tasks', headers)).status).toBe(200);
  const first = ask('/workspaces/w-1/tasks/t1');
  await arrived.promise;
  expect((await ask('/workspaces/w-1/tasks/t1', second)).status).toBe(200);
  expect((await first).status).toBe(403);
});

describe('reads that differ by a header that is passed on', () => {
  const echo = () => {
    const seen: IncomingHttpHeaders[] = [];
    const upstream = createUpstream((request, response) => {
      seen.push(request.headers);
      setTimeout(() => response.end(JSON.stringify(request.headers['x-own-version'] ?? 'none')), 20);
    });
    return { upstream, seen };
  };

  it('share neither a cached answer nor one that is on its way', async () => {
    const { upstream, seen } = echo();
    const { ask } = await openGateway(upstream);
    await (await ask()).text();
    const versions = ['2', '3', undefined, '2'];
    const together = await Promise.all(
      versions.map(async (version) => (await ask(undefined, version ? { 'X-Own-Version': version } : {})).json()),
    );
    expect(together).toEqual(['2', '3', 'none', '2']);
    expect(await (await ask(undefined, { 'x-own-version': '3' })).json()).toBe('3');
    // One for each version, and none for an answer that is cached.
    expect(seen.map((headers) => headers['x-own-version'])).toEqual([undefined, '2', '3']);
  });
});

it('large answers wait for each other within the budget of the server, and all come whole', async () => {
  const length = 3 * MEBIBYTE;
  const upstream = createUpstream((_request, response) => void response.end(Buffer.alloc(length, 97)));
  // Time stands still, so that no answer counts as one that came to a halt.
  const limits = { bytes: 4 * MEBIBYTE, clock: createTravellingClock() };
  const { ask, held } = await openGateway(upstream, { limits });
  let most = 0;
  const watch = setInterval(() => {
    most = Math.max(most, held());
  }, 1);
  const answers = await Promise.all(Array.from({ length: 8 }, (_, index) => ask(`/workspaces/w-1/files/${index}`)));
  const lengths = await Promise.all(answers.map(async (answer) => (await answer.arrayBuffer()).byteLength));
  clearInterval(watch);
  expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 8 }, () => 200));
  expect(lengths).toEqual(Array.from({ length: 8 }, () => length));
  expect(most).toBeGreaterThan(0);
  expect(most).toBeLessThanOrEqual(4 * MEBIBYTE);
  await expect.poll(held).toBe(0);
});

const answer = (body: string, status = 200): Outgoing => ({ status, headers: {}, body });
const reading = (address: string, workspace = 'one', flight = address): Reading => ({ workspace, address, flight });

describe('the cache of the gateway', () => {
  test('holds an answer from the moment it was asked for', async () => {
    const clock = createTravellingClock();
    const cache = createCache(clock);
    const slow = Promise.withResolvers<Outgoing>();
    const shared = cache.shared(reading('a'), true, () => slow.promise);
    await clock.advance(4_000);
    slow.resolve(answer('x'));
    expect(await shared).toEqual({ answer: answer('x'), joined: false });
    expect(cache.fresh('one', 'a', 5_000)).toEqual({ answer: answer('x'), age: 4 });
    await clock.advance(999);
    expect(cache.fresh('one', 'a', 5_000)?.age).toBe(4);
    await clock.advance(1);
    expect(cache.fresh('one', 'a', 5_000)).toBeUndefined();
    expect(cache.fresh('two', 'a', 5_000)).toBeUndefined();
    expect(cache.fresh('one', 'a', 0)).toBeUndefined();
  });

  test('reads once for all that ask meanwhile, and a failure is everybody’s and is not kept', async () => {
    const cache = createCache(createTravellingClock());
    let reads = 0;
    const slow = Promise.withResolvers<Outgoing>();
    const read = () => {
      reads++;
      return slow.promise;
    };
    const all = [1, 2, 3].map(() => cache.shared(reading('a'), true, read));
    slow.reject(new Error('no answer'));
    for (const each of all) await expect(each).rejects.toThrow('no answer');
    expect(reads).toBe(1);
    expect(await cache.shared(reading('a'), true, async () => answer('y'))).toEqual({
      answer: answer('y'),
      joined: false,
    });
  });

  test('keeps nothing but a 200, and only what may be kept', async () => {
    const cache = createCache(createTravellingClock());
    await cache.shared(reading('a'), true, async () => answer('x', 404));
    await cache.shared(reading('b'), false, async () => answer('x'));
    expect([cache.fresh('one', 'a', 1_000), cache.fresh('one', 'b', 1_000)]).toEqual([undefined, undefined]);
  });

  test('stays within its size: the oldest go, and what is too large is not kept', async () => {
    const cache = createCache(createTravellingClock(), 5_000);
    const addresses = ['a', 'b', 'c', 'd', 'e', 'f'];
    for (const address of addresses) await cache.shared(reading(address), true, async () => answer('x'.repeat(500)));
    const isHeld = (address: string) => cache.fresh('one', address, 1_000) !== undefined;
    expect(addresses.filter(isHeld)).toEqual(['d', 'e', 'f']);
    await cache.shared(reading('g'), true, async () => answer('x'.repeat(5_000)));
    expect([...addresses, 'g'].filter(isHeld)).toEqual(['d', 'e', 'f']);
  });

  test('after a write neither keeps nor shares what was asked for before', async () => {
    const cache = createCache(createTravellingClock());
    await cache.shared(reading('kept'), true, async () => answer('before'));
    const slow = Promise.withResolvers<Outgoing>();
    const early = cache.shared(reading('a'), true, () => slow.promise);
    cache.forget('one');
    const late = await cache.shared(reading('a'), true, async () => answer('after'));
    slow.resolve(answer('before'));
    await early;
    expect(late).toEqual({ answer: answer('after'), joined: false });
    expect(cache.fresh('one', 'a', 1_000)?.answer).toEqual(answer('after'));
    expect(cache.fresh('one', 'kept', 1_000)).toBeUndefined();
  });
});
