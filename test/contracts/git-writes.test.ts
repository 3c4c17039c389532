import { readFileSync } from 'node:fs';
import { describe } from 'vitest';
import { bitbucket } from '../../src/connectors/bitbucket/index.ts';
import type { Connector } from '../../src/connectors/connector.ts';
import { github } from '../../src/connectors/github/index.ts';
import { gitlab } from '../../src/connectors/gitlab/index.ts';
import {
  actsIn,
  failing,
  type Reply,
  type Turn,
  type WritesProfile,
  writings,
  written,
} from '../support/vendors/course.ts';
import { OPENED_PULL as PULL } from '../support/vendors/github-payloads.ts';

describe('github', () => {
  const REPOSITORY = PULL.base.repo;
  const { has, open, edit } = actsIn('70100');
  const done = written('70100');
  const IT = done({ identifier: '12' });

  const FOUND: Turn = ['GET /repositories/70100', { body: REPOSITORY }];
  const LIST = 'GET /repos/acme/api/pulls?head=acme:feature&base=main&state=open';
  const ONE = '/repos/acme/api/pulls/12';
  const REVIEWERS = `${ONE}/requested_reviewers`;
  const ISSUE = 'PATCH /repos/acme/api/issues/12';
  const named = (of: object): Reply => ({ body: { ...PULL, ...of } });
  const read = (of: object = {}): Turn => [`GET ${ONE}`, named(of)];
  const makes = (reply: Reply | number = { status: 201, body: PULL }, sent?: object): Turn => [
    'POST /repos/acme/api/pulls',
    reply,
    sent,
  ];
  const [bug, cy, bob, dan] = [{ name: 'bug' }, { login: 'cy' }, { login: 'bob' }, { login: 'dan' }];
  const core = { slug: 'core' };

  const branches: WritesProfile['cases'] = [
    [
      'a branch is there; a slash stays within its segment',
      has('fix/one'),
      [FOUND, ['GET /repos/acme/api/branches/fix%2Fone', { body: {} }]],
      true,
    ],
    ...['../../user', 'acme', 'other.example:1', '1e3'].map(
      (repoId) =>
        [`no repository: ${repoId}`, has('main', { repoId }), [], failing('refused', 'validation_failed')] as const,
    ),
  ];

  const extras = { labels: ['bug'], assignees: ['cy'], reviewers: ['bob', 'acme/core'] };
  const withExtras = { labels: [bug], assignees: [cy], requested_reviewers: [bob], requested_teams: [core] };

  const opening: WritesProfile['cases'] = [
    [
      'creates, and answers with what GitHub made',
      open({ draft: true }),
      [
        FOUND,
        makes(
          { status: 201, body: { ...PULL, draft: true } },
          { title: 'A change', head: 'feature', base: 'main', body: 'Text', draft: true },
        ),
      ],
      done({ identifier: '12', state: 'open', draft: true, author: 'ada' }),
    ],
    [
      'sets labels, assignees and reviewers through their own addresses',
      open(extras),
      [
        FOUND,
        makes(),
        [ISSUE, { body: { labels: [{ name: 'Bug' }], assignees: [cy] } }, { labels: ['bug'], assignees: ['cy'] }],
        [`POST ${REVIEWERS}`, { status: 201, ...named(withExtras) }, { reviewers: ['bob'], team_reviewers: ['core'] }],
        read(withExtras),
      ],
      done({ labels: ['bug'], assignees: ['cy'], reviewers: ['acme/core', 'bob'] }),
    ],
    [
      'after a creation without an answer, takes the pull request that exists, and sends nothing again',
      open(),
      [FOUND, makes({ isLost: true }), [LIST, { body: [{ number: 12 }] }], read()],
      IT,
    ],
    [
      'qualifies ids by the host of a self-hosted server',
      open({ repoId: 'ghe.example.com:70100' }, { host: 'ghe.example.com' }),
      [
        ['GET https://ghe.example.com/api/v3/repositories/70100', { body: REPOSITORY }],
        ['POST https://ghe.example.com/api/v3/repos/acme/api/pulls', { status: 201, body: PULL }],
      ],
      written('ghe.example.com:70100')({ identifier: '12' }),
    ],
  ];

  const drafts = (
    [
      [true, 'convertPullRequestToDraft'],
      [false, 'markPullRequestReadyForReview'],
    ] as const
  ).map(([draft, mutation]) => {
    const query = `mutation($id: ID!) { ${mutation}(input: {pullRequestId: $id}) { pullRequest { isDraft } } }`;
    const data = { [mutation]: { pullRequest: { isDraft: draft } } };
    const course: Turn[] = [
      FOUND,
      read({ draft: !draft }),
      ['POST /graphql', { body: { data } }, { query, variables: { id: 'PR_12' } }],
      read({ draft }),
    ];
    return [`draft ${draft} is the mutation ${mutation}`, edit({ draft }), course, done({ draft })] as const;
  });

  const editing: WritesProfile['cases'] = [
    [
      'sends title, description, base and state, and nothing that was not given',
      edit({ title: 'New', description: null, baseBranch: 'next', state: 'closed' }),
      [
        FOUND,
        read(),
        [`PATCH ${ONE}`, named({}), { title: 'New', body: '', base: 'next', state: 'closed' }],
        read({ title: 'New', state: 'closed' }),
      ],
      done({ title: 'New', state: 'closed' }),
    ],
    [
      'replaces reviewers: the missing are asked, the others are no longer',
      edit({ reviewers: ['bob', 'dan'] }),
      [
        FOUND,
        read({ requested_reviewers: [{ login: 'Bob' }, cy], requested_teams: [core] }),
        [`POST ${REVIEWERS}`, { status: 201, body: PULL }, { reviewers: ['dan'], team_reviewers: [] }],
        [`DELETE ${REVIEWERS}`, named({}), { reviewers: ['cy'], team_reviewers: ['core'] }],
        read({ requested_reviewers: [{ login: 'Bob' }, dan] }),
      ],
      done({ reviewers: ['Bob', 'dan'] }),
    ],
    ...drafts,
    ...(
      [
        ['FORBIDDEN', 'forbidden'],
        ['RATE_LIMITED', 'rate_limited'],
      ] as const
    ).map(([type, code]) => {
      const errors = [{ type, message: 'no' }];
      const course: Turn[] = [FOUND, read(), ['POST /graphql', { body: { data: null, errors } }]];
      return [`GraphQL says ${type} with status 200`, edit({ draft: true }), course, failing(code)] as const;
    }),
    ['refuses to merge', edit({ state: 'merged' }), [], failing('refused', 'unsupported_field')],
  ];
  writings({
    connector: github as Connector<never>,
    origin: 'https://api.github.com',
    access: { token: 'ghp_member', host: 'github.com' },
    authorization: 'Bearer ghp_member',
    cases: [...branches, ...opening, ...editing],
  });
});

