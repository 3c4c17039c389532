import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { endSessions } from '../../../src/admin/installation/data.ts';
import { ACME, ADMIN, type Doors, ORIGIN, openDoors, READ, SHORT } from '../../support/harness/doors.ts';

const FORM = { 'content-type': 'application/x-www-form-urlencoded' };
const BROWSER = { host: 'localhost:8080', origin: ORIGIN };
const ALL = { role: 'admin', workspaces: null } as const;

interface Sent {
  readonly from?: string;
  readonly headers?: Record<string, string>;
}

function post({ server }: Doors, fields: Record<string, string>, { from = '127.0.0.1', headers = {} }: Sent = {}) {
  const payload = new URLSearchParams(fields).toString();
  return server.inject({
    method: 'POST',
    url: '/login',
    remoteAddress: from,
    headers: { ...BROWSER, ...FORM, ...headers },
    payload,
  });
}

type Answer = Awaited<ReturnType<typeof post>>;

function cookieOf({ headers }: Answer): string {
  return String(headers['set-cookie'] ?? '').split(';')[0] ?? '';
}

/** Returns the caller with this cookie, or the status. */
async function seenAs({ server }: Doors, cookie: string, headers: Record<string, string> = {}) {
  const answer = await server.inject({ url: '/', headers: { host: 'localhost:8080', ...headers, cookie } });
  return answer.statusCode === 200 ? answer.json() : answer.statusCode;
}

describe('a link', () => {
  it('logs one browser in, once; looking at it spends nothing', async () => {
    const doors = await openDoors();
    const link = await doors.sessions.makeLink(ALL);
    for (let look = 0; look < 3; look++) {
      const page = await doors.server.inject({ url: `/login?link=${link}`, headers: { host: 'localhost:8080' } });
      expect(page.statusCode).toBe(200);
      expect(page.body).toContain(`value="${link}"`);
      expect(page.headers['set-cookie']).toBeUndefined();
    }
    const first = await post(doors, { link });
    expect([first.statusCode, first.headers.location]).toEqual([303, '/']);
    expect(await seenAs(doors, cookieOf(first))).toEqual({ in: 'admin', workspaces: null });
    const second = await post(doors, { link });
    expect([second.statusCode, second.headers['set-cookie']]).toEqual([401, undefined]);
    expect(second.body).toContain('This link was used already');
  });

  it('opened twice at the same moment logs one browser in', async () => {
    const doors = await openDoors();
    const link = await doors.sessions.makeLink(ALL);
    const answers = await Promise.all([1, 2, 3, 4].map(() => post(doors, { link })));
    expect(answers.map(({ statusCode }) => String(statusCode)).toSorted()).toEqual(['303', '401', '401', '401']);
  });

  it('works for ten minutes', async () => {
    const doors = await openDoors();
    const [early, late] = [await doors.sessions.makeLink(ALL), await doors.sessions.makeLink(ALL)];
    await doors.clock.advance(600_000 - 1);
    expect((await post(doors, { link: early })).statusCode).toBe(303);
    await doors.clock.advance(1);
    expect((await post(doors, { link: late })).statusCode).toBe(401);
  });

  it('is stored as a digest, and so is the session', async () => {
    const doors = await openDoors();
    const link = await doors.sessions.makeLink(ALL);
    const kept = await doors.sessions.makeLink(ALL);
    const cookie = cookieOf(await post(doors, { link }));
    for (const suffix of ['', '-wal']) {
      const bytes = readFileSync(`${doors.folder}/worksync.db${suffix}`);
      for (const secret of [link, kept, cookie.split('=')[1] ?? '']) expect(bytes.includes(secret)).toBe(false);
    }
  });
});

