import { describe, expect, it } from 'vitest';
import { linear } from '../../../../src/connectors/linear/index.ts';
import * as queries from '../../../../src/connectors/linear/queries.ts';
import { courseOf, failure, type Reply, type Turn } from '../../../support/vendors/course.ts';

const { signal } = new AbortController();
const ORGANIZATION = '9f2c1a7b-04d5-4c6f-8a90-b1e2d3c4f5a6';
const TEAM = '72b2a2dc-6f4f-4423-9d34-24b5bd10634a';
const OTHER_TEAM = '82b2a2dc-6f4f-4423-9d34-24b5bd10634a';
const ISSUE = '2174add1-f7c8-44e3-bbf3-2d60b5ea8bc9';
const given = { organizationId: ORGANIZATION, apiKey: 'lin_api_k', teams: ['ENG'] };
const connect = (course: readonly Turn[], more: object = {}) =>
  courseOf(linear, { ...given, ...more }, 'https://api.linear.app', course);
const turn = (query: string, variables: object, data: object, reply: Reply = {}): Turn => [
  'POST /graphql',
  { body: { data }, ...reply },
  { query, variables },
];
const last = { hasNextPage: false, endCursor: null };
const reference = {
  kind: 'work_item' as const,
  key: `linear:${ORGANIZATION}:issue:${ISSUE}`,
  locator: { issueId: ISSUE, teamId: TEAM, identifier: 'ENG-123' },
};
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

describe('requests', () => {
  it.each([
    ['a personal key stands alone', {}, 'lin_api_k'],
    ['a token of OAuth is a bearer', { apiKey: undefined, accessToken: 't' }, 'Bearer t'],
    ['nothing stands without either', { apiKey: undefined }, undefined],
  ])('%s', async (_, more, authorization) => {
    const { connection, requests } = connect([turn(queries.ISSUES, first, nothing)], more);
    await connection.poll(started, signal);
    expect(requests[0]?.headers?.['authorization']).toBe(authorization);
  });

  it.each([
    ['AUTHENTICATION_ERROR', 'unauthorized'],
    ['FORBIDDEN', 'forbidden'],
    ['INPUT_ERROR', 'refused'],
    ['GRAPHQL_VALIDATION_FAILED', 'refused'],
    ['INTERNAL_SERVER_ERROR', 'server_failed'],
    ['SOMETHING_OF_TOMORROW', 'refused'],
  ])('errors come with 200 too: %s is %s', async (code, expected) => {
    const errors = [{ message: 'No.', extensions: { code, userPresentableMessage: 'Not\nallowed.' } }];
    const { connection } = connect([turn(queries.ISSUES, first, nothing, { body: { data: nothing, errors } })]);
    const error = await failure(connection.poll(started, signal));
    expect(error?.code).toBe(expected);
    expect(error?.message).toContain('(Not allowed.)');
  });

  it('polls leave a tenth of the limit, backfills a half, fetches nothing', async () => {
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
    expect((await failure(connection.history?.({ unit: 'ENG' }, signal)))?.code).toBe('rate_limited');
    await connection.fetch(reference, signal);
    await clock.advance(Date.UTC(2026, 0, 5, 10) - clock.now() + 2_000);
    await connection.poll(started, signal);
  });
});

describe('units', () => {
  const team = (id: string, key: string) => ({ id, key, name: key });

  it('are those that are named, and those that patterns take in', async () => {
    const { connection } = connect(
      [
        turn(
          queries.TEAMS,
          {},
          { teams: { nodes: [team(TEAM, 'ENG')], pageInfo: { hasNextPage: true, endCursor: 'a' } } },
        ),
        turn(
          queries.TEAMS,
          { after: 'a' },
          { teams: { nodes: [team(OTHER_TEAM, 'OPS'), team(ISSUE, 'SEC')], pageInfo: last } },
        ),
      ],
      { teams: ['ENG', '*'], exclude: ['SEC'] },
    );
    for (const _ of [1, 2]) expect(await connection.units(signal)).toEqual(['ENG', OTHER_TEAM]);
  });

  it('cannot be told from a list that runs in a circle', async () => {
    const circle = { teams: { nodes: [], pageInfo: { hasNextPage: true, endCursor: 'a' } } };
    const { connection } = connect([turn(queries.TEAMS, {}, circle), turn(queries.TEAMS, { after: 'a' }, circle)], {
      teams: ['*'],
    });
    expect((await failure(connection.units(signal)))?.code).toBe('answer_malformed');
  });
});