describe('gitlab', () => {
  const fixture = new URL('../../src/connectors/gitlab/fixtures/merge_requests.get.json', import.meta.url);
  /** As GitLab shows one alone; nobody is named on it. */
  const MERGE_REQUEST = {
    ...(JSON.parse(readFileSync(fixture, 'utf8')) as object),
    ...{ title: 'A change', description: 'Text', source_branch: 'feature', labels: [], assignees: [], reviewers: [] },
  };
  const FIELDS = { source_branch: 'feature', target_branch: 'main', title: 'A change', description: 'Text' };
  const { has, open, edit } = actsIn('80200');
  const done = written('80200');
  const IT = done({ identifier: '12' });

  const PROJECT = '/projects/80200';
  const LIST = `${PROJECT}/merge_requests`;
  const ONE = `${LIST}/12`;
  const branch = (name: string, reply: Reply | number = { body: {} }, project = PROJECT): Turn => [
    `GET ${project}/repository/branches/${name}`,
    reply,
  ];
  const project = (reply: Reply | number = { body: {} }): Turn => [`GET ${PROJECT}`, reply];
  const commits = (reply: Reply | number = { body: [{ id: 'abc' }] }): Turn => [
    `GET ${PROJECT}/repository/commits?ref_name=main..feature&per_page=1`,
    reply,
  ];
  /** The checks before a request is opened: both branches exist and differ. */
  const BEFORE = [branch('main'), commits()];
  const opened = (target: string, reply: Reply | number): Turn => [
    `GET ${LIST}?state=opened&scope=all&source_branch=feature&target_branch=${target}`,
    reply,
  ];
  const own = (iid: number) => ({ iid, source_project_id: 80200, target_project_id: 80200 });
  const named = (of: object = {}): Reply => ({ body: { ...MERGE_REQUEST, ...of } });
  const made = (of: object = {}): Reply => ({ status: 201, ...named(of) });
  const makes = (reply: Reply | number, sent?: object): Turn => [`POST ${LIST}`, reply, sent];
  const read = (of: object = {}): Turn => [`GET ${ONE}`, named(of)];
  const puts = (reply: Reply | number, sent?: object): Turn => [`PUT ${ONE}`, reply, sent];
  const said = (status: number, message: unknown): Reply => ({ status, body: { message } });
  const person = (id: number, username: string) => ({ id, username, name: username });
  const [ben, cho, dan] = [person(302, 'ben'), person(303, 'cho'), person(304, 'dan')];
  const looks = (username: string, ...found: object[]): Turn => [`GET /users?username=${username}`, { body: found }];
  const ANOTHER = said(409, ['Another open merge request already exists for this source branch: !9']);

  const looking: WritesProfile['cases'] = [
    ['a branch is there; a slash in its name is encoded', has('fix/one'), [branch('fix%2Fone')], true],
    ['404 means no, where the project is there', has('main'), [branch('main', 404), project()], false],
    ['a branch may be named by its fork', has('ada/api:feature'), [branch('feature', {}, '/projects/ada%2Fapi')], true],
    ...(
      [
        ['../../user', 'main'],
        ['acme', 'main'],
        ['other.example:1', 'main'],
        ['80200', '../x:main'],
        ['80200', 'ada:main'],
      ] as const
    ).map(([repoId, name]) => {
      return [
        `no project with that branch: ${repoId}, ${name}`,
        has(name, { repoId }),
        [],
        failing('refused', 'validation_failed'),
      ] as const;
    }),
  ];

  const opening: WritesProfile['cases'] = [
    [
      'creates, and answers with what GitLab made; a draft is one by its title',
      open({ draft: true }),
      [...BEFORE, makes(made({ title: 'Draft: A change', draft: true }), { ...FIELDS, title: 'Draft: A change' })],
      done({ identifier: '12', state: 'open', draft: true, author: 'ada' }),
    ],
    [
      'names labels with commas, people by their numbers, each asked for once',
      open({ labels: ['bug', 'api'], assignees: ['Ben'], reviewers: ['ben', 'cho'] }),
      [
        ...BEFORE,
        looks('ben', ben),
        looks('cho', cho),
        makes(made({ labels: ['api', 'bug'], assignees: [ben], reviewers: [cho, ben] }), {
          ...FIELDS,
          ...{ labels: 'bug,api', assignee_ids: [302], reviewer_ids: [302, 303] },
        }),
      ],
      done({ labels: ['api', 'bug'], assignees: ['ben'], reviewers: ['ben', 'cho'] }),
    ],
    [
      'refuses a label with a comma, which would become two',
      open({ labels: ['a,b'] }),
      BEFORE,
      failing('refused', 'validation_failed'),
    ],
    [
      'one that exists already is named; one of a fork with the same branch is another',
      open(),
      [
        ...BEFORE,
        makes(ANOTHER),
        opened('main', {
          body: [
            { iid: 8, source_project_id: 5, target_project_id: 80200 },
            { ...own(9), web_url: 'https://gitlab.com/acme/api/-/merge_requests/9' },
          ],
        }),
      ],
      failing('refused', 'pull_request_exists', '!9 https://gitlab.com/acme/api/-/merge_requests/9'),
    ],
    [
      'where nothing is there, its outcome stays unknown',
      open(),
      [...BEFORE, makes(502), opened('main', { body: [] })],
      failing('server_failed'),
    ],
    [
      'from a fork it is opened there, towards the number of this project',
      open({ repoId: 'acme/api', headBranch: 'ada/api:feature' }),
      [
        branch('main', {}, '/projects/acme%2Fapi'),
        ['GET /projects/acme%2Fapi', { body: { id: 80200 } }],
        [
          'POST /projects/ada%2Fapi/merge_requests',
          made({ source_project_id: 5 }),
          { ...FIELDS, target_project_id: 80200 },
        ],
      ],
      IT,
    ],
  ];

  const editing: WritesProfile['cases'] = [
    [
      'sends what was given in one request, and nothing that was not',
      edit({ title: 'New', description: null, baseBranch: 'next', state: 'closed' }),
      [
        read(),
        puts(named({ title: 'New', state: 'closed', target_branch: 'next' }), {
          ...{ title: 'New', description: '', target_branch: 'next', state_event: 'close' },
        }),
      ],
      done({ title: 'New', state: 'closed', baseBranch: 'next' }),
    ],
    ...[{}, { state: 'open' }, { draft: false }].map(
      (given) =>
        [`writes nothing with ${JSON.stringify(given)}`, edit(given), [read()], done({ title: 'A change' })] as const,
    ),
    [
      'lists replace what is there; empty ones clear it',
      edit({ labels: [], assignees: [], reviewers: ['dan'] }),
      [
        read({ labels: ['old'], reviewers: [cho], assignees: [ben] }),
        looks('dan', dan),
        puts(named({ reviewers: [dan] }), { labels: '', assignee_ids: [0], reviewer_ids: [304] }),
      ],
      done({ labels: [], assignees: [], reviewers: ['dan'] }),
    ],
    ...(
      [
        ['A change', { draft: true }, 'Draft: A change'],
        ['[Draft] draft: A change', { draft: false }, 'A change'],
        ['Draft: A change', { title: 'New' }, 'Draft: New'],
      ] as const
    ).map(([title, given, sent]) => {
      const course = [read({ title }), puts(named({ title: sent }), { title: sent })];
      return [
        `"${title}" with ${JSON.stringify(given)} becomes "${sent}"`,
        edit(given),
        course,
        done({ title: sent }),
      ] as const;
    }),
    ...(
      [
        ['and was carried out', { isLost: true }, named({ title: 'New' }), undefined],
        ['and was not', { isLost: true }, named(), failing('outcome_unknown')],
      ] as const
    ).map(([what, reply, after, left]) => {
      const course: Turn[] = [read(), puts(reply), [`GET ${ONE}`, after]];
      return [
        `an edit that got no answer ${what} is not repeated`,
        edit({ title: 'New' }),
        course,
        done({ identifier: '12' }, left),
      ] as const;
    }),
    ...['x', '0', '1/../2', ''].map(
      (identifier) =>
        [`no number: "${identifier}"`, edit({ identifier }), [], failing('refused', 'validation_failed')] as const,
    ),
  ];
  writings({
    connector: gitlab as Connector<never>,
    origin: 'https://gitlab.com/api/v4',
    access: { token: 'glpat-member', host: 'gitlab.com' },
    authorization: 'Bearer glpat-member',
    cases: [...looking, ...opening, ...editing],
  });
});

