import { beforeEach, describe, expect, it } from 'vitest';
import { createServer } from '../../../src/platform/http/server.ts';
import { type LogFields, silentLogger } from '../../../src/platform/lib/telemetry.ts';
import { guardRoutes } from '../../../src/web/access/access-control.ts';
import { ACME, ADMIN, type Doors, JOB, ORIGIN, openDoors, READ, SHORT } from '../../support/harness/doors.ts';

const bearer = (token: string) => ({ authorization: `Bearer ${token}` });
const own = { host: 'localhost:8080' };
const json = { 'content-type': 'application/json' };

interface Knock {
  readonly from?: string;
  readonly headers?: Record<string, string>;
  readonly method?: 'GET' | 'POST' | 'OPTIONS';
  readonly payload?: string;
}

let doors: Doors;
beforeEach(async () => {
  doors = await openDoors({ allowedHosts: ['Sync.example.com', 'port.example.com:8443'], listens: '192.0.2.1' });
});

/** Returns the admitted caller, or the status. */
async function knock(url: string, { from = '127.0.0.1', headers = {}, method = 'GET', payload }: Knock = {}) {
  const answer = await doors.server.inject({ method, url, remoteAddress: from, headers, payload });
  return answer.statusCode === 200 ? (answer.json() as { in: string }).in : answer.statusCode;
}

/** The headers of a browser that an administrator, or who is told, has logged in. */
async function browser(access: Parameters<Doors['sessions']['makeLink']>[0] = { role: 'admin', workspaces: null }) {
  const cookie = await doors.sessions.byLink(await doors.sessions.makeLink(access), false);
  const text = `${cookie?.name}=${cookie?.secret}`;
  const session = await doors.sessions.find(text, false);
  return { cookie: text, page: session?.pageToken ?? '', headers: { ...own, cookie: text } };
}

describe('without a credential', () => {
  it.each([
    ['this machine', {}],
    ['this machine, IPv6', { from: '::1', headers: { host: '[::1]:8080' } }],
    ['a configured host', { from: '10.0.0.7', headers: { host: 'sync.example.com' } }],
    ['a proxy on this machine', { headers: { ...own, 'x-forwarded-for': '127.0.0.1' } }],
  ] satisfies [string, Knock][])('nobody gets in: %s', async (_name, given) => {
    for (const url of ['/', '/whole', '/metrics', '/undeclared', '/no-such-page', '/livez/', '/webhooksx', '//livez'])
      expect([url, await knock(url, { headers: own, ...given })]).toEqual([url, 401]);
    for (const url of ['/admin/pause', '/admin/workspaces/acme/pause', '/button'])
      expect([url, await knock(url, { headers: own, ...given, method: 'POST' })]).toEqual([url, 401]);
  });

  it.each([
    ['DNS rebinding', 'evil.example.org:8080'],
    ['a trailing dot', 'localhost.'],
    ['another port than the configured one', 'port.example.com:8080'],
    ['no port in the place of the configured one', 'port.example.com'],
  ])('a host that is none of ours is told so: %s [A11]', async (_name, host) => {
    expect(await knock('/', { headers: { host } })).toBe(403);
    expect(await knock('/login', { headers: { host } })).toBe(403);
  });

  it.each(['LOCALHOST', '127.0.0.1:1', '[::1]:8080', 'sync.example.com:99', 'port.example.com:8443', '192.0.2.1:8080'])(
    'our own hosts are known: %s',
    async (host) => expect(await knock('/', { headers: { host } })).toBe(401),
  );

  it('open metrics answer to everybody, and nothing else does', async () => {
    doors = await openDoors({ openMetrics: true });
    expect(await knock('/metrics', { from: '10.0.0.7', headers: { host: 'worksync:8080' } })).toBe('read');
    expect(await knock('/', { headers: own })).toBe(401);
  });
});

