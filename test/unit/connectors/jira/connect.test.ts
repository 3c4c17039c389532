import { describe, expect, it } from 'vitest';
import { adfOfText } from '../../../../src/connectors/jira/adf.ts';
import { jira } from '../../../../src/connectors/jira/index.ts';
import { courseOf, failure, type Turn } from '../../../support/vendors/course.ts';

const { signal } = new AbortController();
const CLOUD = '11223344-a1b2-4b33-8444-def123456789';
const ORIGIN = 'https://acme.atlassian.net';
const FIELDS =
  'project,updated,summary,description,status,resolution,resolutiondate,statuscategorychangedate,priority,issuetype,assignee,reporter,creator,labels,created';
const given = { site: 'acme.atlassian.net', cloudId: CLOUD, email: 'sync@example.com', token: 'T', projects: ['ENG'] };
const connect = (course: readonly Turn[], more: object = {}, origin = ORIGIN) =>
  courseOf(jira, { ...given, ...more }, origin, course);
const search = (jql: string, fields: string, size: number, token = '') =>
  `GET /rest/api/3/search/jql?jql=${jql}&fields=${fields}&maxResults=${size}${token && `&nextPageToken=${token}`}`;
const reference = {
  kind: 'work_item' as const,
  key: `jira:${CLOUD}:issue:10023`,
  locator: { issueId: '10023', projectId: '10008', issueKey: 'ENG-123' },
};
const started = { unit: 'ENG', startedAt: '2026-01-05T09:00:00.000Z' };
const BEGAN = Date.parse('2026-01-05T08:50:00.000Z');
const NOT_DONE = `project = "ENG" AND (statusCategory != Done OR updated >= ${BEGAN}) ORDER BY created ASC`;

describe('requests', () => {
  it.each([
    ['an API token goes to the site', {}, ORIGIN, `Basic ${Buffer.from('sync@example.com:T').toString('base64')}`],
    [
      'an OAuth token goes through the gateway',
      { email: undefined },
      `https://api.atlassian.com/ex/jira/${CLOUD}`,
      'Bearer T',
    ],
    [
      'an API token with scopes does too, where that is configured',
      { apiUrl: `https://api.atlassian.com/ex/jira/${CLOUD}/` },
      `https://api.atlassian.com/ex/jira/${CLOUD}`,
      `Basic ${Buffer.from('sync@example.com:T').toString('base64')}`,
    ],
    ['nothing goes with them without a token', { email: undefined, token: undefined }, ORIGIN, undefined],
  ])('%s', async (_, more, base, authorization) => {
    const page = { body: { issues: [], isLast: true } };
    const { connection, requests } = connect([[search(NOT_DONE, FIELDS, 100), page]], more, base);
    await connection.poll(started, signal);
    expect(requests[0]?.headers?.['authorization']).toBe(authorization);
  });

  it('a project by number stands without quotes', async () => {
    const jql = NOT_DONE.replace('"ENG"', '10008');
    const { connection } = connect([[search(jql, FIELDS, 100), { body: { issues: [], isLast: true } }]]);
    await expect(connection.poll({ ...started, unit: '10008' }, signal)).resolves.toMatchObject({ outcome: 'page' });
  });
});

describe('the first walk', () => {
  it('is malformed where the last page does not say so and names none', async () => {
    const { connection } = connect([[search(NOT_DONE, FIELDS, 100), { body: { issues: [], isLast: false } }]]);
    expect((await failure(connection.poll(started, signal)))?.code).toBe('answer_malformed');
  });

  it('keeps of a page what is read, and no more', async () => {
    const issue = { ...issueAt('2026-01-01T00:00:00.000+0000'), expand: 'names', self: 'https://x' };
    const { connection } = connect([[search(NOT_DONE, FIELDS, 100), { body: { issues: [issue], isLast: true } }]]);
    const page = await connection.poll(started, signal);
    if (page.outcome !== 'page') throw new Error(page.outcome);
    expect(JSON.parse(page.body.toString())).toEqual([issueAt('2026-01-01T00:00:00.000+0000')]);
  });
});