it('history goes from the newest back', async () => {
  const since = '2026-01-01T00:00:00.000Z';
  const filter = { team: { key: { eq: 'ENG' } }, updatedAt: { gte: since } };
  const variables = { filter, orderBy: 'updatedAt', first: 50 };
  const more = { issues: { nodes: [{ id: ISSUE }], pageInfo: { hasNextPage: true, endCursor: 'a' } } };
  const { connection } = connect([
    turn(queries.ISSUES, variables, more),
    turn(queries.ISSUES, { ...variables, after: 'a' }, nothing),
  ]);
  const body = Buffer.from(JSON.stringify([{ id: ISSUE }]));
  expect(await connection.history?.({ unit: 'ENG', since }, signal)).toEqual({ event: 'issues.list', body, next: 'a' });
  const end = await connection.history?.({ unit: 'ENG', since, page: 'a' }, signal);
  expect(end).toEqual({ event: 'issues.list', body: Buffer.from('[]') });
});

describe('a sweep', () => {
  const variables = { filter: { team: { id: { eq: TEAM } } }, first: 250 };

  it('lists the ids of what is not in the trash, for the team by its id', async () => {
    const nodes = [{ id: ISSUE, trashed: null }, { id: TEAM, trashed: true }, { id: OTHER_TEAM }];
    const { connection } = connect([
      teamTurn(),
      turn(queries.ISSUE_IDS, variables, { issues: { nodes, pageInfo: { hasNextPage: true, endCursor: 'a' } } }),
      teamTurn(),
      turn(queries.ISSUE_IDS, { ...variables, after: 'a' }, nothing),
    ]);
    const key = (id: string) => `linear:${ORGANIZATION}:issue:${id}`;
    const page = { keys: [key(ISSUE), key(OTHER_TEAM)], containers: [TEAM], next: 'a' };
    expect(await connection.sweep?.('ENG', undefined, signal)).toEqual(page);
    expect(await connection.sweep?.('ENG', 'a', signal)).toEqual({ keys: [], containers: [TEAM] });
  });

  it('says nothing about a team that cannot be seen', async () => {
    const none = { teams: { nodes: [], pageInfo: last } };
    const { connection } = connect([turn(queries.TEAMS, { filter: { key: { eq: 'ENG' } } }, none)]);
    expect((await failure(connection.sweep?.('ENG', undefined, signal)))?.code).toBe('not_found');
  });
});

describe('a comment', () => {
  const wanted = { marker: 'worksync:acme:linear', text: 'Tracked as BUG-12: https://work.example.com/t/12' };
  const V4 = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
  const done = { change: { success: true } };

  /** The id that a marker leads to, as it is asked for. */
  async function idFor(marker: string, key = reference): Promise<string> {
    const ask: Turn = [
      'POST /graphql',
      { body: { data: { comments: { nodes: [{ id: ISSUE, body: wanted.text }] } } } },
    ];
    const { connection, requests } = connect([ask]);
    await connection.comment?.(key, { ...wanted, marker }, signal);
    return (JSON.parse(String(requests[0]?.body)) as { variables: { id: string } }).variables.id;
  }

  it('has an id of its own for each issue and marker', async () => {
    const other = { ...reference, locator: { ...reference.locator, issueId: TEAM } };
    const ids = [await idFor('a'), await idFor('a'), await idFor('b'), await idFor('a', other)];
    for (const id of ids) expect(id).toMatch(V4);
    expect(new Set(ids).size).toBe(3);
    expect(ids[0]).toBe(ids[1]);
  });

  it('is posted where none is, and updated where one is', async () => {
    const id = await idFor(wanted.marker);
    const ask = (nodes: object[]) => turn(queries.COMMENT, { id }, { comments: { nodes } });
    const made = turn(queries.CREATE_COMMENT, { input: { id, issueId: ISSUE, body: wanted.text } }, done);
    const edited = turn(queries.UPDATE_COMMENT, { id, body: wanted.text }, done);
    for (const course of [
      [ask([]), made],
      [ask([{ id, body: 'Tracked as BUG-11' }]), edited],
      [ask([{ id, body: wanted.text }])],
    ])
      expect(await failure(connect(course).connection.comment(reference, wanted, signal))).toBeUndefined();
  });

  it('that was not taken says so', async () => {
    const id = await idFor(wanted.marker);
    const { connection } = connect([
      turn(queries.COMMENT, { id }, { comments: { nodes: [] } }),
      ['POST /graphql', { body: { data: { commentCreate: { success: false } } } }],
    ]);
    expect((await failure(connection.comment?.(reference, wanted, signal)))?.code).toBe('refused');
  });
});

