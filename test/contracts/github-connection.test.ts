import { generateKeyPairSync } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import type { Connection } from '../../src/connectors/connector.ts';
import { github } from '../../src/connectors/github/index.ts';
import type { ItemReference } from '../../src/model/item.ts';
import {
  conversations,
  courseOf,
  exactly,
  failing,
  failure,
  itemsIn,
  type Reply,
  type Turn,
} from '../support/vendors/course.ts';

const { signal } = new AbortController();
const ORIGIN = 'https://api.github.com';
const PARTY = { connector: github, given: { token: 'ghp_x', repositories: ['acme/api'] }, origin: ORIGIN };
const WITH_ISSUES = { ...PARTY, given: { ...PARTY.given, issues: true } };
const connect = (course: readonly Turn[], more: object = {}) =>
  courseOf(github, { ...PARTY.given, ...more }, ORIGIN, course);

const URL_OF_HOOK = 'https://sync.example.com/webhooks/acme/api';
const REPOSITORY = { id: 70100, full_name: 'acme/api', archived: false, fork: false, has_issues: true };
const REPO = 'GET /repos/acme/api';
const FIND: Turn = [REPO, { body: REPOSITORY }];
const app = {
  id: 4711,
  privateKey: generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ type: 'pkcs1', format: 'pem' }),
  installationId: 66,
};
const AS_APP = { token: undefined, app };
const MINT: Turn = [
  'POST /app/installations/66/access_tokens',
  {
    status: 201,
    body: { token: 'ghs_one', expires_at: '2026-01-05T10:00:00Z' },
    headers: { date: 'Mon, 05 Jan 2026 09:00:00 GMT' },
  },
];
/** How an App shows itself where it needs no installation. */
const SIGNED = { authorization: /^Bearer ey/ };
const said = (message: string, status = 404): Reply => ({ status, body: { message } });
const linkTo = (target: string, rel = 'next') => ({ link: `<${ORIGIN}${target}>; rel="${rel}"` });

function issue(number: number, more: object = {}) {
  return {
    id: 880_000 + number,
    number,
    state: 'open',
    title: `Issue ${number}`,
    body: null,
    html_url: `https://github.com/acme/api/issues/${number}`,
    repository_url: 'https://api.github.com/repos/acme/api',
    user: { login: 'ada' },
    labels: [{ name: 'bug' }],
    assignees: [],
    created_at: '2026-01-01T00:00:00Z',
    updated_at: '2026-01-05T08:00:00Z',
    ...more,
  };
}

