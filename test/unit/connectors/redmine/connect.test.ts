import { describe, expect, it } from 'vitest';
import { redmine } from '../../../../src/connectors/redmine/index.ts';
import { courseOf, failure, type Turn } from '../../../support/vendors/course.ts';

const { signal } = new AbortController();
const ORIGIN = 'https://redmine.example.com';
const given = { url: ORIGIN, apiKey: 'K', projects: ['website'] };
const connect = (course: readonly Turn[], more: object = {}) =>
  courseOf(redmine, { ...given, ...more }, ORIGIN, course);

const OPEN = 'GET /issues.json?project_id=website&subproject_id=!*&status_id=open&sort=id&limit=100';
const ALL = OPEN.replace('open', '*');
const DOWN = ALL.replace('sort=id', 'sort=id:desc');
const changed = (since: string) => ALL.replace('&sort', `&updated_on=>=${since}&sort`);
const issue = (id: number, more: object = {}) => ({
  id,
  project: { id: 12, name: 'Website' },
  status: { id: 1, name: 'New', is_closed: false },
  updated_on: '2026-01-05T08:00:00Z',
  ...more,
});
const page = (issues: object[], total: number, headers: Record<string, string> = {}) => ({
  headers,
  body: { issues, total_count: total, offset: 0, limit: 100 },
});
const project = (identifier = 'website', modules?: readonly string[]): Turn => [
  `GET /projects/${identifier}.json?include=enabled_modules`,
  {
    body: {
      project: {
        ...{ id: 12, identifier: 'website', name: 'Website' },
        ...(modules && { enabled_modules: modules.map((name, id) => ({ id, name })) }),
      },
    },
  },
];
const STATUSES = [
  { id: 1, name: 'New', is_closed: false },
  { id: 5, name: 'Closed', is_closed: true },
  { id: 6, name: 'Rejected', is_closed: true },
];
const statuses: Turn = ['GET /issue_statuses.json', { body: { issue_statuses: STATUSES } }];
const me: Turn = ['GET /users/current.json', { body: { user: { id: 3, login: 'sync' } } }];
const started = { unit: 'website', startedAt: '2026-01-05T09:00:00.000Z' };
const reference = {
  kind: 'work_item' as const,
  key: 'redmine:redmine.example.com:issue:318',
  locator: { issueId: '318', projectId: '12' },
};

it('the key goes in its own header, and to no one else', async () => {
  const { connection, requests } = connect([[OPEN, page([], 0)]]);
  await connection.poll(started, signal);
  expect(requests[0]?.headers).toMatchObject({ 'x-redmine-api-key': 'K' });
  const anonymous = connect([[OPEN, page([], 0)]], { apiKey: undefined });
  await anonymous.connection.poll(started, signal);
  expect(anonymous.requests[0]?.headers).not.toHaveProperty('x-redmine-api-key');
});

it('without a key a project that is not public is refused alone: its 401 says nothing of the others', async () => {
  const { connection } = connect([[OPEN, 401], project()], { apiKey: undefined });
  expect((await failure(connection.poll(started, signal)))?.code).toBe('forbidden');
});