describe('a token', () => {
  it.each([
    ['of the admin', ADMIN, { in: 'admin', workspaces: null }],
    ['of a reader', READ, { in: 'read', workspaces: null }],
    ['for one workspace', ACME, { in: 'admin', workspaces: ['acme'] }],
  ])('%s logs a browser in with its own rights', async (_name, token, access) => {
    const doors = await openDoors();
    const answer = await post(doors, { token: ` ${token}\n` });
    expect(answer.statusCode).toBe(303);
    expect(await seenAs(doors, cookieOf(answer))).toEqual(access);
  });

  it('ends what it opened when it is taken back, and narrows it when it is narrowed', async () => {
    const doors = await openDoors();
    const cookies = [
      cookieOf(await post(doors, { token: ADMIN })),
      cookieOf(await post(doors, { token: READ })),
    ] as const;
    await doors.close();
    const narrowed = { secret: READ, role: 'read', workspaces: ['beta'] } as const;
    const { folder, clock } = doors;
    const later = await openDoors({ folder, clock, tokens: [narrowed] });
    expect(await seenAs(later, cookies[0])).toBe(401);
    expect(await seenAs(later, cookies[1])).toEqual({ in: 'read', workspaces: ['beta'] });
  });

  it('that is wrong is told so, and often wrong is slowed down; links work meanwhile', async () => {
    const doors = await openDoors();
    expect((await post(doors, { token: 'wrong' })).body).toContain('There is no such token');
    for (let guess = 0; guess < 30; guess++) await post(doors, { token: `guess ${guess}` });
    expect((await post(doors, { token: SHORT })).statusCode).toBe(429);
    expect((await post(doors, { token: READ })).statusCode).toBe(303);
    expect((await post(doors, { link: await doors.sessions.makeLink(ALL) })).statusCode).toBe(303);
  });

  it.each([{}, { link: '' }, { token: '' }, { link: 'x'.repeat(3_000) }])(
    'a form with %j logs nobody in',
    async (form) => {
      expect((await post(await openDoors(), form as Record<string, string>)).statusCode).toBe(401);
    },
  );
});

describe('who may log in', () => {
  it.each([
    ['another port of this machine', { origin: 'http://localhost:3000' }, 403],
    ['a name that leads here', { host: 'evil.example.org', origin: 'http://evil.example.org' }, 403],
    ['text', { 'content-type': 'text/plain' }, 415],
  ])('a form from elsewhere is refused: %s', async (_name, headers, status) => {
    const doors = await openDoors();
    const link = await doors.sessions.makeLink(ALL);
    expect((await post(doors, { link }, { headers })).statusCode).toBe(status);
    // Nor is the link spent.
    expect((await post(doors, { link })).statusCode).toBe(303);
  });

  it.each<[string, Sent]>([
    ['another machine', { from: '10.0.0.7' }],
    ['a proxy that is not trusted', { headers: { 'x-forwarded-for': '127.0.0.1', 'x-forwarded-proto': 'https' } }],
  ])('not over plain HTTP from %s, unless the network is said to be safe [A19]', async (_name, sent) => {
    const doors = await openDoors();
    const link = await doors.sessions.makeLink(ALL);
    const refused = await post(doors, { link }, sent);
    expect([refused.statusCode, refused.headers['set-cookie']]).toEqual([403, undefined]);
    expect(refused.body).toContain('Others could read your credential');
    const { server } = doors;
    const headers = { host: 'localhost:8080', ...sent.headers };
    const look = await server.inject({ url: `/login?link=${link}`, remoteAddress: sent.from, headers });
    expect([look.statusCode, look.body.includes(link)]).toEqual([403, false]);
    const open = await openDoors({ insecurePages: true });
    expect((await post(open, { link: await open.sessions.makeLink(ALL) }, sent)).statusCode).toBe(303);
    expect(await endSessions(doors.installation, { actor: 'command ann', clock: doors.clock })).toBe(0);
  });

  it('over TLS through a trusted proxy; the cookie then stays with TLS', async () => {
    const doors = await openDoors({ trustedProxies: ['127.0.0.1'], allowedHosts: ['sync.example.com'] });
    const host = { host: 'sync.example.com' };
    const tls = { ...host, 'x-forwarded-for': '203.0.113.9', 'x-forwarded-proto': 'https' };
    const link = await doors.sessions.makeLink(ALL);
    // Nor where somebody behind the proxy claims to be this machine.
    for (const from of ['203.0.113.9', '127.0.0.1', '::1']) {
      const plain = {
        ...host,
        'x-forwarded-for': from,
        'x-forwarded-proto': 'http',
        origin: 'http://sync.example.com',
      };
      expect((await post(doors, { link }, { headers: plain })).statusCode).toBe(403);
    }
    expect((await post(doors, { link }, { headers: { ...tls, origin: 'http://sync.example.com' } })).statusCode).toBe(
      403,
    );
    const answer = await post(doors, { link }, { headers: { ...tls, origin: 'https://sync.example.com' } });
    expect(answer.statusCode).toBe(303);
    expect(String(answer.headers['set-cookie'])).toMatch(
      /^__Host-worksync-[0-9a-f]{12}=[\w-]{43}; Path=\/; Max-Age=2592000; HttpOnly; SameSite=Strict; Secure$/,
    );
    expect(await seenAs(doors, cookieOf(answer), tls)).toEqual({ in: 'admin', workspaces: null });
    expect(await seenAs(doors, cookieOf(answer), { ...tls, 'x-forwarded-proto': 'http' })).toBe(401);
    expect(await seenAs(doors, cookieOf(answer))).toBe(401);
  });
});

