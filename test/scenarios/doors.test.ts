import { request } from 'node:http';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { OPERATIONS } from '../../src/admin/admin-operations.ts';
import type { GuardedRoute } from '../../src/web/access/access-control.ts';
import { cookieOf, logIn } from '../support/harness/browser-session.ts';
import { createWorld, type World } from '../support/harness/daemon.ts';
import { sampleOf } from '../support/harness/depth.ts';
import { ON_POSTGRES } from '../support/postgres/store-place.ts';

/**
 * Every route of the whole daemon, against every kind of credential. The routes are those that it has, so that one which
 * is added is tried too.
 */
const ADMIN = 'the-token-of-the-admin-nobody-can-guess';
const READ = 'the-token-of-a-reader-nobody-can-guess';
const OURS = 'the-token-of-this-workspace-nobody-can-guess';
const OTHER = 'the-token-of-another-workspace-nobody-can-guess';

let world: World;
let origin: string;
beforeAll(async () => {
  world = await createWorld({
    tokens: [
      { secret: ADMIN, role: 'admin', workspaces: null },
      { secret: READ, role: 'read', workspaces: null },
      { secret: OURS, role: 'admin', workspaces: ['test'] },
      { secret: OTHER, role: 'admin', workspaces: ['other'] },
    ],
  });
  origin = new URL(world.daemon().adminAddress).origin;
});
afterAll(() => world.close());

interface Credential {
  readonly headers: Readonly<Record<string, string>>;
  /** For forms. */
  readonly page?: string;
}

const bearer = (token: string): Credential => ({ headers: { authorization: `Bearer ${token}` } });

async function session(token: string, withPage = true): Promise<Credential> {
  const { cookie, token: page } = await logIn(origin, { token });
  return { headers: { cookie, origin, ...(withPage && { 'x-page-token': page }) }, ...(withPage && { page }) };
}

function elsewhere({ headers, ...rest }: Credential): Credential {
  return { ...rest, headers: { ...headers, origin: 'https://evil.example' } };
}

const CREDENTIALS = {
  none: async (): Promise<Credential> => ({ headers: {} }),
  wrong: async () => bearer('a-token-that-there-is-not'),
  admin: async () => bearer(ADMIN),
  read: async () => bearer(READ),
  ours: async () => bearer(OURS),
  other: async () => bearer(OTHER),
  'admin session': () => session(ADMIN),
  'read session': () => session(READ),
  'session of another workspace': () => session(OTHER),
  'admin session without the token of a page': () => session(ADMIN, false),
  'admin session in a page of another origin': async () => elsewhere(await session(ADMIN)),
  'admin in a page of another origin': async () => elsewhere(bearer(ADMIN)),
} satisfies Record<string, () => Promise<Credential>>;

type Name = keyof typeof CREDENTIALS;

/** A body that nothing can be made of, so that nothing happens: who is let in hears 400 where a body is read. */
function requestOf({ method, url, needs }: GuardedRoute, page?: string) {
  const path = url
    .replace(':workspace', 'test')
    .replace(':connection', 'github')
    .replace(':question', 'held')
    .replace('*', 'workspaces/current/tasks');
  const type = needs.form ? 'application/x-www-form-urlencoded' : 'application/json';
  const hasBody = method !== 'GET' && method !== 'HEAD';
  return { method, path, type, body: hasBody ? (needs.form ? `page=${page ?? ''}` : '{') : undefined };
}

async function knock(route: GuardedRoute, { headers, page }: Credential): Promise<number> {
  const { method, path, type, body } = requestOf(route, page);
  const answer = await fetch(origin + path, {
    method,
    redirect: 'manual',
    headers: { ...headers, ...(body !== undefined && { 'content-type': type }) },
    ...(body !== undefined && { body }),
  });
  await answer.arrayBuffer();
  return answer.status;
}

function doorOf({ needs }: GuardedRoute): string {
  return needs.access ?? 'admin';
}

function nameOf({ method, url }: GuardedRoute): string {
  return `${method} ${url}`;
}