describe('the scope', () => {
  const units = (connection: Connection) => connection.units(signal);
  const ALL = 'GET /orgs/acme/repos?type=all&per_page=100';

  conversations(PARTY, {
    'asks for a user where no organisation has the name': [
      units,
      [
        ['GET /orgs/ada/repos?type=all&per_page=100', said('Not Found')],
        ['GET /users/ada/repos?type=owner&per_page=100', { body: [{ id: 1, full_name: 'ada/open' }] }],
        [
          'GET /user/repos?affiliation=owner,collaborator&per_page=100',
          {
            body: [
              { id: 1, full_name: 'ada/open' },
              { id: 2, full_name: 'ada/hidden' },
              { id: 3, full_name: 'bob/other' },
            ],
          },
        ],
      ],
      exactly(['1', '2']),
      { organizations: ['ada'], repositories: undefined },
    ],
    'of an App is what its installation contains': [
      units,
      [
        MINT,
        [
          'GET /installation/repositories?per_page=100',
          { body: { total_count: 1, repositories: [REPOSITORY] } },
          undefined,
          { authorization: 'Bearer ghs_one' },
        ],
      ],
      exactly(['70100']),
      { ...AS_APP, repositories: undefined },
    ],
    'of an owner who refuses is a unit that fails alone': [
      async (connection) => [
        await connection.units(signal),
        await failure(connection.poll({ unit: 'list:alpha/*', startedAt: '2026-01-05T09:00:00Z' }, signal)),
        await failure(connection.sweep('list:alpha/*', undefined, signal)),
        await failure(connection.history({ unit: 'list:alpha/*' }, signal)),
      ],
      [
        ['GET /orgs/alpha/repos?type=all&per_page=100', 403],
        ['GET /users/alpha/repos?type=owner&per_page=100', 403],
        ['GET /orgs/beta/repos?type=all&per_page=100', { body: [{ id: 1, full_name: 'beta/one' }] }],
      ],
      [['1', 'issues:1', 'list:alpha/*'], { code: 'forbidden' }, { code: 'forbidden' }, { code: 'forbidden' }],
      { repositories: ['alpha/*', 'beta/*'], issues: true },
    ],
  });

  it('lists owners over all pages, and keeps what it read: later for free', async () => {
    const names = ['api', 'attic', 'web', 'app', 'ant', 'a-old', 'a-fork'];
    const list = names.map((name, at) => {
      return { id: 100 + at, full_name: `acme/${name}`, archived: name === 'a-old', fork: name === 'a-fork' };
    });
    const path = (number: number) => `${ALL}${number === 1 ? '' : `&page=${number}`}`;
    const page = (number: number): Turn => [
      path(number),
      {
        body: list.slice(2 * number - 2, 2 * number),
        headers: {
          etag: `"${number}"`,
          ...(number < 4 && linkTo(`/organizations/9/repos?type=all&per_page=100&page=${number + 1}`)),
        },
      },
    ];
    const { connection, clock, rest } = connect([1, 2, 3, 4].map(page), {
      repositories: ['tools/cli', 'acme/a*'],
      exclude: ['acme/attic'],
    });
    expect(await connection.units(signal)).toEqual(['tools/cli', '100', '103', '104']);
    expect(await connection.units(signal)).toHaveLength(4);
    await clock.advance(16 * 60_000);
    for (const number of [1, 2, 3, 4]) rest.push([path(number), 304, undefined, { 'if-none-match': `"${number}"` }]);
    expect(await connection.units(signal)).toEqual(['tools/cli', '100', '103', '104']);
  });
});

describe('issues', () => {
  const LIST = '/repos/acme/api/issues?state=all&sort=updated&direction=desc&per_page=100';
  const CHANGED = `${LIST}&since=2026-01-04T23:50:00Z`;
  const position = { unit: 'issues:acme/api', watermark: '2026-01-05T00:00:00Z', startedAt: '2026-01-05T09:00:00Z' };

  it('are walked along the links and their cursors, without the pull requests in the list', async () => {
    const cursor = (count: number) => `${CHANGED}&after=Y3Vyc29y${count}&page=${count}`;
    const page = (count: number): Turn => [
      `GET ${count === 1 ? CHANGED : cursor(count)}`,
      {
        body: [issue(10 * count), issue(10 * count + 1, { pull_request: { url: 'x' } })],
        headers: {
          etag: `"${count}"`,
          date: 'Mon, 05 Jan 2026 10:00:00 GMT',
          ...(count < 3 && linkTo(cursor(count + 1).replace('/repos/acme/api', '/repositories/70100'))),
        },
      },
    ];
    const { connection } = connect([FIND, ...[1, 2, 3].map(page)], { issues: true });
    const read = [];
    for (let next: string | undefined, isFirst = true; isFirst || next !== undefined; isFirst = false) {
      const got = await connection.poll({ ...position, page: next }, signal);
      read.push([itemsIn(WITH_ISSUES, got).map(({ key }) => key), (got as { etag?: string }).etag]);
      next = (got as { next?: string }).next;
    }
    const key = (number: number) => `github:github.com:issue:${880_000 + number}`;
    expect(read).toEqual([
      [[key(10)], '"1"'],
      [[key(20)], undefined],
      [[key(30)], undefined],
    ]);
  });

  describe('one by one', () => {
    const key = 'github:github.com:issue:880013';
    const locator = { repoId: '70100', repository: 'acme/api', number: '13', id: '880013' };
    const reference: ItemReference = { kind: 'work_item', key, locator };
    const NAMED = 'GET /repos/acme/api/issues/13';
    const fetched = async (connection: Connection) =>
      itemsIn(WITH_ISSUES, await connection.fetch(reference, signal), 'fetch');

    conversations(WITH_ISSUES, {
      'are not gone when they were switched off': [
        fetched,
        [
          [NAMED, 410],
          ['GET /repositories/70100', { body: { ...REPOSITORY, has_issues: false } }],
        ],
        failing('feature_off'),
      ],
    });
  });
});

