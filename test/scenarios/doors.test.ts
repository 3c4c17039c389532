import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { GuardedRoute } from '../../src/web/access-control.ts';
import { QUESTION_BODIES } from '../../src/web/admin-bodies.ts';
import { createWorld, type World } from '../support/daemon.ts';

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

/** Logs a browser in, and finds the token of its pages. */
async function logIn(token: string): Promise<{ cookie: string; page: string }> {
  const answer = await fetch(`${origin}/login`, {
    method: 'POST',
    redirect: 'manual',
    headers: { origin, 'content-type': 'application/x-www-form-urlencoded' },
    body: new URLSearchParams({ token }),
  });
  const cookie = answer.headers.getSetCookie()[0]?.split(';')[0] ?? '';
  const html = await (await fetch(origin, { headers: { cookie } })).text();
  return { cookie, page: /name="page" type="hidden" value="([^"]+)"/.exec(html)?.[1] ?? '' };
}

interface Credential {
  readonly headers: Readonly<Record<string, string>>;
  /** For forms. */
  readonly page?: string;
}

const bearer = (token: string): Credential => ({ headers: { authorization: `Bearer ${token}` } });

async function session(token: string, withPage = true): Promise<Credential> {
  const { cookie, page } = await logIn(token);
  return { headers: { cookie, origin, ...(withPage && { 'x-page-token': page }) }, ...(withPage && { page }) };
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
} satisfies Record<string, () => Promise<Credential>>;

type Name = keyof typeof CREDENTIALS;

/** A body that nothing can be made of, so that nothing happens: who is let in hears 400 where a body is read. */
async function knock({ method, url, needs }: GuardedRoute, { headers, page }: Credential): Promise<number> {
  const path = url
    .replace(':workspace', 'test')
    .replace(':connection', 'github')
    .replace(':question', 'held')
    .replace('*', 'workspaces/current/tasks');
  const type = needs.form ? 'application/x-www-form-urlencoded' : 'application/json';
  const hasBody = method !== 'GET' && method !== 'HEAD';
  const answer = await fetch(origin + path, {
    method,
    redirect: 'manual',
    headers: { ...headers, ...(hasBody && { 'content-type': type }) },
    ...(hasBody && { body: needs.form ? `page=${page ?? ''}` : '{' }),
  });
  await answer.arrayBuffer();
  return answer.status;
}

/** Statuses by credential; `in` for what is none of a refusal at the door. */
function expected({ method, url, needs }: GuardedRoute): Readonly<Partial<Record<Name, 'in' | number>>> {
  const { door = 'admin', filters } = needs;
  const changes = method !== 'GET' && method !== 'HEAD';
  const limited = { ours: filters || url.includes(':workspace') ? 'in' : 403, other: filters ? 'in' : 403 } as const;
  const sessions = { 'admin session': 'in', 'session of another workspace': limited.other } as const;
  const all = { none: 401, wrong: 401, admin: 'in', ...limited, ...sessions } as const;
  const pageless = { 'admin session without the token of a page': changes ? 403 : 'in' } as const;
  if (door === 'read' || door === 'metrics') return { ...all, ...pageless, read: 'in', 'read session': 'in' };
  if (door === 'admin') return { ...all, ...pageless, read: 403, 'read session': 403 };
  const inside = { 'admin session': 'in', 'read session': 'in', 'session of another workspace': 'in' } as const;
  if (door === 'session')
    return { none: 401, wrong: 401, admin: 401, read: 401, ours: 401, other: 401, ...inside, ...pageless };
  return {};
}

const REFUSALS = [401, 403, 415, 429];