it('a refused list of projects keeps no named one from being followed', async () => {
  const listed: Turn = ['GET /rest/api/3/project/search?startAt=0&maxResults=50&orderBy=key', { status: 403 }];
  const { connection } = connect([listed], { projects: ['ENG', 'OPS*'] });
  expect(await connection.units(signal)).toEqual(['ENG', 'list:OPS*']);
  expect((await failure(connection.poll({ ...started, unit: 'list:OPS*' }, signal)))?.code).toBe('forbidden');
});

describe('units', () => {
  const project = (id: number, key: string, archived = false) => ({ id: String(id), key, name: key, archived });
  const page = (at: number, values: object[], isLast: boolean): Turn => [
    `GET /rest/api/3/project/search?startAt=${at}&maxResults=50&orderBy=key`,
    { body: { values, isLast } },
  ];

  it('are those that are named, and those that patterns take in', async () => {
    const { connection } = connect(
      [
        page(0, [project(1, 'APP'), project(2, 'ENG')], false),
        page(2, [project(3, 'OLD', true), project(4, 'OPS'), project(5, 'SECRET')], true),
      ],
      { projects: ['ENG', '*', 4], exclude: ['SECRET'] },
    );
    expect(await connection.units(signal)).toEqual(['ENG', '4', 'APP']);
    // Kept for a while.
    expect(await connection.units(signal)).toEqual(['ENG', '4', 'APP']);
  });

  it('cannot be told from a list that never ends', async () => {
    const { connection } = connect([page(0, [], false)], { projects: ['*'] });
    expect((await failure(connection.units(signal)))?.code).toBe('answer_malformed');
  });
});

describe('history', () => {
  const since = '2026-01-01T00:00:00.000Z';
  const jql = `project = "ENG" AND updated >= ${Date.parse(since)} ORDER BY updated DESC`;

  it('counts once, and goes from the newest back', async () => {
    const { connection } = connect([
      [search(jql, FIELDS, 100), { body: { issues: [], nextPageToken: 'a', isLast: false } }],
      ['POST /rest/api/3/search/approximate-count', { body: { count: 153 } }, { jql }],
      [search(jql, FIELDS, 100, 'a'), { body: { issues: [], isLast: true } }],
    ]);
    expect(await connection.history?.({ unit: 'ENG', since }, signal)).toMatchObject({ next: 'a', total: 153 });
    const last = await connection.history?.({ unit: 'ENG', since, page: 'a' }, signal);
    expect(last).toEqual({ event: 'issues.list', body: Buffer.from('[]') });
  });

  it.each([404, 410, 403, 429, 500])('reads its page also where the count is answered with %i', async (status) => {
    const { connection } = connect([
      [search(jql, FIELDS, 100), { body: { issues: [], nextPageToken: 'a', isLast: false } }],
      ['POST /rest/api/3/search/approximate-count', status],
    ]);
    const page = await connection.history?.({ unit: 'ENG', since }, signal);
    expect(page).toMatchObject({ event: 'issues.list', next: 'a' });
    expect(page).not.toHaveProperty('total');
  });

  it('without a beginning takes everything', async () => {
    const { connection } = connect([
      [search('project = "ENG" ORDER BY updated DESC', FIELDS, 100), { body: { issues: [], isLast: true } }],
      ['POST /rest/api/3/search/approximate-count', { body: {} }],
    ]);
    expect(await connection.history?.({ unit: 'ENG' }, signal)).not.toHaveProperty('total');
  });
});

