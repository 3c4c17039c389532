import { createHmac } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import type { Connection } from '../../../src/connectors/connector.ts';
import * as queries from '../../../src/connectors/linear/connect.ts';
import { linear } from '../../../src/connectors/linear/index.ts';
import type { WorkItem } from '../../../src/model/item.ts';
import type { HttpRequest } from '../../../src/platform/http/http-client.ts';
import { activeWith, inboxOf, openEndpoint, openTestStore } from '../../support/harness/intake.ts';
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
const ORGANIZATION = '9f2c1a7b-04d5-4c6f-8a90-b1e2d3c4f5a6';
const TEAM = '72b2a2dc-6f4f-4423-9d34-24b5bd10634a';
const OTHER_TEAM = '82b2a2dc-6f4f-4423-9d34-24b5bd10634a';
const ISSUE = '2174add1-f7c8-44e3-bbf3-2d60b5ea8bc9';
const ADA = 'b5ea5f1f-8adc-4f52-b4bd-ab4e84cf51ba';
const BEN = 'aacdca22-6266-4c0a-ab3c-8fa70a26765c';
const given = { organizationId: ORGANIZATION, apiKey: 'lin_api_k', teams: ['ENG'] };
const PARTY = { connector: linear, given, origin: 'https://api.linear.app' };
const connect = (course: readonly Turn[], more: object = {}) =>
  courseOf(linear, { ...given, ...more }, PARTY.origin, course);
const turn = (query: string, variables: object, data: object, reply: Reply = {}): Turn => [
  'POST /graphql',
  { body: { data }, ...reply },
  { query, variables },
];
const last = { hasNextPage: false, endCursor: null };
const next = { hasNextPage: true, endCursor: 'a' };
const locator = { issueId: ISSUE, teamId: TEAM, identifier: 'ENG-123' };
const keyOf = (id: string) => `linear:${ORGANIZATION}:issue:${id}`;
const reference = { kind: 'work_item' as const, key: keyOf(ISSUE), locator };
const started = { unit: 'ENG', startedAt: '2026-01-05T09:00:00.000Z' };
const notDone = {
  team: { key: { eq: 'ENG' } },
  or: [
    { state: { type: { nin: ['completed', 'canceled', 'duplicate'] } } },
    { updatedAt: { gte: '2026-01-05T08:50:00.000Z' } },
  ],
};
const first = { filter: notDone, orderBy: 'createdAt', first: 50 };
const nothing = { issues: { nodes: [], pageInfo: last } };
const teamTurn = (id = TEAM, key = 'ENG', visibility = 'public'): Turn => {
  const nodes = [{ id, key, name: key, visibility }];
  return turn(queries.TEAMS, { filter: { key: { eq: key } } }, { teams: { nodes, pageInfo: last } });
};

it.each([
  ['a personal key alone', {}, 'lin_api_k'],
  ['a token of OAuth as a bearer', { apiKey: undefined, accessToken: 't' }, 'Bearer t'],
  ['nothing without either', { apiKey: undefined }, undefined],
])('sends %s', async (_, more, authorization) => {
  const { connection, requests } = connect([turn(queries.ISSUES, first, nothing)], more);
  await connection.poll(started, signal);
  expect(requests[0]?.headers?.['authorization']).toBe(authorization);
});

it.each([
  ['AUTHENTICATION_ERROR', 'unauthorized'],
  ['FORBIDDEN', 'forbidden'],
  ['INPUT_ERROR', 'refused'],
  ['INTERNAL_SERVER_ERROR', 'server_failed'],
  ['SOMETHING_OF_TOMORROW', 'refused'],
])('reads the error %s with status 200 as %s', async (code, expected) => {
  const errors = [{ message: 'No.', extensions: { code, userPresentableMessage: 'Not\nallowed.' } }];
  const { connection } = connect([turn(queries.ISSUES, first, nothing, { body: { data: nothing, errors } })]);
  expect(await failure(connection.poll(started, signal))).toEqual(failing(expected, undefined, '(Not allowed.)'));
});