describe('every route', () => {
  it('is one of these: a new one is closed until it says for whom it is', () => {
    const open = world
      .daemon()
      .routes()
      .filter(({ needs }) => (needs.door ?? 'admin') !== 'admin');
    expect(open.map(({ method, url, needs }) => `${needs.door} ${method} ${url}`).toSorted()).toMatchInlineSnapshot(`
      [
        "login GET /login",
        "login POST /login",
        "metrics GET /metrics",
        "public DELETE /api/v1/*",
        "public GET /api/v1/*",
        "public GET /help",
        "public GET /help/",
        "public GET /help/:page",
        "public GET /livez",
        "public GET /readyz",
        "public HEAD /api/v1/*",
        "public HEAD /livez",
        "public HEAD /readyz",
        "public PATCH /api/v1/*",
        "public POST /api/v1/*",
        "public PUT /api/v1/*",
        "read GET /",
        "read GET /status.json",
        "session POST /logout",
        "webhook DELETE /webhooks/:workspace/:connection",
        "webhook GET /webhooks/:workspace/:connection",
        "webhook HEAD /webhooks/:workspace/:connection",
        "webhook OPTIONS /webhooks/:workspace/:connection",
        "webhook PATCH /webhooks/:workspace/:connection",
        "webhook POST /webhooks/:workspace/:connection",
        "webhook PUT /webhooks/:workspace/:connection",
      ]
    `);
  });

  it.each(Object.keys(CREDENTIALS) as Name[])('lets in whom it should: %s', async (name) => {
    const routes = world.daemon().routes();
    expect(routes.length).toBeGreaterThan(20);
    const found: Record<string, unknown> = {};
    const wanted: Record<string, unknown> = {};
    for (const route of routes) {
      const status = expected(route)[name];
      if (status === undefined) continue;
      const answer = await knock(route, await CREDENTIALS[name]());
      const key = `${route.method} ${route.url}`;
      wanted[key] = status;
      found[key] = REFUSALS.includes(answer) ? answer : 'in';
    }
    expect(Object.keys(found).length).toBeGreaterThan(10);
    expect(found).toEqual(wanted);
  });

  it('that changes something takes JSON, or a form where it says so', async () => {
    for (const { method, url, needs } of world.daemon().routes()) {
      if (['public', 'webhook'].includes(needs.door ?? '') || method === 'GET' || method === 'HEAD') continue;
      const headers =
        needs.door === 'login' || needs.door === 'session' ? (await session(ADMIN)).headers : bearer(ADMIN).headers;
      const path = url.replace(':workspace', 'test').replace(':question', 'held');
      for (const type of [
        'text/plain',
        needs.form || needs.door === 'login' ? 'application/json' : 'application/x-www-form-urlencoded',
      ]) {
        const answer = await fetch(origin + path, {
          method,
          headers: { ...headers, 'content-type': type },
          body: '{}',
        });
        expect([url, type, answer.status]).toEqual([url, type, 415]);
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
    expect(beyond.failure?.message).toBe('workspaces: there is no workspace "other"');
    const { path = '' } = await linkFor(OURS, { role: 'admin', workspaces: null });
    const link = new URL(path, origin).searchParams.get('link') ?? '';
    const headers = { origin, 'content-type': 'application/x-www-form-urlencoded' };
    const body = new URLSearchParams({ link });
    const answer = await fetch(`${origin}/login`, { method: 'POST', redirect: 'manual', headers, body });
    const cookie = answer.headers.getSetCookie()[0]?.split(';')[0] ?? '';
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
    ...Object.keys(QUESTION_BODIES).map((question) => `/admin/workspaces/test/questions/${question}`),
  ];

  it.each([
    '{',
    '[]',
    'null',
    '7',
    '"text"',
    '{"nobody":"knows this"}',
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
    '.evil.example.org',
    ':80@evil.example.org/',
    '/a/../b',
    '/a/./b',
    '/a/%2e%2e/b',
    '/a%2fb',
    '/a%5cb',
    '/a?b',
    '/a#b',
    '/a b',
    'http://evil.example.org/',
    '',
    '/',
  ])('sends no request to another place than the workspace: %j', async (path) => {
    const request = { method: 'GET', path, headers: {}, route: 'listTasks' };
    const answer = await post('/admin/workspaces/test/requests?patience=1', JSON.stringify(request));
    expect(answer).toMatchObject({
      status: 400,
      failure: { code: 'body_invalid', message: expect.stringMatching(/^path: /) },
    });
  });

  it('is shown by a command with every place', async () => {
    const { status, failure } = (await post(
      '/admin/workspaces/test/questions/release',
      '{"classes":["x"],"entities":[7],"y":1}',
    )) as {
      status: number;
      failure: { message: string };
    };
    expect([status, failure.message.split('\n').map((line) => line.split(':')[0])]).toEqual([
      400,
      ['classes.0', 'entities.0', 'the body'],
    ]);
  });
});