/** Statuses by credential; `in` for what is none of a refusal at the door. */
function expected({ method, url, needs }: GuardedRoute): Readonly<Partial<Record<Name, 'in' | number>>> {
  const { access = 'admin', filters } = needs;
  const changes = method !== 'GET' && method !== 'HEAD';
  const limited = { ours: filters || url.includes(':workspace') ? 'in' : 403, other: filters ? 'in' : 403 } as const;
  const sessions = { 'admin session': 'in', 'session of another workspace': limited.other } as const;
  const foreign = {
    'admin session in a page of another origin': 403,
    'admin in a page of another origin': 403,
  } as const;
  const all = { none: 401, wrong: 401, admin: 'in', ...limited, ...sessions, ...foreign } as const;
  const pageless = { 'admin session without the token of a page': changes ? 403 : 'in' } as const;
  if (access === 'read' || access === 'metrics') return { ...all, ...pageless, read: 'in', 'read session': 'in' };
  if (access === 'admin') return { ...all, ...pageless, read: 403, 'read session': 403 };
  // It takes gateway tokens, and nothing of those here.
  if (access === 'gateway') return Object.fromEntries(Object.keys(CREDENTIALS).map((name) => [name, 401]));
  const inside = { 'admin session': 'in', 'read session': 'in', 'session of another workspace': 'in' } as const;
  if (access === 'session')
    return { none: 401, wrong: 401, admin: 401, read: 401, ours: 401, other: 401, ...inside, ...pageless };
  return {};
}

const REFUSALS = [401, 403, 415, 429];

const SHARED = [
  ...['read /live/replicas GET', 'read /replicas GET'],
  ...['replica /replica/leases GET', 'replica /replica/list GET', 'replica /replica/status GET'],
];

/** The pages below that of a workspace. */
const PAGES = [
  ...['', '/audit', '/backfills', '/changes', '/configuration', '/deliveries'],
  ...['/delivery', '/item', '/problems', '/rules'],
];

describe('every route', () => {
  it('is one of these: a new one is closed until it says for whom it is [A10]', () => {
    const guarded = world
      .daemon()
      .routes()
      .filter((route) => doorOf(route) !== 'admin');
    const doors = Map.groupBy(guarded, (route) => `${doorOf(route)} ${route.url}`);
    const open = [...doors].map(([door, all]) => [door, ...all.map(({ method }) => method).sort()].join(' '));
    // Where several processes may share the workspaces there are some more.
    expect(SHARED.filter((route) => open.includes(route))).toEqual(ON_POSTGRES ? SHARED : []);
    const pages = PAGES.flatMap((page) => [`/workspaces/:workspace${page}`, `/live/workspaces/:workspace${page}`]);
    expect(open.filter((route) => !SHARED.includes(route)).toSorted()).toEqual(
      [
        ...['gateway /ci/pull-request GET', 'login /login GET POST', 'metrics /metrics GET', 'session /logout POST'],
        ...['public /api/v1/* DELETE GET HEAD PATCH POST PUT', 'public /assets/:digest/:name GET'],
        ...['public /help GET', 'public /help/ GET', 'public /help/:page GET'],
        ...['public /livez GET HEAD', 'public /readyz GET HEAD'],
        ...['/', '/live', '/status.json', ...pages].map((path) => `read ${path} GET`),
        'webhook /webhooks/* DELETE GET HEAD OPTIONS PATCH POST PUT',
        'webhook /webhooks/:workspace/:connection DELETE GET HEAD OPTIONS PATCH POST PUT',
      ].toSorted(),
    );
  });

  it.each(Object.keys(CREDENTIALS) as Name[])('lets in whom it should: %s [A10]', async (name) => {
    const routes = world.daemon().routes();
    expect(routes.length).toBeGreaterThan(20);
    const found: Record<string, unknown> = {};
    const wanted: Record<string, unknown> = {};
    let shown = await CREDENTIALS[name]();
    for (const route of routes) {
      const status = expected(route)[name];
      if (status === undefined) continue;
      // As long as it takes until another wrong token of an address is checked.
      if (name === 'wrong') await world.clock.advance(10_000);
      const answer = await knock(route, shown);
      if (route.url === '/logout') shown = await CREDENTIALS[name]();
      const key = `${route.method} ${route.url}`;
      wanted[key] = status;
      found[key] = REFUSALS.includes(answer) ? answer : 'in';
    }
    expect(Object.keys(found).length).toBeGreaterThan(10);
    expect(found).toEqual(wanted);
  });
});