it('leaves a tenth of the limit to fetches after polls, and half after backfills', async () => {
  const headers = {
    'x-ratelimit-requests-limit': '100',
    'x-ratelimit-requests-remaining': '9',
    'x-ratelimit-requests-reset': String(Date.UTC(2026, 0, 5, 10)),
  };
  const found = { issues: { nodes: [], pageInfo: last }, teams: { nodes: [{ id: TEAM }] } };
  const one = turn(queries.ONE_ISSUE, { issueId: ISSUE, teamId: TEAM }, found, { headers });
  const { connection, clock } = connect([one, one, turn(queries.ISSUES, first, nothing)]);
  await connection.fetch(reference, signal);
  expect((await failure(connection.poll(started, signal)))?.code).toBe('rate_limited');
  expect((await failure(connection.history({ unit: 'ENG' }, signal)))?.code).toBe('rate_limited');
  await connection.fetch(reference, signal);
  await clock.advance(Date.UTC(2026, 0, 5, 10) - clock.now() + 2_000);
  await connection.poll(started, signal);
});

describe('lists', () => {
  const team = (id: string, key: string) => ({ id, key, name: key });
  const units = (connection: Connected) => connection.units(signal);
  const all = { filter: { team: { id: { eq: TEAM } } }, first: 250 };
  const nodes = [{ id: ISSUE, trashed: null }, { id: TEAM, trashed: true }, { id: OTHER_TEAM }];

  conversations(PARTY, {
    'follow named teams and those of patterns, over all pages': [
      units,
      [
        turn(queries.TEAMS, {}, { teams: { nodes: [team(TEAM, 'ENG')], pageInfo: next } }),
        turn(
          queries.TEAMS,
          { after: 'a' },
          { teams: { nodes: [team(OTHER_TEAM, 'OPS'), team(ISSUE, 'SEC')], pageInfo: last } },
        ),
      ],
      exactly(['ENG', OTHER_TEAM]),
      { teams: ['ENG', '*'], exclude: ['SEC'] },
    ],
    'sweep the ids of what is not in the trash, for the team by its id': [
      async (connection) => [
        await connection.sweep('ENG', undefined, signal),
        await connection.sweep('ENG', 'a', signal),
      ],
      [
        teamTurn(),
        turn(queries.ISSUE_IDS, all, { issues: { nodes, pageInfo: next } }),
        teamTurn(),
        turn(queries.ISSUE_IDS, { ...all, after: 'a' }, nothing),
      ],
      exactly([
        { keys: [keyOf(ISSUE), keyOf(OTHER_TEAM)], containers: [TEAM], next: 'a' },
        { keys: [], containers: [TEAM] },
      ]),
    ],
  });
});

describe('a comment', () => {
  const wanted = { marker: 'worksync:acme:linear', text: 'Tracked as BUG-12: https://work.example.com/t/12' };
  const write = async (connection: Connected) => void (await connection.comment(reference, wanted, signal));
  const done = { change: { success: true } };
  const found = (...nodes: object[]): Turn => ['POST /graphql', { body: { data: { comments: { nodes } } } }];
  const create = (data: object): Turn => ['POST /graphql', { body: { data } }];
  const sentBy = ({ body }: HttpRequest) => (JSON.parse(String(body)) as { variables: { id?: string } }).variables;

  it('is posted and updated by the id that it is searched by: one for each issue and marker', async () => {
    const ids: (string | undefined)[] = [];
    for (const [marker, issueId] of [
      ['a', ISSUE],
      ['a', ISSUE],
      ['b', ISSUE],
      ['a', TEAM],
    ] as const) {
      const { connection, requests } = connect([found(), create(done)]);
      await connection.comment({ ...reference, locator: { ...locator, issueId } }, { ...wanted, marker }, signal);
      const [{ id }, created] = requests.map(sentBy) as [{ id: string }, object];
      expect(created).toEqual({ input: { id, issueId, body: wanted.text } });
      ids.push(id);
    }
    expect([new Set(ids).size, ids[0]]).toEqual([3, ids[1]]);
    const update = turn(queries.UPDATE_COMMENT, { id: ids[0], body: wanted.text }, done);
    const { connection } = connect([found({ id: ids[0], body: 'Old' }), update]);
    await connection.comment(reference, { ...wanted, marker: 'a' }, signal);
  });

  conversations(PARTY, {
    'is left alone if it has the same text': [write, [found({ id: ADA, body: wanted.text })]],
    'is refused if Linear did not accept it': [
      write,
      [found(), create({ commentCreate: { success: false } })],
      failing('refused'),
    ],
  });
});