describe('a sweep', () => {
  const jql = 'project = "ENG" ORDER BY created ASC';
  const projectOf: Turn = ['GET /rest/api/3/project/ENG', { body: { id: '10008', key: 'ENG' } }];

  it('lists the ids of everything, for the project by its number', async () => {
    const { connection } = connect([
      projectOf,
      [search(jql, 'id', 5000), { body: { issues: [{ id: '1' }, { id: '2' }], nextPageToken: 'a', isLast: false } }],
      projectOf,
      [search(jql, 'id', 5000, 'a'), { body: { issues: [{ id: '3' }], isLast: true } }],
    ]);
    const containers = ['10008'];
    const key = (id: number) => `jira:${CLOUD}:issue:${id}`;
    expect(await connection.sweep?.('ENG', undefined, signal)).toEqual({
      keys: [key(1), key(2)],
      containers,
      next: 'a',
    });
    expect(await connection.sweep?.('ENG', 'a', signal)).toEqual({ keys: [key(3)], containers });
  });

  it('says nothing about a project that it cannot read whole', async () => {
    const gone = connect([['GET /rest/api/3/project/ENG', { status: 404 }]]);
    expect((await failure(gone.connection.sweep?.('ENG', undefined, signal)))?.code).toBe('not_found');
    const odd = connect([projectOf, [search(jql, 'id', 5000), { body: { issues: [{}], isLast: true } }]]);
    expect((await failure(odd.connection.sweep?.('ENG', undefined, signal)))?.code).toBe('answer_malformed');
  });
});

describe('a comment', () => {
  const wanted = { marker: '<!-- worksync:acme -->', text: 'Tracked as BUG-12: https://work.example.com/t/12' };
  const words = 'worksync:acme';
  const body = adfOfText(`${wanted.text}\n\n${words}`);
  const path = '/rest/api/3/issue/10023/comment';
  const page = (at: number, comments: object[], total: number): Turn => [
    `GET ${path}?startAt=${at}&maxResults=100&orderBy=-created`,
    { body: { comments, total } },
  ];
  const me: Turn = ['GET /rest/api/3/myself', { body: { accountId: 'me' } }];
  const by = (accountId: string, id: number, text: string) => ({
    id: String(id),
    body: adfOfText(text),
    author: { accountId },
  });
  const project = (projectTypeKey: string): Turn => ['GET /rest/api/3/project/10008', { body: { projectTypeKey } }];
  const post = async (course: readonly Turn[], more: object = {}) => {
    const { connection } = connect(course, more);
    return failure(connection.comment?.(reference, wanted, signal));
  };

  it('is posted where none is', async () => {
    const made: Turn = [`POST ${path}`, { status: 201, body: { id: '9' } }, { body }];
    expect(await post([page(0, [by('ada', 7, 'hello')], 1), project('software'), made])).toBeUndefined();
  });

  it('is internal on a service project, unless customers may see it', async () => {
    const properties = [{ key: 'sd.public.comment', value: { internal: true } }];
    const made = (sent: object): Turn => [`POST ${path}`, { status: 201, body: { id: '9' } }, sent];
    expect(await post([page(0, [], 0), project('service_desk'), made({ body, properties })])).toBeUndefined();
    expect(await post([page(0, [], 0), made({ body })], { publicComments: true })).toBeUndefined();
    expect((await post([page(0, [], 0), ['GET /rest/api/3/project/10008', 404]]))?.code).toBe('not_found');
  });

  it('is updated in place, beyond the first page too', async () => {
    const course = [
      page(0, [by('ada', 8, `she quotes ${words}`)], 2),
      me,
      page(1, [by('me', 7, `Tracked as BUG-11\n\n${words}`)], 2),
      project('software'),
      [`PUT ${path}/7?notifyUsers=false`, { body: { id: '7' } }, { body }],
    ] as const;
    expect(await post(course)).toBeUndefined();
  });

  it('is left alone where it says the same', async () => {
    const same = by('me', 7, `${wanted.text}\n\n${words}`);
    expect(await post([page(0, [same], 1), me])).toBeUndefined();
  });

  it('is not posted where it cannot be told whether it is there', async () => {
    const { connection } = connect([[`GET ${path}?startAt=0&maxResults=100&orderBy=-created`, { body: {} }]]);
    expect((await failure(connection.comment?.(reference, wanted, signal)))?.code).toBe('answer_malformed');
  });
});

