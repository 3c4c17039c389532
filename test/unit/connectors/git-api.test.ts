import { createPublicKey, generateKeyPairSync, verify } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { bitbucket } from '../../../src/connectors/bitbucket/index.ts';
import type { Connection, Connector, PollPosition } from '../../../src/connectors/connector.ts';
import { github } from '../../../src/connectors/github/index.ts';
import { gitlab } from '../../../src/connectors/gitlab/index.ts';
import type { HttpRequest } from '../../../src/platform/http/http-client.ts';
import {
  conversations,
  courseOf,
  exactly,
  failing,
  failure,
  type Reply,
  type Turn,
} from '../../support/vendors/course.ts';
import { fixture } from '../../support/vendors/model-providers/provider.ts';

/** How the three git providers are asked, and what their refusals, redirects and checks mean. */

const { signal } = new AbortController();
const position: PollPosition = {
  unit: 'acme/api',
  startedAt: '2026-01-05T09:00:00Z',
  watermark: '2026-01-05T08:00:00Z',
};
const poll = (connection: Connection) => connection.poll(position, signal);
const HUB = 'https://api.github.com';
const PULLS = '/repos/acme/api/pulls?state=all&sort=updated&direction=desc&per_page=100';
const LAB = 'https://gitlab.com/api/v4';
const CHANGED =
  '?state=all&scope=all&order_by=updated_at&sort=desc&per_page=100&updated_after=2026-01-05T07:50:00.000Z';
const MERGES = `/projects/acme%2Fapi/merge_requests${CHANGED}`;
const BUCKET = 'https://api.bitbucket.org/2.0';
const REQUESTS = '/repositories/acme/api/pullrequests';
const EMPTY: Reply = { body: [] };
const NO_VALUES: Reply = { body: { values: [] } };
const party = (connector: unknown, given: object, origin = '') => ({
  connector: connector as Connector<unknown>,
  ...{ given, origin },
});
const GITHUB = party(github, { repositories: ['acme/api'] }, HUB);
const GITLAB = party(gitlab, { projects: ['acme/api'] }, LAB);
const BITBUCKET = party(bitbucket, { repositories: ['acme/api'] }, BUCKET);
const said = (status: number, message: unknown): Reply => ({ status, body: { message } });

describe('requests', () => {
  const person = { email: 'ada@example.com', apiToken: 'ATATT3x' };
  const accept = { accept: 'application/json', 'user-agent': 'worksync' };
  const ofGithub = { ...accept, accept: 'application/vnd.github+json', 'x-github-api-version': '2022-11-28' };

  it.each<[typeof GITHUB, object, string, Reply, object, string?]>([
    [GITHUB, {}, `${HUB}${PULLS}`, EMPTY, ofGithub],
    [GITHUB, { token: 'ghp_x' }, `${HUB}${PULLS}`, EMPTY, ofGithub, 'Bearer ghp_x'],
    [GITHUB, { host: 'acme.ghe.com' }, `https://api.acme.ghe.com${PULLS}`, EMPTY, ofGithub],
    [GITHUB, { host: 'GHE.example.com' }, `https://ghe.example.com/api/v3${PULLS}`, EMPTY, ofGithub],
    [
      ...([GITHUB, { host: 'ghe.example.com', apiUrl: 'https://proxy.example.com' }] as const),
      ...([`https://proxy.example.com${PULLS}`, EMPTY, ofGithub] as const),
    ],
    [GITLAB, { token: 'glpat-x' }, `${LAB}${MERGES}`, EMPTY, accept, 'Bearer glpat-x'],
    [GITLAB, { host: 'GitLab.example.com' }, `https://gitlab.example.com/api/v4${MERGES}`, EMPTY, accept],
    [
      ...([GITLAB, { host: 'example.com', apiUrl: 'https://example.com/gitlab/api/v4/' }] as const),
      ...([`https://example.com/gitlab/api/v4${MERGES}`, EMPTY, accept] as const),
    ],
    [BITBUCKET, { token: 'ATCTT3x' }, `${BUCKET}${REQUESTS}?*`, NO_VALUES, accept, 'Bearer ATCTT3x'],
    // printf 'ada@example.com:ATATT3x' | base64
    [
      ...([BITBUCKET, person, `${BUCKET}${REQUESTS}?*`, NO_VALUES, accept] as const),
      'Basic YWRhQGV4YW1wbGUuY29tOkFUQVRUM3g=',
    ],
  ])('of $connector.id with %j go to %s', async ({ connector, given }, more, url, reply, headers, authorization) => {
    const { connection, requests } = courseOf(connector, { ...given, ...more }, '', [[`GET ${url}`, reply]]);
    await poll(connection);
    expect(requests[0]?.headers).toEqual({ ...headers, ...(authorization && { authorization }) });
  });

  const link = '<https://ghe.example.com/api/v3/repositories/7/pulls?page=2&per_page=1>; rel="next"';
  const two = async (connection: Connection) => {
    const { next } = (await poll(connection)) as { next: string };
    return [next, (await connection.poll({ ...position, page: next }, signal)).outcome];
  };

  conversations(party(github, { ...GITHUB.given, host: 'ghe.example.com', apiUrl: 'https://proxy.example.com' }), {
    'of a server behind a proxy use only the numbers of its own links': [
      two,
      [
        [`GET https://proxy.example.com${PULLS}`, { ...EMPTY, headers: { link } }],
        [`GET https://proxy.example.com${PULLS}&page=2`, EMPTY],
      ],
      exactly(['next:2', 'page']),
    ],
  });
});

