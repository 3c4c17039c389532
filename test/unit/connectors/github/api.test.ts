import { createPublicKey, generateKeyPairSync, verify } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import type { PollPosition } from '../../../../src/connectors/connector.ts';
import { github } from '../../../../src/connectors/github/index.ts';
import type { HttpRequest } from '../../../../src/platform/http/http-client.ts';
import { courseOf, failure, type Reply } from '../../../support/vendors/course.ts';

const { signal } = new AbortController();
const position: PollPosition = {
  unit: 'acme/api',
  startedAt: '2026-01-05T09:00:00Z',
  watermark: '2026-01-05T08:00:00Z',
};
const LIST = '/repos/acme/api/pulls?state=all&sort=updated&direction=desc&per_page=100';

/** The whole address of each request, and what is answered: an empty list unless told. */
function connectionOf(given: object, course: readonly [expected: string, reply: Reply][]) {
  const turns = course.map(([expected, reply]) => [expected, { body: [], ...reply }] as const);
  return courseOf(github, { repositories: ['acme/api'], ...given }, '', turns);
}

describe('requests', () => {
  it.each([
    [{}, 'https://api.github.com'],
    [{ host: 'acme.ghe.com' }, 'https://api.acme.ghe.com'],
    [{ host: 'GHE.example.com' }, 'https://ghe.example.com/api/v3'],
    [{ apiUrl: 'http://127.0.0.1:8080/github/' }, 'http://127.0.0.1:8080/github'],
    [{ host: 'ghe.example.com', apiUrl: 'https://proxy.example.com' }, 'https://proxy.example.com'],
  ])('with %j go to %s', async (given, base) => {
    const { connection, requests } = connectionOf(given, [[`GET ${base}${LIST}`, {}]]);
    await connection.poll(position, signal);
    expect(requests[0]?.headers).toEqual({
      accept: 'application/vnd.github+json',
      'x-github-api-version': '2022-11-28',
      'user-agent': 'worksync',
    });
  });

  it('carry the token', async () => {
    const { connection, requests } = connectionOf({ token: 'ghp_x' }, [[`GET https://api.github.com${LIST}`, {}]]);
    await connection.poll(position, signal);
    expect(requests[0]?.headers?.['authorization']).toBe('Bearer ghp_x');
  });

  it("accept a server's own links behind a proxy, and use only their numbers", async () => {
    const given = { host: 'ghe.example.com', apiUrl: 'https://proxy.example.com' };
    const link = '<https://ghe.example.com/api/v3/repositories/7/pulls?page=2&per_page=1>; rel="next"';
    const { connection } = connectionOf(given, [
      [`GET https://proxy.example.com${LIST}`, { headers: { link } }],
      [`GET https://proxy.example.com${LIST}&page=2`, {}],
    ]);
    const page = await connection.poll(position, signal);
    expect(page).toMatchObject({ next: 'next:2' });
    await connection.poll({ ...position, page: 'next:2' }, signal);
  });
});

describe('a repository that moved', () => {
  const moved = (location: string, status = 301): Reply => ({ status, headers: { location }, body: {} });
  const byId = LIST.replace('/repos/acme/api', '/repositories/70100');

  it.each([301, 302, 307, 308])('is followed once by its id, status %i', async (status) => {
    const { connection } = connectionOf({ token: 'ghp_x' }, [
      [
        `GET https://api.github.com${LIST}`,
        moved('https://api.github.com/repositories/70100/pulls?state=open', status),
      ],
      [`GET https://api.github.com${byId}`, { headers: { etag: '"e"' } }],
    ]);
    expect(await connection.poll(position, signal)).toMatchObject({ outcome: 'page', etag: '"e"' });
  });

  it('is not followed twice', async () => {
    const again = moved('https://api.github.com/repositories/70100/pulls');
    const { connection } = connectionOf({}, [
      [`GET https://api.github.com${LIST}`, again],
      [`GET https://api.github.com${byId}`, again],
    ]);
    expect((await failure(connection.poll(position, signal)))?.code).toBe('refused');
  });

  it.each([
    'https://evil.example/repositories/70100/pulls',
    'https://api.github.com.evil.example/repositories/70100/pulls',
    'http://api.github.com/repositories/70100/pulls',
    '//evil.example/repositories/70100/pulls',
    'https://api.github.com/user',
    'https://api.github.com/repositories/70100/keys',
    'https://api.github.com/repositories/70100/pulls/../../../../../user',
    'https://api.github.com/repos/acme/other/pulls',
    '',
  ])('is not followed to %j', async (location) => {
    const { connection, requests } = connectionOf({}, [[`GET https://api.github.com${LIST}`, moved(location)]]);
    const error = await failure(connection.poll(position, signal));
    expect(error?.code).toBe('refused');
    expect(error?.hint).toContain('configuration');
    expect(requests).toHaveLength(1);
  });
});

