import { bitbucket } from '../../../src/connectors/bitbucket/index.ts';
import type { Connector } from '../../../src/connectors/connector.ts';
import { actsIn, failing, type Reply, type Turn, type WritesProfile, written } from '../../support/vendors/course.ts';

const REPO = '{7d3f4c1a-52be-4a0e-9c61-0b8a6f2e9d10}';
const PLAIN = REPO.slice(1, -1).toUpperCase();
const [ADA, BOB, CY] = ['1', '2', '3'].map((n) => `{${n.repeat(8)}-1111-4111-8111-111111111111}`) as [
  string,
  string,
  string,
];
const REPOSITORY = { uuid: REPO, full_name: 'acme/api' };
const [ada, bob, cy] = [ADA, BOB, CY].map((uuid) => ({ uuid })) as [object, object, object];
const account = (uuid: string, display_name: string) => ({ uuid, display_name });
const PULL = {
  id: 12,
  updated_on: '2026-01-05T09:00:00.123456+00:00',
  created_on: '2026-01-05T09:00:00.123456+00:00',
  state: 'OPEN',
  title: 'A change',
  description: 'Text',
  draft: false,
  links: { html: { href: 'https://bitbucket.org/acme/api/pull-requests/12' } },
  author: account(ADA, 'Ada'),
  reviewers: [account(BOB, 'Bob'), account(CY, 'Cy')],
  source: { branch: { name: 'feature' }, commit: { hash: '0123456789ab' } },
  destination: { branch: { name: 'main' }, repository: REPOSITORY },
};
const BODY = {
  title: 'A change',
  description: 'Text',
  source: { branch: { name: 'feature' } },
  destination: { branch: { name: 'main' } },
};
const { has, open, edit } = actsIn(REPO);
const done = written(REPO);
const IT = done({ identifier: '12' });

const AT = `/repositories/acme/${encodeURIComponent(REPO)}`;
const WITHOUT_OWNER = `GET /repositories/%7B%7D/${encodeURIComponent(REPO)}`;
const FOUND: Turn = [`${WITHOUT_OWNER}?fields=uuid,full_name`, { body: REPOSITORY }];
const PULLS = `${AT}/pullrequests`;
const ONE = `${PULLS}/12`;
const said = (message: string, fields?: object, status = 400): Reply => ({
  status,
  body: { type: 'error', error: { message, ...(fields && { fields }) } },
});
const branches = (...names: string[]): Turn => [
  `GET ${AT}/refs/branches?*`,
  { body: { values: names.map((name) => ({ name })) } },
];
const standing = (...values: object[]): Turn => [`GET ${PULLS}?*`, { body: { values } }];
/** Where no open request for these branches is there. */
const TO_BE_OPENED = [FOUND, standing()];
const DEFAULTS = `GET ${AT}/effective-default-reviewers?*`;
const defaults = (...users: object[]): Turn => [
  DEFAULTS,
  { body: { values: users.map((user) => ({ type: 'default_reviewer', user })) } },
];
const makes = (reviewers: object[], reply: Reply | number = { status: 201, body: PULL }, more: object = {}): Turn => [
  `POST ${PULLS}`,
  reply,
  { ...BODY, ...more, reviewers },
];
const named = (of: object): Reply => ({ body: { ...PULL, ...of } });
const read = (of: object = {}): Turn => [`GET ${ONE}?*`, named(of)];
const puts = (sent: object | undefined, reply: Reply | number): Turn => [`PUT ${ONE}`, reply, sent];
const declines = (reply: Reply | number): Turn => [`POST ${ONE}/decline`, reply];

// printf 'ada@example.com:ATATT3x' | base64
const PERSON = { authorization: 'Basic YWRhQGV4YW1wbGUuY29tOkFUQVRUM3g=' };