describe.each([
  {
    ...{ ...GITHUB, list: PULLS, byId: PULLS.replace('/repos/acme/api', '/repositories/70100') },
    target: `${HUB}/repositories/70100/pulls`,
    elsewhere: [`${HUB}/user`, `${HUB}/repositories/70100/keys`, `${HUB}/repos/acme/other/pulls`],
  },
  {
    ...{ ...GITLAB, list: MERGES, byId: MERGES.replace('acme%2Fapi', '80200') },
    target: `${LAB}/projects/80200/merge_requests`,
    elsewhere: [
      ...[`${LAB}/user`, `${LAB}/projects/80200/variables`, `${LAB}/projects/acme%2Fother/merge_requests`],
      'https://gitlab.com/users/sign_in',
    ],
  },
])('a container that moved at $connector.id', ({ connector, given, origin, list, byId, target, elsewhere }) => {
  const moved = (location: string, status = 301): Reply => ({ status, headers: { location }, body: {} });
  const token = { authorization: 'Bearer a-token' };

  it.each([301, 302, 307, 308])('is followed once by its id, status %i', async (status) => {
    const { connection } = courseOf(connector, { ...given, token: 'a-token' }, origin, [
      [`GET ${list}`, moved(`${target}?state=open`, status)],
      [`GET ${byId}`, EMPTY, undefined, token],
    ]);
    expect(await poll(connection)).toMatchObject({ outcome: 'page' });
  });

  it.each([
    target.replace(/\/\/[^/]+/, '//evil.example'),
    target.replace(/\/\/[^/]+/, '$&.evil.example'),
    target.replace('https:', 'http:'),
    target.replace(/https:\/\/[^/]+/, '//evil.example'),
    `${target}/../../../../../user`,
    ...elsewhere,
    '',
  ])('is not followed to %j', async (location) => {
    const { connection } = courseOf(connector, { ...given, token: 'a-token' }, origin, [
      [`GET ${list}`, moved(location)],
    ]);
    expect(await failure(poll(connection))).toMatchObject({
      code: 'refused',
      hint: expect.stringContaining('configuration'),
    });
  });
});

const NOW = Date.UTC(2026, 0, 5, 9);