describe('limits', () => {
  const limited = async (reply: Reply, ...rest: [string, Reply][]) => {
    const { connection } = connectionOf({}, [[`GET https://api.github.com${LIST}`, reply], ...rest]);
    return failure(connection.poll(position, signal));
  };
  const repository: [string, Reply] = [
    'GET https://api.github.com/repos/acme/api',
    { body: { id: 7, full_name: 'acme/api' } },
  ];

  it("counts to the reset by the provider's clock", async () => {
    const date = 'Mon, 05 Jan 2026 12:00:00 GMT';
    const reset = String(Date.parse(date) / 1_000 + 120);
    const headers = { date, 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': reset };
    expect(await limited({ status: 403, headers })).toMatchObject({ code: 'rate_limited', retryAfter: 121_000 });
  });

  it.each([
    ['a reset long ago', { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': '1' }, 60_000],
    ['a reset that is no number', { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': 'soon' }, 60_000],
    ['a reset in years', { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': '9999999999' }, 60 * 60_000],
    ['a retry-after in years', { 'retry-after': '99999999' }, 60 * 60_000],
    ['a retry-after that cannot be read', { 'retry-after': '-5' }, 60_000],
  ])('bounds %s', async (_, headers, wait) => {
    expect(await limited({ status: 429, headers })).toMatchObject({ code: 'rate_limited', retryAfter: wait });
  });

  it('keeps a lacking right apart from a limit', async () => {
    const body = { message: 'Resource not accessible by\u001b[31m personal access token' };
    const headers = { 'x-ratelimit-remaining': '4999', 'x-ratelimit-reset': '1' };
    const error = await limited({ status: 403, headers, body }, repository);
    expect(error?.code).toBe('forbidden');
    expect(error?.retryAfter).toBeUndefined();
    expect(error?.message).toContain('Resource not accessible by [31m personal access token');
  });
});

it.each([
  [
    'single sign-on',
    'Resource protected by organization SAML enforcement. You must grant your Personal Access token access to this organization.',
    { 'x-github-sso': 'required; url=https://github.com/orgs/acme/sso?authorization_request=A' },
    /authorise the token/,
  ],
  [
    'a list of allowed addresses',
    'Although you appear to have the correct authorization credentials, the `acme` organization has an IP allow list enabled, and your IP address is not permitted to access this resource.',
    {},
    /IP allow list/,
  ],
  ['a block', 'Repository access blocked', {}, /blocked this repository/],
])('a refusal by %s names the remedy', async (_, message, headers, remedy) => {
  const { connection } = connectionOf({}, [
    [
      `GET https://api.github.com${LIST}`,
      { status: 403, headers: headers as Record<string, string>, body: { message } },
    ],
    ['GET https://api.github.com/repos/acme/api', { status: 403 }],
  ]);
  const error = await failure(connection.poll(position, signal));
  expect([error?.code, error?.hint]).toEqual(['forbidden', expect.stringMatching(remedy)]);
});

describe('a GitHub App', () => {
  const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const pem = privateKey.export({ type: 'pkcs1', format: 'pem' }) as string;
  const app = { id: 4711, privateKey: pem, installationId: '66' };
  const mint = 'POST https://api.github.com/app/installations/66/access_tokens';
  const list = `GET https://api.github.com${LIST}`;
  const token = (name: string, minutes: number, date = 'Mon, 05 Jan 2026 09:00:00 GMT'): Reply => ({
    status: 201,
    headers: { date },
    body: { token: name, expires_at: new Date(Date.parse(date) + minutes * 60_000).toISOString() },
  });

  it('signs for itself, and uses the installation token until shortly before its end', async () => {
    const { connection, requests, clock } = connectionOf({ app }, [
      [mint, token('ghs_one', 60)],
      [list, {}],
      [list, {}],
      [mint, token('ghs_two', 60)],
      [list, {}],
    ]);
    await connection.poll(position, signal);
    await clock.advance(54 * 60_000);
    await connection.poll(position, signal);
    await clock.advance(2 * 60_000);
    await connection.poll(position, signal);
    const used = requests.map(({ headers }) => headers?.['authorization'] ?? '');
    expect([used[1], used[2], used[4]]).toEqual(['Bearer ghs_one', 'Bearer ghs_one', 'Bearer ghs_two']);

    const [head, claims, signature] = (used[0] as string).replace('Bearer ', '').split('.') as [string, string, string];
    const key = createPublicKey(publicKey.export({ type: 'spki', format: 'pem' }));
    expect(verify('sha256', Buffer.from(`${head}.${claims}`), key, Buffer.from(signature, 'base64url'))).toBe(true);
    const { iss, iat, exp } = JSON.parse(Buffer.from(claims, 'base64url').toString()) as Record<string, number>;
    expect(String(iss)).toBe('4711');
    expect(iat).toBe(Date.UTC(2026, 0, 5, 9) / 1_000 - 60);
    expect((exp as number) - (iat as number)).toBeLessThanOrEqual(600);
  });

  const issuedAt = ({ headers }: HttpRequest) => {
    const [, claims = ''] = (headers?.['authorization'] ?? '').split('.');
    return (JSON.parse(Buffer.from(claims, 'base64url').toString()) as { iat: number }).iat;
  };

  it.each([
    ['ahead', 'Mon, 05 Jan 2026 08:52:00 GMT'],
    ['behind', 'Mon, 05 Jan 2026 09:14:00 GMT'],
  ])("signs by GitHub's clock where ours is minutes %s", async (_, date) => {
    const unpaged = 'GET https://api.github.com/app';
    const refused: Reply = { status: 401, headers: { date }, body: { message: "'Issued at' claim ('iat') is off" } };
    const { connection, requests } = connectionOf({ app }, [
      [mint, refused],
      [mint, token('ghs_one', 60, date)],
      ['GET https://api.github.com/installation/repositories?per_page=1', { body: { total_count: 1 } }],
      [unpaged, { headers: { date }, body: { id: 4711, installations_count: 1 } }],
      ['GET https://api.github.com/repos/acme/api', { body: { full_name: 'acme/api' } }],
      ['GET https://api.github.com/repos/acme/api/pulls?state=all&per_page=1', {}],
    ]);
    expect((await connection.check(signal)).map(({ level }) => level)).toEqual(['ok', 'ok', 'ok']);
    const right = Date.parse(date) / 1_000 - 60;
    expect([1, 3].map((at) => issuedAt(requests[at] as HttpRequest))).toEqual([right, right]);
  });

  it('is corrected where it asks as the App itself first', async () => {
    const date = 'Mon, 05 Jan 2026 08:52:00 GMT';
    const hook = 'GET https://api.github.com/app/hook/config';
    const { connection, requests } = connectionOf({ app }, [
      [hook, { status: 401, headers: { date } }],
      [hook, { headers: { date }, body: { url: 'https://sync.example.com/elsewhere' } }],
      ['GET https://api.github.com/app', { headers: { date }, body: { id: 4711, events: [] } }],
    ]);
    expect(await connection.hooks.states('https://sync.example.com/here', signal)).toMatchObject([{ state: 'absent' }]);
    expect(issuedAt(requests[1] as HttpRequest)).toBe(Date.parse(date) / 1_000 - 60);
  });

  it("is asked once more only where GitHub's clock differs from ours", async () => {
    const date = 'Mon, 05 Jan 2026 09:00:20 GMT';
    const { connection } = connectionOf({ app }, [[mint, { status: 401, headers: { date } }]]);
    expect((await failure(connection.poll(position, signal)))?.code).toBe('unauthorized');
  });

  it("counts the token's life by the provider's clock, not by ours", async () => {
    const { connection } = connectionOf({ app }, [
      [mint, token('ghs_one', 60, 'Mon, 05 Jan 2026 06:00:00 GMT')],
      [list, {}],
      [list, {}],
    ]);
    for (const _ of [1, 2]) expect(await connection.poll(position, signal)).toMatchObject({ outcome: 'page' });
  });

  it('makes a new token after one was refused', async () => {
    const { connection } = connectionOf({ app }, [
      [mint, token('ghs_revoked', 60)],
      [list, { status: 401, body: { message: 'Bad credentials' } }],
      [mint, token('ghs_new', 60)],
      [list, {}],
    ]);
    expect((await failure(connection.poll(position, signal)))?.code).toBe('unauthorized');
    await connection.poll(position, signal);
  });

  it.each([401, 404])('that GitHub does not know (%i) is told where to look', async (status) => {
    const { connection } = connectionOf({ app }, [[mint, { status, body: { message: 'Integration not found' } }]]);
    const error = await failure(connection.poll(position, signal));
    expect(error?.code).toBe('unauthorized');
    expect(error?.hint).toMatch(/installationId.*clock/);
  });

  it('whose key is damaged says so without quoting it', async () => {
    const broken = '-----BEGIN RSA PRIVATE KEY-----\nc2VjcmV0c2VjcmV0\n-----END RSA PRIVATE KEY-----\n';
    const { connection } = connectionOf({ app: { ...app, privateKey: broken } }, []);
    const error = await failure(connection.poll(position, signal));
    expect(error?.code).toBe('unauthorized');
    expect(JSON.stringify([error?.message, error?.hint, String(error?.cause), error?.stack])).not.toContain('c2VjcmV0');
  });

  it('is proved by check through its installation', async () => {
    const { connection } = connectionOf({ app }, [
      [mint, token('ghs_one', 60)],
      ['GET https://api.github.com/installation/repositories?per_page=1', { body: { total_count: 1 } }],
      ['GET https://api.github.com/app', { body: { id: 4711, installations_count: 1 } }],
      ['GET https://api.github.com/repos/acme/api', { body: { full_name: 'acme/api' } }],
      ['GET https://api.github.com/repos/acme/api/pulls?state=all&per_page=1', {}],
    ]);
    const findings = await connection.check(signal);
    expect(findings.map(({ level }) => level)).toEqual(['ok', 'ok', 'ok']);
  });
});

describe('fetch', () => {
  const reference = {
    kind: 'pull_request',
    key: 'k',
    locator: { repoId: '70100', repository: 'acme/api', number: '12' },
  } as const;
  const named = 'GET https://api.github.com/repos/acme/api/pulls/12';
  const pull = (id: number) => ({
    number: 12,
    updated_at: '2026-01-05T08:00:00Z',
    base: { ref: 'main', repo: { id, full_name: id === 70100 ? 'acme/gateway' : 'acme/api' } },
  });

  it('goes by the id where another repository has the name now', async () => {
    const { connection } = connectionOf({}, [
      [named, { body: pull(99) }],
      ['GET https://api.github.com/repositories/70100/pulls/12', { body: pull(70100) }],
    ]);
    const fetched = await connection.fetch(reference, signal);
    expect(JSON.parse(fetched.body.toString())).toEqual(pull(70100));
  });

  it('takes 410 as gone without another question', async () => {
    const { connection } = connectionOf({}, [[named, { status: 410 }]]);
    expect((await connection.fetch(reference, signal)).event).toBe('pulls.gone');
  });

  it('does not call gone what another repository of that name lacks', async () => {
    const { connection } = connectionOf({}, [
      [named, { status: 404 }],
      ['GET https://api.github.com/repos/acme/api', { body: { id: 99 } }],
    ]);
    expect((await failure(connection.fetch(reference, signal)))?.code).toBe('not_found');
  });

  describe('with commits', () => {
    const commits = `${named}/commits`;
    const page = (from: number, count: number) => ({
      body: Array.from({ length: count }, (_, index) => ({ sha: 'a', commit: { message: `Step ${from + index}` } })),
    });

    it('asks the repository that the pull request was found in', async () => {
      const { connection } = connectionOf({ commits: true }, [
        [named, { body: pull(99) }],
        ['GET https://api.github.com/repositories/70100/pulls/12', { body: pull(70100) }],
        ['GET https://api.github.com/repositories/70100/pulls/12/commits?per_page=100', page(1, 1)],
      ]);
      const { body } = await connection.fetch(reference, signal);
      expect(JSON.parse(body.toString())).toEqual({ ...pull(70100), commit_messages: ['Step 1'] });
    });

    it.each([
      ['are not found', { status: 404 }],
      ['cannot be read', { body: [{ sha: 'a', commit: { message: 'Fix' } }, { sha: 'b' }] }],
    ])('says nothing of commits that %s', async (_, reply) => {
      const { connection } = connectionOf({ commits: true }, [
        [named, { body: pull(70100) }],
        [`${commits}?per_page=100`, reply],
      ]);
      const { event, body } = await connection.fetch(reference, signal);
      expect([event, JSON.parse(body.toString())]).toEqual(['pulls.get', pull(70100)]);
    });

    it('fails where they may come later', async () => {
      const { connection } = connectionOf({ commits: true }, [
        [named, { body: pull(70100) }],
        [`${commits}?per_page=100`, { status: 502 }],
      ]);
      expect((await failure(connection.fetch(reference, signal)))?.code).toBe('server_failed');
    });
  });
});

describe('check', () => {
  const repository = 'GET https://api.github.com/repos/acme/api';
  const pulls = 'GET https://api.github.com/repos/acme/api/pulls?state=all&per_page=1';
  const left = (remaining: string, limit: string): Reply => ({
    headers: { 'x-ratelimit-remaining': remaining, 'x-ratelimit-limit': limit },
  });

  it('says what going without a credential costs', async () => {
    const { connection } = connectionOf({}, [
      [repository, { body: { full_name: 'Acme/API' } }],
      [pulls, left('3', '60')],
    ]);
    const findings = await connection.check(signal);
    expect(findings).toMatchObject([
      { level: 'warning', subject: 'credential', message: expect.stringContaining('60 requests an hour') },
      { level: 'ok', subject: 'acme/api' },
      { level: 'warning', subject: 'rate limit', message: '3 of 60 requests left in this hour' },
    ]);
  });

  it('says that an App is the supported form where a token is used, also one without a user', async () => {
    for (const reply of [{ body: { login: 'ada' } }, { status: 403, body: { message: 'Resource not accessible' } }]) {
      const { connection } = connectionOf({ token: 'ghp_x' }, [
        ['GET https://api.github.com/user', reply],
        [repository, { body: { full_name: 'acme/api' } }],
        [pulls, left('0', '0')],
      ]);
      const [credential, , limit] = await connection.check(signal);
      expect(credential).toMatchObject({ level: 'warning', hint: expect.stringContaining('One GitHub App') });
      expect(limit).toMatchObject({ level: 'ok', message: 'none reported' });
    }
  });

  it.each([
    ['2031-01-01 10:00:00 UTC', [['ok', 'the token is valid until 2031-01-01', undefined]]],
    [
      '2001-01-01 10:00:00 +0100',
      [['warning', 'the token expires on 2001-01-01', expect.stringContaining('new token') as string]],
    ],
    ['tomorrow', []],
  ])('says when a token ends where GitHub tells it: %s', async (told, expected) => {
    const headers = { 'github-authentication-token-expiration': told };
    const { connection } = connectionOf({ token: 'ghp_x' }, [
      ['GET https://api.github.com/user', { body: { login: 'ada' }, headers }],
      [repository, { body: { full_name: 'acme/api' } }],
      [pulls, left('50', '60')],
    ]);
    const [, ...others] = (await connection.check(signal)).filter(({ subject }) => subject === 'credential');
    expect(others.map(({ level, message, hint }) => [level, message, hint])).toEqual(expected);
  });

  it.each([
    [{ full_name: 'acme/gateway' }, 'is called acme/gateway now'],
    [{ full_name: 'acme/api', archived: true }, 'is archived'],
  ])('warns about %j', async (body, message) => {
    const { connection } = connectionOf({}, [
      [repository, { body }],
      [pulls, left('50', '60')],
    ]);
    const findings = await connection.check(signal);
    expect(findings[1]).toMatchObject({ level: 'warning', message: expect.stringContaining(message) });
  });

  it('goes on after a repository that cannot be read', async () => {
    const { connection } = connectionOf({ repositories: ['acme/secret', 'acme/api'] }, [
      ['GET https://api.github.com/repos/acme/secret', { status: 404, body: { message: 'Not Found' } }],
      [repository, { body: { full_name: 'acme/api' } }],
      [pulls, { status: 403, body: { message: 'Resource not accessible' } }],
    ]);
    const findings = await connection.check(signal);
    expect(findings.slice(1).map(({ level, subject }) => [level, subject])).toEqual([
      ['error', 'acme/secret'],
      ['ok', 'acme/api'],
      ['error', 'acme/api'],
      ['ok', 'rate limit'],
    ]);
  });
});
