import { describe, expect, it } from 'vitest';
import { bitbucket } from '../../src/connectors/bitbucket/index.ts';
import type { Connection } from '../../src/connectors/connector.ts';
import {
  conversations,
  courseOf,
  exactly,
  failing,
  failure,
  type Reply,
  type Turn,
} from '../support/vendors/course.ts';

const { signal } = new AbortController();
const ORIGIN = 'https://api.bitbucket.org/2.0';
const PARTY = { connector: bitbucket, given: { token: 'ATCTT3x', repositories: ['acme/api'] }, origin: ORIGIN };
type Connected = Required<Connection>;
const [API, WEB, FORK] = [1, 2, 3].map((n) => `{${String(n).repeat(8)}-0000-4000-8000-000000000000}`) as [
  string,
  string,
  string,
];
const URL_HERE = 'https://sync.example.com/webhooks/main/bb';
const HOOK = '{99999999-0000-4000-8000-000000000000}';
const EVENTS = ['pullrequest:created', 'pullrequest:updated', 'pullrequest:fulfilled', 'pullrequest:rejected'];
const said = (message: string, status = 403): Reply => ({ status, body: { type: 'error', error: { message } } });
const pages = (values: readonly unknown[], next?: string, more: object = {}): Reply => ({
  body: { values, ...more, ...(next && { next: ORIGIN + next }) },
});

const repository = (uuid: string, full_name: string, more: object = {}) => ({ uuid, full_name, ...more });
const ALL = [
  repository(API, 'acme/api'),
  repository(WEB, 'acme/web'),
  repository(FORK, 'acme/api-fork', { parent: { uuid: API } }),
];
const listing = (reply: Reply = pages(ALL)): Turn => [
  'GET /repositories/acme?pagelen=100&sort=created_on&fields=next,values.uuid,values.full_name,values.parent.uuid',
  reply,
];

describe('the scope', () => {
  const unit = (uuid: string) => `acme/${uuid}`;
  const units = (connection: Connection) => connection.units(signal);
  const of = (given: object, expected: readonly string[]) =>
    [units, [listing()], exactly(expected), { repositories: undefined, ...given }] as const;

  conversations(PARTY, {
    'is that of a workspace': of({ workspaces: ['acme'] }, [unit(API), unit(WEB)]),
    'is that of a pattern and a name, by which it goes': of({ repositories: ['acme/api', 'acme/*'] }, [
      'acme/api',
      unit(WEB),
    ]),
    'follows the rest where one list is refused': [
      units,
      [['GET /repositories/other?*', pages([{ ...ALL[0], full_name: 'other/api' }])], listing(said('no'))],
      exactly(['acme/named', `other/${API}`, 'list:acme/*']),
      { repositories: ['acme/named', 'other/*'], workspaces: ['acme'] },
    ],
    'polls by the id, and takes links by the name for the same list': [
      (connection) =>
        connection.poll(
          { unit: unit(API), watermark: '2026-01-05T08:00:00Z', startedAt: '2026-01-05T09:00:00Z' },
          signal,
        ),
      [
        [
          `GET /repositories/acme/${encodeURIComponent(API)}/pullrequests?*`,
          pages([], '/repositories/acme/renamed/pullrequests?page=2'),
        ],
      ],
      { next: 'link:page=2' },
    ],
  });
});

describe('history and sweep', () => {
  const LIST = '/repositories/acme/api/pullrequests';
  const STATES = 'state=OPEN&state=MERGED&state=DECLINED&state=SUPERSEDED&pagelen=50';
  const SECOND = `${LIST}?sort=id&page=2`;
  const SWEPT = `GET ${LIST}?${STATES}&fields=next,values.id,values.destination.repository.uuid&sort=id`;
  const swept = (id: unknown) => ({ id, destination: { repository: { uuid: API } } });
  const key = (id: number) => `bitbucket:bitbucket.org:${API}:pull:${id}`;
  const sweep = (connection: Connected) => connection.sweep('acme/api', undefined, signal);

  conversations(PARTY, {
    'sweep names everything that there is, oldest first': [
      async (connection) => {
        const first = await sweep(connection);
        return [first, await connection.sweep('acme/api', first.next, signal)];
      },
      [
        [SWEPT, pages([swept(1), swept(2)], SECOND)],
        [`GET ${SECOND}`, pages([swept(3)])],
      ],
      exactly([
        { keys: [key(1), key(2)], containers: [API], next: 'link:sort=id&page=2' },
        { keys: [key(3)], containers: [API] },
      ]),
    ],
    'sweep does not end well with an element without id': [
      sweep,
      [[SWEPT, pages([swept(1), swept(null)])]],
      failing('answer_malformed'),
    ],
  });
});

describe('the budget', () => {
  const listed = (headers: Record<string, string> = {}): Turn => [
    'GET /repositories/acme/api/pullrequests?*',
    { ...pages([]), headers },
  ];
  const history = (connection: Connected) => connection.history({ unit: 'acme/api' }, signal);
  const limit = { 'x-ratelimit-limit': '10' };

  it('leaves half of the hour to polls and fetches, and a fifth once Bitbucket says that it is near', async () => {
    const near = { 'x-ratelimit-nearlimit': 'true' };
    const course = [listed(limit), listed(near), listed(), listed()];
    const { connection, clock } = courseOf(bitbucket, PARTY.given, ORIGIN, course);
    for (const _ of [1, 2]) await history(connection);
    expect((await failure(history(connection)))?.code).toBe('rate_limited');
    const position = { unit: 'acme/api', watermark: '2026-01-05T08:00:00Z', startedAt: '2026-01-05T09:00:00Z' };
    expect((await connection.poll(position, signal)).outcome).toBe('page');
    await clock.advance(3_700_000);
    await history(connection);
  });
});