/**
 * A browser sends the origin of a foreign page, and after DNS rebinding its name as the host of the request too. Browsers set both
 * themselves.
 */
const FOREIGN_HOSTS = sampleOf(
  ['127.0.0.1.evil.example', 'evil.example', 'localhost.evil.example:8080', 'localhost.', '0.0.0.0'],
  3,
);
const FOREIGN_ORIGINS = sampleOf(
  ['https://evil.example', 'null', 'http://localhost:1', 'http://localhost.evil.example'],
  2,
);

interface Page {
  readonly host?: string;
  readonly origin?: string;
}

const rebound = (host: string): Page => ({ host, origin: `http://${host}` });

/** Status and names of the headers of an answer, of which no more is read: some never end. */
function ask(route: GuardedRoute, { headers, page }: Credential, from: Page) {
  const { method, path, type, body } = requestOf(route, page);
  const { origin: own, ...shown } = headers as Record<string, string>;
  const given = from.origin ?? own;
  const sent = {
    ...shown,
    host: from.host ?? new URL(origin).host,
    ...(given !== undefined && { origin: given }),
    ...(body !== undefined && { 'content-type': type }),
  };
  return new Promise<{ readonly status: number; readonly names: readonly string[] }>((resolve, reject) => {
    const asked = request(origin + path, { method, headers: sent }, (answer) => {
      resolve({ status: answer.statusCode ?? 0, names: Object.keys(answer.headers) });
      answer.destroy();
    });
    asked.on('error', reject).end(body);
  });
}

describe('a page of somebody else', () => {
  const judged = (route: GuardedRoute) => !['public', 'webhook', 'gateway', 'replica'].includes(doorOf(route));
  const answersOf = async (routes: readonly GuardedRoute[], shown: Credential, from: Page) => {
    const found: Record<string, unknown> = {};
    for (const route of routes) found[nameOf(route)] = (await ask(route, shown, from)).status;
    return found;
  };
  const all = (routes: readonly GuardedRoute[], status: (route: GuardedRoute) => number) =>
    Object.fromEntries(routes.map((route) => [nameOf(route), status(route)]));
  /** Nobody else than its caller knows a token: from a page of somebody else it must have been stolen. */
  const takesTokens = (route: GuardedRoute) => judged(route) && !['login', 'session'].includes(doorOf(route));

  it.each(FOREIGN_HOSTS)('under the name %s gets 403 at every route that is not for everybody [A11]', async (host) => {
    const routes = world.daemon().routes();
    const guarded = routes.filter(judged);
    expect(guarded.length).toBeGreaterThan(30);
    const wanted = all(guarded, () => 403);
    for (const shown of [{ headers: {} }, await session(ADMIN), await session(READ)])
      expect(await answersOf(guarded, shown, rebound(host))).toEqual(wanted);
    expect(await answersOf(guarded, await session(ADMIN), { host })).toEqual(wanted);
    const withTokens = routes.filter(takesTokens);
    expect(await answersOf(withTokens, bearer(ADMIN), rebound(host))).toEqual(all(withTokens, () => 403));
  });

  it.each(FOREIGN_ORIGINS)('of the origin %s gets 403 at every route that is not for everybody [A11]', async (from) => {
    const routes = world.daemon().routes();
    const guarded = routes.filter((route) => judged(route) && !(doorOf(route) === 'login' && route.method === 'GET'));
    const wanted = all(guarded, () => 403);
    for (const shown of [await session(ADMIN), await session(ADMIN, false)])
      expect(await answersOf(guarded, shown, { origin: from })).toEqual(wanted);
    const withTokens = routes.filter(takesTokens);
    expect(await answersOf(withTokens, bearer(ADMIN), { origin: from })).toEqual(all(withTokens, () => 403));
  });

  it('gets only public answers from other origins [A11]', async () => {
    const routes = world.daemon().routes();
    const others = routes.filter((route) => !judged(route));
    for (const from of [rebound('evil.example'), { origin: 'https://evil.example' }]) {
      const told = await answersOf(others, { headers: {} }, {});
      expect(await answersOf(others, { headers: {} }, from)).toEqual(told);
      // The cookie opens none of them.
      expect(await answersOf(others, await session(ADMIN), from)).toEqual(told);
      for (const route of routes) {
        const { names } = await ask(route, bearer(ADMIN), from);
        const allowing = names.filter((name) => name.startsWith('access-control-'));
        expect([nameOf(route), allowing]).toEqual([nameOf(route), []]);
      }
    }
  });
});

