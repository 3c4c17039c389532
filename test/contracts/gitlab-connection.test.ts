import { readFileSync } from 'node:fs';
import nock from 'nock';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { gitlab } from '../../src/connectors/gitlab/index.ts';
import { createHttpClient } from '../../src/http/http-client.ts';
import { silentLogger } from '../../src/lib/logger.ts';
import { silentMeter } from '../../src/lib/meter.ts';
import { noSteps } from '../../src/lib/steps.ts';
import type { Item, ItemReference } from '../../src/model/item.ts';
import { createTravellingClock } from '../support/travelling-clock.ts';
import { documentedOnly } from '../support/vendor-requests/index.ts';

const API = '/api/v4';
const GROUP = `${API}/groups/acme%2Fplatform`;
const PROJECT = `${API}/projects/acme%2Fweb`;
const HERE = 'https://sync.example.com/webhooks/main/gitlab';
const { signal } = new AbortController();
const http = documentedOnly(createHttpClient({ steps: noSteps, meter: silentMeter }));

const fixture = (name: string) =>
  JSON.parse(
    readFileSync(new URL(`../../src/connectors/gitlab/fixtures/${name}.json`, import.meta.url), 'utf8'),
  ) as object;
const mergeRequest = fixture('merge_requests.get');
const issue = fixture('issues.get');

const unexpected: string[] = [];
const note = (request: { method?: string; path?: string }) => unexpected.push(`${request.method} ${request.path}`);

beforeAll(() => {
  nock.disableNetConnect();
  nock.emitter.on('no match', note);
});
afterEach(() => {
  const left = nock.pendingMocks();
  const surprises = unexpected.splice(0);
  nock.cleanAll();
  if (left.length + surprises.length > 0) throw new Error(JSON.stringify({ left, surprises }));
});
afterAll(async () => {
  nock.emitter.off('no match', note);
  nock.enableNetConnect();
  nock.restore();
  await http.close();
});

function connectionOf(given: object) {
  const options = gitlab.options.parse({ token: 'glpat-x', ...given });
  const clock = createTravellingClock();
  const connection = gitlab.connect(options, { http, clock, logger: silentLogger });
  const identifiersOf = ({ event, body }: { event: string; body: Buffer }) => {
    const translation = gitlab.translate({ source: 'poll', event, body }, options);
    const items: readonly Item[] = translation.outcome === 'items' ? translation.items : [];
    return items.map((item) => `${item.kind === 'work_item' ? item.containerName : item.repoName} ${item.identifier}`);
  };
  return { connection, clock, options, identifiersOf };
}

const gitLab = () => nock('https://gitlab.com', { reqheaders: { authorization: 'Bearer glpat-x' } });
const failing = (code: string, errorCode?: string) => expect.objectContaining({ code, errorCode });
/** What `codeOf` says of work that throws nothing; each request it must have made is asked for after the test. */
const DONE = 'done';
const codeOf = (work: Promise<unknown>) =>
  work.then(
    () => DONE,
    (error: { code?: string }) => error.code,
  );

/** A merge request of a project, as a list of a group shows it. */
const inProject = (projectId: number, path: string, iid: number, base: object = mergeRequest) => ({
  ...base,
  id: 1_000 * projectId + iid,
  iid,
  project_id: projectId,
  references: { full: `${path}${base === issue ? '#' : '!'}${iid}` },
});
const projectsOf = (query: object = {}) => ({
  include_subgroups: 'true',
  with_shared: 'false',
  order_by: 'id',
  sort: 'asc',
  per_page: '100',
  page: '1',
  ...query,
});
const PROJECTS = [
  { id: 1, path_with_namespace: 'acme/platform/api' },
  { id: 2, path_with_namespace: 'acme/platform/api-fork', forked_from_project: { id: 77 } },
  { id: 3, path_with_namespace: 'acme/platform/deep/tool' },
  { id: 4, path_with_namespace: 'acme/platform/old', archived: true },
];

describe('units', () => {
  const unitsOf = (given: object) => connectionOf(given).connection.units(signal);

  it.each([
    [{ projects: ['acme/web', 7] }, ['acme/web', '7']],
    [{ groups: ['acme/platform'] }, ['acme/platform/']],
    [{ groups: ['acme', 'acme/platform', 'other'] }, ['acme/', 'other/']],
    [{ projects: ['acme/platform/api-*', 'acme/platform/deep/**', 'acme/*/x'] }, ['acme/']],
    [{ projects: ['acme/web', 'acme/old'], exclude: ['acme/o*'] }, ['acme/web']],
    [
      { projects: ['acme/web'], groups: ['team'], issues: true },
      ['acme/web', 'issues:acme/web', 'team/', 'issues:team/'],
    ],
  ])('of %j are %j: a group is one list, none within another', async (given, units) => {
    expect(await unitsOf(given)).toEqual(units);
  });
});

