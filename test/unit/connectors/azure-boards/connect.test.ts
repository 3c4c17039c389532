import { describe, expect, it } from 'vitest';
import { azureBoards } from '../../../../src/connectors/azure-boards/index.ts';
import { courseOf, failure, type Reply, type Turn } from '../../../support/vendors/course.ts';

const { signal } = new AbortController();
const ORIGIN = 'https://dev.azure.com/acme';
const ORGANIZATION = '9f2c1a7b-04d5-4c6f-8a90-b1e2d3c4f5a6';
const PROJECT = '6ce954b1-ce1f-45d1-b94d-e6bf2464ba2c';
const OTHER = '7ce954b1-ce1f-45d1-b94d-e6bf2464ba2c';
const V = 'api-version=7.1';
const given = { organization: 'acme', organizationId: ORGANIZATION, token: 'pat', projects: ['Website'] };
const connect = (course: readonly Turn[], more: object = {}, origin = ORIGIN) =>
  courseOf(azureBoards, { ...given, ...more }, origin, course);
const REPORT = `/Website/_apis/wit/reporting/workitemrevisions?${V}&includeDeleted=true&includeLatestOnly=true&includeIdentityRef=true&$expand=fields`;
const FIELDS =
  'System.ChangedDate,System.Title,System.Description,Microsoft.VSTS.TCM.ReproSteps,Microsoft.VSTS.Common.AcceptanceCriteria,System.State,System.WorkItemType,System.AssignedTo,System.CreatedBy,System.CreatedDate,System.Tags,System.TeamProject,Microsoft.VSTS.Common.Priority,Microsoft.VSTS.Common.ClosedDate,Microsoft.VSTS.Common.StateChangeDate';
const project: Turn = [`GET /_apis/projects/Website?${V}`, { body: { id: PROJECT, name: 'Website' } }];
const STATES = [
  { name: 'New', category: 'Proposed' },
  { name: 'Active', category: 'InProgress' },
  { name: 'Closed', category: 'Completed' },
  { name: 'Shipped', category: 'Completed' },
  { name: 'Cut', category: 'Removed' },
];
const states = (type = 'Bug', reply: Reply = { body: { value: STATES } }): Turn => [
  `GET /${PROJECT}/_apis/wit/workitemtypes/${type}/states?${V}`,
  reply,
];
const revision = (id: number, state: string, changed: string, type = 'Bug') => ({
  id,
  rev: 3,
  fields: { 'System.State': state, 'System.WorkItemType': type, 'System.ChangedDate': changed },
});
const reference = {
  kind: 'work_item' as const,
  key: `azure-boards:${ORGANIZATION}:issue:299`,
  locator: { id: '299', projectId: PROJECT },
};
const started = { unit: 'Website', startedAt: '2026-01-05T09:00:00.000Z' };
const empty = { values: [], isLastBatch: true };

describe('requests', () => {
  it.each([
    ['a personal token is a password', {}, ORIGIN, `Basic ${Buffer.from(':pat').toString('base64')}`],
    ['a token of Entra is a bearer', { token: undefined, accessToken: 't' }, ORIGIN, 'Bearer t'],
    ['nothing goes with them without either', { token: undefined }, ORIGIN, undefined],
    ['another address', { apiUrl: 'http://127.0.0.1:9/acme/' }, 'http://127.0.0.1:9/acme', expect.any(String)],
  ])('%s', async (_, more, origin, authorization) => {
    const { connection, requests } = connect([[`GET ${REPORT}`, { body: empty }]], more, origin);
    await connection.poll(started, signal);
    expect(requests[0]?.headers?.['authorization']).toEqual(authorization);
  });

  it('wait after a good answer that asks for it', async () => {
    const watermark = '2026-01-05T08:00:00.000Z';
    const since = '2026-01-05T07:50:00.000Z';
    const slow = { headers: { 'retry-after': '30' }, body: empty };
    const path = `GET ${REPORT}&startDateTime=${since}`;
    const { connection, clock } = connect([
      [path, slow],
      [path, { body: empty }],
    ]);
    const position = { ...started, watermark };
    expect(await connection.poll(position, signal)).toMatchObject({ outcome: 'page' });
    const error = await failure(connection.poll(position, signal));
    expect([error?.code, error?.retryAfter]).toEqual(['rate_limited', 30_000]);
    await clock.advance(30_000);
    expect(await connection.poll(position, signal)).toMatchObject({ outcome: 'page' });
  });

  it('a page for signing in is a refused credential', async () => {
    const { connection } = connect([[`GET ${REPORT}`, { status: 203, body: '<html></html>' }]]);
    expect((await failure(connection.poll(started, signal)))?.code).toBe('unauthorized');
  });
});

