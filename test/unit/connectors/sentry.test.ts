import { describe, expect, it } from 'vitest';
import type { Connection } from '../../../src/connectors/connector.ts';
import { sentry } from '../../../src/connectors/sentry/index.ts';
import type { WorkItem } from '../../../src/model/item.ts';
import {
  conversations,
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
const PARTY = {
  connector: sentry,
  given: { organization: 'acme', token: 'T', projects: [41] },
  origin: 'https://sentry.io/api/0',
};
const HOME = '/organizations/acme';
const list = (query: string, sort: string, cursor = '', project = 41) =>
  `GET ${HOME}/issues/?project=${project}&query=${query}&sort=${sort}&limit=100&collapse=stats${cursor && `&cursor=${cursor}`}`;
const link = (cursor: string, results = true) => ({
  link: `<https://x/?cursor=0:0:1>; rel="previous"; results="true"; cursor="0:0:1", <https://x/?a,b>; rel="next"; results="${results}"; cursor="${cursor}"`,
});
const NEXT = link('17:0:0');
const LAST = link('0:100:0', false);
const issue = (id: number, lastSeen = 'x') => ({ id: String(id), shortId: `APP-${id}`, lastSeen });
const started = { unit: '41', startedAt: '2026-01-05T09:00:00.000Z' };
const reference = {
  ...{ kind: 'work_item' as const, key: 'sentry:sentry.io:issue:7' as const },
  locator: { id: '7', projectId: '41', shortId: 'APP-7' },
};

describe('lists', () => {
  const poll =
    (more: object = {}) =>
    (connection: Connected) =>
      connection.poll({ ...started, ...more }, signal);
  const EVERYTHING = { unit: 'all:41', watermark: '2026-01-05T09:00:00.000Z' };
  const date = { date: 'Mon, 05 Jan 2026 08:59:30 GMT' };
  const seen = (minute: string, id: number) => issue(id, `2026-01-05T08:${minute}Z`);
  const PROJECTS = `GET ${HOME}/projects/?per_page=100`;
  const named = { projects: ['back', 'front-*', 1], exclude: ['front-old'] };
  const slugs = (found: object) => Object.entries(found).map(([id, slug]) => ({ id, slug }));
  const pages: Turn[] = [
    [PROJECTS, { headers: link('100:1:0'), body: slugs({ 1: 'front-end', 2: 'front-old' }) }],
    [`${PROJECTS}&cursor=100:1:0`, { headers: LAST, body: slugs({ 3: 'front-new', 4: 'back' }) }],
  ];
  const units = ['back', '1', 'front-new'];
  const wrong = {
    'says nothing of results': { link: '<https://x>; rel="next"; cursor="1:0:0"' },
    'has no cursor': { link: '<https://x>; rel="next"; results="true"' },
    'names an address as cursor': { link: '<https://x>; rel="next"; results="true"; cursor="https://evil.example"' },
    'names itself': NEXT,
  };

  conversations(PARTY, {
    'of a first walk contain unresolved issues, and begin the watermark at its start': [
      async (connection) => [await poll()(connection), await poll({ page: '17:0:0' })(connection)],
      [
        [
          list('is:unresolved', 'date'),
          { headers: { ...NEXT, ...date }, body: [issue(1, '2020-01-01T00:00:00Z')] },
          undefined,
          { authorization: 'Bearer T' },
        ],
        [list('is:unresolved', 'date', '17:0:0'), { headers: LAST, body: [issue(2, '2019-01-01T00:00:00Z')] }],
      ],
      [{ next: '17:0:0', newest: '2026-01-05T08:59:30.000Z' }, { next: undefined }],
    ],
    'of a later walk end where a page reaches back beyond the watermark and the overlap': [
      async (connection) => {
        const { body, ...page } = (await poll({ watermark: '2026-01-05T08:30:00.000Z' })(connection)) as {
          body: Buffer;
        };
        return { ...page, ids: (JSON.parse(body.toString()) as ({ id: string } | null)[]).map((each) => each?.id) };
      },
      [[list('', 'date'), { headers: NEXT, body: [seen('40:00', 1), seen('20:00', 2), seen('19:59', 3)] }]],
      { next: undefined, ids: ['1', '2'], newest: '2026-01-05T08:40:00.000Z' },
    ],
    ...Object.fromEntries(
      Object.entries(wrong).map(([what, headers]) => [
        `are rejected if the next page ${what}`,
        [
          poll({ page: '17:0:0' }),
          [[list('is:unresolved', 'date', '17:0:0'), { headers: headers as Reply['headers'], body: [] }] as Turn],
          failing('answer_malformed'),
        ] as const,
      ]),
    ),
    'of everything begin the watermark at the start of the walk': [
      async (connection) => [
        await poll({ unit: 'all:41' })(connection),
        await poll({ unit: 'all:41', page: '17:0:0' })(connection),
      ],
      [
        [list('', 'new'), { headers: { ...NEXT, ...date }, body: [issue(1)] }],
        [list('', 'new', '17:0:0'), { headers: LAST, body: [issue(2)] }],
      ],
      [{ next: '17:0:0', newest: '2026-01-05T08:59:30.000Z' }, { newest: undefined }],
    ],
    'of everything are not requested within six hours': [
      poll({ ...EVERYTHING, startedAt: '2026-01-05T14:59:59.000Z' }),
      [],
      exactly({ outcome: 'unchanged' }),
    ],
    'follow each project twice, named or by pattern, over all pages': [
      (connection) => connection.units(signal),
      pages,
      exactly([...units, ...units.map((each) => `all:${each}`)]),
      named,
    ],
    'of a sweep are of a project that is known by its slug': [
      (connection) => connection.sweep('back', undefined, signal),
      [...pages, [list('', 'new', '', 4), { headers: LAST, body: [] }]],
      exactly({ keys: [], containers: ['4'] }),
      named,
    ],
    'of a sweep contain everything': [
      (connection) => connection.sweep('41', undefined, signal),
      [[list('', 'new'), { headers: NEXT, body: [issue(1)] }]],
      exactly({ keys: ['sentry:sentry.io:issue:1'], containers: ['41'], next: '17:0:0' }),
    ],
  });
});

describe('an issue at Sentry', () => {
  const ONE = `${HOME}/issues/7/`;
  const path = `${ONE}comments/`;
  const text = 'Tracked as BUG-12\n\nworksync:acme';
  const note = (id: number, words: string) => ({ id: String(id), type: 'note', data: { text: words } });
  const listed = (...notes: object[]): Turn => [`GET ${path}`, { headers: LAST, body: notes }];
  const post: Turn = [`POST ${path}`, { status: 201, body: {} }, { text }];
  const edit: Turn = [`PUT ${path}4/`, { body: {} }, { text }];
  const write =
    (isCorrection = false) =>
    async (connection: Connected) =>
      void (await connection.comment(
        reference,
        { marker: '<!-- worksync:acme -->', text: 'Tracked as BUG-12', isCorrection },
        signal,
      ));
  const close = (connection: Connected) => connection.close(reference, signal);
  const is = (status: string): Turn => [`GET ${ONE}`, { body: { status } }];

  conversations(PARTY, {
    'that was merged into another is gone': [
      async (connection) => itemsIn(PARTY, await connection.fetch(reference, signal), 'fetch'),
      [[`GET ${ONE}`, { body: issue(8) }]],
      [{ key: reference.key, identifier: 'APP-7', gone: true }],
    ],
    'gets a comment if there is none': [write(), [listed(note(1, 'hello')), post]],
    ...Object.fromEntries(
      [403, 404].map((status) => [
        `gets a comment beside the quote of another person, which may not be edited: ${status}`,
        [write(), [listed(note(4, '> worksync:acme')), [edit[0], status] as Turn, post]] as const,
      ]),
    ),
    'is resolved': [close, [is('unresolved'), [`PUT ${ONE}`, { body: {} }, { status: 'resolved' }]]],
    'stays archived': [close, [is('ignored')]],
  });
});

describe('an item', () => {
  const { hook, fetched } = translationsOf({
    connector: sentry,
    given: { organization: 'acme', projects: ['front-*'] },
  });
  const ofHook = (name: string) => itemOf(hook('issue', fixture('sentry', name)));
  const itemWith = (fields: object) => itemOf(fetched('issues.get', { ...fixture('sentry', 'issues.get'), ...fields }));
  const WHOLE: WorkItem = {
    ...{ kind: 'work_item', key: 'sentry:sentry.io:issue:1170820242', connector: 'sentry', host: 'sentry.io' },
    ...{ containerId: '41', containerName: 'front-end', identifier: 'FRONT-END-9' },
    updatedAt: Date.UTC(2026, 2, 5, 9, 30, 0, 513),
    url: 'https://acme.sentry.io/issues/1170820242/',
    ...{ title: 'ReferenceError: upload is not defined', description: 'upload(runner)' },
    ...{ state: 'open', isDropped: false, rawState: 'unresolved (escalating)', type: 'error', priority: 'high' },
    ...{ labels: ['error'], assignees: ['7'], emails: { '7': 'ada@example.com' } },
    createdAt: '2026-03-02T08:12:32.391000Z',
  };

  it('is the same from the API and from a webhook', () => {
    expect(itemWith({})).toEqual(WHOLE);
    expect(ofHook('issue.resolved')).toEqual({ ...WHOLE, state: 'done', rawState: 'resolved' });
  });

  it.each([
    ['unresolved', 'regressed', 'open', 'unresolved (regressed)'],
    ['ignored', 'archived_until_escalating', 'done', 'ignored (archived_until_escalating)'],
    ['of_tomorrow', null, undefined, 'of_tomorrow'],
    [undefined, 'ongoing', undefined, undefined],
  ])('with the status %s (%s) is %s', (status, substatus, state, rawState) => {
    const item = itemWith({ status, substatus });
    expect([item.state, item.rawState]).toEqual([state, rawState]);
  });

  it('tells teams from people, and nobody from unknown', () => {
    expect([ofHook('issue.assigned.team').assignees, ofHook('issue.created').assignees]).toEqual([['team:3'], []]);
    expect(itemWith({ assignedTo: { id: 7, name: 'Ada' } })).toMatchObject({ assignees: ['7'] });
    expect(itemWith({ assignedTo: 'ada' })).not.toHaveProperty('assignees');
  });
});