describe('a group', () => {
  const start = { unit: 'acme/platform/', startedAt: '2026-01-05T09:00:00Z', watermark: '2026-01-05T08:00:00.000Z' };
  const query = {
    state: 'all',
    scope: 'all',
    order_by: 'updated_at',
    sort: 'desc',
    per_page: '100',
    updated_after: '2026-01-05T07:50:00.000Z',
    non_archived: 'true',
  };
  const page = [
    inProject(1, 'acme/platform/api', 1),
    inProject(2, 'acme/platform/api-fork', 2),
    inProject(3, 'acme/platform/deep/tool', 3),
    inProject(9, 'acme/platform/new-one', 4),
  ];

  it('that is idle takes one conditional request a cycle', async () => {
    const { connection } = connectionOf({ groups: ['acme/platform'] });
    nock('https://gitlab.com', { reqheaders: { 'if-none-match': 'W/"seen"' } })
      .get(`${GROUP}/merge_requests`)
      .query(query)
      .reply(304);
    expect(await connection.poll({ ...start, etag: 'W/"seen"' }, signal)).toEqual({ outcome: 'unchanged' });
  });

  it('brings what is in scope: without forks, and what is excluded; its projects are listed once for many cycles', async () => {
    const { connection, identifiersOf, clock } = connectionOf({
      groups: ['acme/platform'],
      exclude: ['acme/platform/deep/**'],
    });
    gitLab().get(`${GROUP}/projects`).query(projectsOf()).reply(200, PROJECTS);
    for (let cycle = 0; cycle < 2; cycle++) {
      const headers = { etag: 'W/"one"', date: 'Tue, 01 Dec 2026 10:00:00 GMT' };
      gitLab().get(`${GROUP}/merge_requests`).query(query).reply(200, page, headers);
      const read = await connection.poll(start, signal);
      if (read.outcome !== 'page') throw new Error('no page');
      expect(read.etag).toBe('W/"one"');
      expect(identifiersOf(read)).toEqual(['acme/platform/api 1', 'acme/platform/new-one 4']);
      await clock.advance(300_000);
    }
  });

  it('with forks and archives needs no list of its projects', async () => {
    const { connection, identifiersOf } = connectionOf({ groups: ['acme/platform'], forks: true, archived: true });
    gitLab()
      .get(`${GROUP}/merge_requests`)
      .query({ ...query, non_archived: 'false' })
      .reply(200, page);
    const read = await connection.poll(start, signal);
    expect(read.outcome === 'page' && identifiersOf(read)).toHaveLength(4);
  });

  it('of a pattern brings what the pattern means', async () => {
    const { connection, identifiersOf } = connectionOf({ projects: ['acme/platform/*'] });
    gitLab()
      .get(`${GROUP}/projects`)
      .query(projectsOf())
      .reply(200, PROJECTS)
      .get(`${GROUP}/merge_requests`)
      .query(query)
      .reply(200, page);
    const read = await connection.poll(start, signal);
    expect(read.outcome === 'page' && identifiersOf(read)).toEqual(['acme/platform/api 1', 'acme/platform/new-one 4']);
  });

  it('keeps elements that do not tell their project, or cannot be read, for translate to judge', async () => {
    const { connection } = connectionOf({ groups: ['acme/platform'] });
    gitLab()
      .get(`${GROUP}/projects`)
      .query(projectsOf())
      .reply(200, PROJECTS)
      .get(`${GROUP}/merge_requests`)
      .query(query)
      .reply(200, [{ ...mergeRequest, references: undefined }, 7]);
    const read = await connection.poll(start, signal);
    expect(read.outcome === 'page' && JSON.parse(read.body.toString())).toHaveLength(2);
  });

  it('links its pages by its number, and only those', async () => {
    const { connection } = connectionOf({ groups: ['acme/platform'], forks: true });
    const link = (path: string) => ({ link: `<https://gitlab.com${API}${path}?page=2>; rel="next"` });
    gitLab().get(`${GROUP}/merge_requests`).query(query).reply(200, page, link('/groups/70/merge_requests'));
    expect(await connection.poll(start, signal)).toMatchObject({ next: 'next:2' });
    for (const path of ['/projects/70/merge_requests', '/groups/70/issues']) {
      gitLab().get(`${GROUP}/merge_requests`).query(query).reply(200, page, link(path));
      expect(await codeOf(connection.poll(start, signal))).toBe('answer_malformed');
    }
  });

  it('takes in webhooks of its projects and subgroups by their paths', () => {
    const { options } = connectionOf({ groups: ['acme/platform'], exclude: ['acme/platform/deep/**'] });
    const hook = fixture('merge_request.open') as { project: object };
    const ofProject = (path: string, id = 5) => {
      const body = Buffer.from(JSON.stringify({ ...hook, project: { id, path_with_namespace: path } }));
      return gitlab.translate({ source: 'webhook', event: 'Merge Request Hook', body }, options).outcome;
    };
    expect(ofProject('Acme/Platform/sub/x')).toBe('items');
    for (const path of ['acme/platform-two/x', 'acme/x', 'acme/platform/deep/x'])
      expect(ofProject(path)).toBe('ignored');
  });

  it('has a list of issues of its own', async () => {
    const { connection, identifiersOf } = connectionOf({ groups: ['acme/platform'], forks: true, issues: true });
    gitLab()
      .get(`${GROUP}/issues`)
      .query(query)
      .reply(200, [inProject(1, 'acme/platform/api', 4, issue)]);
    const read = await connection.poll({ ...start, unit: 'issues:acme/platform/' }, signal);
    expect(read.outcome === 'page' && identifiersOf(read)).toEqual(['acme/platform/api #4']);
  });
});