describe('sweep', () => {
  const list = (name: string, page = '') =>
    `/repos/acme/api/${name}?state=all&sort=created&direction=asc&per_page=100${page}`;
  const sweep = async (connection: Required<Connection>) => {
    const first = await connection.sweep('acme/api', undefined, signal);
    return first.next === undefined ? [first] : [first, await connection.sweep('acme/api', first.next, signal)];
  };
  const pullKey = (number: number) => `github:github.com:70100:pull:${number}`;

  conversations(PARTY, {
    'names every pull request of a repository, over all pages': [
      sweep,
      [
        FIND,
        [`GET ${list('pulls')}`, { body: [{ id: 1, number: 1 }], headers: linkTo(list('pulls', '&page=2')) }],
        [`GET ${list('pulls', '&page=2')}`, { body: [{ id: 2, number: 2 }] }],
      ],
      [
        { keys: [pullKey(1)], containers: ['70100'] },
        { keys: [pullKey(2)], containers: ['70100'] },
      ],
    ],
    'names both kinds from one list where issues are followed': [
      sweep,
      [FIND, [`GET ${list('issues')}`, { body: [issue(1), issue(2, { pull_request: { url: 'x' } })] }]],
      [{ keys: ['github:github.com:issue:880001', pullKey(2)], containers: ['70100'] }],
      { issues: true },
    ],
    'counts for nothing where an element cannot be read': [
      sweep,
      [FIND, [`GET ${list('pulls')}`, { body: [{ id: 1 }] }]],
      failing('answer_malformed'),
    ],
  });
});

const EVENTS = [
  'issue_comment',
  'pull_request',
  'pull_request_review',
  'pull_request_review_comment',
  'pull_request_review_thread',
];
const hook = (more: object = {}) => ({
  id: 31,
  name: 'web',
  active: true,
  events: EVENTS,
  config: { url: URL_OF_HOOK, content_type: 'json', insecure_ssl: '0', secret: '********' },
  ...more,
});
const HOOKS_LIST = 'GET /repos/acme/api/hooks?per_page=100';

describe('hooks', () => {
  const states = (connection: Required<Connection>) => connection.hooks.states(URL_OF_HOOK, signal);
  const install = (connection: Required<Connection>) => connection.hooks.install(URL_OF_HOOK, 's3cret', signal);
  const standing = (...hooks: object[]): Turn => [HOOKS_LIST, { body: hooks }];
  const wanted = { url: URL_OF_HOOK, content_type: 'json', insecure_ssl: '0', secret: 's3cret' };

  conversations(PARTY, {
    ...Object.fromEntries(
      [403, 404].map((status) => [
        `are unknown where the credential may not read them: ${status}`,
        [states, [[HOOKS_LIST, status]], [{ state: 'unknown', hint: expect.stringContaining('Webhooks') }]] as const,
      ]),
    ),
    'are registered where there is none': [
      install,
      [
        standing(),
        [
          'POST /repos/acme/api/hooks',
          { status: 201, body: hook({ events: [...EVENTS, 'issues'] }) },
          {
            name: 'web',
            active: true,
            events: [...EVENTS, 'issues'].toSorted((a, b) => a.localeCompare(b)),
            config: wanted,
          },
        ],
      ],
      [{ subject: 'acme/api', outcome: 'created', state: 'active' }],
      { issues: true },
    ],
    'their state and their events are mended': [
      install,
      [
        standing(hook({ active: false, events: ['push'] })),
        [
          'PATCH /repos/acme/api/hooks/31',
          { body: hook() },
          { active: true, events: ['push', ...EVENTS].toSorted((a, b) => a.localeCompare(b)), config: wanted },
        ],
      ],
      [{ outcome: 'updated', state: 'active' }],
    ],
    'of an organisation cover its repositories': [
      states,
      [
        ['GET /orgs/acme/repos?type=all&per_page=100', { body: [REPOSITORY] }],
        ['GET /orgs/acme/hooks?per_page=100', { body: [hook()] }],
        ['GET /repos/tools/cli/hooks?per_page=100', { body: [] }],
      ],
      [
        { subject: 'acme', state: 'active' },
        { subject: 'tools/cli', state: 'absent' },
      ],
      { organizations: ['acme'], repositories: ['acme/api', 'tools/cli', 'acme/x*'] },
    ],
  });
});

