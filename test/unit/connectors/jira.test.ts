import { describe, expect, it } from 'vitest';
import type { Connection } from '../../../src/connectors/connector.ts';
import { adfOfText } from '../../../src/connectors/jira/adf.ts';
import { jira } from '../../../src/connectors/jira/index.ts';
import type { WorkItem } from '../../../src/model/item.ts';
import {
  conversations,
  courseOf,
  exactly,
  failing,
  itemOf,
  MALFORMED,
  type Reply,
  type Turn,
  translationsOf,
} from '../../support/vendors/course.ts';
import { fixture } from '../../support/vendors/model-providers/provider.ts';

type Json = Record<string, unknown>;
type Connected = Required<Connection>;

const { signal } = new AbortController();
const CLOUD = '11223344-a1b2-4b33-8444-def123456789';
const ORIGIN = 'https://acme.atlassian.net';
const FIELDS =
  'project,updated,summary,description,status,resolution,resolutiondate,statuscategorychangedate,priority,issuetype,assignee,reporter,creator,labels,created';
const given = { site: 'acme.atlassian.net', cloudId: CLOUD, email: 'sync@example.com', token: 'T', projects: ['ENG'] };
const PARTY = { connector: jira, given, origin: ORIGIN };
const search = (jql: string, fields: string, size: number, token = '') =>
  `GET /rest/api/3/search/jql?jql=${jql}&fields=${fields}&maxResults=${size}${token && `&nextPageToken=${token}`}`;
const locator = { issueId: '10023', projectId: '10008', issueKey: 'ENG-123' };
const reference = { kind: 'work_item' as const, key: `jira:${CLOUD}:issue:10023`, locator };
const started = { unit: 'ENG', startedAt: '2026-01-05T09:00:00.000Z' };
const BEGAN = Date.parse('2026-01-05T08:50:00.000Z');
const NOT_DONE = `project = "ENG" AND (statusCategory != Done OR updated >= ${BEGAN}) ORDER BY created ASC`;
const LAST: Reply = { body: { issues: [], isLast: true } };
const MORE: Reply = { body: { issues: [], nextPageToken: 'a', isLast: false } };

const GATEWAY = `https://api.atlassian.com/ex/jira/${CLOUD}`;
const BASIC = `Basic ${Buffer.from('sync@example.com:T').toString('base64')}`;

it.each([
  ['an API token to the site', {}, ORIGIN, BASIC],
  ['an OAuth token through the gateway', { email: undefined }, GATEWAY, 'Bearer T'],
  ['an API token with scopes through the gateway, if configured', { apiUrl: `${GATEWAY}/` }, GATEWAY, BASIC],
  ['no token if none is configured', { email: undefined, token: undefined }, ORIGIN, undefined],
])('sends %s', async (_, more, base, authorization) => {
  const course: Turn[] = [[search(NOT_DONE, FIELDS, 100), LAST]];
  const { connection, requests } = courseOf(jira, { ...given, ...more }, base, course);
  await connection.poll(started, signal);
  expect(requests[0]?.headers?.['authorization']).toBe(authorization);
});