describe('the limit', () => {
  const position = { unit: 'acme/web', startedAt: '2026-01-05T09:00:00Z', watermark: '2026-01-05T08:00:00.000Z' };
  const left = (remaining: number, now: number) => ({
    'ratelimit-limit': '2000',
    'ratelimit-remaining': String(remaining),
    'ratelimit-reset': String(Math.floor(now / 1_000) + 40),
    date: new Date(now).toUTCString(),
  });

  it('a backfill leaves half of it, a poll a tenth, a fetch nothing; then it goes on', async () => {
    const { connection, clock } = connectionOf({ projects: ['acme/web'] });
    const list = () => gitLab().get(`${PROJECT}/merge_requests`).query(true);
    list().reply(200, [], left(900, clock.now()));
    await connection.poll(position, signal);
    expect(await codeOf(connection.history!({ unit: 'acme/web' }, signal))).toBe('rate_limited');
    list().reply(200, [], left(150, clock.now()));
    await connection.poll(position, signal);
    expect(await codeOf(connection.poll(position, signal))).toBe('rate_limited');
    const reference: ItemReference = { kind: 'pull_request', key: 'k', locator: { projectId: '1', iid: '2' } };
    gitLab().get(`${API}/projects/1/merge_requests/2`).reply(200, mergeRequest);
    await connection.fetch(reference, signal);
    await clock.advance(42_000);
    list().reply(200, []);
    await connection.history!({ unit: 'acme/web' }, signal);
  });
});

describe('history', () => {
  const query = { state: 'all', scope: 'all', per_page: '100', order_by: 'updated_at', sort: 'desc' };
  const since = '2025-01-01T00:00:00Z';

  it('walks from the newest to the end, more than three pages, and tells how much there is', async () => {
    const { connection, identifiersOf } = connectionOf({ projects: ['acme/web'] });
    const seen: string[] = [];
    let page: string | undefined;
    for (let number = 1; number <= 5; number++) {
      const next = number < 5 ? String(number + 1) : '';
      gitLab()
        .get(`${PROJECT}/merge_requests`)
        .query({ ...query, updated_after: new Date(since).toISOString(), ...(number > 1 && { page: String(number) }) })
        .reply(200, [inProject(1, 'acme/web', number)], { 'x-next-page': next, 'x-total': '5' });
      const read = await connection.history!({ unit: 'acme/web', since, ...(page && { page }) }, signal);
      expect(read.total).toBe(5);
      seen.push(...identifiersOf(read));
      page = read.next;
    }
    expect(page).toBeUndefined();
    expect(seen).toEqual([1, 2, 3, 4, 5].map((iid) => `acme/web ${iid}`));
  });

  it('without a start reads everything; above 10,000 GitLab tells no total', async () => {
    const { connection } = connectionOf({ projects: ['acme/web'], issues: true });
    gitLab().get(`${PROJECT}/issues`).query(query).reply(200, [issue], { 'x-total': '' });
    const read = await connection.history!({ unit: 'issues:acme/web' }, signal);
    expect(read).toMatchObject({ event: 'issues.list' });
    expect(Object.keys(read)).toEqual(['event', 'body']);
  });

  it.each([
    [401, 'unauthorized'],
    [403, 'forbidden'],
    [404, 'not_found'],
    [429, 'rate_limited'],
    [500, 'server_failed'],
  ])('%i is %s', async (status, code) => {
    const { connection } = connectionOf({ projects: ['acme/web'] });
    gitLab().get(`${PROJECT}/merge_requests`).query(query).reply(status);
    expect(await codeOf(connection.history!({ unit: 'acme/web' }, signal))).toBe(code);
  });

  it('a page that leads back is refused', async () => {
    const { connection } = connectionOf({ projects: ['acme/web'] });
    gitLab()
      .get(`${PROJECT}/merge_requests`)
      .query({ ...query, page: '3' })
      .reply(200, [], { 'x-next-page': '2' });
    expect(await codeOf(connection.history!({ unit: 'acme/web', page: 'next:3' }, signal))).toBe('answer_malformed');
  });
});