describe('closing', () => {
  const path = '/rest/api/3/issue/10023';
  const status = (key: string): Turn => [
    `GET ${path}?fields=status`,
    { body: { fields: { status: { statusCategory: { key } } } } },
  ];
  const to = (id: number, name: string, key: string, hasScreen = false) => ({
    id: String(id),
    hasScreen,
    to: { name, statusCategory: { key } },
  });
  const ways = (...transitions: object[]): Turn => [
    `GET ${path}/transitions?expand=transitions.fields`,
    { body: { transitions } },
  ];
  const go = (id: number): Turn => [`POST ${path}/transitions`, { status: 204 }, { transition: { id: String(id) } }];
  const closing = async (course: readonly Turn[], more: object = {}) => {
    const { connection } = connect(course, more);
    const error = await failure(connection.close?.(reference, signal));
    return error?.code;
  };
  const all = ways(
    to(11, 'To Do', 'new'),
    to(31, "Won't do", 'done', true),
    to(41, 'Done', 'done'),
    to(51, 'Live', 'done'),
  );

  it('leaves what is done as it is', async () => {
    expect(await closing([status('done')])).toBeUndefined();
  });

  it('takes a transition to done that asks nothing', async () => {
    expect(await closing([status('new'), all, go(41)])).toBeUndefined();
  });

  it('takes the configured status', async () => {
    expect(await closing([status('new'), all, go(51)], { doneStatus: 'live' })).toBeUndefined();
    expect(await closing([status('new'), all, go(31)], { doneStatus: "Won't do" })).toBeUndefined();
  });

  it('says so where the workflow leads nowhere', async () => {
    expect(await closing([status('new'), ways(to(11, 'To Do', 'new'))])).toBe('conflict');
    expect(await closing([status('new'), all], { doneStatus: 'Shipped' })).toBe('conflict');
  });

  const asking = {
    ...to(61, 'Closed', 'done', true),
    fields: {
      resolution: { name: 'Resolution', required: true },
      customfield_10050: { name: 'Root cause', required: true, hasDefaultValue: false },
      priority: { name: 'Priority', required: true, hasDefaultValue: true },
      comment: { name: 'Comment', required: false },
    },
  };

  it('names all fields that the transition asks for, and sends nothing', async () => {
    const { connection } = connect([status('new'), ways(asking)]);
    const error = await failure(connection.close?.(reference, signal, { resolution: { name: 'Done' } }));
    expect(error?.code).toBe('conflict');
    expect(error?.message).toContain('needs customfield_10050 (Root cause)');
    const { connection: another } = connect([status('new'), ways(asking)]);
    const all = await failure(another.close?.(reference, signal));
    expect(all?.message).toContain('needs resolution (Resolution), customfield_10050 (Root cause)');
    expect(all?.hint).toContain('writeBack.close.fields');
  });

  it('fills in the configured fields that the screen has', async () => {
    const fields = { resolution: { name: 'Done' }, customfield_10050: 'typo' };
    const sent = { transition: { id: '61' }, fields };
    const { connection } = connect([status('new'), ways(asking), [`POST ${path}/transitions`, { status: 204 }, sent]]);
    const given = { ...fields, customfield_99999: 'of another screen' };
    expect(await failure(connection.close?.(reference, signal, given))).toBeUndefined();
  });

  it('repeats nothing that was refused', async () => {
    const refused: Turn = [
      `POST ${path}/transitions`,
      { status: 400, body: { errors: { resolution: 'is required', customfield_10050: 'is required too' } } },
    ];
    const { connection } = connect([status('new'), all, refused]);
    const error = await failure(connection.close?.(reference, signal));
    expect(error?.code).toBe('refused');
    expect(error?.message).toContain('resolution: is required; customfield_10050: is required too');
  });
});