describe('closing', () => {
  const close = (connection: Connected) => connection.close(reference, signal);
  const states = [
    { id: OTHER_TEAM, name: 'Released', position: 9 },
    { id: TEAM, name: 'Done', position: 3 },
  ];
  const asked = (...nodes: object[]) => turn(queries.CLOSING, { issueId: ISSUE }, { issues: { nodes } });
  const is = (type: string, nodes = states) => asked({ state: { type }, team: { states: { nodes } } });
  const set = (stateId: string) =>
    turn(queries.SET_STATE, { issueId: ISSUE, stateId }, { issueUpdate: { success: true } });

  conversations(PARTY, {
    'leaves a completed issue as it is': [close, [is('completed')]],
    'takes the first completed status': [close, [is('started'), set(TEAM)]],
    'takes the configured status': [
      close,
      [is('started'), set(OTHER_TEAM)],
      undefined,
      { completedStatus: 'released' },
    ],
    'is a conflict without a completed status': [close, [is('started', [])], failing('conflict')],
  });
});

describe('webhooks at Linear', () => {
  const url = 'https://sync.example.com/webhooks/main/linear';
  const input = { enabled: true, resourceTypes: ['Comment', 'Issue'], secret: 'S' };
  const standing = (more: object = {}) => ({
    ...{ id: ISSUE, url, enabled: true, resourceTypes: ['Issue', 'Comment', 'Project'] },
    ...{ allPublicTeams: false, team: { id: TEAM }, ...more },
  });
  const ofAll = standing({ team: null, allPublicTeams: true });
  const list = (...nodes: object[]): Turn => turn(queries.WEBHOOKS, {}, { webhooks: { nodes, pageInfo: last } });
  const done = { change: { success: true } };
  const states = (connection: Connected) => connection.hooks.states(url, signal);
  const install = (connection: Connected) => connection.hooks.install(url, 'S', signal);
  const update = turn(queries.UPDATE_WEBHOOK, { id: ISSUE, input }, done);
  const create = turn(
    queries.CREATE_WEBHOOK,
    { input: { ...input, label: 'worksync', url, teamId: OTHER_TEAM } },
    done,
  );
  const is = (state: string) => [{ subject: 'ENG', state }];
  const BOTH = { teams: ['ENG', 'OPS'] };
  const both = (visibility?: string) => [teamTurn(), teamTurn(OTHER_TEAM, 'OPS', visibility)];
  const forbidden = [{ message: 'No.', extensions: { code: 'FORBIDDEN' } }];

  conversations(PARTY, {
    'are active': [
      states,
      [teamTurn(), list(standing({ url: 'https://elsewhere.example.com', enabled: false }), standing())],
      is('active'),
    ],
    'are switched off': [states, [teamTurn(), list(standing({ enabled: false }))], is('disabled')],
    'are absent': [states, [teamTurn(), list(standing({ team: { id: OTHER_TEAM } }))], is('absent')],
    'are unknown to a person who is no administrator': [
      states,
      [teamTurn(), turn(queries.WEBHOOKS, {}, {}, { body: { errors: forbidden } })],
      is('unknown'),
    ],
    'are registered for each team, and repaired': [
      install,
      [...both(), list(standing({ enabled: false })), update, create],
      [
        { subject: 'ENG', outcome: 'updated' },
        { subject: 'OPS', outcome: 'created' },
      ],
      BOTH,
    ],
    'for all public teams cover each of them, and are written once': [
      install,
      [...both(), list(ofAll), update],
      [{ outcome: 'unchanged' }, { outcome: 'unchanged' }],
      BOTH,
    ],
    'for all public teams cover no private one': [
      states,
      [...both('private'), list(ofAll)],
      [
        { subject: 'ENG', state: 'active' },
        { subject: 'OPS', state: 'absent', message: expect.stringContaining('private team') },
      ],
      BOTH,
    ],
  });
});

