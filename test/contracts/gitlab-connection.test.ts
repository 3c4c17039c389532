import { createHmac } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import type { Connection } from '../../src/connectors/connector.ts';
import { gitlab } from '../../src/connectors/gitlab/index.ts';
import type { ItemReference } from '../../src/model/item.ts';
import { activeWith, inboxOf, openEndpoint, openTestStore } from '../support/harness/intake.ts';
import {
  conversations,
  courseOf,
  exactly,
  failing,
  failure,
  itemsIn,
  type Reply,
  type Turn,
} from '../support/vendors/course.ts';

const { signal } = new AbortController();
const ORIGIN = 'https://gitlab.com/api/v4';
const partyOf = (given: object) => ({ connector: gitlab, given: { token: 'glpat-x', ...given }, origin: ORIGIN });
const IN_WEB = partyOf({ projects: ['acme/web'] });
const BY_NUMBER = partyOf({ projects: [80200], issues: true });
const OF_GROUP = partyOf({ groups: ['acme/platform'] });
const GROUP = '/groups/acme%2Fplatform';
const PROJECT = '/projects/acme%2Fweb';
const HERE = 'https://sync.example.com/webhooks/main/gitlab';
type Connected = Required<Connection>;

const fixture = (name: string) =>
  JSON.parse(
    readFileSync(new URL(`../../src/connectors/gitlab/fixtures/${name}.json`, import.meta.url), 'utf8'),
  ) as object;
const mergeRequest = fixture('merge_requests.get');
const issue = fixture('issues.get');
const said = (status: number, message: string): Reply => ({ status, body: { message } });
const page = (body: unknown, next = '', more: Record<string, string> = {}): Reply => ({
  body,
  headers: { 'x-next-page': next, ...more },
});

/** A merge request of a project, as a list of a group shows it. */
const inProject = (projectId: number, path: string, iid: number, base: object = mergeRequest) => ({
  ...base,
  id: 1_000 * projectId + iid,
  iid,
  project_id: projectId,
  references: { full: `${path}${base === issue ? '#' : '!'}${iid}` },
});
const PROJECTS = [
  { id: 1, path_with_namespace: 'acme/platform/api' },
  { id: 2, path_with_namespace: 'acme/platform/api-fork', forked_from_project: { id: 77 } },
  { id: 3, path_with_namespace: 'acme/platform/deep/tool' },
  { id: 4, path_with_namespace: 'acme/platform/old', archived: true },
];
const projects = (number = 1, reply: Reply = { body: PROJECTS }): Turn => [
  `GET ${GROUP}/projects?include_subgroups=true&with_shared=false&order_by=id&sort=asc&per_page=100&page=${number}`,
  reply,
];

describe('units', () => {
  it.each([
    [{ projects: ['acme/web', 7] }, ['acme/web', '7']],
    [{ groups: ['acme', 'acme/platform', 'other'] }, ['acme/', 'other/']],
    [
      { projects: ['acme/web'], groups: ['team'], issues: true },
      ['acme/web', 'issues:acme/web', 'team/', 'issues:team/'],
    ],
  ])('of %j are %j: a group is one list, none within another', async (given, units) => {
    expect(await courseOf(gitlab, given, ORIGIN, []).connection.units(signal)).toEqual(units);
  });
});

describe('a group', () => {
  const start = { unit: 'acme/platform/', startedAt: '2026-01-05T09:00:00Z', watermark: '2026-01-05T08:00:00.000Z' };
  const changed = (noun = 'merge_requests', archived = true) =>
    `GET ${GROUP}/${noun}?state=all&scope=all&order_by=updated_at&sort=desc&per_page=100&updated_after=2026-01-05T07:50:00.000Z&non_archived=${archived}`;
  const found = [
    inProject(1, 'acme/platform/api', 1),
    inProject(2, 'acme/platform/api-fork', 2),
    inProject(3, 'acme/platform/deep/tool', 3),
    inProject(9, 'acme/platform/new-one', 4),
  ];
  const polled =
    (unit = start.unit, given: object = {}) =>
    async (connection: Connection) => {
      const got = await connection.poll({ ...start, unit }, signal);
      return itemsIn(partyOf({ groups: ['acme/platform'], issues: true, ...given }), got).map((item) =>
        item.kind === 'work_item' ? `${item.containerName} ${item.identifier}` : `${item.repoName} ${item.identifier}`,
      );
    };
  const linked = (path: string): Reply => ({
    body: found,
    headers: { link: `<https://gitlab.com/api/v4${path}?page=2>; rel="next"` },
  });

  conversations(OF_GROUP, {
    'brings what is in scope: without forks, and what is excluded': [
      polled(),
      [[changed(), { body: found }], projects()],
      exactly(['acme/platform/api 1', 'acme/platform/new-one 4']),
      { exclude: ['acme/platform/deep/**'] },
    ],
    'links its pages by its number': [
      (connection) => connection.poll(start, signal),
      [[changed(), linked('/groups/70/merge_requests')]],
      { next: 'next:2' },
      { forks: true },
    ],
    ...Object.fromEntries(
      ['/projects/70/merge_requests', '/groups/70/issues'].map((path) => [
        `does not link its pages by ${path}`,
        [polled(), [[changed(), linked(path)]], failing('answer_malformed'), { forks: true }] as const,
      ]),
    ),
  });
});