describe('webhooks at Jira', () => {
  const path = '/rest/webhooks/1.0/webhook';
  const url = 'https://sync.example.com/webhooks/main/jira';
  const filter = 'project = "ENG"';
  const events = [
    'comment_created',
    'comment_deleted',
    'comment_updated',
    'jira:issue_created',
    'jira:issue_deleted',
    'jira:issue_updated',
  ];
  const wanted = (by = filter) => ({
    name: 'worksync',
    url,
    events,
    filters: { 'issue-related-events-section': by },
    excludeBody: false,
    enabled: true,
    secret: 'S',
  });
  const standing = (more: object = {}) => ({ ...wanted(), secret: undefined, self: `${ORIGIN}${path}/72`, ...more });
  const list = (...hooks: object[]): Turn => [`GET ${path}`, { body: hooks }];
  const other = standing({ url: 'https://elsewhere.example.com', self: `${ORIGIN}${path}/71` });

  it.each<[string, object[], string]>([
    ['active', [other, standing()], 'active'],
    ['switched off', [standing({ enabled: false })], 'disabled'],
    ['absent', [other], 'absent'],
  ])('are looked at: %s', async (_, hooks, state) => {
    const { connection } = connect([list(...hooks)]);
    expect(await connection.hooks?.states(url, signal)).toMatchObject([{ subject: 'acme.atlassian.net', state }]);
  });

  it.each([401, 403, 404])('are unknown to those who get a %i', async (status) => {
    const { connection } = connect([[`GET ${path}`, { status }]]);
    expect(await connection.hooks?.states(url, signal)).toMatchObject([{ state: 'unknown' }]);
  });

  it.each<[string, object[], Turn, string, object]>([
    ['made', [other], [`POST ${path}`, { status: 201, body: {} }, wanted()], 'created', {}],
    ['told the secret again', [standing()], [`PUT ${path}/72`, { body: {} }, wanted()], 'unchanged', {}],
    ['switched on', [standing({ enabled: false })], [`PUT ${path}/72`, { body: {} }, wanted()], 'updated', {}],
    ['given all events', [standing({ events: [] })], [`PUT ${path}/72`, { body: {} }, wanted()], 'updated', {}],
    [
      'made for all projects, where patterns are configured',
      [],
      [`POST ${path}`, { status: 201, body: {} }, wanted('')],
      'created',
      { projects: ['E*'] },
    ],
  ])('are %s', async (_, hooks, turn, outcome, more) => {
    const { connection } = connect([list(...hooks), turn], more);
    expect(await connection.hooks?.install(url, 'S', signal)).toMatchObject([{ outcome, state: 'active' }]);
  });
});

describe('check', () => {
  const tenant: Turn = ['GET /_edge/tenant_info', { body: { cloudId: CLOUD } }];
  const me: Turn = ['GET /rest/api/3/myself', { body: { displayName: 'Sync', timeZone: 'Asia/Tokyo' } }];
  const jql = search('project = "ENG" ORDER BY created ASC', 'id', 1);
  const found = async (course: readonly Turn[], more: object = {}) => {
    const { connection } = connect(course, more);
    const findings = await connection.check(signal);
    return findings.map(({ level, subject }) => `${level} ${subject}`);
  };

  it('names the cloud id where another one is configured', async () => {
    const other = '99999999-a1b2-4b33-8444-def123456789';
    const { connection } = connect([['GET /_edge/tenant_info', { body: { cloudId: other } }], me]);
    expect((await connection.check(signal))[0]?.message).toContain(other);
  });

  it('says that a project has another key now, or is archived, or may not be searched', async () => {
    const project = (body: object): Turn => [
      'GET /rest/api/3/project/ENG',
      { body: { id: '10008', key: 'ENG', ...body } },
    ];
    const empty = { body: { issues: [], isLast: true } };
    const start = ['ok site', 'ok credential'];
    expect(await found([tenant, me, project({ key: 'ENGINE' }), [jql, empty]])).toEqual([...start, 'warning ENG']);
    expect(await found([tenant, me, project({ archived: true }), [jql, empty]])).toEqual([...start, 'warning ENG']);
    expect(await found([tenant, me, project({}), [jql, { status: 400 }]])).toEqual([...start, 'error ENG']);
  });

  it('warns without a token, and errs where a pattern takes nothing in', async () => {
    const none: Turn = [
      'GET /rest/api/3/project/search?startAt=0&maxResults=50&orderBy=key',
      { body: { values: [], isLast: true } },
    ];
    const more = { email: undefined, token: undefined, projects: ['*'] };
    expect(await found([tenant, none], more)).toEqual(['ok site', 'warning credential', 'error projects']);
  });
});

function issueAt(updated: string) {
  return { id: '10023', key: 'ENG-123', fields: { updated } };
}