describe('check', () => {
  const left = (noun: string, limit: number, remaining: number) => ({
    [`x-ratelimit-${noun}-limit`]: String(limit),
    [`x-ratelimit-${noun}-remaining`]: String(remaining),
    [`x-ratelimit-${noun}-reset`]: '1',
  });
  const headers = { ...left('requests', 2_500, 2_400), ...left('complexity', 3_000_000, 1_000) };
  const who = (id: string): Turn =>
    turn(
      queries.WHO,
      {},
      {},
      { headers, body: { data: { viewer: { name: 'Sync' }, organization: { id, urlKey: 'acme' } } } },
    );

  conversations(PARTY, {
    'names the organisation if another one is configured': [
      async (connection) => (await connection.check(signal)).find(({ subject }) => subject === 'organisation'),
      [who(TEAM), teamTurn()],
      { level: 'error', message: expect.stringContaining(TEAM) },
    ],
  });
});

const { hook, fetched } = translationsOf({
  connector: linear,
  given: { organizationId: ORGANIZATION, teams: ['eng'] },
});
const update = fixture<{ data: Json }>('linear', 'issue.update');
const node = fixture('linear', 'issues.get');
const ofHook = (fields: Json, more: object = {}) =>
  hook('Issue', { ...update, data: { ...update.data, ...fields } }, more);
const hookWith = (fields: Json, more: object = {}) => itemOf(ofHook(fields, more));
const readWith = (fields: Json, more: object = {}) => itemOf(fetched('issues.get', { ...node, ...fields }, more));

describe('an issue', () => {
  const common = {
    ...{ kind: 'work_item', key: keyOf(ISSUE), connector: 'linear', host: ORGANIZATION },
    ...{ containerId: TEAM, containerName: 'ENG', identifier: 'ENG-123' },
    updatedAt: Date.UTC(2026, 2, 2, 9, 30, 0, 512),
    url: 'https://linear.app/acme/issue/ENG-123',
    title: 'Upload fails for files over 2 GB',
    description: 'Send a file of **3 GB**. See BUG-12.',
    ...{ state: 'in_progress', isDropped: false, closedAt: null, rawState: 'In Review', priority: 'High' },
    ...{ labels: ['backend', 'upload'], assignees: [BEN], author: ADA, createdAt: '2026-03-02T08:00:00.118Z' },
  };
  const state = (type: string) => ({ state: { name: 'Its name', type } });
  const door = { identifier: '4U-41', team: { id: TEAM, key: '4U' }, url: 'https://linear.app/acme/issue/4U-41/door' };

  it('of the API has the addresses beside the fields of a webhook', () => {
    // The webhook reports a change of the state.
    expect(hookWith({})).toEqual({ ...common, phaseChangedAt: '2026-03-02T09:30:00.512Z' });
    const emails = { [ADA]: 'ada@example.com', [BEN]: 'ben@example.com' };
    expect(readWith({})).toEqual({ ...common, emails, isBot: false });
    expect(linear.reference(hookWith({}))).toEqual(reference);
  });

  it.each<[string, Json, Partial<WorkItem>]>([
    ...['triage', 'backlog', 'unstarted'].map((type): [string, Json, Partial<WorkItem>] => [
      `open in ${type}`,
      state(type),
      { state: 'open', rawState: 'Its name' },
    ]),
    ['in progress', state('started'), { state: 'in_progress' }],
    ...['completed', 'canceled', 'duplicate'].map((type): [string, Json, Partial<WorkItem>] => [
      `done if ${type}`,
      state(type),
      { state: 'done' },
    ]),
    ...[null, 'Urgent', 'High', 'Medium', 'Low', null].map((word, priority): [string, Json, Partial<WorkItem>] => [
      `of priority ${priority}`,
      { priority },
      { priority: word },
    ]),
    ['at its short address', { url: 'https://linear.app/acme/issue/ENG-123/a-title' }, { url: common.url }],
    ['gone in the trash', { trashed: true }, { gone: true }],
    ['with its former keys', { previousIdentifiers: ['OPS-7', '4U-2'] }, { formerIdentifiers: ['4U-2', 'OPS-7'] }],
    ['of a key that begins with a digit', door, { identifier: '4U-41', url: 'https://linear.app/acme/issue/4U-41' }],
  ])('is %s', (_, fields, expected) => {
    expect(readWith(fields, { teams: ['ENG', '4U'] })).toMatchObject(expected);
    expect(hookWith(fields, { teams: ['ENG', '4U'] })).toMatchObject(expected);
  });

  it.each<[string, Json, keyof WorkItem]>([
    ['more labels than were read', { labels: { nodes: [{ name: 'a' }], pageInfo: next } }, 'labels'],
    ['an unknown type of state', state('frozen'), 'state'],
    ['a trash that it left', { trashed: false }, 'gone'],
    ['an address that is none', { assignee: { id: 'a', email: 'hidden' }, creator: null }, 'emails'],
  ])('lacks what %s would tell', (_, fields, field) => {
    expect(readWith(fields)).not.toHaveProperty(field);
  });

  it.each<[string, Json]>([
    ['an id', { id: '../../../1' }],
    ['a team', { team: null }],
  ])('without %s is malformed', (_, fields) => {
    expect(() => readWith(fields)).toThrow(MALFORMED);
  });
});