describe('a walk', () => {
  const date = 'Mon, 05 Jan 2026 08:59:30 GMT';

  it('the first takes open issues, each page from a number on, and begins the watermark at its start', async () => {
    const { connection } = connect([
      [OPEN, page([issue(3), issue(8)], 3, { date })],
      // What was closed meanwhile left the list: no offset, so nothing slipped.
      [`${OPEN}&issue_id=>=9`, page([issue(12)], 1, { date })],
    ]);
    const first = await connection.poll(started, signal);
    expect(first).toMatchObject({ next: `9@${Date.parse(date)}`, newest: '2026-01-05T08:59:30.000Z' });
    const next = (first as { next: string }).next;
    const last = await connection.poll({ ...started, page: next }, signal);
    expect(last).toMatchObject({ newest: undefined, next: undefined });
  });

  it('with a watermark moves it no further than its own beginning', async () => {
    const watermark = '2026-01-05T08:30:00.000Z';
    const asked = changed('2026-01-05T08:20:00Z');
    const { connection } = connect([
      [asked, page([issue(3, { updated_on: '2026-01-05T08:45:00Z' })], 2, { date })],
      [
        `${asked}&issue_id=>=4`,
        page([issue(9, { updated_on: '2026-01-05T09:04:00Z' })], 1, { date: 'Mon, 05 Jan 2026 09:05:00 GMT' }),
      ],
    ]);
    const first = await connection.poll({ ...started, watermark }, signal);
    expect(first).toMatchObject({ newest: '2026-01-05T08:45:00.000Z' });
    const next = (first as { next: string }).next;
    // Issue 3 may have been changed once more after it was read, before 09:04.
    expect(await connection.poll({ ...started, watermark, page: next }, signal)).toMatchObject({
      newest: '2026-01-05T08:59:30.000Z',
    });
  });

  it.each([
    ['the next page repeats what was read', '9@1', [issue(3)], 1],
    ['numbers go backwards', undefined, [issue(8), issue(3)], 2],
    ['a number comes twice', undefined, [issue(8), issue(8)], 2],
    ['a page is empty, and there are more', undefined, [], 2],
  ])('ends with an error where %s', async (_, at, issues, total) => {
    const { connection } = connect([[at ? `${OPEN}&issue_id=>=9` : OPEN, page(issues, total)]]);
    expect((await failure(connection.poll({ ...started, page: at }, signal)))?.code).toBe('answer_malformed');
  });

  it.each(['x', '0@1', '1@', '5&issue_id=1', 'https://evil.example'])('goes on from no page like %s', async (at) => {
    const { connection, requests } = connect([]);
    expect((await failure(connection.poll({ ...started, page: at }, signal)))?.code).toBe('internal');
    expect(requests).toEqual([]);
  });
});

describe('statuses', () => {
  const untold = (id: number, status: number) => issue(id, { status: { id: status, name: 'x' } });

  it('are read where issues do not tell, kept, and read again for one that is new or when they are old', async () => {
    const { connection, clock } = connect([
      [OPEN, page([untold(1, 1)], 1)],
      statuses,
      [OPEN, page([untold(1, 5)], 1)],
      [OPEN, page([untold(1, 9)], 1)],
      statuses,
      [OPEN, page([untold(1, 1)], 1)],
      statuses,
      [OPEN, page([issue(1)], 1)],
    ]);
    const read = async () =>
      JSON.parse(String(((await connection.poll(started, signal)) as { body: Buffer }).body)) as object;
    expect(await read()).toMatchObject({ statuses: STATUSES });
    expect(await read()).toMatchObject({ statuses: STATUSES });
    expect(await read()).toMatchObject({ statuses: STATUSES });
    await clock.advance(13 * 60_000);
    expect(await read()).toMatchObject({ statuses: STATUSES });
    expect(await read()).not.toHaveProperty('statuses');
  });
});

it('units are those that are named, and those that patterns take in, over all pages', async () => {
  const many = Array.from({ length: 100 }, (_, at) => ({ id: at + 1, identifier: `p${at + 1}`, status: 1 }));
  const more = [
    { id: 201, identifier: 'web-one', status: 1 },
    { id: 202, identifier: 'web-two', status: 5 },
    { id: 203, identifier: 'web-old', status: 9 },
    { id: 204, identifier: 'web-secret', status: 1 },
  ];
  const { connection } = connect(
    [
      ['GET /projects.json?limit=100&offset=0', { body: { projects: many, total_count: 104 } }],
      ['GET /projects.json?limit=100&offset=100', { body: { projects: more, total_count: 104 } }],
    ],
    { projects: ['website', 'web-*', 201], exclude: ['web-secret'] },
  );
  for (const _ of [1, 2]) expect(await connection.units(signal)).toEqual(['website', '201', 'web-two']);
});

it('history goes from the newest number down, and counts once', async () => {
  const since = '2026-01-01T00:00:00.500Z';
  const asked = DOWN.replace('&sort', '&updated_on=>=2026-01-01T00:00:00Z&sort');
  const { connection } = connect([
    [asked, page([issue(9), issue(4)], 3)],
    [`${asked}&issue_id=<=3`, page([issue(1)], 1)],
    [DOWN, page([], 0)],
  ]);
  expect(await connection.history?.({ unit: 'website', since }, signal)).toMatchObject({ next: '3', total: 3 });
  const last = await connection.history?.({ unit: 'website', since, page: '3' }, signal);
  expect(last).not.toHaveProperty('next');
  expect(last).not.toHaveProperty('total');
  expect(await connection.history?.({ unit: 'website' }, signal)).toMatchObject({ total: 0 });
});