describe('redelivery', () => {
  const AT = '/repos/acme/api/hooks/31/deliveries';
  const LIST = `GET ${AT}?per_page=100`;
  const HOOKS: Turn = [HOOKS_LIST, { body: [hook()] }];
  let ids = 0;
  const attempt = (guid: string, status: string, hoursAgo: number, more: object = {}) => ({
    id: ++ids,
    guid,
    delivered_at: new Date(Date.UTC(2026, 0, 5, 9) - hoursAgo * 3_600_000).toISOString(),
    redelivery: false,
    status,
    status_code: status === 'OK' ? 202 : 503,
    event: 'pull_request',
    ...more,
  });
  const lost = attempt('lost', 'timed out', 5);
  /** Beyond what a number holds exactly, as ids of GitHub are. */
  const LARGE = '3804004623000000001';
  const early = attempt('early', 'timed out', 70);
  const twice = [attempt('twice', 'Invalid HTTP Response: 503', 1), attempt('twice', 'timed out', 6)] as const;
  const again = (id: unknown, reply: Reply | number = 202): Turn => [`POST ${AT}/${String(id)}/attempts`, reply];
  const round = (connection: Required<Connection>) => connection.redeliver(URL_OF_HOOK, undefined, signal);
  const redeliver = async (connection: Required<Connection>) => {
    const { requested, failure } = await round(connection);
    if (failure) throw failure;
    return requested;
  };
  const IN_APP: Turn = ['GET /app/hook/config', { body: hook().config }, undefined, SIGNED];

  conversations(PARTY, {
    'requests again what never arrived, and nothing else': [
      redeliver,
      [
        HOOKS,
        [
          LIST,
          {
            body: [
              twice[0],
              attempt('arrived later', 'OK', 2),
              attempt('arrived later', 'Invalid HTTP Response: 503', 3),
              lost,
              twice[1],
              attempt('fine', 'OK', 7),
              attempt('taken by its code', 'Accepted', 8, { status_code: 202 }),
              attempt('another event', 'timed out', 8, { event: 'push' }),
              ...[9, 10, 11].map((hour) => attempt('hopeless', 'timed out', hour)),
            ],
          },
        ],
        again(lost.id),
        again(twice[0].id),
      ],
      2,
    ],
    ...Object.fromEntries(
      [400, 404, 422].map((status) => [
        `gives up what GitHub will not send again: ${status}`,
        [redeliver, [HOOKS, [LIST, { body: [lost, early] }], again(early.id, status), again(lost.id)], 1] as const,
      ]),
    ),
    'reads the failures alone behind the first page': [
      redeliver,
      [
        HOOKS,
        [LIST, { body: [attempt('fine', 'OK', 1)], headers: linkTo(`${AT}?per_page=100&cursor=v1_1`) }],
        [LIST.replace('?', '?status=failure&'), { body: JSON.stringify([lost]).replace(/"id":\d+/, `"id":${LARGE}`) }],
        again(LARGE),
      ],
      1,
    ],
    'of an App authenticates as the App, and ignores deliveries of its other installations': [
      redeliver,
      [
        IN_APP,
        [
          'GET /app/hook/deliveries?per_page=100',
          {
            body: [
              lost,
              attempt('ours', 'timed out', 5, { id: 78, installation_id: 66 }),
              attempt('theirs', 'timed out', 4, { installation_id: 67 }),
            ],
          },
          undefined,
          SIGNED,
        ],
        ['POST /app/hook/deliveries/78/attempts', 202, undefined, SIGNED],
        [`POST /app/hook/deliveries/${lost.id}/attempts`, 202, undefined, SIGNED],
      ],
      2,
      AS_APP,
    ],
  });
});

