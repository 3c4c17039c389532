import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createServer, type Server } from '../../src/http/server.ts';
import type { Logger } from '../../src/lib/logger.ts';
import { silentLogger } from '../../src/lib/logger.ts';
import { guardDoors } from '../../src/web/door.ts';

const TOKEN = 'a-token-of-the-admin';
const GUARDED = ['/', '/status.json', '/metrics', '/admin/pause', '/no-such-page', '/livez/', '/webhooksx', '//livez'];
const PUBLIC = ['/livez', '/readyz', '/webhooks/acme/github', '/api/v1/workspaces/w/tasks'];

interface Case {
  readonly from?: string;
  readonly headers?: Record<string, string>;
  readonly expected: 'in' | 401 | 403;
}

const bearer = (token: string) => ({ authorization: `Bearer ${token}` });
const local = { host: 'localhost:8080' };

const CASES: Readonly<Record<string, Case>> = {
  'loopback by name': { headers: local, expected: 'in' },
  'loopback by name, upper case': { headers: { host: 'LOCALHOST:8080' }, expected: 'in' },
  'loopback by address': { headers: { host: '127.0.0.1:8080' }, expected: 'in' },
  'loopback, IPv6': { from: '::1', headers: { host: '[::1]:8080' }, expected: 'in' },
  'loopback, IPv4 in IPv6': { from: '::ffff:127.0.0.1', headers: local, expected: 'in' },
  'loopback, the configured host': { headers: { host: 'sync.example.com' }, expected: 'in' },
  'loopback, own origin': { headers: { ...local, origin: 'http://localhost:8080' }, expected: 'in' },
  'DNS rebinding': { headers: { host: 'evil.example.org:8080' }, expected: 403 },
  'a name that only begins well': { headers: { host: 'localhost.evil.example.org' }, expected: 403 },
  'a host with credentials': { headers: { host: 'localhost@evil.example.org' }, expected: 403 },
  'a host that is none': { headers: { host: 'local host' }, expected: 403 },
  'a foreign page': { headers: { ...local, origin: 'https://evil.example.org' }, expected: 403 },
  'a sandboxed page': { headers: { ...local, origin: 'null' }, expected: 403 },
  'another machine': { from: '10.0.0.7', headers: local, expected: 401 },
  'another machine, the configured host': { from: '10.0.0.7', headers: { host: 'sync.example.com' }, expected: 401 },
  'an address that looks like loopback': { from: '127.0.0.1.evil', headers: local, expected: 401 },
  'a reverse proxy on loopback': { headers: { ...local, 'x-forwarded-for': '127.0.0.1' }, expected: 401 },
  'a reverse proxy, RFC 7239': { headers: { ...local, forwarded: 'for=127.0.0.1' }, expected: 401 },
  'a claim to be loopback': { from: '10.0.0.7', headers: { ...local, 'x-forwarded-for': '::1' }, expected: 401 },
  'the token, from another machine': {
    from: '10.0.0.7',
    headers: { host: 'worksync:8080', ...bearer(TOKEN) },
    expected: 'in',
  },
  'the token, through a proxy': {
    headers: { host: 'x', 'x-forwarded-for': '1.2.3.4', ...bearer(TOKEN) },
    expected: 'in',
  },
  'a wrong token': { from: '10.0.0.7', headers: { ...local, ...bearer('wrong') }, expected: 401 },
  'a wrong token, from loopback': { headers: { ...local, ...bearer('wrong') }, expected: 401 },
  'a part of the token': { from: '10.0.0.7', headers: { ...local, ...bearer(TOKEN.slice(0, -1)) }, expected: 401 },
  'an empty token': { from: '10.0.0.7', headers: { ...local, authorization: 'Bearer ' }, expected: 401 },
  'another scheme': { from: '10.0.0.7', headers: { ...local, authorization: `Basic ${TOKEN}` }, expected: 401 },
};

async function serverWith(adminToken?: string, logger: Logger = silentLogger): Promise<Server> {
  const server = createServer();
  guardDoors(server, { adminToken, allowedHosts: ['Sync.example.com'], logger });
  for (const url of ['/', '/status.json', '/metrics', '/livez', '/readyz', '/webhooks/:a/:b', '/api/v1/*'])
    server.get(url, async () => 'in');
  server.post('/admin/pause', async () => 'in');
  server.get('/fails', async () => {
    throw new Error('password is hunter2');
  });
  await server.ready();
  return server;
}

describe('the doors', () => {
  let server: Server;
  beforeAll(async () => {
    server = await serverWith(TOKEN);
  });
  afterAll(() => server.close());

  const knock = (url: string, { from = '127.0.0.1', headers = {} }: Case) =>
    server.inject({ method: url.startsWith('/admin') ? 'POST' : 'GET', url, remoteAddress: from, headers });

  describe.each(GUARDED)('guarded: %s', (url) => {
    it.each(Object.entries(CASES))('%s', async (_name, given) => {
      const answer = await knock(url, given);
      const known = answer.body === 'in' || answer.statusCode === 404 ? 'in' : answer.statusCode;
      expect(known).toBe(given.expected);
    });
  });

  it.each(PUBLIC)('public: %s answers to anyone', async (url) => {
    for (const given of Object.values(CASES)) expect((await knock(url, given)).body).toBe('in');
  });

  it('without a token configured no token opens anything', async () => {
    const closed = await serverWith();
    for (const token of ['', 'undefined', TOKEN]) {
      const answer = await closed.inject({
        url: '/',
        remoteAddress: '10.0.0.7',
        headers: { ...local, ...bearer(token) },
      });
      expect(answer.statusCode).toBe(401);
    }
    await closed.close();
  });

  it('sends the headers that keep a page to itself, on every answer, and none that opens it', async () => {
    for (const url of ['/', '/livez', '/no-such-page', '/fails']) {
      const { headers } = await knock(url, { headers: { ...local, origin: 'http://localhost' }, expected: 'in' });
      expect(headers).toMatchObject({
        'cache-control': 'no-store',
        'content-security-policy': expect.stringContaining("default-src 'none'"),
        'referrer-policy': 'no-referrer',
        'x-content-type-options': 'nosniff',
        'x-frame-options': 'DENY',
      });
      expect(Object.keys(headers).filter((name) => name.startsWith('access-control-'))).toEqual([]);
    }
  });

  it('a preflight gets no permission', async () => {
    const headers = { ...local, origin: 'https://evil.example.org', 'access-control-request-method': 'POST' };
    const answer = await server.inject({ method: 'OPTIONS', url: '/admin/pause', headers });
    expect(answer.statusCode).toBe(403);
  });

  it('a fault is told to the log, not to the caller', async () => {
    const logged: unknown[] = [];
    const failing = await serverWith(TOKEN, { ...silentLogger, error: (fields) => void logged.push(fields) });
    const answer = await failing.inject({ url: '/fails', headers: local });
    expect([answer.statusCode, answer.json()]).toEqual([500, { error: 'internal' }]);
    expect(logged).toEqual([{ error: expect.objectContaining({ message: 'password is hunter2' }), route: '/fails' }]);
    await failing.close();
  });
});
