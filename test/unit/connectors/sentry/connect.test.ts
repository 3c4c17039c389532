import { describe, expect, it } from 'vitest';
import { sentry } from '../../../../src/connectors/sentry/index.ts';
import { courseOf, failure, type Turn } from '../../../support/vendors/course.ts';

const { signal } = new AbortController();
const ORIGIN = 'https://sentry.io/api/0';
const given = { organization: 'acme', token: 'T', projects: [41] };
const connect = (course: readonly Turn[], more: object = {}) => courseOf(sentry, { ...given, ...more }, ORIGIN, course);

const HOME = '/organizations/acme';
const list = (query: string, sort: string, cursor = '') =>
  `GET ${HOME}/issues/?project=41&query=${query}&sort=${sort}&limit=100&collapse=stats${cursor && `&cursor=${cursor}`}`;
const link = (cursor: string, results = true) => ({
  link: `<https://x/?cursor=0:0:1>; rel="previous"; results="true"; cursor="0:0:1", <https://x/?a,b>; rel="next"; results="${results}"; cursor="${cursor}"`,
});
const LAST = link('0:100:0', false);
const issue = (id: number, lastSeen: string) => ({ id: String(id), shortId: `APP-${id}`, lastSeen });
const started = { unit: '41', startedAt: '2026-01-05T09:00:00.000Z' };
const locator = { id: '7', projectId: '41', shortId: 'APP-7' };
const reference = { kind: 'work_item' as const, key: 'sentry:sentry.io:issue:7', locator };
const ids = (page: { outcome: string }) =>
  (JSON.parse(String((page as { body?: Buffer }).body)) as { id: string }[]).map(({ id }) => Number(id));

describe('a walk over what was seen', () => {
  const date = 'Mon, 05 Jan 2026 08:59:30 GMT';

  it('the first takes unresolved issues to the end, and begins the watermark at its start', async () => {
    const { connection, requests } = connect([
      [
        list('is:unresolved', 'date'),
        { headers: { ...link('17:0:0'), date }, body: [issue(1, '2020-01-01T00:00:00Z')] },
      ],
      [list('is:unresolved', 'date', '17:0:0'), { headers: LAST, body: [issue(2, '2019-01-01T00:00:00Z')] }],
    ]);
    const first = await connection.poll(started, signal);
    expect(first).toMatchObject({ next: '17:0:0', newest: '2026-01-05T08:59:30.000Z' });
    const last = await connection.poll({ ...started, page: '17:0:0' }, signal);
    expect(last).toMatchObject({ next: undefined });
    expect(requests[0]?.headers).toMatchObject({ authorization: 'Bearer T' });
  });

  it('with a watermark ends where a page reaches beyond it and the overlap', async () => {
    const watermark = '2026-01-05T08:30:00.000Z';
    const body = [issue(1, '2026-01-05T08:40:00Z'), issue(2, '2026-01-05T08:20:00Z'), issue(3, '2026-01-05T08:19:59Z')];
    const { connection } = connect([[list('', 'date'), { headers: link('17:0:0'), body }]]);
    const page = await connection.poll({ ...started, watermark }, signal);
    expect(page).toMatchObject({ next: undefined });
    expect(ids(page)).toEqual([1, 2]);
    expect(page).toMatchObject({ newest: '2026-01-05T08:40:00.000Z' });
  });

  it.each([
    ['says nothing of results', { link: '<https://x>; rel="next"; cursor="1:0:0"' }],
    ['has no cursor', { link: '<https://x>; rel="next"; results="true"' }],
    ['names an address as cursor', { link: '<https://x>; rel="next"; results="true"; cursor="https://evil.example"' }],
    ['names itself', link('17:0:0')],
  ])('is malformed where the next page %s', async (_, headers) => {
    const { connection } = connect([[list('is:unresolved', 'date', '17:0:0'), { headers, body: [] }]]);
    expect((await failure(connection.poll({ ...started, page: '17:0:0' }, signal)))?.code).toBe('answer_malformed');
  });
});

describe('the walk over everything', () => {
  const unit = 'all:41';

  it('is made at first, and again six hours after the last one began', async () => {
    const { connection } = connect([
      [
        list('', 'new'),
        { headers: { ...link('17:0:0'), date: 'Mon, 05 Jan 2026 09:00:00 GMT' }, body: [issue(1, 'x')] },
      ],
      [list('', 'new', '17:0:0'), { headers: LAST, body: [issue(2, 'x')] }],
      [list('', 'new'), { headers: LAST, body: [] }],
    ]);
    const first = await connection.poll({ ...started, unit }, signal);
    expect(first).toMatchObject({ next: '17:0:0', newest: '2026-01-05T09:00:00.000Z' });
    expect(await connection.poll({ ...started, unit, page: '17:0:0' }, signal)).toMatchObject({ newest: undefined });
    const watermark = '2026-01-05T09:00:00.000Z';
    const at = (startedAt: string) => connection.poll({ unit, watermark, startedAt }, signal);
    expect(await at('2026-01-05T14:59:59.000Z')).toEqual({ outcome: 'unchanged' });
    expect(await at('2026-01-05T15:00:00.000Z')).toMatchObject({ outcome: 'page' });
  });
});