it.each([
  [GITHUB, PULLS, 'x-ratelimit'],
  [GITLAB, MERGES, 'ratelimit'],
] as const)('of the limit of $connector.id a backfill leaves half, a poll a tenth', async (vendor, path, prefix) => {
  const list = (remaining: number, more: object = {}): Turn => {
    const rate = { [`${prefix}-limit`]: '100', [`${prefix}-reset`]: String(NOW / 1_000 + 1_800) };
    const headers = { ...rate, [`${prefix}-remaining`]: String(remaining), date: new Date(NOW).toUTCString(), ...more };
    return [`GET ${path.split('?')[0]}?*`, { ...EMPTY, headers }];
  };
  // GitHub's other limits do not count.
  const other = { 'x-ratelimit-resource': 'search' };
  const course = [...(vendor === GITHUB ? [list(0, other)] : []), list(49), list(10)];
  const { connection, rest } = courseOf(vendor.connector, vendor.given, vendor.origin, course);
  while (rest.length > 1) await poll(connection);
  expect(await failure(connection.history({ unit: 'acme/api' }, signal))).toMatchObject({ code: 'rate_limited' });
  expect(await failure(connection.sweep('acme/api', undefined, signal))).toMatchObject({ code: 'rate_limited' });
  await poll(connection);
  expect(await failure(poll(connection))).toMatchObject({ code: 'rate_limited', retryAfter: 1_801_000 });
});

describe('a refusal', () => {
  const date = 'Mon, 05 Jan 2026 12:00:00 GMT';
  const reset = (seconds: number) => String(Date.parse(date) / 1_000 + seconds);

  it.each<[string, Record<string, string>, number]>([
    ['a retry-after before a reset', { date, 'retry-after': '17', 'ratelimit-reset': reset(240) }, 17_000],
  ])('of GitLab with 429 and %s says how long to wait', async (_, headers, retryAfter) => {
    const { connection } = courseOf(gitlab, GITLAB.given, LAB, [[`GET ${MERGES}`, { status: 429, headers }]]);
    expect(await failure(poll(connection))).toMatchObject({ code: 'rate_limited', retryAfter });
  });

  const refused = (body: unknown, headers: Record<string, string> = {}, after: Reply = { status: 403 }): Turn[] => [
    [`GET ${PULLS}`, { status: 403, headers, body }],
    ['GET /repos/acme/api', after],
  ];
  const forbidden = (hint: RegExp) => expect.objectContaining({ code: 'forbidden', hint: expect.stringMatching(hint) });
  const sso = { 'x-github-sso': 'required; url=https://github.com/orgs/acme/sso?authorization_request=A' };
  const remedies: readonly (readonly [words: string, hint: RegExp, headers?: Record<string, string>])[] = [
    ['Resource protected by organization SAML enforcement.', /authorise the token/, sso],
    ['the `acme` organization has an IP allow list enabled, and your IP is not permitted', /IP allow list/],
  ];

  conversations(GITHUB, {
    ...Object.fromEntries(
      remedies.map(([message, hint, headers]) => [
        `of GitHub names the remedy: ${message}`,
        [poll, refused({ message }, headers), forbidden(hint)] as const,
      ]),
    ),
    'of GitHub for a lacking right is no limit': [
      poll,
      refused(
        { message: 'Resource not accessible by\u001b[31m personal access token' },
        { 'x-ratelimit-remaining': '4999', 'x-ratelimit-reset': '1' },
        { body: { id: 7, full_name: 'acme/api' } },
      ),
      expect.objectContaining({
        ...{ code: 'forbidden', retryAfter: undefined },
        message: expect.stringContaining('Resource not accessible by [31m personal access token'),
      }),
    ],
  });

  conversations(BITBUCKET, {});
});