const looking: WritesProfile['cases'] = [
  [
    'a branch is asked for by a query, so that a slash is no path',
    has('fix/one'),
    [
      FOUND,
      [
        `GET ${AT}/refs/branches?q=name = "fix/one"&pagelen=1&fields=values.name`,
        { body: { values: [{ name: 'fix/one' }] } },
      ],
    ],
    true,
  ],
  ['a branch is not there', has('fix/one'), [FOUND, branches()], false],
  [
    'a quote in a name ends nothing',
    has('a" OR name != "b'),
    [
      FOUND,
      [
        `GET ${AT}/refs/branches?q=name = "a\\" OR name != \\"b"&pagelen=1&fields=values.name`,
        { body: { values: [{ name: 'something else' }] } },
      ],
    ],
    false,
  ],
  [
    'looks into the fork where the branch names one',
    has('ada/api:feature'),
    [FOUND, ['GET /repositories/ada/api/refs/branches?*', { body: { values: [{ name: 'feature' }] } }]],
    true,
  ],
  ['a repository may be named without braces', has('x', { repoId: PLAIN }), [FOUND, branches()], false],
  [
    'a repository may be named by workspace/slug',
    has('x', { repoId: 'acme/api' }),
    [['GET /repositories/acme/api?*', { body: REPOSITORY }], branches()],
    false,
  ],
  [
    'an API token of a person goes with their e-mail address',
    has('main', { repoId: 'acme/api' }, { token: 'ada@example.com:ATATT3x' }),
    [
      ['GET /repositories/acme/api?*', { body: REPOSITORY }, undefined, PERSON],
      [`GET ${AT}/refs/branches?*`, { body: { values: [{ name: 'main' }] } }, undefined, PERSON],
    ],
    true,
  ],
  ['an unknown repository is not a missing branch', has('x'), [[`${WITHOUT_OWNER}?*`, 404]], failing('not_found')],
  [
    'another repository is not taken for the one that was asked for',
    has('x'),
    [[`${WITHOUT_OWNER}?*`, { body: { ...REPOSITORY, uuid: ADA } }]],
    failing('answer_malformed'),
  ],
  ...['../../user', 'acme', '{7d3f}', '12'].map(
    (repoId) =>
      [`no repository: ${repoId}`, has('main', { repoId }), [], failing('refused', 'validation_failed')] as const,
  ),
];