describe('sweep', () => {
  const query = { state: 'all', scope: 'all', per_page: '100', order_by: 'created_at', sort: 'asc' };

  it('of a project names all its keys, and its number on every page', async () => {
    const { connection } = connectionOf({ projects: ['acme/web'] });
    gitLab()
      .get(`${PROJECT}/merge_requests`)
      .query(query)
      .reply(200, [inProject(5, 'acme/web', 1), inProject(5, 'acme/web', 2)], { 'x-next-page': '2' })
      .get(PROJECT)
      .reply(200, { id: 5, path_with_namespace: 'acme/web' })
      .get(`${PROJECT}/merge_requests`)
      .query({ ...query, page: '2' })
      .reply(200, [inProject(5, 'acme/web', 3)], { 'x-next-page': '' });
    const first = await connection.sweep!('acme/web', undefined, signal);
    expect(first).toEqual({
      keys: ['gitlab:gitlab.com:5:pull:1', 'gitlab:gitlab.com:5:pull:2'],
      containers: ['5'],
      next: 'next:2',
    });
    expect(await connection.sweep!('acme/web', first.next, signal)).toEqual({
      keys: ['gitlab:gitlab.com:5:pull:3'],
      containers: ['5'],
    });
  });

  it('of a group covers its projects in scope', async () => {
    const { connection } = connectionOf({ groups: ['acme/platform'], issues: true });
    gitLab()
      .get(`${GROUP}/issues`)
      .query({ ...query, non_archived: 'true' })
      .reply(200, [inProject(1, 'acme/platform/api', 4, issue)])
      .get(`${GROUP}/projects`)
      .query(projectsOf())
      .reply(200, PROJECTS.slice(0, 2), { 'x-next-page': '2' })
      .get(`${GROUP}/projects`)
      .query(projectsOf({ page: '2' }))
      .reply(200, PROJECTS.slice(2));
    expect(await connection.sweep!('issues:acme/platform/', undefined, signal)).toEqual({
      keys: ['gitlab:gitlab.com:issue:1004'],
      containers: ['1', '3'],
    });
  });

  it('fails where an element has no readable id, since its item would look gone', async () => {
    const { connection } = connectionOf({ projects: [5] });
    gitLab()
      .get(`${API}/projects/5/merge_requests`)
      .query(query)
      .reply(200, [{ ...mergeRequest, iid: 'x' }]);
    expect(await codeOf(connection.sweep!('5', undefined, signal))).toBe('answer_malformed');
  });
});

describe('an issue', () => {
  const reference: ItemReference = {
    kind: 'work_item',
    key: 'gitlab:gitlab.com:issue:4400',
    locator: { projectId: '80200', iid: '4', id: '4400' },
  };
  const ONE = `${API}/projects/80200/issues/4`;
  const fetched = async () => {
    const { connection, options } = connectionOf({ projects: [80200], issues: true });
    const { event, body } = await connection.fetch(reference, signal);
    return gitlab.translate({ source: 'fetch', event, body }, options);
  };

  it('is fetched by its numbers', async () => {
    gitLab().get(ONE).reply(200, issue);
    expect(await fetched()).toMatchObject({ outcome: 'items', items: [{ key: reference.key, author: 'ada' }] });
  });

  it('is called gone only where the list can be read and lacks it', async () => {
    const list = { state: 'all', scope: 'all', 'iids[]': '4' };
    gitLab().get(ONE).reply(404).get(`${API}/projects/80200/issues`).query(list).reply(200, []);
    expect(await fetched()).toMatchObject({ outcome: 'items', items: [{ key: reference.key, gone: true }] });
    gitLab().get(ONE).reply(404).get(`${API}/projects/80200/issues`).query(list).reply(404);
    await expect(fetched()).rejects.toEqual(failing('not_found'));
  });

  it('is not asked for without its number', async () => {
    const { connection } = connectionOf({ projects: [80200] });
    const { id: _, ...locator } = reference.locator;
    expect(await codeOf(connection.fetch({ ...reference, locator }, signal))).toBe('internal');
  });

  it('is closed once, and left alone where it is closed already', async () => {
    const { connection } = connectionOf({ projects: [80200] });
    gitLab().get(ONE).reply(200, issue).put(ONE, { state_event: 'close' }).reply(200, issue);
    expect(await codeOf(connection.close!(reference, signal))).toBe(DONE);
    gitLab()
      .get(ONE)
      .reply(200, { ...issue, state: 'closed' });
    expect(await codeOf(connection.close!(reference, signal))).toBe(DONE);
  });

  it('is read, and not closed again, after a closing without an answer', async () => {
    const { connection } = connectionOf({ projects: [80200] });
    const reset = Object.assign(new Error('reset'), { code: 'ECONNRESET' });
    gitLab()
      .get(ONE)
      .reply(200, issue)
      .put(ONE)
      .replyWithError(reset)
      .get(ONE)
      .reply(200, { ...issue, state: 'closed' });
    expect(await codeOf(connection.close!(reference, signal))).toBe(DONE);
    gitLab().get(ONE).reply(200, issue).put(ONE).replyWithError(reset).get(ONE).reply(200, issue);
    expect(await codeOf(connection.close!(reference, signal))).toBe('outcome_unknown');
  });

  it('worksync never closes a merge request', async () => {
    const { connection } = connectionOf({ projects: [80200] });
    const merge: ItemReference = { kind: 'pull_request', key: 'k', locator: { projectId: '80200', iid: '4' } };
    await expect(connection.close!(merge, signal)).rejects.toEqual(failing('refused', 'unsupported_field'));
  });
});

