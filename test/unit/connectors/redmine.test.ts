import { describe, expect, it } from 'vitest';
import type { Connection } from '../../../src/connectors/connector.ts';
import { redmine } from '../../../src/connectors/redmine/index.ts';
import type { WorkItem } from '../../../src/model/item.ts';
import {
  conversations,
  courseOf,
  exactly,
  failing,
  itemOf,
  itemsIn,
  type Reply,
  type Turn,
  translationsOf,
} from '../../support/vendors/course.ts';
import { fixture } from '../../support/vendors/model-providers/provider.ts';

type Connected = Required<Connection>;

const { signal } = new AbortController();
const ORIGIN = 'https://redmine.example.com';
const given = { url: ORIGIN, apiKey: 'K', projects: ['website'] };
const PARTY = { connector: redmine, given, origin: ORIGIN };
const OPEN = 'GET /issues.json?project_id=website&subproject_id=!*&status_id=open&sort=id&limit=100';
const ALL = OPEN.replace('open', '*');
const issue = (id: number, more: object = {}) => ({
  ...{ id, project: { id: 12, name: 'Website' }, status: { id: 1, name: 'New', is_closed: false } },
  ...{ updated_on: '2026-01-05T08:00:00Z', ...more },
});
const page = (issues: object[], total: number, date?: string): Reply => ({
  headers: { ...(date && { date }) },
  body: { issues, total_count: total, offset: 0, limit: 100 },
});
const project = (identifier = 'website', modules?: readonly string[]): Turn => {
  const enabled_modules = modules?.map((name, id) => ({ id, name }));
  const body = { project: { id: 12, identifier: 'website', name: 'Website', ...(modules && { enabled_modules }) } };
  return [`GET /projects/${identifier}.json?include=enabled_modules`, { body }];
};
const STATUSES = [
  { id: 1, name: 'New', is_closed: false },
  { id: 5, name: 'Closed', is_closed: true },
  { id: 6, name: 'Rejected', is_closed: true },
];
const statuses = (all: object[] = STATUSES): Turn => ['GET /issue_statuses.json', { body: { issue_statuses: all } }];
const me: Turn = ['GET /users/current.json', { body: { user: { id: 3, login: 'sync' } } }];
const started = { unit: 'website', startedAt: '2026-01-05T09:00:00.000Z' };
const keyOf = (id: number) => `redmine:redmine.example.com:issue:${id}`;
const locator = { issueId: '318', projectId: '12' };
const reference = { kind: 'work_item' as const, key: keyOf(318), locator };
const poll =
  (more: object = {}) =>
  (connection: Connected) =>
    connection.poll({ ...started, ...more }, signal);

it.each([
  [{}, 'K'],
  [{ apiKey: undefined }, undefined],
])('with %j sends the key %s in its own header', async (more, key) => {
  const { connection, requests } = courseOf(redmine, { ...given, ...more }, ORIGIN, [[OPEN, page([], 0)]]);
  await poll()(connection);
  expect(requests[0]?.headers?.['x-redmine-api-key']).toBe(key);
});