describe('a link for a browser', () => {
  const linkFor = async (token: string, wish: object) => {
    const headers = { ...bearer(token).headers, 'content-type': 'application/json' };
    const answer = await fetch(`${origin}/admin/login-links`, { method: 'POST', headers, body: JSON.stringify(wish) });
    return (await answer.json()) as { path?: string; failure?: { message: string } };
  };

  it('opens no more than its maker may', async () => {
    const beyond = await linkFor(OURS, { role: 'read', workspaces: ['other'] });
    expect(beyond.failure?.message).toBe('there is no workspace "other"; there are: test');
    const { path = '' } = await linkFor(OURS, { role: 'admin', workspaces: null });
    const link = new URL(path, origin).searchParams.get('link') ?? '';
    const cookie = await cookieOf(origin, { link });
    const look = async (url: string) => (await fetch(origin + url, { headers: { cookie } })).status;
    expect(await look('/admin/workspaces/test/gateway-tokens')).toBe(200);
    expect(await look('/admin/workspaces/other/gateway-tokens')).toBe(403);
  });
});

describe('a body that is none of those that are expected', () => {
  const post = async (path: string, body: string) => {
    const headers = { ...bearer(ADMIN).headers, 'content-type': 'application/json' };
    const answer = await fetch(origin + path, { method: 'POST', headers, body });
    return { status: answer.status, ...((await answer.json()) as object) };
  };
  const paths = () => [
    ...world
      .daemon()
      .routes()
      .filter(({ method, url }) => method === 'POST' && url.startsWith('/admin/') && !url.includes(':question'))
      .map(({ url }) => url.replace(':workspace', 'test')),
    ...Object.entries(OPERATIONS).flatMap(([name, { route }]) =>
      route ? [] : [`/admin/workspaces/test/questions/${name}`],
    ),
  ];

  it.each([
    '{',
    '[]',
    'null',
    '{"__proto__":{"a":1}}',
    '{"connection":7,"id":[],"target":{},"taskId":null,"samples":"x","limit":-1,"description":0,"classes":"all","role":"owner"}',
    `${'['.repeat(100)}${']'.repeat(100)}`,
  ])('is refused, and every wrong place is named: %s', async (body) => {
    expect(paths().length).toBeGreaterThan(20);
    for (const path of paths()) {
      const refusal = { code: 'body_invalid', message: expect.stringMatching(/: /), hint: expect.any(String) };
      expect([path, await post(path, body)]).toEqual([path, { status: 400, failure: refusal }]);
    }
  });

  it.each([
    '//evil.example.org/x',
    '@evil.example.org/',
    '/a/../b',
    '/a/%2e%2e/b',
    '/a%2fb',
    '/a%5cb',
    '/a?b',
    '/a#b',
    'http://evil.example.org/',
    '',
  ])('sends no request to another place than the workspace: %j [A6]', async (path) => {
    const request = { method: 'GET', path, headers: {}, route: 'listTasks' };
    const answer = await post('/admin/workspaces/test/requests?patience=1', JSON.stringify(request));
    expect(answer).toMatchObject({
      status: 400,
      failure: { code: 'body_invalid', message: expect.stringMatching(/^path: /) },
    });
  });
});
