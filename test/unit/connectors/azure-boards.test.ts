import { describe, expect, it } from 'vitest';
import { azureBoards } from '../../../src/connectors/azure-boards/index.ts';
import type { Connection } from '../../../src/connectors/connector.ts';
import type { WorkItem } from '../../../src/model/item.ts';
import {
  conversations,
  courseOf,
  exactly,
  failing,
  failure,
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
const ORIGIN = 'https://dev.azure.com/acme';
const ORGANIZATION = '9f2c1a7b-04d5-4c6f-8a90-b1e2d3c4f5a6';
const PROJECT = '6ce954b1-ce1f-45d1-b94d-e6bf2464ba2c';
const OTHER = '7ce954b1-ce1f-45d1-b94d-e6bf2464ba2c';
const V = 'api-version=7.1';
const given = { organization: 'acme', organizationId: ORGANIZATION, token: 'pat', projects: ['Website'] };
const PARTY = { connector: azureBoards, given, origin: ORIGIN };
const REPORT = `/Website/_apis/wit/reporting/workitemrevisions?${V}&includeDeleted=true&includeLatestOnly=true&includeIdentityRef=true&$expand=fields`;
const FIELDS =
  'System.ChangedDate,System.Title,System.Description,Microsoft.VSTS.TCM.ReproSteps,Microsoft.VSTS.Common.AcceptanceCriteria,System.State,System.WorkItemType,System.AssignedTo,System.CreatedBy,System.CreatedDate,System.Tags,System.TeamProject,Microsoft.VSTS.Common.Priority,Microsoft.VSTS.Common.ClosedDate,Microsoft.VSTS.Common.StateChangeDate';
const project: Turn = [`GET /_apis/projects/Website?${V}`, { body: { id: PROJECT, name: 'Website' } }];
const STATES = Object.entries({
  New: 'Proposed',
  Active: 'InProgress',
  Closed: 'Completed',
  Shipped: 'Completed',
  Cut: 'Removed',
}).map(([name, category]) => ({ name, category }));
const states = (type = 'Bug', reply: Reply | number = { body: { value: STATES } }, at = PROJECT): Turn => [
  `GET /${at}/_apis/wit/workitemtypes/${type}/states?${V}`,
  reply,
];
const OLD = '2025-12-01T00:00:00Z';
const revision = (id: number, state: string, changed = OLD, type = 'Bug') => ({
  ...{ id, rev: 3 },
  fields: { 'System.State': state, 'System.WorkItemType': type, 'System.ChangedDate': changed },
});
const key = `azure-boards:${ORGANIZATION}:issue:299`;
const reference = { kind: 'work_item' as const, key, locator: { id: '299', projectId: PROJECT } };
const started = { unit: 'Website', startedAt: '2026-01-05T09:00:00.000Z' };
const empty = { values: [], isLastBatch: true };
const poll =
  (more: object = {}) =>
  (connection: Connected) =>
    connection.poll({ ...started, ...more }, signal);

it.each([
  ['a personal token as a password', {}, ORIGIN, `Basic ${Buffer.from(':pat').toString('base64')}`],
  ['a token of Entra as a bearer', { token: undefined, accessToken: 't' }, ORIGIN, 'Bearer t'],
  ['nothing without either', { token: undefined }, ORIGIN, undefined],
  ['to the configured address', { apiUrl: 'http://127.0.0.1:9/acme/' }, 'http://127.0.0.1:9/acme', expect.any(String)],
])('sends %s', async (_, more, origin, authorization) => {
  const course: Turn[] = [[`GET ${REPORT}`, { body: empty }]];
  const { connection, requests } = courseOf(azureBoards, { ...given, ...more }, origin, course);
  await poll()(connection);
  expect(requests[0]?.headers?.['authorization']).toEqual(authorization);
});

it('waits after a good answer that asks for it', async () => {
  const path = `GET ${REPORT}&startDateTime=2026-01-05T07:50:00.000Z`;
  const slow = { headers: { 'retry-after': '30' }, body: empty };
  const { connection, clock } = courseOf(azureBoards, given, ORIGIN, [
    [path, slow],
    [path, { body: empty }],
  ]);
  const next = () => poll({ watermark: '2026-01-05T08:00:00.000Z' })(connection);
  expect(await next()).toMatchObject({ outcome: 'page' });
  expect(await failure(next())).toMatchObject({ code: 'rate_limited', retryAfter: 30_000 });
  await clock.advance(30_000);
  expect(await next()).toMatchObject({ outcome: 'page' });
});

describe('lists', () => {
  const read =
    (position: object = {}) =>
    async (connection: Connected) => {
      const page = (await poll(position)(connection)) as { body: Buffer };
      const found = JSON.parse(page.body.toString()) as { id: number; category?: string; project?: object }[];
      return { ...page, found: found.map(({ id, category }) => `${id} ${category}`), project: found[0]?.project };
    };
  const report = (body: object, more = '', headers: Record<string, string> = {}): Turn => [
    `GET ${REPORT}${more}`,
    { body, headers },
  ];
  const values = [
    revision(1, 'New'),
    revision(2, 'Closed'),
    revision(3, 'Cut'),
    revision(4, 'Closed', '2026-01-05T08:55:00Z'),
    revision(5, 'Unheard'),
  ];
  const wiql = `POST /${PROJECT}/_apis/wit/wiql?${V}&$top=10000`;
  const asked = (after: number) => ({
    query: `SELECT [System.Id] FROM WorkItems WHERE [System.TeamProject] = @project AND [System.Id] > ${after} ORDER BY [System.Id]`,
  });
  const many = Array.from({ length: 10_000 }, (_, at) => ({ id: at + 1 }));
  const named = (id: string, name: string) => ({ id, name });
  const projects = Array.from({ length: 100 }, (_, at) =>
    named(PROJECT.replace('6ce954b1', `${10_000_000 + at}`), `P${at}`),
  );
  const listed = (skip: number, value: readonly object[]): Turn => [
    `GET /_apis/projects?${V}&$top=100&$skip=${skip}`,
    { body: { value } },
  ];
  const sweep = (page?: string) => (connection: Connected) => connection.sweep('Website', page, signal);

  conversations(PARTY, {
    'of a first walk keep what is not done, and what changed since it began': [
      read(),
      [
        report({ values, isLastBatch: false, continuationToken: '5;5;3' }, '', {
          date: 'Mon, 05 Jan 2026 08:59:30 GMT',
        }),
        project,
        states(),
      ],
      { found: ['1 Proposed', '4 Completed', '5 undefined'], ...{ next: '5;5;3', newest: '2026-01-05T08:59:30.000Z' } },
    ],
    'reject an answer that names no next batch': [
      poll(),
      [report({ values: [], isLastBatch: false })],
      failing('answer_malformed'),
    ],
    'follow named projects and those of patterns, over all pages': [
      (connection) => connection.units(signal),
      [
        listed(0, projects),
        listed(100, [named(OTHER, 'Web Two'), named(PROJECT, 'Website'), named(ORGANIZATION, 'Web Old')]),
      ],
      exactly(['Website', OTHER]),
      { projects: ['Website', 'Web*'], exclude: ['Web Old'] },
    ],
    'of a sweep begin with id 0': [
      async (connection) => {
        const { keys, ...page } = await sweep()(connection);
        return { count: keys.length, ...page };
      },
      [project, [wiql, { body: { workItems: many } }, asked(0)]],
      exactly({ count: 10_000, next: '10000', containers: [PROJECT] }),
    ],
  });
});

describe('a comment', () => {
  const wanted = { marker: '<!-- worksync:acme -->', text: 'Tracked as BUG-12' };
  const text = 'Tracked as BUG-12<br><br>worksync:acme';
  const path = `/${PROJECT}/_apis/wit/workItems/299/comments`;
  const P = 'api-version=7.1-preview.4';
  const me: Turn = [
    'GET /_apis/connectionData?api-version=7.1-preview',
    { body: { instanceId: ORGANIZATION, authenticatedUser: { id: 'me' } } },
  ];
  const page = (comments: object[], token = '', next?: string): Turn => [
    `GET ${path}?${P}&$top=200${token}`,
    { body: { comments, ...(next && { continuationToken: next }) } },
  ];
  const by = (id: string, number: number, words: string) => ({ id: number, text: words, createdBy: { id } });
  const write = async (connection: Connected) => void (await connection.comment(reference, wanted, signal));

  conversations(PARTY, {
    'is updated in place on a later page, if it is our own': [
      write,
      [
        page([by('ada', 9, 'she quotes worksync:acme')], '', 'a'),
        me,
        page([by('me', 4, '<div>Tracked as BUG-11</div><div>worksync:acme</div>')], '&continuationToken=a'),
        [`PATCH ${path}/4?${P}`, { body: { id: 4 } }, { text }],
      ],
    ],
  });
});

describe('closing', () => {
  const path = '/_apis/wit/workitems/299';
  const item = (state: string, at = 'Website'): Turn => {
    const fields = { 'System.State': state, 'System.WorkItemType': 'Bug', 'System.TeamProject': at };
    return [`GET ${path}?${V}&fields=${FIELDS}`, { body: { id: 299, rev: 7, fields } }];
  };
  const set = (state: string, reply: Reply | number = { body: {} }): Turn => [
    `PATCH ${path}?${V}`,
    reply,
    [
      { op: 'test', path: '/rev', value: 7 },
      { op: 'add', path: '/fields/System.State', value: state },
    ],
    { 'content-type': 'application/json-patch+json' },
  ];
  const close = (connection: Connected) => connection.close(reference, signal);
  const active = [item('Active'), project, states()];

  conversations(PARTY, {
    'leaves a completed item as it is': [close, [item('Closed'), project, states()]],
    'sets the first completed state': [close, [...active, set('Closed')]],
    'is a conflict if the item has changed': [close, [...active, set('Closed', 412)], failing('conflict')],
  });
});

describe('service hooks', () => {
  const url = 'https://sync.example.com/webhooks/main/azure';
  const path = '/_apis/hooks/subscriptions';
  const EVENTS = ['commented', 'created', 'deleted', 'restored', 'updated'].map((verb) => `workitem.${verb}`);
  const idOf = (at: number) => `${at}d4e8a8a0-3c9b-4d51-9a5e-0b8d0a0c4f3e`.slice(0, 36);
  const standing = (more: (event: string) => object = () => ({})) =>
    EVENTS.map((eventType, at) => ({
      ...{ id: idOf(at), status: 'enabled', eventType, publisherInputs: { projectId: PROJECT } },
      consumerInputs: { url, basicAuthPassword: '********' },
      ...more(eventType),
    }));
  const body = (eventType: string) => ({
    ...{ publisherId: 'tfs', eventType, resourceVersion: '1.0', consumerId: 'webHooks' },
    ...{ consumerActionId: 'httpRequest', publisherInputs: { projectId: PROJECT } },
    consumerInputs: {
      ...{ url, basicAuthUsername: 'worksync', basicAuthPassword: 'S' },
      ...{ resourceDetailsToSend: 'minimal', messagesToSend: 'none', detailedMessagesToSend: 'none' },
    },
  });
  const list = (value: readonly object[]): readonly Turn[] => [
    project,
    [`GET ${path}?${V}&publisherId=tfs&consumerId=webHooks&consumerActionId=httpRequest`, { body: { value } }],
  ];
  const read = (connection: Connected) => connection.hooks.states(url, signal);
  const install = (connection: Connected) => connection.hooks.install(url, 'S', signal);
  const is = (state: string) => [{ subject: 'Website', state }];
  const puts = EVENTS.map((event, at): Turn => {
    return [`PUT ${path}/${idOf(at)}?${V}`, { body: {} }, { ...body(event), id: idOf(at) }];
  });
  const off = (event: string) => ({ status: event === 'workitem.created' ? 'disabledBySystem' : 'enabled' });

  conversations(PARTY, {
    'are active': [read, list(standing()), is('active')],
    'are disabled if one is switched off': [read, list(standing(off)), is('disabled')],
    'are absent if one is missing': [read, list(standing().slice(0, 4)), is('absent')],
    'are absent in another project': [
      read,
      list(standing(() => ({ publisherInputs: { projectId: OTHER } }))),
      is('absent'),
    ],
    'are registered one for each event': [
      install,
      [...list([]), ...EVENTS.map((event): Turn => [`POST ${path}?${V}`, { body: {} }, body(event)])],
      [{ subject: 'Website', outcome: 'created' }],
    ],
    'get the password again': [install, [...list(standing()), ...puts], [{ outcome: 'unchanged' }]],
  });
});

const { hook, fetched } = translationsOf({ connector: azureBoards, given: { ...given, projects: ['website'] } });
const item = fixture<{ fields: Json }>('azure-boards', 'workitems.get');
const updated = fixture<{ resource: Json }>('azure-boards', 'workitem.updated');
const itemWith = (fields: Json, more: Json = {}) =>
  itemOf(fetched('workitems.get', { ...item, fields: { ...item.fields, ...fields }, ...more }, { projects: ['*'] }));
const known = { outcome: 'references', references: [reference] };
const unjudged = (locator: object) => {
  return { outcome: 'references', references: [{ ...reference, locator: { ...locator, isFollowed: 'unknown' } }] };
};

describe('a work item', () => {
  const ADA = 'd291b0c4-a05c-4ea6-8df1-4b41d5f39eff';
  const BEN = '74a0ab46-8b2b-6e1d-a3b2-5c3f9d0e1f2a';
  const bug = {
    'System.Description': undefined,
    'Microsoft.VSTS.TCM.ReproSteps': '<div>Send 3 GB, see BUG-12</div>',
    'Microsoft.VSTS.Common.AcceptanceCriteria': 'It *arrives*.',
  };
  const CRITERIA = '\n\n## Acceptance criteria\n\nIt *arrives*.';
  const markdown = (field: string) => ({ multilineFieldsFormat: { [field]: 'markdown' } });
  const inMarkdown = markdown('Microsoft.VSTS.Common.AcceptanceCriteria');
  const empty = {
    'System.Description': undefined,
    'System.AssignedTo': undefined,
    'System.Tags': undefined,
    'Microsoft.VSTS.Common.Priority': undefined,
  };
  const NONE = { description: null, assignees: [], labels: [], priority: null };
  const url = (name: string) => `https://dev.azure.com/acme/${name}/_workitems/edit/299`;

  it('has every field that is mirrored', () => {
    const whole = itemWith({});
    expect(whole).toEqual({
      ...{ kind: 'work_item', key, connector: 'azure-boards', host: ORGANIZATION },
      ...{ containerId: PROJECT, containerName: 'Website', identifier: '299' },
      ...{ updatedAt: Date.UTC(2026, 2, 2, 9, 30, 0, 513), version: 2, url: url('Website') },
      title: 'Upload fails for files over 2 GB',
      description: 'Send a file of **3 GB**.\nSee [BUG-12](https://work.example.com/tasks/BUG-12).',
      ...{ state: 'in_progress', isDropped: false, closedAt: null, rawState: 'Active', type: 'Bug', priority: '2' },
      ...{ labels: ['backend', 'upload'], assignees: [BEN], author: ADA },
      emails: { [ADA]: 'ada@example.com', [BEN]: 'ben@example.com' },
      ...{ createdAt: '2026-03-02T08:00:00.117Z', isPublic: false },
    });
    expect(azureBoards.reference(whole)).toEqual(reference);
  });

  it.each<[string, Json, Partial<WorkItem>, Json?]>([
    ['empty where Azure leaves fields out', empty, NONE],
    ['gone if deleted', { 'System.IsDeleted': true }, { gone: true }],
    ['described by its repro steps', bug, { description: `Send 3 GB, see BUG-12${CRITERIA}` }, inMarkdown],
  ])('is %s', (_, fields, expected, more) => {
    expect(itemWith(fields, more)).toMatchObject(expected);
  });

  it('of an unknown category has no state', () => {
    expect(itemWith({}, { category: 'OfTomorrow' })).not.toHaveProperty('state');
  });

  it.each<[string, Json]>([
    ['a number', { id: 0 }],
    ['a project', { project: { id: '../../../1', name: 'x' } }],
  ])('without %s is malformed', (_, more) => {
    expect(() => fetched('workitems.get', { ...item, ...more })).toThrow(MALFORMED);
  });
});

describe('a webhook', () => {
  it.each(['created', 'updated', 'deleted', 'commented'])('%s has the work item fetched', (name) => {
    expect(hook('webhook', fixture('azure-boards', `workitem.${name}`))).toMatchObject(known);
  });

  it('takes the id of the revision, never of the update', () => {
    const { workItemId: _, revision, ...resource } = updated.resource;
    expect(() => hook('webhook', { ...updated, resource })).toThrow(MALFORMED);
    expect(hook('webhook', { ...updated, resource: { ...resource, revision } })).toMatchObject(known);
  });

  it.each([[undefined], [null], [{}], [{ project: null }]])('in the containers %j is judged after a fetch', (given) => {
    expect(hook('webhook', { ...updated, resourceContainers: given })).toEqual(unjudged({ id: '299' }));
  });
});