describe('a GitHub App', () => {
  const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const privateKeyPem = privateKey.export({ type: 'pkcs1', format: 'pem' }) as string;
  const app = { id: 4711, privateKey: privateKeyPem, installationId: '66' };
  const MINT = 'POST /app/installations/66/access_tokens';
  const LIST: Turn = [`GET ${PULLS}`, EMPTY];
  const NOW = 'Mon, 05 Jan 2026 09:00:00 GMT';
  const mint = (token: string, date = NOW): Turn => {
    const expires_at = new Date(Date.parse(date) + 60 * 60_000).toISOString();
    return [MINT, { status: 201, headers: { date }, body: { token, expires_at } }];
  };
  const connect = (course: readonly Turn[], more: object = {}) =>
    courseOf(github, { ...GITHUB.given, app: { ...app, ...more } }, HUB, course);
  const authorizationOf = ({ headers }: HttpRequest) => headers?.['authorization'] ?? '';
  const issuedAt = (request: HttpRequest | undefined) => {
    const [, claims = ''] = authorizationOf(request as HttpRequest).split('.');
    return (JSON.parse(Buffer.from(claims, 'base64url').toString()) as { iat: number }).iat;
  };

  it('signs for itself, and uses the installation token until shortly before its end', async () => {
    const { connection, requests, clock } = connect([mint('one'), LIST, LIST, mint('two'), LIST]);
    await poll(connection);
    for (const minutes of [54, 2]) {
      await clock.advance(minutes * 60_000);
      await poll(connection);
    }
    const used = requests.map(authorizationOf);
    expect([used[1], used[2], used[4]]).toEqual(['Bearer one', 'Bearer one', 'Bearer two']);
    const [head, claims, signature] = (used[0] as string).replace('Bearer ', '').split('.') as [string, string, string];
    const key = createPublicKey(publicKey.export({ type: 'spki', format: 'pem' }));
    expect(verify('sha256', Buffer.from(`${head}.${claims}`), key, Buffer.from(signature, 'base64url'))).toBe(true);
    const { iss, iat, exp } = JSON.parse(Buffer.from(claims, 'base64url').toString()) as Record<string, number>;
    expect([String(iss), iat]).toEqual(['4711', Date.UTC(2026, 0, 5, 9) / 1_000 - 60]);
    expect((exp as number) - (iat as number)).toBeLessThanOrEqual(600);
  });

  it.each([
    ['ahead', 'Mon, 05 Jan 2026 08:52:00 GMT'],
    ['behind', 'Mon, 05 Jan 2026 09:14:00 GMT'],
  ])("signs by GitHub's clock where ours is minutes %s", async (_, date) => {
    const { connection, requests } = connect([
      [MINT, { status: 401, headers: { date }, body: { message: "'Issued at' claim ('iat') is off" } }],
      mint('one', date),
      ['GET /installation/repositories?per_page=1', { body: { total_count: 1 } }],
      ['GET /app', { headers: { date }, body: { id: 4711, installations_count: 1 } }],
      ['GET /repos/acme/api', { body: { full_name: 'acme/api' } }],
      ['GET /repos/acme/api/pulls?state=all&per_page=1', EMPTY],
    ]);
    expect((await connection.check(signal)).map(({ level }) => level)).toEqual(['ok', 'ok', 'ok']);
    const right = Date.parse(date) / 1_000 - 60;
    expect([issuedAt(requests[1]), issuedAt(requests[3])]).toEqual([right, right]);
  });

  conversations(party(github, { ...GITHUB.given, app }, HUB), {
    "counts the life of a token by GitHub's clock": [
      async (connection) => [await poll(connection), await poll(connection)],
      [mint('one', 'Mon, 05 Jan 2026 06:00:00 GMT'), LIST, LIST],
      [{ outcome: 'page' }, { outcome: 'page' }],
    ],
    'requests a new token after one was refused': [
      async (connection) => [(await failure(poll(connection)))?.code, (await poll(connection)).outcome],
      [mint('revoked'), [`GET ${PULLS}`, said(401, 'Bad credentials')], mint('new'), LIST],
      exactly(['unauthorized', 'page']),
    ],
    ...Object.fromEntries(
      [401, 404].map((status) => [
        `that GitHub does not know (${status}) names what to check`,
        [
          poll,
          [[MINT, said(status, 'Integration not found')] as Turn],
          expect.objectContaining({
            code: 'unauthorized',
            hint: expect.stringMatching(/installationId.*clock/),
          }) as unknown,
        ] as const,
      ]),
    ),
  });

  it.each([
    ['damaged', '-----BEGIN RSA PRIVATE KEY-----\nc2VjcmV0c2VjcmV0\n-----END RSA PRIVATE KEY-----\n'],
    ['in quotes', `"${privateKeyPem}"`],
  ])('is not opened with a key that is %s, and the refusal does not quote it', (_what, privateKey) => {
    const [, line = ''] = privateKey.split('\n');
    const isExplained = (error: Error) =>
      /is no whole private key/.test(error.message) && !error.message.includes(line);
    expect(() => connect([], { privateKey })).toThrow(expect.toSatisfy(isExplained));
  });
});

