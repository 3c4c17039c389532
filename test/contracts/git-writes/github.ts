import type { Connector } from '../../../src/connectors/connector.ts';
import { github } from '../../../src/connectors/github/index.ts';
import { actsIn, failing, type Reply, type Turn, type WritesProfile, written } from '../../support/vendors/course.ts';
import { OPENED_PULL as PULL } from '../../support/vendors/github-payloads.ts';

const REPOSITORY = PULL.base.repo;
const { has, open, edit } = actsIn('70100');
const done = written('70100');
const IT = done({ identifier: '12' });

const FOUND: Turn = ['GET /repositories/70100', { body: REPOSITORY }];
const HIDDEN: Turn = ['GET /repositories/70100', 404];
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
const invalid = (...errors: object[]) => ({ status: 422, body: { message: 'Validation Failed', errors } });
const [bug, cy, bob, dan] = [{ name: 'bug' }, { login: 'cy' }, { login: 'bob' }, { login: 'dan' }];
const core = { slug: 'core' };

const branches: WritesProfile['cases'] = [
  [
    'a branch is there; a slash stays within its segment',
    has('fix/one'),
    [FOUND, ['GET /repos/acme/api/branches/fix%2Fone', { body: {} }]],
    true,
  ],
  ['a branch is not there', has('main'), [FOUND, ['GET /repos/acme/api/branches/main', 404]], false],
  [
    'a repository may be named by owner/name too',
    has('main', { repoId: 'acme/api' }),
    [
      ['GET /repos/acme/api', { body: REPOSITORY }],
      ['GET /repos/acme/api/branches/main', { body: {} }],
    ],
    true,
  ],
  ['an unknown repository is not a missing branch', has('main'), [HIDDEN], failing('not_found')],
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
    'tells of a refused reviewer, together with the pull request that was opened',
    open({ reviewers: ['eve'] }),
    [FOUND, makes(), [`POST ${REVIEWERS}`, { status: 422, body: { message: 'Only from collaborators.' } }]],
    done({ identifier: '12' }, failing('refused', 'validation_failed', 'eve')),
  ],
  [
    'tells of labels that GitHub silently ignores',
    open({ labels: ['bug'] }),
    [FOUND, makes(), [ISSUE, { body: { labels: [], assignees: [] } }]],
    done({ identifier: '12' }, failing('forbidden')),
  ],
  [
    'names an open pull request that exists already',
    open(),
    [
      FOUND,
      makes(
        invalid({
          resource: 'PullRequest',
          code: 'custom',
          message: 'A pull request already exists for acme:feature.',
        }),
      ),
      [LIST, { body: [{ number: 9, html_url: 'https://github.com/acme/api/pull/9' }] }],
    ],
    failing('refused', 'pull_request_exists', '#9 https://github.com/acme/api/pull/9'),
  ],
  ...(
    [
      ['no_commits_between', invalid({ code: 'custom', message: 'No commits between main and feature' })],
      ['branch_not_found', invalid({ resource: 'PullRequest', field: 'head', code: 'invalid' })],
      ['branch_not_found', invalid({ resource: 'PullRequest', field: 'base', code: 'invalid' })],
      ['validation_failed', invalid({ resource: 'PullRequest', field: 'title', code: 'missing_field' })],
      ['validation_failed', { status: 422, body: { message: 'Draft pull requests are not supported.' } }],
      ['validation_failed', { status: 422, body: { unexpected: true } }],
    ] as const
  ).map(([errorCode, reply]) => {
    return [
      `is ${errorCode} for ${JSON.stringify(reply)}`,
      open(),
      [FOUND, makes(reply)],
      failing('refused', errorCode),
    ] as const;
  }),
  ['may not be allowed', open(), [FOUND, makes(403)], failing('forbidden')],
  [
    'after a creation without an answer, takes the pull request that exists, and sends nothing again',
    open(),
    [FOUND, makes({ isLost: true }), [LIST, { body: [{ number: 12 }] }], read()],
    IT,
  ],
  [
    'after a creation without an answer, where none exists, leaves the outcome unknown',
    open(),
    [FOUND, makes(502), [LIST, { body: [] }]],
    failing('server_failed'),
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
  ['without fields writes nothing', edit({}), [FOUND, read()], done({ title: 'A change' })],
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
  [
    'sends no draft state that is there already',
    edit({ draft: true }),
    [FOUND, read({ draft: true })],
    done({ draft: true }),
  ],
  ...(
    [
      ['FORBIDDEN', 'forbidden'],
      ['NOT_FOUND', 'not_found'],
      ['RATE_LIMITED', 'rate_limited'],
      ['UNPROCESSABLE', 'refused'],
    ] as const
  ).map(([type, code]) => {
    const errors = [{ type, message: 'no' }];
    const course: Turn[] = [FOUND, read(), ['POST /graphql', { body: { data: null, errors } }]];
    return [`GraphQL says ${type} with status 200`, edit({ draft: true }), course, failing(code)] as const;
  }),
  [
    'after a refusal reads again what was written before it',
    edit({ title: 'New', labels: ['bug'] }),
    [FOUND, read(), [`PATCH ${ONE}`, named({})], [ISSUE, 403], read({ title: 'New' })],
    done({ title: 'New' }, failing('forbidden')),
  ],
  [
    'says that a base branch is missing',
    edit({ baseBranch: 'gone' }),
    [FOUND, read(), [`PATCH ${ONE}`, invalid({ field: 'base', code: 'invalid' })]],
    failing('refused', 'branch_not_found'),
  ],
  ['refuses to merge', edit({ state: 'merged' }), [], failing('refused', 'unsupported_field')],
  ['an unknown pull request is not found', edit({ title: 'x' }), [FOUND, [`GET ${ONE}`, 404]], failing('not_found')],
];

export const profile: WritesProfile = {
  connector: github as Connector<never>,
  origin: 'https://api.github.com',
  access: { token: 'ghp_member', host: 'github.com' },
  authorization: 'Bearer ghp_member',
  cases: [...branches, ...opening, ...editing],
};