it('a sweep lists the numbers of everything, whatever its state', async () => {
  const { connection } = connect([
    project(),
    [ALL, page([issue(3), issue(8)], 3)],
    project(),
    [`${ALL}&issue_id=>=9`, page([issue(12)], 1)],
  ]);
  const key = (id: number) => `redmine:redmine.example.com:issue:${id}`;
  expect(await connection.sweep?.('website', undefined, signal)).toEqual({
    keys: [key(3), key(8)],
    containers: ['12'],
    next: '9',
  });
  expect(await connection.sweep?.('website', '9', signal)).toEqual({ keys: [key(12)], containers: ['12'] });
});

describe('a fetch', () => {
  const asked = { ...reference, locator: { ...reference.locator, isFollowed: 'unknown' } };
  const translated = async (course: readonly Turn[], wanted: typeof reference = reference) => {
    const { connection } = connect(course);
    const { event, body } = await connection.fetch(wanted, signal);
    return redmine.translate({ source: 'fetch', event, body }, redmine.options.parse(given));
  };

  it('for a webhook reads the project that the issue is in now', async () => {
    const moved = issue(318, { project: { id: 13, name: 'Other' } });
    const other: Turn = [
      'GET /projects/13.json',
      { body: { project: { id: 13, identifier: 'other', name: 'Other' } } },
    ];
    const path = 'GET /issues/318.json';
    expect(await translated([[path, { body: { issue: moved } }], other], asked)).toMatchObject({ outcome: 'ignored' });
    // One that is followed already stays so.
    expect(await translated([[path, { body: { issue: moved } }]])).toMatchObject({
      items: [{ containerId: '13', containerName: 'Other' }],
    });
  });

  it('of an issue that is not there tells that it is gone, where its project is followed', async () => {
    const course: Turn[] = [['GET /issues/318.json', { status: 404 }], project('12')];
    expect(await translated(course, asked)).toMatchObject({ items: [{ key: reference.key, gone: true }] });
  });

  it('of an issue that may not be seen any more tells the same, where its project may', async () => {
    const course: Turn[] = [['GET /issues/318.json', { status: 403 }], project('12')];
    expect(await translated(course, asked)).toMatchObject({ items: [{ key: reference.key, gone: true }] });
  });

  it('calls no issue gone while issue tracking is switched off', async () => {
    const { connection } = connect([['GET /issues/318.json', { status: 403 }], project('12', ['wiki'])]);
    expect((await failure(connection.fetch(reference, signal)))?.code).toBe('feature_off');
  });

  it.each([401, 403])('that is answered with %s everywhere tells nothing', async (status) => {
    const course: Turn[] = [
      ['GET /issues/318.json', { status }],
      ['GET /projects/12.json?include=enabled_modules', { status }],
    ];
    const { connection } = connect(status === 401 ? course.slice(0, 1) : course);
    const error = await failure(connection.fetch(reference, signal));
    expect(error?.code).toBe(status === 401 ? 'unauthorized' : 'forbidden');
    expect(error?.hint).toMatch(/apiKey/);
  });
});

describe('a comment', () => {
  const wanted = { marker: '<!-- worksync:acme -->', text: 'Tracked as BUG-12' };
  const path = '/issues/318.json';
  const notes = 'Tracked as BUG-12\n\nworksync:acme';
  const put: Turn = [`PUT ${path}`, { status: 204 }, { issue: { notes } }];
  const listed = (...journals: object[]): Turn => [
    `GET ${path}?include=journals`,
    { body: { issue: { ...issue(318), journals } } },
  ];
  const by = (user: number, id: number, text: string) => ({ id, user: { id: user, name: 'x' }, notes: text });
  const run = async (course: readonly Turn[], more: object = {}) => {
    const { connection } = connect(course, more);
    return failure(connection.comment?.(reference, wanted, signal));
  };

  it('is added where none is, and where only somebody else quotes it', async () => {
    expect(await run([me, listed({ id: 1, notes: '' }), put])).toBeUndefined();
    expect(await run([me, listed(by(9, 1, '> worksync:acme')), put])).toBeUndefined();
  });

  it('is updated in place, and left alone where it says the same', async () => {
    const edit: Turn = ['PUT /journals/4.json', { status: 204 }, { journal: { notes } }];
    expect(await run([me, listed(by(3, 4, 'Tracked as BUG-11\r\n\r\nworksync:acme')), edit])).toBeUndefined();
    expect(await run([me, listed(by(3, 4, notes.replaceAll('\n', '\r\n')))])).toBeUndefined();
  });

  it('is not added twice where notes cannot be edited', async () => {
    const old = by(3, 4, 'Tracked as BUG-11\n\nworksync:acme');
    expect(await run([me, listed(old), ['PUT /journals/4.json', { status: 404 }]])).toBeUndefined();
    const { connection } = connect([me, listed(old), ['PUT /journals/4.json', { status: 403 }]]);
    expect((await failure(connection.comment?.(reference, wanted, signal)))?.code).toBe('forbidden');
  });

  it('carries the marker unseen where Markdown hides it', async () => {
    const hidden = { issue: { notes: 'Tracked as BUG-12\n\n<!-- worksync:acme -->' } };
    expect(
      await run([me, listed(), [`PUT ${path}`, { status: 204 }, hidden]], { formatting: 'markdown' }),
    ).toBeUndefined();
  });
});