describe('closing', () => {
  const states = [
    { id: OTHER_TEAM, name: 'Released', position: 9 },
    { id: TEAM, name: 'Done', position: 3 },
  ];
  const ask = (type: string, nodes = states): Turn =>
    turn(
      queries.CLOSING,
      { issueId: ISSUE },
      { issues: { nodes: [{ state: { type }, team: { states: { nodes } } }] } },
    );
  const set = (stateId: string): Turn =>
    turn(queries.SET_STATE, { issueId: ISSUE, stateId }, { issueUpdate: { success: true } });
  const closing = async (course: readonly Turn[], more: object = {}) => {
    const { connection } = connect(course, more);
    const error = await failure(connection.close?.(reference, signal));
    return error?.code;
  };

  it.each(['completed', 'canceled', 'duplicate'])('leaves what is %s as it is', async (type) => {
    expect(await closing([ask(type)])).toBeUndefined();
  });

  it('takes the first completed status, or the configured one', async () => {
    expect(await closing([ask('started'), set(TEAM)])).toBeUndefined();
    expect(await closing([ask('started'), set(OTHER_TEAM)], { doneStatus: 'released' })).toBeUndefined();
  });

  it('says so where there is none', async () => {
    expect(await closing([ask('started', [])])).toBe('conflict');
    expect(await closing([ask('started')], { doneStatus: 'Shipped' })).toBe('conflict');
    expect(await closing([turn(queries.CLOSING, { issueId: ISSUE }, { issues: { nodes: [] } })])).toBe('not_found');
  });
});