it('units are each project twice, named or by pattern, over all pages', async () => {
  const path = `GET ${HOME}/projects/?per_page=100`;
  const { connection } = connect(
    [
      [
        path,
        {
          headers: link('100:1:0'),
          body: [
            { id: '1', slug: 'front-end' },
            { id: '2', slug: 'front-old' },
          ],
        },
      ],
      [
        `${path}&cursor=100:1:0`,
        {
          headers: LAST,
          body: [
            { id: '3', slug: 'front-new' },
            { id: '4', slug: 'back' },
          ],
        },
      ],
      [list('', 'new').replace('41', '4'), { headers: LAST, body: [] }],
    ],
    { projects: ['back', 'front-*', 1], exclude: ['front-old'] },
  );
  const units = ['back', '1', 'front-new'];
  expect(await connection.units(signal)).toEqual([...units, ...units.map((each) => `all:${each}`)]);
  expect(await connection.sweep?.('back', undefined, signal)).toEqual({ keys: [], containers: ['4'] });
  expect((await failure(connection.sweep?.('away', undefined, signal)))?.code).toBe('not_found');
});

it('history goes back to its beginning; a sweep takes all; the second unit adds nothing to either', async () => {
  const { connection } = connect([
    [list('', 'date'), { headers: link('17:0:0'), body: [issue(1, '2026-01-02T00:00:00Z')] }],
    [list('', 'date', '17:0:0'), { headers: link('18:0:0'), body: [issue(2, '2025-12-31T00:00:00Z')] }],
    [list('', 'new'), { headers: link('17:0:0'), body: [issue(1, 'x')] }],
  ]);
  const since = '2026-01-01T00:00:00.000Z';
  expect(await connection.history?.({ unit: '41', since }, signal)).toMatchObject({ next: '17:0:0' });
  const last = await connection.history?.({ unit: '41', since, page: '17:0:0' }, signal);
  expect(last).toEqual({ event: 'issues.list', body: Buffer.from('[]') });
  expect(await connection.history?.({ unit: 'all:41' }, signal)).toEqual(last);
  expect(await connection.sweep?.('41', undefined, signal)).toEqual({
    keys: ['sentry:sentry.io:issue:1'],
    containers: ['41'],
    next: '17:0:0',
  });
  expect(await connection.sweep?.('all:41', undefined, signal)).toEqual({ keys: [], containers: [] });
});

it('an issue that was merged into another one is gone, and the other is not taken for it', async () => {
  const { connection } = connect([[`GET ${HOME}/issues/7/`, { body: { ...issue(8, 'x') } }]]);
  const { event, body } = await connection.fetch(reference, signal);
  expect(sentry.translate({ source: 'fetch', event, body }, sentry.options.parse(given))).toMatchObject({
    items: [{ key: reference.key, identifier: 'APP-7', gone: true }],
  });
});

describe('a comment', () => {
  const path = `${HOME}/issues/7/comments/`;
  const text = 'Tracked as BUG-12\n\nworksync:acme';
  const note = (id: number, words: string) => ({ id: String(id), type: 'note', data: { text: words } });
  const listed = (...notes: object[]): Turn => [`GET ${path}`, { headers: LAST, body: notes }];
  const post: Turn = [`POST ${path}`, { status: 201, body: {} }, { text }];
  const run = async (course: readonly Turn[], isCorrection = false) => {
    const { connection } = connect(course);
    const wanted = { marker: '<!-- worksync:acme -->', text: 'Tracked as BUG-12', isCorrection };
    return failure(connection.comment?.(reference, wanted, signal));
  };

  it('is posted where none is', async () => {
    expect(await run([listed(note(1, 'hello')), post])).toBeUndefined();
  });

  it('is updated in place, beyond the first page too, and left alone where it says the same', async () => {
    const old = note(4, 'Tracked as BUG-11\n\nworksync:acme');
    const course: Turn[] = [
      [`GET ${path}`, { headers: link('100:1:0'), body: [note(1, 'hello')] }],
      [`GET ${path}?cursor=100:1:0`, { headers: LAST, body: [old] }],
      [`PUT ${path}4/`, { body: {} }, { text }],
    ];
    expect(await run(course)).toBeUndefined();
    expect(await run([listed(note(4, text))])).toBeUndefined();
  });

  it('that only corrects one is not posted where there is none', async () => {
    expect(await run([listed(note(1, 'hello'))], true)).toBeUndefined();
    const edited: Turn = [`PUT ${path}4/`, { body: {} }, { text }];
    expect(await run([listed(note(4, 'Tracked as BUG-11\n\nworksync:acme')), edited], true)).toBeUndefined();
  });

  it.each([403, 404])('of somebody else who quotes it is passed over: %s', async (status) => {
    const refused: Turn = [`PUT ${path}4/`, { status, body: { detail: 'no' } }];
    expect(await run([listed(note(4, '> worksync:acme')), refused, post])).toBeUndefined();
  });
});

it('closing resolves, and leaves alone what is resolved or archived', async () => {
  const path = `${HOME}/issues/7/`;
  const { connection } = connect([
    [`GET ${path}`, { body: { status: 'unresolved' } }],
    [`PUT ${path}`, { body: {} }, { status: 'resolved' }],
    [`GET ${path}`, { body: { status: 'resolved' } }],
    [`GET ${path}`, { body: { status: 'ignored' } }],
  ]);
  for (const _ of [1, 2, 3]) expect(await failure(connection.close(reference, signal))).toBeUndefined();
});

it('check errs where a pattern takes nothing in, and tells what Sentry says', async () => {
  const organization: Turn = [`GET ${HOME}/`, { body: { name: 'Acme' } }];
  const none: Turn = [`GET ${HOME}/projects/?per_page=100`, { headers: LAST, body: [] }];
  const { connection } = connect([organization, none], { projects: ['*'] });
  const levels = (await connection.check(signal)).map(({ level, subject }) => `${level} ${subject}`);
  expect(levels).toEqual(['ok organisation', 'error projects']);
  const body = { detail: { code: 'x', message: 'You need event:read' } };
  const refused = connect([organization, [list('', 'new'), { status: 403, body }]]);
  expect((await refused.connection.check(signal)).at(-1)?.message).toContain('You need event:read');
});