describe('with a token', () => {
  it.each<[string, Knock]>([
    ['from this machine', {}],
    ['from another machine, by any name', { from: '10.0.0.7', headers: { host: 'worksync:8080' } }],
    ['through a proxy', { headers: { host: 'x', 'x-forwarded-for': '1.2.3.4' } }],
  ])('who has it gets in: %s', async (_name, given) => {
    const as = (token: string, more = {}) => ({
      ...given,
      headers: { ...own, ...given.headers, ...bearer(token), ...more },
    });
    expect(await knock('/', as(ADMIN))).toBe('admin');
    expect(await knock('/undeclared', as(ADMIN))).toBe('admin');
    expect(await knock('/no-such-page', as(ADMIN))).toBe(404);
    expect(await knock('/admin/pause', { ...as(ADMIN, json), method: 'POST' })).toBe('admin');
    expect(await knock('/', as(READ))).toBe('read');
    expect(await knock('/metrics', as(READ))).toBe('read');
  });

  it.each(['wrong', ADMIN.slice(0, -1), `${ADMIN}x`, ADMIN.toUpperCase(), '', `${ADMIN} ${ADMIN}`])(
    'a wrong one is none: %s',
    async (token) => expect(await knock('/', { headers: { ...own, ...bearer(token) } })).toBe(401),
  );

  it.each([`Basic ${ADMIN}`, ADMIN, `Bearer${ADMIN}`])('another scheme is none: %s', async (authorization) => {
    expect(await knock('/', { headers: { ...own, authorization } })).toBe(401);
  });

  it('a wrong one is not made good by a cookie', async () => {
    const { headers } = await browser();
    expect(await knock('/', { headers })).toBe('admin');
    expect(await knock('/', { headers: { ...headers, ...bearer('wrong') } })).toBe(401);
  });

  it.each([
    'text/plain',
    'text/plain; application/json',
    'application/x-www-form-urlencoded',
    'application/json; charset=utf-16',
    '',
  ])('a change takes JSON, not %j', async (type) => {
    const headers = { ...own, ...bearer(ADMIN), 'content-type': type };
    expect(await knock('/admin/pause', { headers, method: 'POST', payload: '{}' })).toBe(415);
  });
});

describe('wrong tokens', () => {
  const guess = (token: string, from: string) => knock('/', { from, headers: { ...own, ...bearer(token) } });

  it('become slow for their address, and keep nobody out whose token cannot be guessed', async () => {
    const answers: unknown[] = [];
    for (let each = 0; each < 40; each++) answers.push(await guess(`guess-${each}`, '10.0.0.7'));
    expect(answers.indexOf(429)).toBeGreaterThan(5);
    expect(new Set(answers.slice(answers.indexOf(429)))).toEqual(new Set([429]));
    // Short tokens are not looked at for this address, right or wrong.
    expect(await guess(SHORT, '10.0.0.7')).toBe(429);
    expect([await guess(READ, '10.0.0.7'), await guess(ADMIN, '10.0.0.7')]).toEqual(['read', 'admin']);
    expect(await knock('/', { from: '10.0.0.7', headers: (await browser()).headers })).toBe(403);
    expect(await guess(SHORT, '10.0.0.8')).toBe('read');
    await doors.clock.advance(60_000);
    expect(await guess(SHORT, '10.0.0.7')).toBe('read');
  });
});

describe('a browser that is logged in', () => {
  it('changes something only from a page of ours, with the token that stands in it [A10]', async () => {
    const { headers, page } = await browser();
    const post = (more: Record<string, string>) =>
      knock('/admin/pause', { method: 'POST', headers: { ...headers, ...json, ...more } });
    expect(await post({ origin: ORIGIN, 'x-page-token': page })).toBe('admin');
    expect(await post({ origin: ORIGIN })).toBe(403);
    expect(await post({ origin: ORIGIN, 'x-page-token': `${page}x` })).toBe(403);
    expect(await post({ origin: ORIGIN, 'x-page-token': (await browser()).page })).toBe(403);
    expect(await post({ 'x-page-token': page })).toBe(403);
    for (const origin of [
      'http://localhost:3000',
      'http://127.0.0.1:8080',
      'https://localhost:8080',
      'null',
      'localhost:8080',
    ])
      expect(await post({ origin, 'x-page-token': page })).toBe(403);
    expect(await post({ origin: ORIGIN, 'x-page-token': page, 'content-type': 'text/plain' })).toBe(415);
  });

  it('sends forms with the token in a field', async () => {
    const { headers, page } = await browser();
    const send = (payload: string, type = 'application/x-www-form-urlencoded') =>
      knock('/button', { method: 'POST', payload, headers: { ...headers, origin: ORIGIN, 'content-type': type } });
    expect(await send(`page=${page}`)).toBe('admin');
    expect(await send('page=')).toBe(403);
    expect(await send('')).toBe(403);
    expect(await send(`page=${page}`, 'text/plain')).toBe(415);
    expect(await send(`{"page":"${page}"}`, 'application/json')).toBe(415);
  });

  it('is not taken under the name of somebody else, nor where others can read along', async () => {
    const { headers } = await browser();
    expect(await knock('/', { headers: { ...headers, host: 'evil.example.org:8080' } })).toBe(403);
    expect(await knock('/', { headers, from: '10.0.0.7' })).toBe(403);
    for (const name of ['x-forwarded-for', 'x-forwarded-proto', 'forwarded', 'via', 'cf-connecting-ip', 'x-real-ip'])
      expect(await knock('/', { headers: { ...headers, [name]: 'https' } })).toBe(403);
  });

  it('shows its cookie once', async () => {
    const { headers, cookie } = await browser();
    expect(await knock('/', { headers: { ...headers, cookie: `other=1; ${cookie}; more=2` } })).toBe('admin');
    expect(await knock('/', { headers: { ...headers, cookie: `${cookie}; ${cookie}` } })).toBe(401);
    expect(await knock('/', { headers: { ...headers, cookie: `${cookie}x` } })).toBe(401);
  });
});