describe('webhooks at Linear', () => {
  const url = 'https://sync.example.com/webhooks/main/linear';
  const input = { enabled: true, resourceTypes: ['Comment', 'Issue'], secret: 'S' };
  const standing = (more: object = {}) => ({
    id: ISSUE,
    url,
    enabled: true,
    resourceTypes: ['Issue', 'Comment', 'Project'],
    allPublicTeams: false,
    team: { id: TEAM },
    ...more,
  });
  const list = (...nodes: object[]): Turn => turn(queries.WEBHOOKS, {}, { webhooks: { nodes, pageInfo: last } });
  const done = { change: { success: true } };

  it.each<[string, object[], string]>([
    ['active', [standing({ url: 'https://elsewhere.example.com', enabled: false }), standing()], 'active'],
    ['active for all teams', [standing({ team: null, allPublicTeams: true })], 'active'],
    ['switched off', [standing({ enabled: false })], 'disabled'],
    ['absent', [standing({ team: { id: OTHER_TEAM } })], 'absent'],
  ])('are looked at: %s', async (_, hooks, state) => {
    const { connection } = connect([teamTurn(), list(...hooks)]);
    expect(await connection.hooks?.states(url, signal)).toMatchObject([{ subject: 'ENG', state }]);
  });

  it('are unknown to those who are no administrators', async () => {
    const errors = [{ message: 'No.', extensions: { code: 'FORBIDDEN' } }];
    const { connection } = connect([teamTurn(), turn(queries.WEBHOOKS, {}, {}, { body: { errors } })]);
    expect(await connection.hooks?.states(url, signal)).toMatchObject([{ subject: 'ENG', state: 'unknown' }]);
  });

  it('are made for each team, mended once, and told the secret again', async () => {
    const { connection } = connect(
      [
        teamTurn(),
        teamTurn(OTHER_TEAM, 'OPS'),
        list(standing({ enabled: false })),
        turn(queries.UPDATE_WEBHOOK, { id: ISSUE, input }, done),
        turn(queries.CREATE_WEBHOOK, { input: { ...input, label: 'worksync', url, teamId: OTHER_TEAM } }, done),
      ],
      { teams: ['ENG', 'OPS'] },
    );
    expect(await connection.hooks?.install(url, 'S', signal)).toMatchObject([
      { subject: 'ENG', outcome: 'updated' },
      { subject: 'OPS', outcome: 'created' },
    ]);
  });

  it('for all public teams stand for each of them, and are written to once', async () => {
    const { connection } = connect(
      [
        teamTurn(),
        teamTurn(OTHER_TEAM, 'OPS'),
        list(standing({ team: null, allPublicTeams: true })),
        turn(queries.UPDATE_WEBHOOK, { id: ISSUE, input }, done),
      ],
      { teams: ['ENG', 'OPS'] },
    );
    const outcomes = await connection.hooks?.install(url, 'S', signal);
    expect(outcomes?.map(({ outcome }) => outcome)).toEqual(['unchanged', 'unchanged']);
  });

  it.each(['private', 'restricted'])(
    'for all public teams stand for no %s one, which is silent until it has its own',
    async (visibility) => {
      const ofAll = standing({ team: null, allPublicTeams: true });
      const both = { teams: ['ENG', 'OPS'] };
      const teams = [teamTurn(), teamTurn(OTHER_TEAM, 'OPS', visibility)];
      const states = connect([...teams, list(ofAll)], both);
      expect(await states.connection.hooks?.states(url, signal)).toMatchObject([
        { subject: 'ENG', state: 'active' },
        { subject: 'OPS', state: 'absent', message: expect.stringContaining('private team') },
      ]);
      const made = turn(
        queries.CREATE_WEBHOOK,
        { input: { ...input, label: 'worksync', url, teamId: OTHER_TEAM } },
        done,
      );
      const { connection } = connect(
        [...teams, list(ofAll), turn(queries.UPDATE_WEBHOOK, { id: ISSUE, input }, done), made],
        both,
      );
      expect(await connection.hooks?.install(url, 'S', signal)).toMatchObject([
        { subject: 'ENG', outcome: 'unchanged' },
        { subject: 'OPS', outcome: 'created' },
      ]);
      const own = standing({ id: OTHER_TEAM, team: { id: OTHER_TEAM } });
      const after = connect([...teams, list(ofAll, own)], both);
      expect(await after.connection.hooks?.states(url, signal)).toMatchObject([
        { state: 'active' },
        { state: 'active' },
      ]);
    },
  );
});

describe('check', () => {
  const who = (id = ORGANIZATION, reply: Reply = {}): Turn =>
    turn(queries.WHO, {}, { viewer: { name: 'Sync' }, organization: { id, urlKey: 'acme' } }, reply);
  const lines = async (course: readonly Turn[], more: object = {}) => {
    const { connection } = connect(course, more);
    const findings = await connection.check(signal);
    return findings;
  };

  it('names the organisation where another one is configured', async () => {
    const findings = await lines([who(TEAM), teamTurn()]);
    const wrong = findings.find(({ subject }) => subject === 'organisation');
    expect(wrong).toMatchObject({ level: 'error', message: expect.stringContaining(TEAM) });
  });

  it('reports a team that cannot be seen, and a limit that is nearly used up', async () => {
    const headers = {
      'x-ratelimit-requests-limit': '2500',
      'x-ratelimit-requests-remaining': '2400',
      'x-ratelimit-requests-reset': '1',
      'x-ratelimit-complexity-limit': '3000000',
      'x-ratelimit-complexity-remaining': '1000',
      'x-ratelimit-complexity-reset': '1',
    };
    const none = { teams: { nodes: [], pageInfo: last } };
    const data = { viewer: { name: 'Sync' }, organization: { id: ORGANIZATION, urlKey: 'acme' } };
    const findings = await lines([
      turn(queries.WHO, {}, data, { headers }),
      turn(queries.TEAMS, { filter: { key: { eq: 'ENG' } } }, none),
    ]);
    expect(findings.map(({ level, subject }) => `${level} ${subject}`)).toEqual([
      'ok credential',
      'ok organisation',
      'warning rate limit',
      'error ENG',
    ]);
  });
});