describe('sweep', () => {
  const list = (owner: string, noun: string, more = '') =>
    `GET ${owner}/${noun}?state=all&scope=all&order_by=created_at&sort=asc&per_page=100${more}`;

  conversations(IN_WEB, {
    'of a group covers its projects in scope': [
      (connection) => connection.sweep('issues:acme/platform/', undefined, signal),
      [
        [list(GROUP, 'issues', '&non_archived=true'), { body: [inProject(1, 'acme/platform/api', 4, issue)] }],
        projects(1, page(PROJECTS.slice(0, 2), '2')),
        projects(2, page(PROJECTS.slice(2))),
      ],
      exactly({ keys: ['gitlab:gitlab.com:issue:1004'], containers: ['1', '3'] }),
      { projects: undefined, groups: ['acme/platform'], issues: true },
    ],
    'fails where an element has no readable id, since its item would look gone': [
      (connection) => connection.sweep('5', undefined, signal),
      [[list('/projects/5', 'merge_requests'), { body: [{ ...mergeRequest, iid: 'x' }] }]],
      failing('answer_malformed'),
      { projects: [5] },
    ],
  });
});

const OF_MERGE_REQUEST: ItemReference = { kind: 'pull_request', key: 'k', locator: { projectId: '80200', iid: '12' } };

describe('an issue', () => {
  const key = 'gitlab:gitlab.com:issue:4400';
  const reference: ItemReference = { kind: 'work_item', key, locator: { projectId: '80200', iid: '4', id: '4400' } };
  const ONE = '/projects/80200/issues/4';
  const is = (state: string): Turn => [`GET ${ONE}`, { body: { ...issue, state } }];
  const put = (reply: Reply): Turn => [`PUT ${ONE}`, reply, { state_event: 'close' }];
  const close = (connection: Connected) => connection.close(reference, signal);

  conversations(BY_NUMBER, {
    'is closed once': [close, [is('opened'), put({ body: issue })]],
    'is read, and not closed again, after a closing without an answer': [
      close,
      [is('opened'), put({ isLost: true }), is('closed')],
    ],
  });
});

describe('a comment', () => {
  const NOTES = '/projects/80200/merge_requests/12/notes';
  const comment = { marker: '<!-- worksync:w1 -->', text: 'Task BUG-12\n\n<!-- worksync:w1 -->' };
  const note = (id: number, body: string, author = 7, system = false) => ({ id, body, system, author: { id: author } });
  const list = (reply: Reply, number = 1, notes = NOTES): Turn => [
    `GET ${notes}?order_by=created_at&sort=asc&per_page=100&page=${number}`,
    reply,
  ];
  const ME: Turn = ['GET /user', { body: { id: 7 } }];
  const post = (reply: Reply | number, body = comment.text, notes = NOTES): Turn => [`POST ${notes}`, reply, { body }];
  const write = (connection: Connected) => connection.comment(OF_MERGE_REQUEST, comment, signal);

  conversations(BY_NUMBER, {
    'is written where there is none': [
      write,
      [
        list({ body: [note(1, 'A talk'), note(2, `mentioned ${comment.marker}`, 7, true)] }),
        post({ status: 201, body: {} }),
      ],
    ],
    "is updated in place on whatever page it is; the marker in somebody else's comment does not count": [
      write,
      [
        list(page([note(1, `look: ${comment.marker}`, 8)], '2')),
        ME,
        list(page([note(101, `Task BUG-1\n\n${comment.marker}`)]), 2),
        [`PUT ${NOTES}/101`, { body: {} }, { body: comment.text }],
      ],
    ],
  });
});

const EVENTS = { merge_requests_events: true, note_events: true };
const HOOK = {
  ...{ id: 31, url: HERE, ...EVENTS, issues_events: false, push_events: false, alert_status: 'executable' },
  ...{ disabled_until: null, token_present: true, signing_token_present: false },
};
const hooksOf = (owner: string, reply: Reply | number): Turn => [`GET ${owner}/hooks?per_page=100&page=1`, reply];
const standing = (...hooks: object[]) => hooksOf(PROJECT, { body: hooks });