describe('answers', () => {
  it('carry the headers that keep a page to itself, and none that opens it', async () => {
    for (const url of ['/', '/livez', '/login', '/no-such-page', '/fails']) {
      const { headers } = await doors.server.inject({ url, headers: { ...own, origin: ORIGIN } });
      expect(headers).toMatchObject({
        'cache-control': 'no-store',
        'content-security-policy': expect.stringContaining("default-src 'none'"),
        'referrer-policy': 'same-origin',
        'x-content-type-options': 'nosniff',
        'x-frame-options': 'DENY',
      });
      expect(Object.keys(headers).filter((name) => name.startsWith('access-control-'))).toEqual([]);
    }
  });

  it('bind a browser to TLS if it came over TLS', async () => {
    doors = await openDoors({ trustedProxies: ['127.0.0.1'] });
    const answered = async (scheme: string) => {
      const { headers } = await doors.server.inject({ url: '/', headers: { ...own, 'x-forwarded-proto': scheme } });
      return headers['strict-transport-security'];
    };
    expect([await answered('https'), await answered('http')]).toEqual(['max-age=31536000', undefined]);
  });

  it('to a preflight give no permission', async () => {
    const headers = { ...own, origin: 'https://evil.example.org', 'access-control-request-method': 'POST' };
    expect(await knock('/admin/pause', { method: 'OPTIONS', headers })).toBe(401);
  });

  it('tell a fault to the log, not to the caller', async () => {
    const logged: LogFields[] = [];
    const { server } = await openDoors({ logger: { ...silentLogger, error: (fields) => void logged.push(fields) } });
    const answer = await server.inject({ url: '/fails', headers: own });
    expect([answer.statusCode, answer.json()]).toEqual([500, { error: 'internal' }]);
    expect(logged).toEqual([{ error: expect.objectContaining({ message: 'password is hunter2' }), route: '/fails' }]);
  });
});

it('a route for readers that changes something is found at the start', () => {
  const server = createServer();
  guardRoutes(server, { ...({} as Parameters<typeof guardRoutes>[1]), logger: silentLogger });
  for (const access of ['read', 'metrics'] as const) {
    expect(() => server.post('/x', { config: { access } }, async () => 'x')).toThrow('must not change anything');
    expect(() => server.get(`/${access}`, { config: { access } }, async () => 'x')).not.toThrow();
  }
});

it('a gateway token opens what is for jobs, limited to its workspace, and nothing else', async () => {
  const ask = async (token: string) =>
    (await doors.server.inject({ method: 'GET', url: '/job', headers: bearer(token) })).json() as object;
  expect(await ask(JOB)).toEqual({ in: 'read', workspaces: ['acme'] });
  for (const url of ['/', '/whole', '/metrics', '/undeclared'])
    expect([url, await knock(url, { headers: bearer(JOB) })]).toEqual([url, 401]);
  expect(await knock('/admin/pause', { headers: { ...bearer(JOB), ...json }, method: 'POST' })).toBe(401);
  for (const other of [ADMIN, READ, ACME, 'wrong'])
    expect(await ask(other)).toMatchObject({ error: 'no_gateway_token' });
  expect(await knock('/job', { headers: (await browser()).headers })).toBe(401);
});
