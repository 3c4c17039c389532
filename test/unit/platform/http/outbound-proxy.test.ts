import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, it, onTestFinished } from 'vitest';
import { proxiesOf, secretsOfProxies } from '../../../../src/platform/config/proxies.ts';
import { createHttpClient, type HttpClientOptions } from '../../../../src/platform/http/http-client.ts';
import { createOutboundProxy, REFUSED_FOR } from '../../../../src/platform/http/outbound-proxy.ts';
import { silentMeter } from '../../../../src/platform/lib/meter.ts';
import { noSteps } from '../../../../src/platform/lib/steps.ts';
import { startConnectProxy } from '../../../support/fakes/connect-proxy.ts';
import { createTravellingClock } from '../../../support/fakes/travelling-clock.ts';

/** A server, and a proxy that leads every name to it. */
async function openNetwork(environment: Record<string, string> = {}, options: Partial<HttpClientOptions> = {}) {
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
  const http = createHttpClient({ steps: noSteps, meter: silentMeter, clock, proxies, ...options });
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
  const http = createHttpClient({ steps: noSteps, meter: silentMeter, clock, proxies });
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

it('each form of a password is a secret', () => {
  const proxies = proxiesOf({ HTTPS_PROXY: 'http://me:pass%20word@proxy.example:3128' });
  expect(secretsOfProxies(proxies!)).toEqual(['pass%20word', 'pass word', btoa('me:pass word')]);
});