const opening: WritesProfile['cases'] = [
  [
    'creates, and answers with what Bitbucket made',
    open({ draft: true, reviewers: [BOB.slice(1, -1).toUpperCase(), CY] }),
    [...TO_BE_OPENED, makes([bob, cy], { status: 201, ...named({ draft: true }) }, { draft: true })],
    done({ identifier: '12', state: 'open', draft: true, author: ADA, reviewers: [BOB, CY] }),
  ],
  [
    'asks the default reviewers where none are named: the API alone would leave them out',
    open(),
    [...TO_BE_OPENED, defaults(account(BOB, 'Bob')), makes([bob])],
    IT,
  ],
  ['asks nobody where the list is empty', open({ reviewers: [] }), [...TO_BE_OPENED, makes([])], IT],
  ...[403, 404].map((status) => {
    const course = [...TO_BE_OPENED, [DEFAULTS, status] as const, makes([])];
    return [`opens without default reviewers where they may not be read: ${status}`, open(), course, IT] as const;
  }),
  [
    'a default reviewer who is the author is left out',
    open(),
    [
      ...TO_BE_OPENED,
      defaults(account(ADA, 'Ada'), account(BOB, 'Bob')),
      makes(
        [ada, bob],
        said('Bad request', { reviewers: ['Ada is the author and cannot be included as a reviewer.'] }),
      ),
      makes([bob]),
    ],
    IT,
  ],
  [
    'all default reviewers are left out where it is not said which one is wrong',
    open(),
    [
      ...TO_BE_OPENED,
      defaults(account(ADA, 'Ada'), account(BOB, 'Bob')),
      makes([ada, bob], said('Malformed reviewers list')),
      makes([]),
    ],
    IT,
  ],
  [
    'a reviewer who was asked for and is refused is told, and nothing is opened',
    open({ reviewers: [BOB] }),
    [...TO_BE_OPENED, makes([bob], said('reviewers: Bob is not a member of this workspace', { reviewers: ['…'] }))],
    failing('refused', 'validation_failed', 'not a member'),
  ],
  [
    'one that exists already is named, and not written over',
    open(),
    [
      FOUND,
      [
        `GET ${PULLS}?q=state = "OPEN" AND source.repository.full_name = "acme/api" AND source.branch.name = "feature" AND destination.branch.name = "main"&pagelen=1&fields=values.id,values.links.html.href`,
        { body: { values: [{ id: 9, links: { html: { href: 'https://bitbucket.org/acme/api/pull-requests/9' } } }] } },
      ],
    ],
    failing('refused', 'pull_request_exists', '#9 https://bitbucket.org/acme/api/pull-requests/9'),
  ],
  [
    'from a fork',
    open({ headBranch: 'ada/api:feature', reviewers: [] }),
    [
      FOUND,
      [
        `GET ${PULLS}?q=state = "OPEN" AND source.repository.full_name = "ada/api" AND source.branch.name = "feature" AND destination.branch.name = "main"&pagelen=1&fields=values.id,values.links.html.href`,
        { body: { values: [] } },
      ],
      makes([], undefined, { source: { branch: { name: 'feature' }, repository: { full_name: 'ada/api' } } }),
    ],
    IT,
  ],
  ...(
    [
      ['no_commits_between', said('There are no changes to be pulled')],
      ['branch_not_found', said('Bad request', { source: ['branch not found: feature'] })],
      ['branch_not_found', said('destination: branch not found: main')],
      ['validation_failed', said('title: This field is required.', { title: ['This field is required.'] })],
      ['validation_failed', { status: 400, body: { unexpected: true } }],
    ] as const
  ).map(([errorCode, reply]) => {
    const course = [...TO_BE_OPENED, makes([], reply)];
    return [
      `is ${errorCode} for ${JSON.stringify(reply)}`,
      open({ reviewers: [] }),
      course,
      failing('refused', errorCode),
    ] as const;
  }),
  ['may not be allowed', open({ reviewers: [] }), [...TO_BE_OPENED, makes([], 403)], failing('forbidden')],
  [
    'after a creation without an answer, takes the pull request that exists, and sends nothing again',
    open({ reviewers: [] }),
    [...TO_BE_OPENED, makes([], { isLost: true }), standing({ id: 12 }), read()],
    IT,
  ],
  ...[502, 555].map((status) => {
    const course = [...TO_BE_OPENED, makes([], status), standing()];
    return [
      `where nothing is there after ${status}, its outcome stays unknown`,
      open({ reviewers: [] }),
      course,
      failing('server_failed'),
    ] as const;
  }),
  ...[{ labels: ['bug'] }, { assignees: [ADA] }, { labels: [] }].map(
    (more) =>
      [
        `is not supported with ${JSON.stringify(more)}`,
        open(more),
        [],
        failing('refused', 'unsupported_field'),
      ] as const,
  ),
  [
    'a reviewer by name is not looked up',
    open({ reviewers: ['bob'] }),
    TO_BE_OPENED,
    failing('refused', 'validation_failed'),
  ],
];

const KEPT = { reviewers: [bob, cy] };
const { reviewers: _, ...UNREAD } = PULL;
const unchanged = [{}, { title: 'A change', draft: false, reviewers: [CY, BOB] }, { state: 'open' }];