describe('hooks', () => {
  const states = (connection: Connected) => connection.hooks.states(HERE, signal);
  const install =
    (secret = 'a-secret') =>
    (connection: Connected) =>
      connection.hooks.install(HERE, secret, signal);
  const ON = { state: 'active', message: 'it is on' };

  it.each([
    [[], 'absent', /no webhook/],
    [[{ ...HOOK, alert_status: 'disabled' }], 'disabled', /until somebody/],
    [
      [
        { ...HOOK, alert_status: 'disabled' },
        { ...HOOK, id: 32 },
      ],
      'active',
      /^it is on$/,
    ],
    [[{ ...HOOK, merge_requests_events: false }], 'active', /does not send merge_requests_events/],
  ])('%j is %s', async (present, state, message) => {
    const [told] = await states(courseOf(gitlab, IN_WEB.given, ORIGIN, [standing(...present)]).connection);
    expect(told).toMatchObject({ subject: 'project acme/web', state, message: expect.stringMatching(message) });
    expect(told?.hint === undefined).toBe(/it is on/.test(told?.message ?? ''));
  });

  const FIELDS = {
    ...{ url: HERE, ...EVENTS, issues_events: false, confidential_issues_events: false },
    ...{ confidential_note_events: false, push_events: false, enable_ssl_verification: true },
  };
  const ISSUES = { issues_events: true, confidential_issues_events: true, confidential_note_events: true };
  const post = (more: object, made: object): Turn => [
    `POST ${PROJECT}/hooks`,
    { status: 201, body: made },
    { name: 'worksync', ...FIELDS, ...more },
  ];
  const put = (after: object = HOOK): Turn => [
    `PUT ${PROJECT}/hooks/31`,
    { body: after },
    { ...FIELDS, token: 'a-secret' },
  ];
  const OFF = { ...HOOK, alert_status: 'disabled' };
  const test = (event: string, reply: Reply): Turn => [`POST ${PROJECT}/hooks/31/test/${event}_events`, reply];

  conversations(IN_WEB, {
    'are registered where they are absent, with the events that are followed': [
      install(),
      [standing(), post({ ...ISSUES, token: 'a-secret' }, { ...HOOK, ...ISSUES })],
      [{ outcome: 'created', ...ON }],
      { issues: true, confidential: true },
    ],
    'that were switched off are switched on by a test that succeeds': [
      install(),
      [
        standing(OFF),
        put(OFF),
        test('merge_requests', said(422, 'Ensure the project has merge requests.')),
        test('push', { status: 201, body: {} }),
        [`GET ${PROJECT}/hooks/31`, { body: HOOK }],
      ],
      [{ outcome: 'updated', state: 'active' }],
    ],
  });
});

describe('redelivery', () => {
  const AT = `${PROJECT}/hooks/31/events`;
  const list = (reply: Reply, number = 1, status = ''): Turn => [
    `GET ${AT}?${status && `status=${status}&`}per_page=20&page=${number}`,
    reply,
  ];
  const event = (id: number, status: string, key?: string) => ({
    ...{ id, response_status: status, request_data: { object_kind: 'merge_request' } },
    request_headers: key === undefined ? {} : { 'Idempotency-Key': key },
  });
  const resend = (id: number, reply: Reply | number = { status: 201, body: { response_status: 200 } }): Turn => [
    `POST ${AT}/${id}/resend`,
    reply,
  ];
  const redeliver =
    (cursor?: string) =>
    async (connection: Connected): Promise<number> => {
      const { requested, failure } = await connection.redeliver(HERE, cursor, signal);
      if (failure) throw failure;
      return requested;
    };
  const BEFORE = standing(HOOK);
  const failed = page([9, 8, 7, 6, 5, 4, 3].map((id) => event(id, '503', `k${id}`)));

  conversations(IN_WEB, {
    'requests the newest attempt of each delivery that never arrived, time-outs too': [
      redeliver(),
      [
        BEFORE,
        list(
          page([
            event(9, '500', 'a'),
            event(8, '200', 'b'),
            event(7, 'internal error', 'c'),
            event(6, '500', 'b'),
            event(5, '404', 'a'),
            event(4, '302', 'd'),
          ]),
        ),
        resend(7),
        resend(9),
      ],
      2,
    ],
    'reads the failures alone behind the first page': [
      redeliver(),
      [
        BEFORE,
        list(page([event(9, '200')], '2')),
        list(page([event(6, '404')]), 1, 'client_failure'),
        list(page([event(7, '503')]), 1, 'server_failure'),
        resend(6),
        resend(7),
      ],
      2,
    ],
    'stops at a limit': [redeliver(), [BEFORE, list(failed), resend(3), resend(4), resend(5, 429)], 2],
  });
});