describe('a webhook', () => {
  const known = { outcome: 'references', references: [reference] };
  const unjudged = {
    outcome: 'references',
    references: [{ ...reference, locator: { issueId: ISSUE, isFollowed: 'unknown' } }],
  };
  const comment = (data: Json) => hook('Comment', { action: 'create', type: 'Comment', data: { id: ADA, ...data } });

  it.each<[string, Json, Json]>([
    ['an assignee without the id', { assigneeId: undefined }, { assignees: [BEN] }],
    ['a creator without the id', { creatorId: undefined }, { author: ADA }],
  ])('with %s tells enough', (_, fields, expected) => {
    expect(hookWith(fields)).toMatchObject(expected);
  });

  it.each<[string, Json, object]>([
    ['a known state', { state: { name: 'Frozen', type: 'frozen' } }, known],
    ['a team', { team: null }, unjudged],
    ['an identifier', { identifier: undefined }, unjudged],
  ])('without %s has the issue fetched', (_, fields, expected) => {
    expect(ofHook(fields)).toEqual(expected);
  });

  it.each<[string, Json, object]>([
    ['its identifier', { issue: { id: ISSUE, team: { id: TEAM, key: 'ENG' } } }, unjudged],
    ['an issue', { issue: null, issueId: null }, { outcome: 'ignored', reason: 'not_an_issue' }],
  ])('about a comment on an issue without %s', (_, data, expected) => {
    expect(comment({ body: 'Yes.', ...data })).toMatchObject(expected);
  });

  it('of a removal takes the later of both times', () => {
    const removed = fixture('linear', 'issue.remove');
    const at = (more: Json) => itemOf(hook('Issue', { ...removed, ...more }));
    expect(at({})).toMatchObject({ updatedAt: Date.parse('2026-03-02T09:40:00.050Z'), gone: true });
    expect(at({ createdAt: '2026-01-01T00:00:00.000Z' }).updatedAt).toBe(Date.parse('2026-03-02T09:30:00.512Z'));
  });

  it('is answered with 200, because Linear repeats it otherwise', async () => {
    const store = await openTestStore();
    const active = activeWith({ name: 'linear', connector: { ...linear } as never, secrets: ['S'] });
    const endpoint = await openEndpoint(store, [active]);
    const body = Buffer.from(JSON.stringify(update));
    const headers = {
      'linear-signature': createHmac('sha256', 'S').update(body).digest('hex'),
      'linear-event': 'Issue',
      'linear-delivery': '234d1a4e-b617-4388-90fe-adc3633d6b72',
    };
    for (const outcome of ['new', 'repeated'])
      expect(await endpoint.post('/webhooks/main/linear', body, headers)).toMatchObject({
        status: 200,
        body: `{"delivery":"${outcome}"}`,
      });
    const forged = { ...headers, 'linear-signature': '0'.repeat(64) };
    expect(await endpoint.post('/webhooks/main/linear', body, forged)).toMatchObject({ status: 401 });
    expect(await inboxOf(store)).toMatchObject([{ event: 'Issue', body: body.toString() }]);
  });
});