const editing: WritesProfile['cases'] = [
  [
    'sends what differs, and the reviewers whole: left out they would be cleared',
    edit({ title: 'New', description: null, baseBranch: 'next', draft: false }),
    [
      FOUND,
      read(),
      puts(
        { title: 'New', description: '', destination: { branch: { name: 'next' } }, ...KEPT },
        named({ title: 'New' }),
      ),
    ],
    done({ title: 'New', reviewers: [BOB, CY] }),
  ],
  ...unchanged.map(
    (fields) =>
      [
        `changes nothing with ${JSON.stringify(fields)}, so writes nothing`,
        edit(fields),
        [FOUND, read()],
        done({ title: 'A change' }),
      ] as const,
  ),
  [
    'reviewers replace',
    edit({ reviewers: [CY] }),
    [FOUND, read(), puts({ reviewers: [cy] }, named({ reviewers: [account(CY, 'Cy')] }))],
    done({ reviewers: [CY] }),
  ],
  [
    'a kept reviewer who has left the workspace does not stop an edit',
    edit({ title: 'New' }),
    [
      FOUND,
      read(),
      puts({ title: 'New', ...KEPT }, said('Bad request', { reviewers: ['Cy is not a member of this workspace'] })),
      puts({ title: 'New', reviewers: [bob] }, named({ title: 'New' })),
    ],
    done({ title: 'New' }),
  ],
  [
    'nothing is written where the reviewers cannot be read',
    edit({ title: 'New' }),
    [FOUND, [`GET ${ONE}?*`, { body: UNREAD }]],
    failing('answer_malformed'),
  ],
  ...[true, false].map((draft) => {
    const course = [FOUND, read({ draft: !draft }), puts({ draft, ...KEPT }, named({ draft }))];
    return [`draft ${draft}`, edit({ draft }), course, done({ draft })] as const;
  }),
  ...['closed', 'declined'].map((state) => {
    const course = [FOUND, read(), declines(named({ state: 'DECLINED' }))];
    return [`${state} declines`, edit({ state }), course, done({ state: 'declined' })] as const;
  }),
  [
    'after a refusal reads again what was written before it',
    edit({ title: 'New', state: 'declined' }),
    [FOUND, read(), puts(undefined, named({ title: 'New' })), declines(said('no', {}, 403)), read({ title: 'New' })],
    done({ title: 'New', state: 'open' }, failing('forbidden')),
  ],
  ...(
    [
      ['DECLINED', 'pull_request_declined'],
      ['SUPERSEDED', 'pull_request_declined'],
      ['MERGED', undefined],
    ] as const
  ).map(([state, errorCode]) => {
    return [
      `${state} is final`,
      edit({ state: 'open' }),
      [FOUND, read({ state })],
      failing('conflict', errorCode),
    ] as const;
  }),
  [
    'a request that was closed meanwhile is a conflict',
    edit({ title: 'New' }),
    [FOUND, read(), puts(undefined, said('Can only update an open pull request.'))],
    failing('conflict'),
  ],
  ...(
    [
      ['carried out', { title: 'New', state: 'DECLINED' }, undefined],
      ['not carried out', { title: 'New' }, failing('server_failed')],
    ] as const
  ).map(([what, after, left]) => {
    const course = [FOUND, read(), puts(undefined, named({ title: 'New' })), declines(555), read(after)];
    return [
      `a decline that timed out there, ${what}`,
      edit({ title: 'New', state: 'declined' }),
      course,
      done({ title: 'New' }, left),
    ] as const;
  }),
  [
    'an edit without an answer is looked for',
    edit({ title: 'New', reviewers: [CY] }),
    [FOUND, read(), puts(undefined, { isLost: true }), read({ title: 'New', reviewers: [account(CY, 'Cy')] })],
    done({ title: 'New' }),
  ],
  [
    'says that a base branch is missing',
    edit({ baseBranch: 'gone' }),
    [FOUND, read(), puts(undefined, said('Bad request', { destination: ['branch not found: gone'] }))],
    failing('refused', 'branch_not_found'),
  ],
  ...[{ state: 'merged' }, { labels: [] }, { assignees: [] }].map(
    (fields) =>
      [
        `${JSON.stringify(fields)} is not supported`,
        edit(fields),
        [],
        failing('refused', 'unsupported_field'),
      ] as const,
  ),
  [
    'an unknown pull request is not found',
    edit({ title: 'x' }),
    [FOUND, [`GET ${ONE}?*`, said('Not found', {}, 404)]],
    failing('not_found'),
  ],
];

export const profile: WritesProfile = {
  connector: bitbucket as Connector<never>,
  origin: 'https://api.bitbucket.org/2.0',
  access: { token: 'ATCTT3member', host: 'bitbucket.org' },
  authorization: 'Bearer ATCTT3member',
  cases: [...looking, ...opening, ...editing],
};