describe('a fetch', () => {
  const UUID = '{7d3f4c1a-52be-4a0e-9c61-0b8a6f2e9d10}';
  const fetched = (locator: Readonly<Record<string, string>>) => async (connection: Connection) => {
    const { event, body } = await connection.fetch({ kind: 'pull_request', key: 'k', locator }, signal);
    return [event, JSON.parse(body.toString()) as unknown];
  };
  const atGithub = fetched({ repoId: '70100', repository: 'acme/api', number: '12' });
  const NAMED = 'GET /repos/acme/api/pulls/12';
  const BY_ID = 'GET /repositories/70100/pulls/12';
  const pull = (id: number) => {
    const repo = { id, full_name: id === 70100 ? 'acme/gateway' : 'acme/api' };
    return { number: 12, updated_at: '2026-01-05T08:00:00Z', base: { ref: 'main', repo } };
  };
  const WITH_COMMITS = { commits: true };
  const messages = (...texts: string[]) => texts.map((message) => ({ sha: 'a', commit: { message } }));

  conversations(GITHUB, {
    'at GitHub goes by the id where another repository has the name': [
      atGithub,
      [
        [NAMED, { body: pull(99) }],
        [BY_ID, { body: pull(70100) }],
        [`${BY_ID}/commits?per_page=100`, { body: messages('Step 1') }],
      ],
      exactly(['pulls.get', { ...pull(70100), commit_messages: ['Step 1'] }]),
      WITH_COMMITS,
    ],
    'at GitHub calls nothing gone that another repository of that name lacks': [
      atGithub,
      [
        [NAMED, 404],
        ['GET /repos/acme/api', { body: { id: 99 } }],
      ],
      failing('not_found'),
    ],
  });

  const atGitlab = fetched({ projectId: '80200', iid: '12' });
  const ONE = 'GET /projects/80200/merge_requests/12';
  const LISTED = 'GET /projects/80200/merge_requests?state=all&scope=all&iids[]=12';

  conversations(GITLAB, {
    'at GitLab calls nothing gone that the list has': [
      atGitlab,
      [
        [ONE, 404],
        [LISTED, { body: [{ iid: 12 }] }],
      ],
      failing('not_found'),
    ],
  });

  const atBitbucket = fetched({ repoId: UUID, repository: 'acme/api', number: '12' });
  const request = fixture('bitbucket', 'pullrequests.get');
  const path = (workspace: string) => `/repositories/${workspace}/${encodeURIComponent(UUID)}`;
  const of = (reply: Reply | number, workspace = 'acme'): Turn => [`GET ${path(workspace)}/pullrequests/12?*`, reply];
  const anywhere = (uuid: string, full_name: string): Turn => [
    `GET ${path('%7B%7D')}?*`,
    { body: { uuid, full_name } },
  ];
  const FOREIGN = { destination: { repository: { uuid: UUID.replace('7', '8'), full_name: 'acme/api' } } };

  conversations(BITBUCKET, {
    'at Bitbucket rejects a pull request of another repository': [
      atBitbucket,
      [of({ body: { ...request, ...FOREIGN } })],
      failing('answer_malformed'),
    ],
    'at Bitbucket calls nothing gone while another repository answers under the name': [
      atBitbucket,
      [of(404), anywhere('{00000000-0000-0000-0000-000000000000}', 'acme/api')],
      failing('not_found'),
    ],
  });
});