describe('a commit status', () => {
  const sha = 'b'.repeat(40);
  const write = (state: 'success' | 'failure') => (connection: Connected) =>
    connection.status.write(OF_MERGE_REQUEST, { sha, state, text: 'told' }, signal);
  const post = (reply: Reply | number, state: string): Turn => [
    `POST /projects/80200/statuses/${sha}`,
    reply,
    { state, name: 'worksync/tasks', description: 'told' },
  ];

  conversations(BY_NUMBER, {
    'success is success there': [write('success'), [post({ status: 201, body: {} }, 'success')]],
    'failure is failed there': [write('failure'), [post({ status: 201, body: {} }, 'failed')]],
  });
});

describe('a signature', () => {
  const KEY = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;
  const OTHER_KEY = `whsec_${Buffer.alloc(32, 8).toString('base64')}`;
  const TOKEN = 'a-secret-token';
  const NOW = Date.UTC(2026, 0, 5, 9);
  const body = Buffer.from(JSON.stringify(fixture('merge_request.open')));
  const event = { 'x-gitlab-event': 'Merge Request Hook' };
  type Headers = Record<string, string | string[] | undefined>;

  function signed({ key = KEY, id = 'id-1', at = NOW } = {}) {
    const sentAt = Math.floor(at / 1_000);
    const bytes = Buffer.from(key.slice('whsec_'.length), 'base64');
    const digest = createHmac('sha256', bytes).update(`${id}.${sentAt}.`).update(body).digest('base64');
    return { ...event, 'webhook-id': id, 'webhook-timestamp': String(sentAt), 'webhook-signature': `v1,${digest}` };
  }
  const verify = (headers: Headers, secrets: readonly string[]) => gitlab.verify({ headers, body }, secrets, NOW);
  const wrong = signed({ key: OTHER_KEY });
  const withToken = { ...event, 'x-gitlab-token': TOKEN };
  const MISMATCH = 'signature_mismatch';

  it.each<[of: string, headers: Headers, secrets: readonly string[], outcome: string]>([
    ['of 300 s ago', signed({ at: NOW - 300_000 }), [KEY], 'accepted'],
    ['of 301 s ago', signed({ at: NOW - 301_000 }), [KEY], 'signature_expired'],
    ['of another key beside the right token', { ...wrong, 'x-gitlab-token': TOKEN }, [KEY, TOKEN], MISMATCH],
    ['replaced by the token', withToken, ['another', TOKEN], 'accepted'],
    ['replaced by a part of the token', { ...event, 'x-gitlab-token': 'a-secret' }, [TOKEN, KEY], MISMATCH],
    ['replaced by the signing key as a token', { ...event, 'x-gitlab-token': KEY }, [TOKEN, KEY], MISMATCH],
  ])('%s is judged', async (_, headers, secrets, outcome) => {
    expect((await failure(verify(headers, secrets)))?.code ?? 'accepted').toBe(outcome);
  });

  it.each<[Headers, string | undefined]>([
    [{ ...signed(), 'idempotency-key': 'forged' }, 'id-1'],
    [{ ...withToken, 'idempotency-key': 'k-1' }, 'k-1'],
    [{ ...withToken, 'idempotency-key': '../../../x' }, undefined],
    [{ ...withToken, 'x-gitlab-webhook-uuid': 'fresh-each-time' }, undefined],
  ])('with %j names the delivery %s', async (headers, deliveryId) => {
    const expected = { event: 'Merge Request Hook', ...(deliveryId && { deliveryId }) };
    expect(await verify(headers, [KEY, TOKEN])).toEqual(expected);
  });

  const open = async () => {
    const store = await openTestStore();
    const active = activeWith({ name: 'gitlab', connector: { ...gitlab } as never, secrets: [TOKEN, KEY] });
    const endpoint = await openEndpoint(store, [active]);
    const post = (headers: Record<string, string>) => endpoint.post('/webhooks/main/gitlab', body, headers);
    return { store, clock: endpoint.clock, post, now: () => signed({ at: endpoint.clock.now() }) };
  };
  const taken = (delivery: string) => ({ status: 202, body: `{"delivery":"${delivery}"}` });

  it('is accepted once, and not when it is old', async () => {
    const { store, clock, post, now } = await open();
    const headers = now();
    expect([await post(headers), await post(headers)]).toMatchObject([taken('new'), taken('repeated')]);
    await clock.advance(6 * 60_000);
    expect(await post(headers)).toMatchObject({ status: 401 });
    // GitLab signs a repetition anew, with the same id.
    expect(await post(now())).toMatchObject(taken('repeated'));
    expect(await inboxOf(store)).toMatchObject([{ event: 'Merge Request Hook', body: body.toString() }]);
  });
});