describe('a comment', () => {
  const reference: ItemReference = { kind: 'pull_request', key: 'k', locator: { projectId: '80200', iid: '12' } };
  const NOTES = `${API}/projects/80200/merge_requests/12/notes`;
  const query = { order_by: 'created_at', sort: 'asc', per_page: '100', page: '1' };
  const comment = { marker: '<!-- worksync:w1 -->', text: 'Task BUG-12\n\n<!-- worksync:w1 -->' };
  const noteOf = (id: number, body: string, author = 7, system = false) => ({
    id,
    body,
    system,
    author: { id: author },
  });
  const write = () => connectionOf({ projects: [80200] }).connection.comment!(reference, comment, signal);

  it('is written where there is none', async () => {
    gitLab()
      .get(NOTES)
      .query(query)
      .reply(200, [noteOf(1, 'A talk'), noteOf(2, `mentioned ${comment.marker}`, 7, true)])
      .post(NOTES, { body: comment.text })
      .reply(201, {});
    expect(await codeOf(write())).toBe(DONE);
  });

  it("is updated in place on whatever page it is; the marker in somebody else's comment does not count", async () => {
    gitLab()
      .get(NOTES)
      .query(query)
      .reply(200, [noteOf(1, `look: ${comment.marker}`, 8)], { 'x-next-page': '2' })
      .get(NOTES)
      .query({ ...query, page: '2' })
      .reply(200, [noteOf(101, `Task BUG-1\n\n${comment.marker}`)], { 'x-next-page': '' })
      .get(`${API}/user`)
      .reply(200, { id: 7 })
      .put(`${NOTES}/101`, { body: comment.text })
      .reply(200, {});
    expect(await codeOf(write())).toBe(DONE);
  });

  it('that already says the same is left as it is', async () => {
    gitLab()
      .get(NOTES)
      .query(query)
      .reply(200, [noteOf(1, comment.text)])
      .get(`${API}/user`)
      .reply(200, { id: 7 });
    expect(await codeOf(write())).toBe(DONE);
  });

  it('on an issue stands there, and carries its marker in any case', async () => {
    const onIssue: ItemReference = { kind: 'work_item', key: 'k', locator: { projectId: '1', iid: '4', id: '9' } };
    const notes = `${API}/projects/1/issues/4/notes`;
    gitLab().get(notes).query(query).reply(200, []).post(notes, { body: 'Task\n\n[m]' }).reply(201, {});
    const { connection } = connectionOf({ projects: [1] });
    const comment = connection.comment!(onIssue, { marker: '[m]', text: 'Task' }, signal);
    expect(await codeOf(comment)).toBe(DONE);
  });

  it.each([
    [403, 'forbidden'],
    [404, 'not_found'],
    [429, 'rate_limited'],
    [502, 'server_failed'],
  ])('%i is %s, and nothing is repeated', async (status, code) => {
    gitLab().get(NOTES).query(query).reply(200, []).post(NOTES).reply(status, 'Retry later');
    expect(await codeOf(write())).toBe(code);
  });
});

const EVENTS = { merge_requests_events: true, note_events: true };
const HOOK = {
  id: 31,
  url: HERE,
  ...EVENTS,
  issues_events: false,
  push_events: false,
  alert_status: 'executable',
  disabled_until: null,
  token_present: true,
  signing_token_present: false,
};
const FIRST = { per_page: '100', page: '1' };

