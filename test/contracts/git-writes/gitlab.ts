import { readFileSync } from 'node:fs';
import type { Connector } from '../../../src/connectors/connector.ts';
import { gitlab } from '../../../src/connectors/gitlab/index.ts';
import { actsIn, failing, type Reply, type Turn, type WritesProfile, written } from '../../support/vendors/course.ts';

const fixture = new URL('../../../src/connectors/gitlab/fixtures/merge_requests.get.json', import.meta.url);
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
/** What is looked at before a request is opened: both branches are there, and differ. */
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
const [ben, cho, dan, eve] = [person(302, 'ben'), person(303, 'cho'), person(304, 'dan'), person(9, 'eve')];
const looks = (username: string, ...found: object[]): Turn => [`GET /users?username=${username}`, { body: found }];
const ANOTHER = said(409, ['Another open merge request already exists for this source branch: !9']);

const looking: WritesProfile['cases'] = [
  ['a branch is there; a slash in its name is encoded', has('fix/one'), [branch('fix%2Fone')], true],
  ['404 means no, where the project is there', has('main'), [branch('main', 404), project()], false],
  [
    'an unknown project is not a missing branch',
    has('main'),
    [branch('main', 404), project(404)],
    failing('not_found'),
  ],
  [
    'a project may be named by its path',
    has('main', { repoId: 'acme/api' }),
    [branch('main', {}, '/projects/acme%2Fapi')],
    true,
  ],
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
    'an unknown reviewer refuses everything before anything is written',
    open({ reviewers: ['eve'] }),
    [...BEFORE, looks('eve')],
    failing('refused', 'validation_failed', '"eve"'),
  ],
  [
    'tells of a reviewer that GitLab silently ignores, together with what was opened',
    open({ reviewers: ['eve'] }),
    [...BEFORE, looks('eve', eve), makes(made())],
    done({ identifier: '12' }, failing('forbidden', undefined, 'eve')),
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
    'another conflict stays one',
    open(),
    [...BEFORE, makes(said(409, 'locked')), opened('main', { body: [] })],
    failing('conflict'),
  ],
  [
    'a missing base is told',
    open(),
    [branch('main', 404), project()],
    failing('refused', 'branch_not_found', 'baseBranch'),
  ],
  [
    'a missing head is told',
    open(),
    [branch('main'), commits(404)],
    failing('refused', 'branch_not_found', 'headBranch'),
  ],
  [
    'an empty difference is told',
    open(),
    [branch('main'), commits({ body: [] })],
    failing('refused', 'no_commits_between'),
  ],
  ...(
    [
      [400, { message: { title: ['is too long (maximum is 255 characters)'] } }, 'title is too long'],
      [400, { error: 'title is missing' }, 'title is missing'],
      [422, { message: ["You can't use same project/branch for source and target"] }, 'same project/branch'],
      [422, { unexpected: true }, 'status 422'],
    ] as const
  ).map(([status, body, words]) => {
    const course = [...BEFORE, makes({ status, body })];
    return [
      `${status} is told in the words of GitLab: ${words}`,
      open(),
      course,
      failing('refused', 'validation_failed', words),
    ] as const;
  }),
  ...(
    [
      [403, 'forbidden'],
      [301, 'refused'],
    ] as const
  ).map(
    ([status, code]) =>
      [`${status} is ${code}, and nothing is repeated`, open(), [...BEFORE, makes(status)], failing(code)] as const,
  ),
  [
    'an answer that is no merge request is malformed',
    open(),
    [...BEFORE, makes({ status: 201, body: '<html>' })],
    failing('answer_malformed'),
  ],
  [
    'after a creation without an answer, takes the pull request that exists, and sends nothing again',
    open(),
    [...BEFORE, makes({ isLost: true }), opened('main', { body: [own(12)] }), read()],
    IT,
  ],
  [
    'where nothing is there, its outcome stays unknown',
    open(),
    [...BEFORE, makes(502), opened('main', { body: [] })],
    failing('server_failed'),
  ],
  [
    'where it cannot be seen whether it is there, its outcome stays unknown',
    open(),
    [...BEFORE, makes({ isLost: true }), opened('main', 500)],
    failing('outcome_unknown'),
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
  [
    'qualifies ids by the host of a self-hosted server',
    open({ repoId: 'git.example.com:80200' }, { host: 'git.example.com' }),
    [...BEFORE, makes(made())].map(
      ([asked, ...rest]) => [asked.replace(' /', ' https://git.example.com/api/v4/'), ...rest] as const,
    ),
    written('git.example.com:80200')({ identifier: '12' }),
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
  [
    'who stays though they were taken away is told',
    edit({ reviewers: [] }),
    [read({ reviewers: [cho] }), puts(named({ reviewers: [cho] }), { reviewer_ids: [0] })],
    done({}, failing('forbidden', undefined, 'cho')),
  ],
  ...(
    [
      ['A change', { draft: true }, 'Draft: A change'],
      ['Draft: A change', { draft: false }, 'A change'],
      ['[Draft] draft: A change', { draft: false }, 'A change'],
      ['Draft: A change', { title: 'New' }, 'Draft: New'],
      ['Draft: A change', { title: 'New', draft: false }, 'New'],
      ['A change', { title: '(draft) New', draft: true }, '(draft) New'],
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
  [
    'what is closed is reopened',
    edit({ state: 'open' }),
    [read({ state: 'closed' }), puts(named(), { state_event: 'reopen' })],
    IT,
  ],
  [
    'what is merged stays so, and that is told',
    edit({ state: 'open' }),
    [read({ state: 'merged' }), puts(named({ state: 'merged' }), { state_event: 'reopen' })],
    done({ state: 'merged' }, failing('conflict')),
  ],
  [
    'towards a base that another open request has already: named',
    edit({ baseBranch: 'next' }),
    [read(), puts(ANOTHER, { target_branch: 'next' }), opened('next', { body: [own(7)] })],
    failing('refused', 'pull_request_exists', '!7'),
  ],
  ...(
    [
      ['and was carried out', { isLost: true }, named({ title: 'New' }), undefined],
      ['and was not', { isLost: true }, named(), failing('outcome_unknown')],
      ['and cannot be read', 503, 503, failing('server_failed')],
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
  ...(
    [
      [400, 'refused', 'validation_failed'],
      [422, 'refused', 'validation_failed'],
      [403, 'forbidden', undefined],
    ] as const
  ).map(([status, code, errorCode]) => {
    return [
      `${status} is ${code}`,
      edit({ title: 'x' }),
      [read(), puts(said(status, 'no'))],
      failing(code, errorCode),
    ] as const;
  }),
  ...['merged', 'declined'].map(
    (state) =>
      [`${state} is nothing that is set here`, edit({ state }), [], failing('refused', 'unsupported_field')] as const,
  ),
  ...['x', '0', '1/../2', ''].map(
    (identifier) =>
      [`no number: "${identifier}"`, edit({ identifier }), [], failing('refused', 'validation_failed')] as const,
  ),
  ['an unknown pull request is not found', edit({ title: 'x' }), [[`GET ${ONE}`, 404]], failing('not_found')],
];

export const profile: WritesProfile = {
  connector: gitlab as Connector<never>,
  origin: 'https://gitlab.com/api/v4',
  access: { token: 'glpat-member', host: 'gitlab.com' },
  authorization: 'Bearer glpat-member',
  cases: [...looking, ...opening, ...editing],
};