describe('a walk', () => {
  const old = '2025-12-01T00:00:00Z';
  const itemsOf = async (
    course: readonly Turn[],
    position: Parameters<ReturnType<typeof connect>['connection']['poll']>[0],
  ) => {
    const { connection } = connect(course);
    const page = await connection.poll(position, signal);
    if (page.outcome !== 'page') throw new Error(page.outcome);
    return { ...page, items: JSON.parse(page.body.toString()) as { id: number; category?: string }[] };
  };

  it('the first one stores what is not done, and what changed since it began', async () => {
    const values = [
      revision(1, 'New', old),
      revision(2, 'Closed', old),
      revision(3, 'Cut', old),
      revision(4, 'Closed', '2026-01-05T08:55:00Z'),
      revision(5, 'Unheard', old),
    ];
    const headers = { date: 'Mon, 05 Jan 2026 08:59:30 GMT' };
    const body = { values, isLastBatch: false, continuationToken: '5;5;3' };
    const page = await itemsOf([[`GET ${REPORT}`, { headers, body }], project, states()], started);
    expect(page.items.map(({ id, category }) => [id, category])).toEqual([
      [1, 'Proposed'],
      [4, 'Completed'],
      [5, undefined],
    ]);
    expect(page).toMatchObject({ next: '5;5;3', newest: '2026-01-05T08:59:30.000Z' });
  });

  it('looks up each project and each type once, and lives with a type that is gone', async () => {
    const values = [revision(1, 'New', old), revision(2, 'New', old), revision(3, 'New', old, 'Epic')];
    const body = { values, isLastBatch: true };
    const course = [
      [`GET ${REPORT}&continuationToken=5;5;3`, { body }],
      project,
      states(),
      states('Epic', { status: 404 }),
    ] as const;
    const page = await itemsOf(course, { ...started, watermark: old, page: '5;5;3' });
    expect(page.items.map(({ category }) => category)).toEqual(['Proposed', 'Proposed', undefined]);
    expect(page.items[0]).toMatchObject({ project: { id: PROJECT, name: 'Website' } });
  });

  it('ends with an error where the states cannot be asked for', async () => {
    const body = { values: [revision(1, 'New', old)], isLastBatch: true };
    const { connection } = connect([[`GET ${REPORT}`, { body }], project, states('Bug', { status: 503 })]);
    expect((await failure(connection.poll(started, signal)))?.code).toBe('server_failed');
  });

  it.each([
    ['names no next batch', { values: [], isLastBatch: false }],
    ['is no batch', { values: {} }],
  ])('an answer that %s is malformed', async (_, body) => {
    const { connection } = connect([[`GET ${REPORT}`, { body }]]);
    expect((await failure(connection.poll(started, signal)))?.code).toBe('answer_malformed');
  });

  it('does not run in a circle, and goes on from no page that Azure could not have named', async () => {
    const body = { values: [], isLastBatch: false, continuationToken: '5' };
    const circle = connect([[`GET ${REPORT}&continuationToken=5`, { body }]]);
    expect((await failure(circle.connection.poll({ ...started, page: '5' }, signal)))?.code).toBe('answer_malformed');
    const foreign = connect([]);
    const error = await failure(foreign.connection.poll({ ...started, page: 'https://evil.example' }, signal));
    expect(error?.code).toBe('internal');
  });
});