describe('hooks', () => {
  const hooks = (given: object = { projects: ['acme/web'] }) => connectionOf(given).connection.hooks!;
  const atProject = () => gitLab().get(`${PROJECT}/hooks`).query(FIRST);
  const stateOf = async (present: object[]) => {
    atProject().reply(200, present);
    const [state] = await hooks().states(HERE, signal);
    return state;
  };

  it.each([
    [[HOOK], 'active', /^it is on$/],
    [[], 'absent', /no webhook/],
    [[{ ...HOOK, url: 'https://other.example/x' }], 'absent', /no webhook/],
    [[{ ...HOOK, alert_status: 'disabled' }], 'disabled', /until somebody/],
    [
      [{ ...HOOK, alert_status: 'temporarily_disabled', disabled_until: '2026-01-05T10:00:00Z' }],
      'disabled',
      /until 2026-01-05T10:00:00Z/,
    ],
    [
      [
        { ...HOOK, alert_status: 'disabled' },
        { ...HOOK, id: 32 },
      ],
      'active',
      /^it is on$/,
    ],
    [[{ ...HOOK, merge_requests_events: false }], 'active', /does not send merge_requests_events/],
    [[{ ...HOOK, token_present: false }], 'active', /no secret/],
    [[{ ...HOOK, custom_webhook_template: '{}' }], 'active', /custom template/],
    [[{ id: 1, url: HERE, ...EVENTS }], 'active', /^it is on$/],
  ])('%j is %s', async (present, state, message) => {
    const told = await stateOf(present);
    expect(told).toMatchObject({ subject: 'project acme/web', state, message: expect.stringMatching(message) });
    expect(told?.hint === undefined).toBe(/it is on/.test(told?.message ?? ''));
  });

  it('are unknown where the credential may not read them, with the role that may; a limit ends the look', async () => {
    atProject().reply(403);
    expect(await hooks().states(HERE, signal)).toMatchObject([
      { state: 'unknown', hint: expect.stringContaining('Maintainer') },
    ]);
    atProject().reply(429);
    expect(await codeOf(hooks().states(HERE, signal))).toBe('rate_limited');
  });

  it('of a group cover all below it; where groups have none, reads those of its projects', async () => {
    const given = { groups: ['acme/platform'], projects: ['acme/platform/api', 'acme/web'] };
    atProject().reply(200, [HOOK]).get(`${GROUP}/hooks`).query(FIRST).reply(200, [HOOK]);
    expect((await hooks(given).states(HERE, signal)).map(({ subject }) => subject)).toEqual([
      'project acme/web',
      'group acme/platform',
    ]);
    gitLab()
      .get(`${GROUP}/hooks`)
      .query(FIRST)
      .reply(404)
      .get(`${GROUP}/projects`)
      .query(projectsOf())
      .reply(200, PROJECTS)
      .get(`${API}/projects/acme%2Fplatform%2Fapi/hooks`)
      .query(FIRST)
      .reply(200, [HOOK])
      .get(`${API}/projects/acme%2Fplatform%2Fdeep%2Ftool/hooks`)
      .query(FIRST)
      .reply(200, []);
    expect(await hooks({ groups: ['acme/platform'] }).states(HERE, signal)).toMatchObject([
      { subject: 'project acme/platform/api', state: 'active' },
      { subject: 'project acme/platform/deep/tool', state: 'absent' },
    ]);
  });

  const FIELDS = {
    url: HERE,
    merge_requests_events: true,
    note_events: true,
    issues_events: false,
    confidential_issues_events: false,
    confidential_note_events: false,
    push_events: false,
    enable_ssl_verification: true,
  };

  it('are registered where they are absent, with the events that are followed', async () => {
    const issues = { issues_events: true, confidential_issues_events: true, confidential_note_events: true };
    const made = { ...HOOK, ...issues };
    atProject()
      .reply(200, [])
      .post(`${PROJECT}/hooks`, { name: 'worksync', ...FIELDS, ...issues, token: 'a-secret' })
      .reply(201, made);
    const given = { projects: ['acme/web'], issues: true, confidential: true };
    expect(await hooks(given).install(HERE, 'a-secret', signal)).toMatchObject([
      { outcome: 'created', state: 'active', message: 'it is on' },
    ]);
  });

  it('with a signing token are checked for it, since older servers ignore it', async () => {
    const signed = { ...HOOK, token_present: false, signing_token_present: true };
    const body = { name: 'worksync', ...FIELDS, signing_token: 'whsec_AAAA' };
    atProject().reply(200, []).post(`${PROJECT}/hooks`, body).reply(201, signed);
    expect(await hooks().install(HERE, 'whsec_AAAA', signal)).toMatchObject([
      { outcome: 'created', message: 'it is on' },
    ]);
    atProject()
      .reply(200, [])
      .post(`${PROJECT}/hooks`, body)
      .reply(201, { ...HOOK, token_present: false });
    expect(await hooks().install(HERE, 'whsec_AAAA', signal)).toMatchObject([
      {
        outcome: 'created',
        message: expect.stringContaining('did not accept a signing token'),
        hint: expect.any(String),
      },
    ]);
  });

  it('that are right stay so; the secret is sent again, since nobody can read it', async () => {
    const body = { ...FIELDS, token: 'a-secret' };
    for (let time = 0; time < 2; time++) {
      atProject().reply(200, [HOOK]).put(`${PROJECT}/hooks/31`, body).reply(200, HOOK);
      expect(await hooks().install(HERE, 'a-secret', signal)).toMatchObject([
        { outcome: 'unchanged', state: 'active' },
      ]);
    }
  });

  it('that lack events are repaired', async () => {
    atProject()
      .reply(200, [{ ...HOOK, note_events: false }])
      .put(`${PROJECT}/hooks/31`)
      .reply(200, HOOK);
    expect(await hooks().install(HERE, 'a-secret', signal)).toMatchObject([
      { outcome: 'updated', message: 'it is on' },
    ]);
  });

  it('that were switched off are switched on by a test that succeeds', async () => {
    const off = { ...HOOK, alert_status: 'disabled' };
    atProject()
      .reply(200, [off])
      .put(`${PROJECT}/hooks/31`)
      .reply(200, off)
      .post(`${PROJECT}/hooks/31/test/merge_requests_events`)
      .reply(422, { message: 'Ensure the project has merge requests.' })
      .post(`${PROJECT}/hooks/31/test/push_events`)
      .reply(201, { message: '201 Created' })
      .get(`${PROJECT}/hooks/31`)
      .reply(200, HOOK);
    expect(await hooks().install(HERE, 'a-secret', signal)).toMatchObject([{ outcome: 'updated', state: 'active' }]);
  });

  it('that stay off say why', async () => {
    const off = { ...HOOK, alert_status: 'disabled' };
    atProject()
      .reply(200, [off])
      .put(`${PROJECT}/hooks/31`)
      .reply(200, off)
      .post(`${PROJECT}/hooks/31/test/merge_requests_events`)
      .reply(422, { message: 'Connection refused' })
      .post(`${PROJECT}/hooks/31/test/push_events`)
      .reply(422, { message: 'Connection refused' })
      .get(`${PROJECT}/hooks/31`)
      .reply(200, off);
    expect(await hooks().install(HERE, 'a-secret', signal)).toMatchObject([
      { state: 'disabled', message: expect.stringContaining('Connection refused') },
    ]);
  });

  it('that may not be registered are reported, and the others go on', async () => {
    atProject()
      .reply(403)
      .get(`${API}/projects/7/hooks`)
      .query(FIRST)
      .reply(200, [])
      .post(`${API}/projects/7/hooks`)
      .reply(201, HOOK);
    expect(await hooks({ projects: ['acme/web', 7] }).install(HERE, 's', signal)).toMatchObject([
      { state: 'unknown', outcome: 'unchanged' },
      { state: 'active', outcome: 'created' },
    ]);
  });
});