describe('lists', () => {
  const date = 'Mon, 05 Jan 2026 08:59:30 GMT';
  const watermark = '2026-01-05T08:30:00.000Z';
  const changed = ALL.replace('&sort', '&updated_on=>=2026-01-05T08:20:00Z&sort');
  const later = 'Mon, 05 Jan 2026 09:05:00 GMT';
  const two =
    (more: object = {}) =>
    async (connection: Connected) => {
      const first = await poll(more)(connection);
      return [first, await poll({ ...more, page: (first as { next?: string }).next })(connection)];
    };
  const many = Array.from({ length: 100 }, (_, at) => ({ id: at + 1, identifier: `p${at + 1}`, status: 1 }));
  const web = (id: number, name: string, status = 1) => ({ id, identifier: `web-${name}`, status });
  const projects = (offset: number, found: object[]): Turn => [
    `GET /projects.json?limit=100&offset=${offset}`,
    { body: { projects: found, total_count: 104 } },
  ];

  conversations(PARTY, {
    'of a first walk page by number, and begin the watermark at their start': [
      two(),
      [
        [OPEN, page([issue(3), issue(8)], 3, date)],
        // An issue that was closed meanwhile left the list: no offset is used.
        [`${OPEN}&issue_id=>=9`, page([issue(12)], 1, date)],
      ],
      [
        { next: `9@${Date.parse(date)}`, newest: '2026-01-05T08:59:30.000Z' },
        { newest: undefined, next: undefined },
      ],
    ],
    'of a later walk move the watermark no further than their start': [
      two({ watermark }),
      [
        [changed, page([issue(3, { updated_on: '2026-01-05T08:45:00Z' })], 2, date)],
        // Issue 3 may have changed once more after it was read, before 09:04.
        [`${changed}&issue_id=>=4`, page([issue(9, { updated_on: '2026-01-05T09:04:00Z' })], 1, later)],
      ],
      [{ newest: '2026-01-05T08:45:00.000Z' }, { newest: '2026-01-05T08:59:30.000Z' }],
    ],
    'reject a next page that repeats an issue': [
      poll({ page: '9@1' }),
      [[`${OPEN}&issue_id=>=9`, page([issue(3)], 1)]],
      failing('answer_malformed'),
    ],
    'follow named projects and those of patterns, over all pages': [
      (connection) => connection.units(signal),
      [projects(0, many), projects(100, [web(201, 'one'), web(202, 'two', 5), web(203, 'old', 9), web(204, 'secret')])],
      exactly(['website', '201', 'web-two']),
      { projects: ['website', 'web-*', 201], exclude: ['web-secret'] },
    ],
    'of a sweep contain the numbers of everything': [
      async (connection) => [
        await connection.sweep('website', undefined, signal),
        await connection.sweep('website', '9', signal),
      ],
      [project(), [ALL, page([issue(3), issue(8)], 3)], project(), [`${ALL}&issue_id=>=9`, page([issue(12)], 1)]],
      exactly([
        { keys: [keyOf(3), keyOf(8)], containers: ['12'], next: '9' },
        { keys: [keyOf(12)], containers: ['12'] },
      ]),
    ],
  });

  it.each(['x', '0@1', '1@', '5&issue_id=1', 'https://evil.example'])(
    'continue from no page such as %s',
    async (at) => {
      const { connection } = courseOf(redmine, given, ORIGIN, []);
      await expect(poll({ page: at })(connection)).rejects.toMatchObject({ code: 'internal' });
    },
  );

  it('request statuses that issues do not tell: at first, for a new one, and when they are old', async () => {
    const untold = (status: number): Turn => [OPEN, page([issue(1, { status: { id: status, name: 'x' } })], 1)];
    const { connection, clock } = courseOf(redmine, given, ORIGIN, [
      ...[untold(1), statuses(), untold(5), untold(9), statuses()],
      ...[untold(1), statuses(), [OPEN, page([issue(1)], 1)] as const],
    ]);
    const read = async () => JSON.parse(String(((await poll()(connection)) as { body: Buffer }).body)) as object;
    for (const _ of [1, 2, 3]) expect(await read()).toMatchObject({ statuses: STATUSES });
    await clock.advance(13 * 60_000);
    expect(await read()).toMatchObject({ statuses: STATUSES });
    expect(await read()).not.toHaveProperty('statuses');
  });
});

describe('a fetch', () => {
  const ONE = 'GET /issues/318.json';
  const unjudged = { ...reference, locator: { ...locator, isFollowed: 'unknown' } };
  const read =
    (wanted: object = reference) =>
    async (connection: Connected) =>
      itemsIn(PARTY, await connection.fetch({ ...reference, ...wanted }, signal), 'fetch');
  const moved: Turn = [ONE, { body: { issue: issue(318, { project: { id: 13, name: 'Other' } }) } }];
  const other = { id: 13, identifier: 'other', name: 'Other' };

  conversations(PARTY, {
    'ignores an issue that is now in a project that is not followed': [
      read(unjudged),
      [moved, ['GET /projects/13.json', { body: { project: other } }]],
      [],
    ],
    'of a hidden issue in a visible project says that it is gone': [
      read(unjudged),
      [[ONE, 403], project('12')],
      [{ key: reference.key, gone: true }],
    ],
    'of a hidden issue says nothing while issue tracking is switched off': [
      read(),
      [[ONE, 403], project('12', ['wiki'])],
      failing('feature_off'),
    ],
  });
});

describe('a comment', () => {
  const wanted = { marker: '<!-- worksync:acme -->', text: 'Tracked as BUG-12' };
  const path = '/issues/318.json';
  const notes = 'Tracked as BUG-12\n\nworksync:acme';
  const old = 'Tracked as BUG-11\r\n\r\nworksync:acme';
  const put = (text = notes): Turn => [`PUT ${path}`, { status: 204 }, { issue: { notes: text } }];
  const edit = (reply: Reply | number): Turn => ['PUT /journals/4.json', reply, { journal: { notes } }];
  const listed = (...journals: object[]): Turn => [
    `GET ${path}?include=journals`,
    { body: { issue: { ...issue(318), journals } } },
  ];
  const by = (user: number, text: string) => ({ id: 4, user: { id: user, name: 'x' }, notes: text });
  const write = async (connection: Connected) => void (await connection.comment(reference, wanted, signal));

  conversations(PARTY, {
    'is added if there is none': [write, [me, listed({ id: 1, notes: '' }), put()]],
    'is updated in place': [write, [me, listed(by(3, old)), edit({ status: 204 })]],
    'is not added twice if the server cannot edit notes': [write, [me, listed(by(3, old)), edit(404)]],
  });
});