describe('bitbucket', () => {
  const REPO = '{7d3f4c1a-52be-4a0e-9c61-0b8a6f2e9d10}';
  const [ADA, BOB, CY] = ['1', '2', '3'].map((n) => `{${n.repeat(8)}-1111-4111-8111-111111111111}`) as [
    string,
    string,
    string,
  ];
  const REPOSITORY = { uuid: REPO, full_name: 'acme/api' };
  const [bob, cy] = [BOB, CY].map((uuid) => ({ uuid })) as [object, object];
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
  const standing = (...values: object[]): Turn => [`GET ${PULLS}?*`, { body: { values } }];
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
    [
      'one that exists already is named, and not written over',
      open(),
      [
        FOUND,
        [
          `GET ${PULLS}?q=state = "OPEN" AND source.repository.full_name = "acme/api" AND source.branch.name = "feature" AND destination.branch.name = "main"&pagelen=1&fields=values.id,values.links.html.href`,
          {
            body: { values: [{ id: 9, links: { html: { href: 'https://bitbucket.org/acme/api/pull-requests/9' } } }] },
          },
        ],
      ],
      failing('refused', 'pull_request_exists', '#9 https://bitbucket.org/acme/api/pull-requests/9'),
    ],
    [
      'from a fork',
      open({ headBranch: 'ada/api:feature', reviewers: [] }),
      [
        FOUND,
        standing(),
        makes([], undefined, { source: { branch: { name: 'feature' }, repository: { full_name: 'ada/api' } } }),
      ],
      IT,
    ],
    [
      'no changes between the branches are told',
      open({ reviewers: [] }),
      [...TO_BE_OPENED, makes([], said('There are no changes to be pulled'))],
      failing('refused', 'no_commits_between'),
    ],
    [
      'a field that Bitbucket lacks is not supported, not even empty',
      open({ labels: [] }),
      [],
      failing('refused', 'unsupported_field'),
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
  ];
  writings({
    connector: bitbucket as Connector<never>,
    origin: 'https://api.bitbucket.org/2.0',
    access: { token: 'ATCTT3member', host: 'bitbucket.org' },
    authorization: 'Bearer ATCTT3member',
    cases: [...looking, ...opening, ...editing],
  });
});