describe('redelivery', () => {
  const EVENTS_OF = `${PROJECT}/hooks/31/events`;
  const pageOf = (number: number) => ({ per_page: '20', page: String(number) });
  const eventOf = (id: number, status: string, key: string | undefined) => ({
    id,
    response_status: status,
    request_headers: key === undefined ? {} : { 'Idempotency-Key': key },
    request_data: { object_kind: 'merge_request' },
  });
  const redeliver = async (cursor?: string) => {
    const told = await connectionOf({ projects: ['acme/web'] }).connection.redeliver!(HERE, cursor, signal);
    if (told.failure) throw told.failure;
    return told;
  };
  const atHook = () => gitLab().get(`${PROJECT}/hooks`).query(FIRST).reply(200, [HOOK]);

  it('requests the newest attempt of each delivery that never arrived, time-outs too', async () => {
    atHook()
      .get(EVENTS_OF)
      .query(pageOf(1))
      .reply(
        200,
        [
          eventOf(9, '500', 'a'),
          eventOf(8, '200', 'b'),
          eventOf(7, 'internal error', 'c'),
          eventOf(6, '500', 'b'),
          eventOf(5, '404', 'a'),
          eventOf(4, '302', 'd'),
        ],
        { 'x-next-page': '' },
      )
      .post(`${EVENTS_OF}/9/resend`)
      .reply(201, { response_status: 200 })
      .post(`${EVENTS_OF}/7/resend`)
      .reply(201, { response_status: 200 });
    expect(await redeliver()).toMatchObject({ asked: 2 });
  });

  it('gives up what was requested often enough', async () => {
    atHook()
      .get(EVENTS_OF)
      .query(pageOf(1))
      .reply(
        200,
        [4, 3, 2, 1].map((id) => eventOf(id, '500', 'a')),
      );
    expect(await redeliver()).toMatchObject({ asked: 0 });
  });

  it("finds what failed by GitLab's own filters where one page does not reach back far enough", async () => {
    const fine = Array.from({ length: 20 }, (_, at) => eventOf(90 - at, '200', `fine ${at}`));
    atHook()
      .get(EVENTS_OF)
      .query(pageOf(1))
      .reply(200, fine, { 'x-next-page': '2' })
      .get(EVENTS_OF)
      .query({ ...pageOf(1), status: 'client_failure' })
      .reply(200, [eventOf(60, '404', 'a')], { 'x-next-page': '' })
      .get(EVENTS_OF)
      .query({ ...pageOf(1), status: 'server_failure' })
      .reply(200, [eventOf(50, '503', 'b'), eventOf(3, '503', 'seen before')], { 'x-next-page': '2' })
      .post(`${EVENTS_OF}/50/resend`)
      .reply(201, {})
      .post(`${EVENTS_OF}/60/resend`)
      .reply(201, {});
    const cursor = JSON.stringify([{ name: EVENTS_OF.slice(API.length), upTo: '3', open: [] }]);
    expect(await redeliver(cursor)).toMatchObject({ asked: 2 });
  });

  it('reads the whole list where a delivery got no status, which no filter knows', async () => {
    const late = Array.from({ length: 20 }, (_, at) => eventOf(90 - at, at === 3 ? 'internal error' : '200', `${at}`));
    const none = ['client_failure', 'server_failure'];
    const scope = atHook().get(EVENTS_OF).query(pageOf(1)).reply(200, late, { 'x-next-page': '2' });
    for (const status of none)
      scope
        .get(EVENTS_OF)
        .query({ ...pageOf(1), status })
        .reply(200, [], { 'x-next-page': '' });
    scope
      .get(EVENTS_OF)
      .query(pageOf(2))
      .reply(200, [eventOf(70, 'internal error', 'early')], { 'x-next-page': '' })
      .post(`${EVENTS_OF}/70/resend`)
      .reply(201, {})
      .post(`${EVENTS_OF}/87/resend`)
      .reply(201, {});
    expect(await redeliver()).toMatchObject({ asked: 2 });
  });

  it('asks for five at once, since GitLab takes no more in a minute, and stops at a limit', async () => {
    const failed = [9, 8, 7, 6, 5, 4, 3].map((id) => eventOf(id, '503', `k${id}`));
    const resend = (scope: nock.Scope, ids: readonly number[]) => {
      for (const id of ids) scope.post(`${EVENTS_OF}/${id}/resend`).reply(201, {});
      return scope;
    };
    resend(atHook().get(EVENTS_OF).query(pageOf(1)).reply(200, failed), [3, 4, 5, 6, 7]);
    expect(await redeliver()).toMatchObject({ asked: 5 });
    resend(atHook().get(EVENTS_OF).query(pageOf(1)).reply(200, failed), [3, 4])
      .post(`${EVENTS_OF}/5/resend`)
      .reply(429, 'Retry later');
    expect(await redeliver()).toMatchObject({ asked: 2 });
  });

  it('goes on past what cannot be sent again', async () => {
    atHook()
      .get(EVENTS_OF)
      .query(pageOf(1))
      .reply(200, [eventOf(9, '500', undefined), eventOf(8, '500', 'b')])
      .post(`${EVENTS_OF}/9/resend`)
      .reply(422, { message: 'The hook URL has changed' })
      .post(`${EVENTS_OF}/8/resend`)
      .reply(201, {});
    expect(await redeliver()).toMatchObject({ asked: 1 });
  });

  it('without a hook here there is nothing to ask for; without the right it says so', async () => {
    gitLab().get(`${PROJECT}/hooks`).query(FIRST).reply(200, []);
    expect(await redeliver()).toMatchObject({ asked: 0 });
    gitLab().get(`${PROJECT}/hooks`).query(FIRST).reply(403);
    await expect(redeliver()).rejects.toEqual(failing('forbidden'));
  });
});