describe('closing', () => {
  const path = '/issues/318.json';
  const at = (status: number, allowed?: number[]): Turn => [
    `GET ${path}?include=allowed_statuses`,
    {
      body: {
        issue: issue(318, {
          status: { id: status, name: 'x' },
          ...(allowed && { allowed_statuses: STATUSES.filter(({ id }) => allowed.includes(id)) }),
        }),
      },
    },
  ];
  const put = (id: number): Turn => [`PUT ${path}`, { status: 204 }, { issue: { status_id: id } }];
  const run = async (course: readonly Turn[], more: object = {}) => {
    const { connection } = connect([statuses, ...course], more);
    const error = await failure(connection.close?.(reference, signal));
    return error?.code;
  };

  it('leaves alone what is closed', async () => {
    expect(await run([at(6)])).toBeUndefined();
  });

  it('takes the first closed status that the workflow allows, or the one that is named', async () => {
    expect(await run([at(1, [1, 6]), put(6), at(6)])).toBeUndefined();
    expect(await run([at(1, [1, 5, 6]), put(6), at(6)], { doneStatus: 'rejected' })).toBeUndefined();
    // An older version does not tell what is allowed.
    expect(await run([at(1), put(5), at(5)])).toBeUndefined();
  });

  it('is a conflict where the workflow leads to none, also where Redmine only seems to do it', async () => {
    expect(await run([at(1, [1])])).toBe('conflict');
    expect(await run([at(1), put(5), at(1)])).toBe('conflict');
    expect(await run([at(1, [5])], { doneStatus: 'Rejected' })).toBe('conflict');
  });

  it('tells what Redmine says of a refused change', async () => {
    const { connection } = connect([
      statuses,
      at(1, [5]),
      [`PUT ${path}`, { status: 422, body: { errors: ["Cost can't be blank", 'Due date is invalid'] } }],
    ]);
    const error = await failure(connection.close?.(reference, signal));
    expect(error).toMatchObject({ code: 'refused' });
    expect(error?.message).toContain("Cost can't be blank, Due date is invalid");
  });
});

describe('check', () => {
  const lines = async (course: readonly Turn[], more: object = {}) => {
    const { connection } = connect(course, more);
    const findings = await connection.check(signal);
    return findings.map(({ level, subject }) => `${level} ${subject}`);
  };
  const readable: Turn[] = [project(), [OPEN, page([], 0)]];

  it('warns of statuses that are not there, and errs where closing could not work', async () => {
    const more = { inProgress: ['In Progress', 'new'], doneStatus: 'New' };
    expect(await lines([me, statuses, ...readable], more)).toEqual([
      'ok credential',
      'warning statuses',
      'error statuses',
      'ok website',
    ]);
    const none: Turn = ['GET /issue_statuses.json', { body: { issue_statuses: [STATUSES[0]] } }];
    const open = { inProgress: [] };
    expect(await lines([me, none, ...readable], open)).toEqual(['ok credential', 'warning statuses', 'ok website']);
  });

  it('reports issue tracking that is switched off as no error', async () => {
    const course: Turn[] = [me, statuses, project('website', ['wiki']), [OPEN, { status: 403 }]];
    expect(await lines(course, { inProgress: [] })).toEqual(['ok credential', 'ok statuses', 'ok website']);
  });

  it('warns where there is no key, and errs where a project cannot be read', async () => {
    const more = { apiKey: undefined, inProgress: ['New'] };
    const hidden: Turn = ['GET /projects/website.json?include=enabled_modules', { status: 403 }];
    expect(await lines([statuses, hidden], more)).toEqual(['warning credential', 'ok statuses', 'error website']);
  });
});