describe('write-back', () => {
  const locator = { repoId: '70100', repository: 'acme/old-name', number: '13' };
  const ofPull: ItemReference = { kind: 'pull_request', key: 'github:github.com:70100:pull:13', locator };
  const ofIssue: ItemReference = { kind: 'work_item', key: 'k', locator: { ...locator, id: '880013' } };
  const OLD = 'GET /repos/acme/old-name';
  const FOUND: Turn = [OLD, { body: REPOSITORY }];
  const ME: Turn = ['GET /user', { body: { id: 77, login: 'worksync-bot' } }];
  const COMMENTS = '/repos/acme/api/issues/13/comments';
  const marker = '<!-- worksync:acme -->';
  const text = `Task ENG-1\n\n${marker}`;
  const comment = (id: number, body: string, user = 77) => ({ id, body, user: { id: user } });
  const listed = (...comments: object[]): Turn => [`GET ${COMMENTS}?per_page=100`, { body: comments }];
  const edits: Turn = ['PATCH /repos/acme/api/issues/comments/2', { body: {} }, { body: text }];
  const write =
    (reference = ofPull, words = text, isCorrection = false) =>
    (connection: Required<Connection>) =>
      connection.comment(reference, { marker, text: words, isCorrection }, signal);
  const sha = 'a'.repeat(40);
  const STATUS = `POST /repos/acme/api/statuses/${sha}`;
  const status = (connection: Required<Connection>) =>
    connection.status.write(ofPull, { sha, state: 'failure', text: 'linked to no task' }, signal);
  const close =
    (reference = ofIssue) =>
    (connection: Required<Connection>) =>
      connection.close(reference, signal);
  const ISSUE = '/repos/acme/api/issues/13';

  conversations(PARTY, {
    'updates its own comment': [
      write(),
      [FOUND, ME, listed(comment(1, `> ${text}`, 5), comment(2, `Old\n\n${marker}`), comment(3, text)), edits],
    ],
    'finds the repository by its id where its name belongs to another now': [
      write(),
      [
        [OLD, { body: { ...REPOSITORY, id: 4 } }],
        ['GET /repositories/70100', { body: REPOSITORY }],
        ME,
        listed(comment(2, text)),
      ],
    ],
    ...Object.fromEntries(
      (
        [
          [403, 'refused', 'Commit statuses: write'],
          [502, 'server_failed', ''],
        ] as const
      ).map(([refusal, code, hint]) => [
        `a status that is refused with ${refusal} is ${code}`,
        [
          status,
          [FOUND, [STATUS, refusal]],
          expect.objectContaining({ code, hint: expect.stringContaining(hint) }),
        ] as const,
      ]),
    ),
    'closes an issue as completed': [
      close(),
      [
        FOUND,
        [`GET ${ISSUE}`, { body: issue(13) }],
        [`PATCH ${ISSUE}`, {}, { state: 'closed', state_reason: 'completed' }],
      ],
    ],
    'does not close another issue that has the number now': [
      close(),
      [FOUND, [`GET ${ISSUE}`, { body: issue(13, { id: 5 }) }]],
      failing('not_found'),
    ],
    'never closes a pull request': [
      close(ofPull),
      [],
      expect.objectContaining({
        code: 'refused',
        errorCode: 'unsupported_field',
        hint: expect.stringContaining('issues'),
      }),
    ],
  });
});
