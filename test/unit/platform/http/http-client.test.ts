import type { LookupFunction } from 'node:net';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { createHttpClient, type HttpClient } from '../../../../src/platform/http/http-client.ts';
import { errorOfStatus, retryAfter } from '../../../../src/platform/http/provider-errors.ts';
import { createServerClocks } from '../../../../src/platform/http/server-clocks.ts';
import { createSharedLookup } from '../../../../src/platform/http/shared-lookup.ts';
import { unreachableHint } from '../../../../src/platform/http/unreachable-hint.ts';
import { createMetrics } from '../../../../src/platform/observe/metrics.ts';
import { createTravellingClock } from '../../../support/fakes/travelling-clock.ts';
import { answerByNock, nock } from '../../../support/harness/nock.ts';

const NOW = Date.UTC(2026, 10, 20, 12);

describe('the client with nock', () => {
  const reached: string[] = [];
  const metrics = createMetrics({ version: 'test' });
  const told: string[] = [];
  let client: HttpClient;

  answerByNock();
  beforeAll(() => {
    client = createHttpClient({
      steps: { reached: (kind, edge) => void reached.push(`${kind} ${edge}`) },
      meter: metrics.meter,
      onSecret: (secret) => void told.push(secret),
    });
  });
  afterEach(() => {
    told.length = 0;
  });
  afterAll(() => client.close());

  it.each([
    [{ authorization: 'Bearer a-token-of-some-kind' }, ['a-token-of-some-kind']],
    [{ Authorization: 'a-key-without-a-scheme' }, ['a-key-without-a-scheme']],
    [{ authorization: `Basic ${btoa('user:the password')}` }, [btoa('user:the password'), 'the password']],
    [{ authorization: `Basic ${btoa(':a:b:cdefgh')}` }, [btoa(':a:b:cdefgh'), 'a:b:cdefgh']],
    [{ 'private-token': 'glpat-1234567', 'x-redmine-api-key': '0123456789' }, ['glpat-1234567', '0123456789']],
    [{ authorization: 'Bearer short', 'x-api-version': '12345678', 'user-agent': 'worksync-1.0' }, []],
  ])('tells the credentials of a request before it is sent: %j', async (headers, secrets) => {
    let before: string[] = [];
    nock('https://api.example.com')
      .get('/')
      .reply(() => {
        before = [...told];
        return [200, ''];
      });
    await client.request({ method: 'GET', url: 'https://api.example.com/', headers, target: 'gh' });
    expect(before).toEqual(secrets);
  });

  it('reports one step before and one after each request, and counts it', async () => {
    reached.length = 0;
    nock('https://api.example.com').get('/steps').reply(204);
    await client.request({ method: 'GET', url: 'https://api.example.com/steps', target: 'steps' });
    await client
      .request({ method: 'GET', url: 'http://169.254.169.254/latest/meta-data/', target: 'steps' })
      .catch(() => undefined);
    expect(reached).toEqual(['request before', 'request after', 'request before', 'request after']);
    const text = await metrics.expose();
    expect(text).toContain('worksync_http_requests_total{target="steps",status="204"} 1');
    expect(text).toContain('worksync_http_requests_total{target="steps",status="address_blocked"} 1');
    expect(text).toContain('worksync_http_request_seconds_count{target="steps"} 2');
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

  it('tells what to do about a redirect', () => {
    const redirected = (location: string) => errorOfStatus({ status: 301, headers: { location } }, 'x', NOW).hint;
    expect(redirected('https://git.example.com/users/sign_in?token=a-secret')).toContain(
      'redirects to https://git.example.com/users/sign_in, which',
    );
    expect(redirected('/users/sign_in')).toContain('redirects to /users/sign_in, which');
    for (const odd of ['', 'mailto:x', 'http://[', `/${'x'.repeat(9_999)}`])
      expect(redirected(odd)?.length).toBeLessThan(500);
  });

  it.each([
    ['30', 30_000],
    [' 0 ', 0],
    [new Date(NOW + 90_000).toUTCString(), 90_000],
    [new Date(NOW - 90_000).toUTCString(), 0],
    ['', undefined],
    ['-5', undefined],
    ['1.5', undefined],
    ['3600', 3_600_000],
    ['3601', 3_600_000],
    ['9'.repeat(400), 3_600_000],
    ['Fri, 01 Jan 2100 00:00:00 GMT', 3_600_000],
    ['soon', undefined],
  ])('reads Retry-After %j as %s ms', (value, expected) => {
    expect(retryAfter({ 'retry-after': value }, NOW)).toBe(expected);
  });
});

it.each([
  ['ENOTFOUND', /DNS knows no such name/],
  ['EAI_AGAIN', /DNS does not answer/],
  ['ECONNREFUSED', /Nothing listens/],
  ['UND_ERR_CONNECT_TIMEOUT', /firewalls/],
  ['EHOSTUNREACH', /firewalls/],
  ['CERT_HAS_EXPIRED', /has expired: renew/],
  ['CERT_NOT_YET_VALID', /clock/],
  ['DEPTH_ZERO_SELF_SIGNED_CERT', /NODE_EXTRA_CA_CERTS/],
  ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', /NODE_EXTRA_CA_CERTS/],
  ['ERR_TLS_CERT_ALTNAME_INVALID', /another host name/],
  ['CERT_REVOKED', /revoked/],
  ['ERR_SSL_WRONG_VERSION_NUMBER', /agree on no TLS/],
])('%s has a remedy of its own', (code, hint) => {
  expect(unreachableHint(Object.assign(new Error('x'), { code }))).toMatch(hint);
});

it('what is not known keeps the remedy of its code', () => {
  expect(unreachableHint(new Error('x'))).toBeUndefined();
  expect(unreachableHint(Object.assign(new Error('x'), { code: 'E_NEW' }))).toBeUndefined();
});

const START = Date.UTC(2026, 10, 20, 12);

function clocksOf(headers: () => Readonly<Record<string, string>>, wait = 0) {
  const clock = createTravellingClock({ start: START });
  const http: HttpClient = {
    async request() {
      if (wait > 0) await clock.advance(wait);
      return { status: 200, headers: headers(), body: Buffer.alloc(0) };
    },
    close: async () => undefined,
  };
  const clocks = createServerClocks(http, clock);
  const ask = (url = 'https://api.example:8443/x') => clocks.http.request({ method: 'GET', url, target: 'test' });
  return { clock, clocks, ask };
}

const date = (ms: number) => ({ date: new Date(START + ms).toUTCString() });

describe('the clocks of servers', () => {
  it.each([
    ['the same second', date(0), 0, 0],
    ['ahead', date(90_000), 0, 90_000],
    ['behind', date(-90_000), 0, -89_000],
    ['as late as the answer', date(8_000), 10_000, 0],
  ])('%s', async (_, headers, wait, ahead) => {
    const { clocks, ask } = clocksOf(() => headers, wait);
    await ask();
    expect(clocks.since(0)).toEqual([{ server: 'api.example:8443', ahead }]);
  });

  it.each([[{}], [{ date: 'noon' }], [{ ...date(90_000), age: '90' }]])('%j tells nothing', async (headers) => {
    const { clocks, ask } = clocksOf(() => headers);
    await ask();
    expect(clocks.since(0)).toEqual([]);
  });

  it('tells only of those that answered since', async () => {
    const { clock, clocks, ask } = clocksOf(() => date(0));
    await ask('https://early.example/');
    await clock.advance(5_000);
    const since = clock.monotonic();
    await ask('https://late.example/');
    expect(clocks.since(since).map(({ server }) => server)).toEqual(['late.example']);
  });
});

type Callback = Parameters<LookupFunction>[2];

/** A system that answers when it is told to. */
function slowSystem() {
  const asked: { readonly host: string; readonly answer: Callback }[] = [];
  const lookup = createSharedLookup((host, _options, answer) => void asked.push({ host, answer }));
  return { asked, lookup };
}

describe('a name that many connections wait for', () => {
  it('is asked for once, and all hear the answer', () => {
    const { asked, lookup } = slowSystem();
    const heard: unknown[] = [];
    for (let each = 0; each < 1_000; each++)
      lookup('api.example', { all: true }, (error, addresses) => heard.push([error, addresses]));
    expect(asked).toHaveLength(1);
    expect(heard).toEqual([]);
    const addresses = [{ address: '192.0.2.1', family: 4 }];
    asked[0]?.answer(null, addresses);
    expect(heard).toEqual(Array.from({ length: 1_000 }, () => [null, addresses]));
  });

  it('is asked for anew after that, also where there was none', () => {
    const { asked, lookup } = slowSystem();
    const heard: (string | undefined)[] = [];
    const ask = () => lookup('api.example', {}, (error) => heard.push(error?.code));
    ask();
    asked[0]?.answer(Object.assign(new Error('no such name'), { code: 'ENOTFOUND' }), '');
    ask();
    asked[1]?.answer(null, '192.0.2.1', 4);
    expect(heard).toEqual(['ENOTFOUND', undefined]);
  });

  it('keeps no other name waiting, and is not the same where addresses of another kind are wanted', () => {
    const { asked, lookup } = slowSystem();
    lookup('api.example', { family: 4 }, () => undefined);
    lookup('api.example', { family: 6 }, () => undefined);
    lookup('other.example', { family: 4 }, () => undefined);
    expect(asked.map(({ host }) => host)).toEqual(['api.example', 'api.example', 'other.example']);
  });
});