describe('check', () => {
  it('proves groups and lists of issues', async () => {
    const { connection } = connectionOf({ groups: ['acme/platform'], issues: true, token: undefined });
    const one = { state: 'all', scope: 'all', per_page: '1' };
    nock('https://gitlab.com')
      .get(GROUP)
      .query({ with_projects: 'false' })
      .reply(200, { full_path: 'acme/plattform' })
      .get(`${GROUP}/merge_requests`)
      .query(one)
      .reply(200, [])
      .get(`${GROUP}/issues`)
      .query(one)
      .reply(403);
    const findings = await connection.check(signal);
    expect(findings.map(({ level, subject }) => `${level} ${subject}`)).toEqual([
      'warning credential',
      'warning acme/platform',
      'error acme/platform',
      'ok rate limit',
    ]);
  });
});

describe('a commit status', () => {
  const reference: ItemReference = { kind: 'pull_request', key: 'k', locator: { projectId: '80200', iid: '12' } };
  const sha = 'b'.repeat(40);
  const AT = `${API}/projects/80200/statuses/${sha}`;
  const write = (state: 'success' | 'failure') =>
    connectionOf({ projects: [80200] }).connection.status!.write(reference, { sha, state, text: 'told' }, signal);

  it.each([
    ['success', 'success'],
    ['failure', 'failed'],
  ] as const)('%s is %s there', async (state, word) => {
    gitLab().post(AT, { state: word, name: 'worksync/tasks', description: 'told' }).reply(201, {});
    expect(await codeOf(write(state))).toBe(DONE);
  });

  it.each([403, 404])('%i is told with the right that is needed', async (status) => {
    gitLab().post(AT).reply(status, { message: 'no' });
    await expect(write('success')).rejects.toMatchObject({
      code: 'refused',
      hint: expect.stringContaining('Developer'),
    });
  });
});