describe('lists', () => {
  const since = '2026-01-01T00:00:00.000Z';
  const CHANGED = `project = "ENG" AND updated >= ${Date.parse(since)} ORDER BY updated DESC`;
  const COUNT = 'POST /rest/api/3/search/approximate-count';
  const ALL = 'project = "ENG" ORDER BY created ASC';
  const poll =
    (unit = 'ENG') =>
    (connection: Connected) =>
      connection.poll({ ...started, unit }, signal);
  const history =
    (page?: string, from: string | undefined = since) =>
    (connection: Connected) =>
      connection.history({ unit: 'ENG', since: from, ...(page && { page }) }, signal);
  const sweep = (connection: Connected) => connection.sweep('ENG', undefined, signal);
  const units = (connection: Connected) => connection.units(signal);
  const project = (id: number, key: string, archived = false) => ({ id: String(id), key, name: key, archived });
  const projects = (at: number, reply: Reply | number): Turn => [
    `GET /rest/api/3/project/search?startAt=${at}&maxResults=50&orderBy=key`,
    reply,
  ];
  const found = (reply: Reply | number = { body: { id: '10008', key: 'ENG' } }): Turn => [
    'GET /rest/api/3/project/ENG',
    reply,
  ];
  const key = (id: number) => `jira:${CLOUD}:issue:${id}`;

  conversations(PARTY, {
    'rejects a page that is not the last and names no next one': [
      poll(),
      [[search(NOT_DONE, FIELDS, 100), { body: { issues: [], isLast: false } }]],
      failing('answer_malformed'),
    ],
    'follows named projects and those of patterns, and keeps the list': [
      async (connection) => [await units(connection), await units(connection)],
      [
        projects(0, { body: { values: [project(1, 'APP'), project(2, 'ENG')], isLast: false } }),
        projects(2, {
          body: { values: [project(3, 'OLD', true), project(4, 'OPS'), project(5, 'SECRET')], isLast: true },
        }),
      ],
      exactly([
        ['ENG', '4', 'APP'],
        ['ENG', '4', 'APP'],
      ]),
      { projects: ['ENG', '*', 4], exclude: ['SECRET'] },
    ],
    'counts a backfill once': [
      history(),
      [
        [search(CHANGED, FIELDS, 100), MORE],
        [COUNT, { body: { count: 153 } }, { jql: CHANGED }],
      ],
      { next: 'a', total: 153 },
    ],
    'sweeps the ids of everything, for the project by its number': [
      async (connection) => [await sweep(connection), await connection.sweep('ENG', 'a', signal)],
      [
        found(),
        [search(ALL, 'id', 5000), { body: { issues: [{ id: '1' }, { id: '2' }], nextPageToken: 'a', isLast: false } }],
        found(),
        [search(ALL, 'id', 5000, 'a'), { body: { issues: [{ id: '3' }], isLast: true } }],
      ],
      exactly([
        { keys: [key(1), key(2)], containers: ['10008'], next: 'a' },
        { keys: [key(3)], containers: ['10008'] },
      ]),
    ],
    'sweeps no project with an issue that has no id': [
      sweep,
      [found(), [search(ALL, 'id', 5000), { body: { issues: [{}], isLast: true } }]],
      failing('answer_malformed'),
    ],
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
  const by = (accountId: string, id: number, text: string) => {
    return { id: String(id), body: adfOfText(text), author: { accountId } };
  };
  const project = (projectTypeKey: string): Turn => ['GET /rest/api/3/project/10008', { body: { projectTypeKey } }];
  const properties = [{ key: 'sd.public.comment', value: { internal: true } }];
  const post = (sent: object): Turn => [`POST ${path}`, { status: 201, body: { id: '9' } }, sent];
  const write = async (connection: Connected) => void (await connection.comment(reference, wanted, signal));

  conversations(PARTY, {
    'is internal in a service project': [write, [page(0, [], 0), project('service_desk'), post({ body, properties })]],
    'is not posted if the kind of the project is unknown': [
      write,
      [page(0, [], 0), ['GET /rest/api/3/project/10008', 404]],
      failing('not_found'),
    ],
    'is updated in place on a later page, if it is our own': [
      write,
      [
        page(0, [by('ada', 8, `she quotes ${words}`)], 2),
        me,
        page(1, [by('me', 7, `Tracked as BUG-11\n\n${words}`)], 2),
        project('software'),
        [`PUT ${path}/7?notifyUsers=false`, { body: { id: '7' } }, { body }],
      ],
    ],
  });
});

describe('closing', () => {
  const path = '/rest/api/3/issue/10023';
  const status = (key: string): Turn => [
    `GET ${path}?fields=status`,
    { body: { fields: { status: { statusCategory: { key } } } } },
  ];
  const to = (id: number, name: string, key: string, hasScreen = false) => {
    return { id: String(id), hasScreen, to: { name, statusCategory: { key } } };
  };
  const ways = (...transitions: object[]): Turn => [
    `GET ${path}/transitions?expand=transitions.fields`,
    { body: { transitions } },
  ];
  const go = (id: number, fields?: object, reply: Reply = { status: 204 }): Turn => [
    `POST ${path}/transitions`,
    reply,
    { transition: { id: String(id) }, ...(fields && { fields }) },
  ];
  const close = (fields?: object) => (connection: Connected) => connection.close(reference, signal, fields as never);
  const all = ways(
    to(11, 'To Do', 'new'),
    to(31, "Won't do", 'done', true),
    to(41, 'Done', 'done'),
    to(51, 'Live', 'done'),
  );
  const required = { name: 'Resolution', required: true };
  const asking = ways({
    ...to(61, 'Closed', 'done', true),
    fields: {
      resolution: required,
      customfield_10050: { name: 'Root cause', required: true, hasDefaultValue: false },
      priority: { name: 'Priority', required: true, hasDefaultValue: true },
      comment: { name: 'Comment', required: false },
    },
  });
  const fields = { resolution: { name: 'Done' }, customfield_10050: 'typo' };

  conversations(PARTY, {
    'leaves a done issue as it is': [close(), [status('done')]],
    'takes the configured status': [close(), [status('new'), all, go(51)], undefined, { completedStatus: 'live' }],
    'names the fields that the transition needs, and sends nothing': [
      close(),
      [status('new'), asking],
      expect.objectContaining({
        code: 'conflict',
        message: expect.stringContaining('needs resolution (Resolution), customfield_10050 (Root cause)'),
        hint: expect.stringContaining('writeBack.close.fields'),
      }),
    ],
    'sends the configured fields that the screen has': [
      close({ ...fields, customfield_99999: 'of another screen' }),
      [status('new'), asking, go(61, fields)],
    ],
  });
});

describe('webhooks at Jira', () => {
  const path = '/rest/webhooks/1.0/webhook';
  const url = 'https://sync.example.com/webhooks/main/jira';
  const wanted = (by = 'project = "ENG"') => ({
    ...{ name: 'worksync', url, excludeBody: false, enabled: true, secret: 'S' },
    events: ['comment', 'jira:issue'].flatMap((noun) =>
      ['created', 'deleted', 'updated'].map((verb) => `${noun}_${verb}`),
    ),
    filters: { 'issue-related-events-section': by },
  });
  const standing = (more: object = {}) => ({ ...wanted(), secret: undefined, self: `${ORIGIN}${path}/72`, ...more });
  const list = (...hooks: object[]): Turn => [`GET ${path}`, { body: hooks }];
  const other = standing({ url: 'https://elsewhere.example.com', self: `${ORIGIN}${path}/71` });
  const states = (connection: Connected) => connection.hooks.states(url, signal);
  const install = (connection: Connected) => connection.hooks.install(url, 'S', signal);
  const put: Turn = [`PUT ${path}/72`, { body: {} }, wanted()];
  const post = (by?: string): Turn => [`POST ${path}`, { status: 201, body: {} }, wanted(by)];
  const is = (state: string) => [{ subject: 'acme.atlassian.net', state }];
  const became = (outcome: string) => [{ outcome, state: 'active' }];

  conversations(PARTY, {
    'are active': [states, [list(other, standing())], is('active')],
    'are switched off': [states, [list(standing({ enabled: false }))], is('disabled')],
    'are unknown to a credential that may not read them': [states, [[`GET ${path}`, 403]], is('unknown')],
    'are registered': [install, [list(other), post()], became('created')],
    'get the secret again': [install, [list(standing()), put], became('unchanged')],
    'are switched on': [install, [list(standing({ enabled: false })), put], became('updated')],
    'are registered for all projects if there is a pattern': [
      install,
      [list(), post('')],
      became('created'),
      { projects: ['E*'] },
    ],
  });
});

const { hook, fetched } = translationsOf({
  connector: jira,
  given: { site: 'Acme.atlassian.net', cloudId: CLOUD.toUpperCase(), projects: ['eng'] },
});
const created = fixture('jira', 'issue_created');
const issue = created['issue'] as { fields: Json };
const rest = fixture<{ fields: Json }>('jira', 'issues.get');
const ofHook = (payload: unknown) => hook('webhook', payload);
const withFields = (fields: Json, more: object = {}) =>
  itemOf(fetched('issues.get', { ...rest, fields: { ...rest.fields, ...fields } }, more));
const status = (name: string, key: string) => ({ name, statusCategory: { key } });

describe('an issue', () => {
  const common = {
    ...{ kind: 'work_item', key: reference.key, connector: 'jira', host: CLOUD },
    ...{ containerId: '10008', containerName: 'ENG', identifier: 'ENG-123' },
    updatedAt: Date.UTC(2026, 2, 2, 8, 0, 0, 118),
    url: 'https://acme.atlassian.net/browse/ENG-123',
    title: 'Upload fails for files over 2 GB',
    description: null,
    ...{ state: 'open', isDropped: false, closedAt: null, rawState: 'To Do', type: 'Bug', priority: 'High' },
    labels: ['backend', 'upload'],
    assignees: ['557058:f58131cb-b67d-43c7-b30d-6b58d40bd077'],
    author: '5b10a2844c20165700ede21g',
    isBot: false,
    createdAt: '2026-03-02T08:00:00.118Z',
    phaseChangedAt: '2026-03-02T08:00:00.118Z',
  };

  it('of a webhook has every field but addresses', () => {
    expect(itemOf(ofHook(created))).toEqual(common);
  });

  it('of the API has its description as text, and the addresses that people show', () => {
    expect(itemOf(fetched('issues.get', rest))).toEqual({
      ...common,
      description: '### Steps\n\nSend a file of **3 GB**. See https://work.example.com/tasks/BUG-12.',
      emails: { '5b10a2844c20165700ede21g': 'ada@example.com' },
    });
  });

  it.each<[string, Json, Partial<WorkItem>, object?]>([
    ['open without a category', { status: status('Parked', 'undefined') }, { state: 'open', rawState: 'Parked' }],
    [
      'dropped by the resolution',
      { status: status('Done', 'done'), resolution: { name: 'obsolete' } },
      { isDropped: true },
      { dropped: ['Obsolete'] },
    ],
    ['of the creator if no reporter is shown', { reporter: undefined }, { author: '5b10a2844c20165700ede21g' }],
    ['of another offset', { updated: '2026-03-02T10:00:00.000-0730' }, { updatedAt: Date.UTC(2026, 2, 2, 17, 30) }],
    [
      'of another project, with the same key',
      { project: { id: '10011', key: 'OPS' } },
      { key: reference.key as never, containerId: '10011', containerName: 'OPS' },
      { projects: ['*'] },
    ],
  ])('is %s', (_, fields, expected, more) => {
    expect(withFields(fields, more)).toMatchObject(expected);
  });

  it.each<[string, Json, keyof WorkItem]>([
    ['an unknown category', { status: status('?', 'blocked') }, 'state'],
    ['an address that is none', { reporter: { accountId: 'a', emailAddress: '"?"' } }, 'emails'],
  ])('lacks what %s would tell', (_, fields, field) => {
    expect(withFields(fields)).not.toHaveProperty(field);
  });
});

describe('a webhook', () => {
  const { projectId, issueKey, issueId } = locator;
  const referenceTo = (more: object) => ({ outcome: 'references', references: [{ locator: { issueId, ...more } }] });
  const { issue: _, ...alone } = fixture('jira', 'comment_created');

  it('with a description has the issue fetched, because it is wiki text', () => {
    expect(ofHook(fixture('jira', 'issue_updated.described'))).toEqual({
      outcome: 'references',
      references: [reference],
    });
  });

  it.each<[string, object, object]>([
    ['key', { ...issue, key: 'ENG' }, { isFollowed: 'unknown' }],
    ['project', { ...issue, fields: { ...issue.fields, project: null } }, { isFollowed: 'unknown' }],
    ['time', { ...issue, fields: { ...issue.fields, updated: 'yesterday' } }, { projectId, issueKey }],
  ])('without a %s has the issue fetched', (_name, broken, expected) => {
    expect(ofHook({ ...created, issue: broken })).toMatchObject(referenceTo(expected));
  });

  it('without an id is malformed', () => {
    expect(() => ofHook({ ...created, issue: { ...issue, id: '../../../1' } })).toThrow(MALFORMED);
  });

  it.each(['comment_created', 'comment_updated', 'comment_deleted'])('%s has the issue fetched', (webhookEvent) => {
    const author = '557058:f58131cb-b67d-43c7-b30d-6b58d40bd077';
    const comment = { comment: { id: '10501', author, text: 'Same here with 2.5 GB.' } };
    const expected = {
      outcome: 'references',
      references: [reference],
      ...(webhookEvent !== 'comment_deleted' && comment),
    };
    expect(ofHook({ ...fixture('jira', 'comment_created'), webhookEvent })).toEqual(expected);
  });

  it.each([[undefined], [null], [{ id: '1' }], [{ id: '1', self: 'https://evil.example/issue/1/comment/../../../2' }]])(
    'about the comment %j without its issue is ignored',
    (comment) => {
      expect(ofHook({ ...alone, issue: null, comment })).toEqual({ outcome: 'ignored', reason: 'not_an_issue' });
    },
  );

  it('of a deleted issue takes the later of both times', () => {
    const deleted = fixture('jira', 'issue_deleted');
    expect(itemOf(ofHook(deleted))).toMatchObject({ updatedAt: 1772445600000, gone: true, identifier: 'ENG-123' });
    expect(itemOf(ofHook({ ...deleted, timestamp: 5 })).updatedAt).toBe(Date.parse('2026-03-02T09:30:00.512Z'));
  });

  it('of a move tells the former key', () => {
    const items = [
      { field: 'project', from: '10001', fromString: 'Operations', to: '10008', toString: 'Engineering' },
      { field: 'Key', from: null, fromString: 'OPS-7', to: null, toString: 'ENG-123' },
    ];
    const moved = itemOf(ofHook({ ...created, changelog: { id: '1', items } }));
    expect(moved).toMatchObject({ identifier: 'ENG-123', formerIdentifiers: ['OPS-7'] });
  });
});