describe('webhooks', () => {
  const PATH = '/repositories/acme/api/hooks';
  const hook = (more: object = {}) => ({
    ...{ uuid: HOOK, url: URL_HERE, active: true, events: EVENTS, description: 'by hand' },
    ...{ secret_set: true, skip_cert_verification: false, ...more },
  });
  const ELSEWHERE = hook({ url: 'https://elsewhere.example.com/' });
  const list = (hooks: readonly object[], path = PATH): Turn => [`GET ${path}?pagelen=100`, pages(hooks)];
  const states = (connection: Connected) => connection.hooks.states(URL_HERE, signal);
  const install = (connection: Connected) => connection.hooks.install(URL_HERE, 'a-secret', signal);
  const put = (sent?: object): Turn => [`PUT ${PATH}/${encodeURIComponent(HOOK)}`, { body: hook() }, sent];

  it.each([
    ['active', hook(), 'is registered'],
    ['disabled', hook({ active: false }), 'switched off'],
    ['absent', ELSEWHERE, 'no webhook'],
  ])('%s', async (state, present, message) => {
    const [told] = await states(courseOf(bitbucket, PARTY.given, ORIGIN, [list([present])]).connection);
    expect(told).toMatchObject({ subject: 'acme/api', state, message: expect.stringContaining(message) });
    expect(told?.hint === undefined).toBe(message === 'is registered');
  });

  conversations(PARTY, {
    ...Object.fromEntries(
      [401, 403, 404].map((status) => [
        `are not known after ${status}`,
        [
          states,
          [[`GET ${PATH}?pagelen=100`, status]],
          [{ state: 'unknown', hint: expect.stringContaining('webhook') }],
        ] as const,
      ]),
    ),
    'are registered where absent, with their secret': [
      install,
      [
        list([]),
        [
          `POST ${PATH}`,
          { status: 201, body: hook() },
          { description: 'worksync', url: URL_HERE, active: true, events: EVENTS, secret: 'a-secret' },
        ],
      ],
      [{ outcome: 'created' }],
    ],
    'are mended where wrong, and the rest stays as it is': [
      install,
      [
        list([hook({ active: false, events: ['repo:push'], skip_cert_verification: true })]),
        put({
          ...{ description: 'by hand', url: URL_HERE, active: true, events: ['repo:push', ...EVENTS] },
          ...{ secret: 'a-secret', skip_cert_verification: true },
        }),
      ],
      [{ outcome: 'updated' }],
    ],
  });
});

describe('writing back', () => {
  const AT = `/repositories/acme/${encodeURIComponent(API)}`;
  const COMMENTS = `${AT}/pullrequests/12/comments`;
  const locator = { repoId: API, repository: 'acme/api', number: '12' };
  const reference = { kind: 'pull_request', key: 'k', locator } as const;
  const raw = 'BUG-1 is linked\n\n[worksync:k]';
  const comment = (connection: Connected) =>
    connection.comment(reference, { marker: '[worksync:k]', text: 'BUG-1 is linked' }, signal);
  const user = { uuid: '{77777777-0000-4000-8000-000000000000}' };
  const holds = (...values: object[]): Turn[] => [
    ['GET /user?fields=uuid', { body: user }],
    [`GET ${COMMENTS}?*`, pages(values)],
  ];
  const post = (reply: Reply | number = { status: 201, body: { id: 3 } }): Turn => [
    `POST ${COMMENTS}`,
    reply,
    { content: { raw } },
  ];

  const ADDRESS = 'https://bitbucket.org/acme/api/pull-requests/12';
  const sha = '0123456789ab';
  const status = (state: 'success' | 'failure', url?: string) => (connection: Connected) =>
    connection.status.write(reference, { sha, state, text: 'linked to BUG-1', url }, signal);
  const build = (state: string, reply: Reply | number = { status: 201, body: {} }): Turn => [
    `POST ${AT}/commit/${sha}/statuses/build`,
    reply,
    { key: 'worksync/tasks', state, url: ADDRESS, name: 'worksync/tasks', description: 'linked to BUG-1' },
  ];

  conversations(PARTY, {
    'posts a comment once': [
      comment,
      [
        ...holds(
          { id: 1, user, content: { raw: 'looks good' } },
          { id: 2, user, deleted: true, content: { raw } },
          { id: 4, user: { uuid: WEB }, content: { raw: `> ${raw}` } },
        ),
        post(),
      ],
    ],
    'changes the one that is there': [
      comment,
      [
        ...holds({ id: 3, user, content: { raw: 'BUG-2 is linked\n\n[worksync:k]' } }),
        [`PUT ${COMMENTS}/3`, { body: { id: 3 } }, { content: { raw } }],
      ],
    ],
    'sets a status, and the address that Bitbucket insists on': [status('success'), [build('SUCCESSFUL')]],
    'sets a status with an address': [status('failure', ADDRESS), [build('FAILED')]],
  });
});