describe('closing', () => {
  const path = '/issues/318.json';
  const at = (status: number, allowed?: number[]): Turn => {
    const allowed_statuses = STATUSES.filter(({ id }) => allowed?.includes(id));
    const body = { issue: issue(318, { status: { id: status, name: 'x' }, ...(allowed && { allowed_statuses }) }) };
    return [`GET ${path}?include=allowed_statuses`, { body }];
  };
  const put = (id: number, reply: Reply = { status: 204 }): Turn => [
    `PUT ${path}`,
    reply,
    { issue: { status_id: id } },
  ];
  const close = (connection: Connected) => connection.close(reference, signal);

  conversations(PARTY, {
    'leaves a closed issue as it is': [close, [statuses(), at(6)]],
    'takes the first closed status that the workflow allows': [close, [statuses(), at(1, [1, 6]), put(6), at(6)]],
    'is a conflict if the workflow allows no closed status': [close, [statuses(), at(1, [1])], failing('conflict')],
    'is a conflict if Redmine ignores the change': [close, [statuses(), at(1), put(5), at(1)], failing('conflict')],
  });
});

describe('an issue', () => {
  const { hook, fetched } = translationsOf({
    connector: redmine,
    given: { url: 'https://redmine.example.com/tracker/', projects: ['web*'] },
  });
  const whole = fixture<{ issue: object }>('redmine', 'issues.get').issue;
  const itemWith = (fields: object, more: object = {}) =>
    itemOf(fetched('issues.get', { issue: { ...whole, ...fields } }, more));
  const shown = (name: string, more: object = {}) => {
    const translation = fetched('issues.list', fixture('redmine', name), more);
    return translation.outcome === 'items' ? (translation.items as WorkItem[]) : [];
  };

  it('has every field that is mirrored', () => {
    expect(itemWith({})).toEqual({
      ...{ kind: 'work_item', key: keyOf(318), connector: 'redmine', host: 'redmine.example.com' },
      ...{ containerId: '12', containerName: 'Website', identifier: '#318', updatedAt: Date.UTC(2026, 2, 5, 9, 30) },
      url: 'https://redmine.example.com/tracker/issues/318',
      title: 'Upload fails for files over 2 GB',
      description:
        '### Steps\n\n- Send a file of **3 GB**.\n- See [the task](https://work.example.com/tasks/BUG-12).\n\n```ruby\nupload("*big*")\n```',
      ...{ state: 'in_progress', isDropped: false, closedAt: null, rawState: 'In Progress', type: 'Bug' },
      ...{ priority: 'High', assignees: ['9'], author: '7', createdAt: '2026-03-02T08:12:32Z' },
    });
    expect(redmine.reference(itemWith({}))).toEqual(reference);
  });

  const obsolete = { status: { id: 7, name: 'obsolete', is_closed: true } };
  const resolved = { status: { id: 3, name: 'Resolved', is_closed: false } };

  it.each<[string, object, Partial<WorkItem>, object?]>([
    ['closed', { status: { id: 5, name: 'In Progress', is_closed: true } }, { state: 'done' }],
    ['in progress by a configured name', resolved, { state: 'in_progress' }, { inProgress: ['resolved'] }],
    ['open', resolved, { state: 'open' }],
    ['dropped by a configured name', obsolete, { isDropped: true }, { dropped: ['Obsolete'] }],
    [
      'of nobody if people are left out',
      { assigned_to: undefined, author: undefined },
      { assignees: [], author: null },
    ],
  ])('is %s', (_, fields, expected, more) => {
    expect(itemWith(fields, more)).toMatchObject(expected);
  });

  it.each<[object, keyof WorkItem]>([[{ status: { id: 3, name: 'Resolved' } }, 'state']])(
    'with %j lacks %s',
    (fields, name) => {
      expect(itemWith(fields)).not.toHaveProperty(name);
    },
  );

  it('takes its state from the list of statuses if it does not tell', () => {
    expect(shown('issues.old-version').map(({ state }) => state)).toEqual(['done', 'open', undefined]);
    expect(shown('issues.old-version')[2]?.rawState).toBe('Of tomorrow');
  });

  it('that is private is gone without its content, unless configured', () => {
    const visible = (more?: object) => shown('issues.list', more).filter(({ gone }) => !gone);
    expect(visible().map(({ identifier }) => identifier)).toEqual(['#318', '#319']);
    expect(visible({ private: true })).toHaveLength(3);
    const one = (more?: object) => itemOf(fetched('issues.get', fixture('redmine', 'issues.private'), more));
    expect([one().gone, 'title' in one(), 'title' in one({ private: true })]).toEqual([true, false, true]);
  });

  it.each(['created', 'updated', 'deleted'])('of the webhook issue.%s is fetched and judged', (verb) => {
    const references = [{ ...reference, locator: { ...locator, isFollowed: 'unknown' } }];
    expect(hook('webhook', fixture('redmine', `issue.${verb}`))).toEqual({ outcome: 'references', references });
  });
});