describe('a session', () => {
  const logIn = async (doors: Doors) => cookieOf(await post(doors, { link: await doors.sessions.makeLink(ALL) }));

  it('has a cookie that scripts cannot read, for this instance', async () => {
    const [one, other] = [await openDoors(), await openDoors()];
    const answer = await post(one, { link: await one.sessions.makeLink(ALL) });
    expect(String(answer.headers['set-cookie'])).toMatch(
      /^worksync-[0-9a-f]{12}=[\w-]{43}; Path=\/; Max-Age=2592000; HttpOnly; SameSite=Strict$/,
    );
    const [first, second] = [cookieOf(answer), await logIn(other)];
    // A browser sends both cookies to both, since they have one host name.
    expect(await seenAs(one, `${first}; ${second}`)).toEqual({ in: 'admin', workspaces: null });
    expect(await seenAs(other, `${first}; ${second}`)).toEqual({ in: 'admin', workspaces: null });
    expect(await seenAs(other, first)).toBe(401);
  });

  it('ends with its button, and only it', async () => {
    const doors = await openDoors();
    const [cookie, other] = [await logIn(doors), await logIn(doors)];
    const { pageToken } = (await doors.sessions.find(cookie, false))!;
    const press = (page: string) =>
      doors.server.inject({
        method: 'POST',
        url: '/logout',
        headers: { ...BROWSER, ...FORM, cookie },
        payload: `page=${page}`,
      });
    expect((await press('')).statusCode).toBe(403);
    expect(await seenAs(doors, cookie)).toMatchObject({ in: 'admin' });
    const answer = await press(pageToken);
    expect([answer.statusCode, answer.headers.location]).toEqual([303, '/login']);
    expect(String(answer.headers['set-cookie'])).toMatch(/^worksync-[0-9a-f]{12}=; Path=\/; Max-Age=0; /);
    expect([await seenAs(doors, cookie), await seenAs(doors, other)]).toEqual([401, { in: 'admin', workspaces: null }]);
    const token = await doors.server.inject({
      method: 'POST',
      url: '/logout',
      headers: { ...BROWSER, ...FORM, authorization: `Bearer ${ADMIN}` },
    });
    expect(token.statusCode).toBe(401);
  });

  it('ends with all others at once, and links end too', async () => {
    const doors = await openDoors();
    const cookies = [await logIn(doors), await logIn(doors)];
    const link = await doors.sessions.makeLink(ALL);
    expect(await endSessions(doors.installation, { actor: 'command ann', clock: doors.clock })).toBe(2);
    for (const cookie of cookies) expect(await seenAs(doors, cookie)).toBe(401);
    expect((await post(doors, { link })).statusCode).toBe(401);
  });

  it('ends a week after its last use, and a month after it began', async () => {
    const doors = await openDoors();
    const [used, unused] = [await logIn(doors), await logIn(doors)];
    const day = 86_400_000;
    await doors.clock.advance(6 * day);
    expect(await seenAs(doors, used)).toMatchObject({ in: 'admin' });
    await doors.clock.advance(2 * day);
    expect([await seenAs(doors, used), await seenAs(doors, unused)]).toEqual([{ in: 'admin', workspaces: null }, 401]);
    for (let days = 8; days < 29; days += 3) {
      expect(await seenAs(doors, used)).toMatchObject({ in: 'admin' });
      await doors.clock.advance(3 * day);
    }
    expect(await seenAs(doors, used)).toMatchObject({ in: 'admin' });
    await doors.clock.advance(day);
    expect(await seenAs(doors, used)).toBe(401);
  });
});