it('units are those that are named, and those that patterns take in', async () => {
  const value = Array.from({ length: 100 }, (_, at) => ({
    id: PROJECT.replace('6ce954b1', String(10_000_000 + at)),
    name: `P${at}`,
  }));
  const more = [
    { id: OTHER, name: 'Web Two' },
    { id: PROJECT, name: 'Website' },
    { id: ORGANIZATION, name: 'Web Old' },
  ];
  const { connection } = connect(
    [
      [`GET /_apis/projects?${V}&$top=100&$skip=0`, { body: { value } }],
      [`GET /_apis/projects?${V}&$top=100&$skip=100`, { body: { value: more } }],
    ],
    { projects: ['Website', 'Web*'], exclude: ['Web Old'] },
  );
  for (const _ of [1, 2]) expect(await connection.units(signal)).toEqual(['Website', OTHER]);
});

it('history keeps what is done too', async () => {
  const since = '2026-01-01T00:00:00.000Z';
  const body = { values: [revision(2, 'Closed', since)], isLastBatch: false, continuationToken: 'a' };
  const { connection } = connect([
    [`GET ${REPORT}&startDateTime=${since}`, { body }],
    project,
    states(),
    [`GET ${REPORT}&continuationToken=a`, { body: empty }],
  ]);
  const page = await connection.history?.({ unit: 'Website', since }, signal);
  expect(page).toMatchObject({ event: 'workitems.list', next: 'a' });
  expect(JSON.parse(String(page?.body))).toMatchObject([{ id: 2, category: 'Completed' }]);
  const last = await connection.history?.({ unit: 'Website', since, page: 'a' }, signal);
  expect(last).toEqual({ event: 'workitems.list', body: Buffer.from('[]') });
});

it('a sweep lists the ids of everything, each page behind the one before', async () => {
  const asked = (after: number) =>
    `SELECT [System.Id] FROM WorkItems WHERE [System.TeamProject] = @project AND [System.Id] > ${after} ORDER BY [System.Id]`;
  const path = `POST /${PROJECT}/_apis/wit/wiql?${V}&$top=10000`;
  const many = Array.from({ length: 10_000 }, (_, at) => ({ id: at + 1, url: 'x' }));
  const { connection } = connect([
    project,
    [path, { body: { workItems: many } }, { query: asked(0) }],
    [path, { body: { workItems: [{ id: 12_345 }] } }, { query: asked(10_000) }],
    [path, { body: { workItems: [{ id: -1 }] } }],
  ]);
  const first = await connection.sweep?.('Website', undefined, signal);
  expect([first?.keys.length, first?.next, first?.containers]).toEqual([10_000, '10000', [PROJECT]]);
  const key = `azure-boards:${ORGANIZATION}:issue:12345`;
  expect(await connection.sweep?.('Website', '10000', signal)).toEqual({ keys: [key], containers: [PROJECT] });
  expect((await failure(connection.sweep?.('Website', undefined, signal)))?.code).toBe('answer_malformed');
  expect((await failure(connection.sweep?.('Website', '0 OR 1=1', signal)))?.code).toBe('internal');
});

it('a work item that was moved is found in its new project', async () => {
  const fields = { ...revision(299, 'Active', '2026-01-01T00:00:00Z').fields, 'System.TeamProject': 'Operations' };
  const { connection } = connect([
    [`GET /_apis/wit/workitems/299?${V}&fields=${FIELDS}`, { body: { id: 299, rev: 4, fields } }],
    [`GET /_apis/projects/Operations?${V}`, { body: { id: OTHER, name: 'Operations' } }],
    [`GET /${OTHER}/_apis/wit/workitemtypes/Bug/states?${V}`, { body: { value: STATES } }],
  ]);
  const { event, body } = await connection.fetch(reference, signal);
  const options = azureBoards.options.parse(given);
  expect(azureBoards.translate({ source: 'fetch', event, body }, options)).toMatchObject({
    outcome: 'items',
    items: [{ key: reference.key, containerId: OTHER, containerName: 'Operations', state: 'in_progress' }],
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
    { body: { comments, ...(next === undefined ? {} : { continuationToken: next }) } },
  ];
  const by = (id: string, number: number, words: string) => ({ id: number, text: words, createdBy: { id } });
  const run = async (course: readonly Turn[]) => {
    const { connection } = connect(course);
    return failure(connection.comment?.(reference, wanted, signal));
  };

  it('is posted where none is', async () => {
    expect(
      await run([page([by('me', 1, 'hello')]), [`POST ${path}?${P}`, { body: { id: 2 } }, { text }]]),
    ).toBeUndefined();
  });

  it('is updated in place, beyond the first page too, and only its own', async () => {
    const course = [
      page([by('ada', 9, 'she quotes worksync:acme')], '', 'a'),
      me,
      page([by('me', 4, '<div>Tracked as BUG-11</div><div>worksync:acme</div>')], '&continuationToken=a'),
      [`PATCH ${path}/4?${P}`, { body: { id: 4 } }, { text }],
    ] as const;
    expect(await run(course)).toBeUndefined();
  });

  it('is left alone where it says the same, however Azure spells it', async () => {
    const same = by('me', 4, '<div>Tracked as BUG-12<br>\n<br>\nworksync:acme</div>');
    expect(await run([page([same]), me])).toBeUndefined();
  });
});

describe('closing', () => {
  const path = '/_apis/wit/workitems/299';
  const item = (state: string): Turn => [
    `GET ${path}?${V}&fields=${FIELDS}`,
    {
      body: {
        id: 299,
        rev: 7,
        fields: { 'System.State': state, 'System.WorkItemType': 'Bug', 'System.TeamProject': 'Website' },
      },
    },
  ];
  const set = (state: string, reply: Reply = { body: {} }): Turn => [
    `PATCH ${path}?${V}`,
    reply,
    [
      { op: 'test', path: '/rev', value: 7 },
      { op: 'add', path: '/fields/System.State', value: state },
    ],
  ];
  const closing = async (course: readonly Turn[], more: object = {}) => {
    const { connection, requests } = connect(course, more);
    const error = await failure(connection.close?.(reference, signal));
    return { code: error?.code, last: requests.at(-1) };
  };

  it.each(['Closed', 'Cut'])('leaves what is %s as it is', async (state) => {
    expect((await closing([item(state), project, states()])).code).toBeUndefined();
  });

  it('sets the first completed state, or the configured one, by a patch', async () => {
    const { code, last } = await closing([item('Active'), project, states(), set('Closed')]);
    expect([code, last?.headers?.['content-type']]).toEqual([undefined, 'application/json-patch+json']);
    const configured = await closing([item('Active'), project, states(), set('Shipped')], { doneStatus: 'shipped' });
    expect(configured.code).toBeUndefined();
  });

  it('is refused where somebody was faster, and where there is no such state', async () => {
    expect((await closing([item('Active'), project, states(), set('Closed', { status: 412 })])).code).toBe('conflict');
    expect((await closing([item('Active'), project, states()], { doneStatus: 'Gone' })).code).toBe('conflict');
  });
});

describe('service hooks', () => {
  const url = 'https://sync.example.com/webhooks/main/azure';
  const path = '/_apis/hooks/subscriptions';
  const LIST = `GET ${path}?${V}&publisherId=tfs&consumerId=webHooks&consumerActionId=httpRequest`;
  const EVENTS = [
    'workitem.commented',
    'workitem.created',
    'workitem.deleted',
    'workitem.restored',
    'workitem.updated',
  ];
  const idOf = (at: number) => `${at}d4e8a8a0-3c9b-4d51-9a5e-0b8d0a0c4f3e`.slice(0, 36);
  const standing = (more: (event: string) => object = () => ({})) =>
    EVENTS.map((eventType, at) => ({
      id: idOf(at),
      status: 'enabled',
      eventType,
      publisherInputs: { projectId: PROJECT },
      consumerInputs: { url, basicAuthPassword: '********' },
      ...more(eventType),
    }));
  const body = (eventType: string) => ({
    publisherId: 'tfs',
    eventType,
    resourceVersion: '1.0',
    consumerId: 'webHooks',
    consumerActionId: 'httpRequest',
    publisherInputs: { projectId: PROJECT },
    consumerInputs: {
      url,
      basicAuthUsername: 'worksync',
      basicAuthPassword: 'S',
      resourceDetailsToSend: 'minimal',
      messagesToSend: 'none',
      detailedMessagesToSend: 'none',
    },
  });

  it.each<[string, object[], string]>([
    ['active', standing(), 'active'],
    ['on probation', standing(() => ({ status: 'onProbation' })), 'active'],
    ['without comments', standing().slice(1), 'active'],
    [
      'one switched off',
      standing((event) => ({ status: event === 'workitem.created' ? 'disabledBySystem' : 'enabled' })),
      'disabled',
    ],
    ['one missing', standing().slice(0, 4), 'absent'],
    ['of another project', standing(() => ({ publisherInputs: { projectId: OTHER } })), 'absent'],
    ['to another address', standing(() => ({ consumerInputs: { url: 'https://elsewhere.example.com' } })), 'absent'],
  ])('are looked at: %s', async (_, value, state) => {
    const { connection } = connect([project, [LIST, { body: { value } }]]);
    expect(await connection.hooks?.states(url, signal)).toMatchObject([{ subject: 'Website', state }]);
  });

  it('are made one for each event', async () => {
    const making = EVENTS.map((event): Turn => [`POST ${path}?${V}`, { body: {} }, body(event)]);
    const { connection } = connect([project, [LIST, { body: { value: [] } }], ...making]);
    expect(await connection.hooks?.install(url, 'S', signal)).toMatchObject([
      { subject: 'Website', outcome: 'created' },
    ]);
  });

  it.each<[string, string]>([
    ['enabled', 'unchanged'],
    ['disabledBySystem', 'updated'],
  ])('are told the password again: %s is %s', async (status, outcome) => {
    const telling = EVENTS.map(
      (event, at): Turn => [`PUT ${path}/${idOf(at)}?${V}`, { body: {} }, { ...body(event), id: idOf(at) }],
    );
    const value = standing(() => ({ status }));
    const { connection } = connect([project, [LIST, { body: { value } }], ...telling]);
    expect(await connection.hooks?.install(url, 'S', signal)).toMatchObject([{ outcome }]);
  });
});

describe('check', () => {
  const who = (instanceId: string, id = 'me'): Turn => [
    'GET /_apis/connectionData?api-version=7.1-preview',
    { body: { instanceId, authenticatedUser: { id, providerDisplayName: 'Sync' } } },
  ];
  const lines = async (course: readonly Turn[], more: object = {}) => {
    const { connection } = connect(course, more);
    const findings = await connection.check(signal);
    return findings.map(({ level, subject, message }) => `${level} ${subject}: ${message}`);
  };

  it('names the organisation where another id is configured', async () => {
    const found = await lines([who(OTHER)]);
    expect(found[1]).toBe(`error organisation: has the id ${OTHER}, not the configured one`);
  });

  it('reports a credential that is nobody, and a project that may not be read', async () => {
    const nobody = 'aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa';
    const types: Turn = [`GET /${PROJECT}/_apis/wit/workitemtypes?${V}`, { status: 403 }];
    const found = await lines([who(ORGANIZATION, nobody), project, types]);
    expect(found.map((line) => line.split(':')[0])).toEqual(['warning credential', 'ok organisation', 'error Website']);
  });
});
