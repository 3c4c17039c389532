import { describe, expect, it, onTestFinished } from 'vitest';
import { createHttpClient, type HttpClient, type HttpRequest } from '../../src/platform/http/http-client.ts';
import { silentMeter } from '../../src/platform/lib/meter.ts';
import { noSteps } from '../../src/platform/lib/steps.ts';
import { createTravellingClock } from '../support/clocks/travelling-clock.ts';
import { coveringArray } from '../support/fakes/plausible-server/covering-array.ts';
import {
  type Behaviours,
  DIMENSIONS,
  singles,
  tableOfDimensions,
  valuesByDimension,
} from '../support/fakes/plausible-server/dimensions.ts';
import { type PlausibleServerOptions, plausibleServer } from '../support/fakes/plausible-server/plausible-server.ts';
import { doubled } from '../support/fakes/plausible-server/seen.ts';
import { NO_QUOTA, startWorkspaceService } from '../support/fakes/workspace-service.ts';
import { createWorld } from '../support/harness/daemon.ts';
import { pullEvent } from '../support/vendors/github-payloads.ts';

const BUGS = '/workspaces/current/bugs';
const TASKS = '/workspaces/current/tasks';
const PULLS = '/workspaces/current/pull-requests';
const RECORDS = '/workspaces/current/pull-request-records';
const URL_ = 'https://example.com/Acme/1#top';
const PULL = { provider: 'github', repoId: '1', identifier: '7', title: 'P', headBranch: 'a', baseBranch: 'main' };

interface Asked {
  readonly body?: object;
  readonly headers?: Readonly<Record<string, string>>;
}

/** A server with these behaviours over a reference service, and a client in front of it. */
async function start(behaviours: Behaviours = {}, loses?: PlausibleServerOptions['loses']) {
  const clock = createTravellingClock();
  const running = await startWorkspaceService({ clock, quota: NO_QUOTA });
  const server = plausibleServer({ clock, behaviours, loses });
  const http = createHttpClient({ steps: noSteps, meter: silentMeter });
  const client = server.daemonClient(http);
  onTestFinished(async () => {
    await http.close();
    await running.close();
  });
  const ask = async (method: HttpRequest['method'], path: string, { body, headers }: Asked = {}) => {
    const own = { authorization: `Bearer ${running.apiKey}`, 'X-Service-Api-Version': '2' };
    const typed = body && { 'content-type': 'application/json' };
    const answer = await client.request({
      ...{ method, url: running.url + path, target: 'workspace' },
      ...{ headers: { ...own, ...typed, ...headers }, body: body && JSON.stringify(body) },
    });
    const text = answer.body.toString();
    const isJson = answer.headers['content-type']?.startsWith('application/json') && text !== '';
    const read = (isJson ? JSON.parse(text) : undefined) as ReturnType<JSON['parse']>;
    return { status: answer.status, headers: answer.headers, text, body: read };
  };
  const bug = async (fields: object = {}) => ask('POST', BUGS, { body: { title: 'T', ...fields } });
  const taskId = async () => (await running.client().createBug({ body: { title: 'T' } }, {})).body.taskId;
  const list = async () => (await ask('GET', `${TASKS}?all=true`)).body.tasks;
  return { clock, server, people: running.client(running.oauthToken), ask, bug, list, taskId };
}

describe('task object', () => {
  it.each<[Behaviours['task object'], object, object]>([
    ['no key', {}, { key: undefined }],
    [
      'strange unread fields',
      { priority: 'high' },
      { priority: 3, kind: null, teamIds: undefined, visibility: 'team' },
    ],
    ['numeric times', {}, { createdAt: expect.any(Number), completedAt: null }],
    ['labels as objects', { labels: ['x'] }, { labels: [{ taxonomyLabelId: 'lbl_0', name: 'x' }] }],
  ])('%s', async (value, given, shown) => {
    const { bug, list, ask } = await start({ 'task object': value });
    const { body } = await bug(given);
    expect({ ...body, ...shown }).toEqual(body);
    expect((await list())[0]).toEqual(body);
    expect((await ask('GET', `${TASKS}/${body.taskId}`)).body).toEqual(body);
  });

  it('wrapped', async () => {
    const { bug, list } = await start({ 'task object': 'wrapped' });
    const { body } = await bug();
    expect(body).toEqual({ task: (await list())[0] });
  });
});

describe('task list', () => {
  it('paged: 25 on a page, and a cursor until the last', async () => {
    const { people, ask } = await start({ 'task list': 'paged' });
    for (let n = 0; n < 30; n++) await people.createBug({ body: { title: `${n}` } }, {});
    const first = (await ask('GET', `${TASKS}?all=true`)).body;
    const second = (await ask('GET', `${TASKS}?all=true&cursor=${first.nextCursor}`)).body;
    expect([first.tasks.length, second.tasks.length, second.nextCursor]).toEqual([25, 5, null]);
    const ids = [...first.tasks, ...second.tasks].map(({ taskId }) => taskId as string);
    expect(new Set(ids).size).toBe(30);
  });

  it('bare array', async () => {
    const { bug, ask } = await start({ 'task list': 'bare array' });
    const { body } = await bug();
    expect((await ask('GET', TASKS)).body).toEqual([body]);
  });

  it('closed tasks left out', async () => {
    const { taskId, people, list } = await start({ 'task list': 'closed tasks left out' });
    const [open, closed] = [await taskId(), await taskId()];
    await people.updateTask({ taskId: closed, body: { status: 'completed' } }, {});
    expect((await list()).map((task: { taskId: string }) => task.taskId)).toEqual([open]);
  });

  it('30 s behind writes', async () => {
    const { taskId, people, list, clock } = await start({ 'task list': '30 s behind writes' });
    const id = await taskId();
    expect(await list()).toEqual([]);
    await clock.advance(31_000);
    expect(await list()).toMatchObject([{ status: 'open' }]);
    await people.updateTask({ taskId: id, body: { status: 'review' } }, {});
    expect(await list()).toMatchObject([{ status: 'open' }]);
    await clock.advance(31_000);
    expect(await list()).toMatchObject([{ status: 'review' }]);
  });
});

describe('source and creation fields', () => {
  const source = 'worksync:'.padEnd(100, 'x');

  it.each<[Behaviours, object]>([
    [{ source: 'absent' }, { source: undefined }],
    [{ source: 'replaced by a constant' }, { source: 'api' }],
    [{ source: 'cut to 64 characters' }, { source: source.slice(0, 64) }],
    [{ 'creation fields': 'silently dropped' }, { labels: [], priority: 'none' }],
    [{ 'creation fields': 'title trimmed' }, { title: 'a b' }],
  ])('%j', async (behaviours, shown) => {
    const { bug } = await start(behaviours);
    const { body } = await bug({ source, labels: ['x'], priority: 'high', title: ' a  b ' });
    expect({ ...body, ...shown }).toEqual(body);
  });

  it.each<[Behaviours, object]>([
    [{ source: 'refused' }, { source }],
    [{ 'creation fields': 'refused' }, { labels: ['x'] }],
    [{ 'creation fields': 'refused' }, { priority: 'high' }],
    [{ 'creation fields': 'refused' }, { assigneeIds: [] }],
  ])('%j refuses %j', async (behaviours, fields) => {
    const { bug, server } = await start(behaviours);
    expect([(await bug(fields)).status, (await bug()).status]).toEqual([400, 201]);
    expect(server.seen.refusals).toEqual(new Map([['createBug 400', 1]]));
  });
});

it.each<[Behaviours['creation answer'], number, boolean]>([
  ['201 empty', 201, false],
  ['200', 200, true],
  ['202', 202, false],
])('creation answer: %s', async (value, status, hasBody) => {
  const { bug, list } = await start({ 'creation answer': value });
  const answer = await bug();
  expect([answer.status, answer.text !== '']).toEqual([status, hasBody]);
  expect(await list()).toHaveLength(1);
});

describe('links', () => {
  const twice = async (behaviours: Behaviours) => {
    const { taskId, ask, server } = await start(behaviours);
    const path = `/tasks/${await taskId()}/work-items`;
    const body = { url: URL_, externalId: 'x' };
    const added = [await ask('POST', path, { body }), await ask('POST', path, { body })];
    const present = () => ask('GET', path).then((answer) => answer.body?.workItems);
    return { statuses: added.map(({ status }) => status), added, path, ask, server, present };
  };

  it('doubles: a repetition is another link with the same address', async () => {
    const { statuses, present, server } = await twice({ 'link POST': 'doubles' });
    expect(statuses).toEqual([201, 201]);
    expect((await present()).map(({ url }: { url: string }) => url)).toEqual([URL_, URL_]);
    expect(doubled(server.seen)).toHaveLength(1);
  });

  it.each<[Behaviours['link POST'], number[], object]>([
    ['409 on repetition', [201, 409], { url: URL_ }],
    ['204 without body', [204, 204], { url: URL_ }],
    ['externalId dropped', [201, 200], { externalId: null }],
    ['address normalised', [201, 200], { url: 'https://example.com/acme/1/' }],
  ])('%s', async (value, expected, shown) => {
    const { statuses, present, server } = await twice({ 'link POST': value });
    expect(statuses).toEqual(expected);
    expect(await present()).toMatchObject([shown]);
    expect(doubled(server.seen)).toEqual([]);
  });

  it('405 to GET and DELETE', async () => {
    const { path, ask, added } = await twice({ 'link GET, DELETE': '405' });
    const asked = [await ask('GET', path), await ask('DELETE', `${path}/${added[0]!.body.workItemId}`)];
    expect(asked.map(({ status, body }) => [status, body.code])).toEqual([
      [405, 405],
      [405, 405],
    ]);
  });

  it('DELETE by address', async () => {
    const { path, ask, added, present, server } = await twice({ 'link GET, DELETE': 'DELETE by address' });
    expect((await ask('DELETE', `${path}/${added[0]!.body.workItemId}`)).status).toBe(404);
    expect((await ask('DELETE', `${path}?url=${encodeURIComponent(URL_)}`)).status).toBe(204);
    expect([await present(), server.seen.links.size]).toEqual([[], 0]);
  });

  it('unknown id removed', async () => {
    const { path, ask } = await twice({ 'link GET, DELETE': 'unknown id removed' });
    expect((await ask('DELETE', `${path}/wi_unknown`)).status).toBe(204);
  });
});

describe('pull-request routes', () => {
  it('opens (literal): each POST opens, and records have no route', async () => {
    const { ask, server, people } = await start({ 'pull-request routes': 'opens (literal)' });
    const opened = await ask('POST', PULLS, { body: PULL });
    expect([opened.status, opened.body.identifier, server.seen.opened]).toEqual([201, '9000', ['P']]);
    expect((await ask('POST', RECORDS, { body: PULL })).status).toBe(404);
    expect((await ask('GET', RECORDS)).status).toBe(404);
    expect((await people.listPullRequests({ query: {} }, {})).body.pullRequests).toEqual([]);
  });

  it('as ours: a record opens nothing', async () => {
    const { ask, server } = await start();
    expect([(await ask('POST', RECORDS, { body: PULL })).status, server.seen.opened]).toEqual([201, []]);
  });

  it.each<[Behaviours['pull-request routes'], number]>([
    ['403', 403],
    ['404', 404],
    ['400 without provider', 400],
  ])('%s', async (value, status) => {
    const { ask } = await start({ 'pull-request routes': value });
    for (const path of [PULLS, RECORDS]) expect((await ask('GET', path)).status).toBe(status);
  });
});

it('single task route: none', async () => {
  const { ask, taskId } = await start({ 'single task route': 'none' });
  expect((await ask('GET', `${TASKS}/${await taskId()}`)).body.errorCode).toBe('not_found');
});

describe('task updates', () => {
  const update = async (value: Behaviours['task updates'], method: HttpRequest['method'], body: object) => {
    const { ask, taskId } = await start({ 'task updates': value });
    return ask(method, `${TASKS}/${await taskId()}`, { body });
  };

  it('PUT of the whole task', async () => {
    const whole = 'PUT of the whole task';
    expect((await update(whole, 'PUT', { status: 'review' })).status).toBe(400);
    expect((await update(whole, 'PUT', { title: 'New' })).body).toMatchObject({ title: 'New', labels: [] });
  });

  it.each<[Behaviours['task updates'], put: number, patch: number]>([
    ['PATCH', 405, 200],
    ['none', 405, 405],
  ])('%s', async (value, put, patch) => {
    expect((await update(value, 'PUT', { title: 'New' })).status).toBe(put);
    expect((await update(value, 'PATCH', { title: 'New' })).status).toBe(patch);
  });
});

describe('errors', () => {
  const NOT_JSON = { text: expect.stringContaining('<html>'), body: undefined };

  it.each<[Behaviours['errors'], object]>([
    ['no errorCode', { status: 400, body: { code: 400, message: expect.any(String) } }],
    ['HTML from a proxy', { status: 400, ...NOT_JSON }],
    ['message only from a proxy', { status: 400, body: { message: expect.any(String) } }],
    ['409 for 400', { status: 409, body: { code: 409, message: expect.any(String), errorCode: 'conflict' } }],
  ])('%s', async (value, expected) => {
    const { bug } = await start({ errors: value });
    const { status, text, body } = await bug({ title: '' });
    expect({ status, text, body }).toEqual({ text, ...expected });
  });

  it('404 for 403', async () => {
    const { ask } = await start({ errors: '404 for 403', 'pull-request routes': '403' });
    expect((await ask('GET', PULLS)).body).toMatchObject({ code: 404, errorCode: 'not_found' });
  });
});

describe('limits', () => {
  /** Statuses of so many requests at once. */
  const burst = async ({ ask }: Pick<Awaited<ReturnType<typeof start>>, 'ask'>, number: number) => {
    const answers = [];
    for (let n = 0; n < number; n++) answers.push(await ask('GET', `${TASKS}?limit=1`));
    return answers;
  };
  const refused = (answers: readonly { status: number }[]) => answers.filter(({ status }) => status === 429).length;

  it.each<[Behaviours['limits'], number]>([
    ['burst 20', 20],
    ['burst 60', 60],
  ])('%s', async (value, most) => {
    const answers = await burst(await start({ limits: value }), most + 1);
    expect([refused(answers), answers.at(-1)!.headers['retry-after']]).toEqual([1, '60']);
  });

  it('fixed window: 80 requests within two seconds where a minute ends', async () => {
    const server = await start({ limits: 'fixed window' });
    await server.clock.advance(59_000);
    expect(refused(await burst(server, 41))).toBe(1);
    await server.clock.advance(1_000);
    expect(refused(await burst(server, 41))).toBe(1);
  });

  it('429 counts too: whoever repeats at once waits again', async () => {
    const server = await start({ limits: '429 counts too' });
    expect(refused(await burst(server, 45))).toBe(5);
    await server.clock.advance(30_000);
    expect(refused(await burst(server, 40))).toBe(40);
    await server.clock.advance(31_000);
    expect(refused(await burst(server, 1))).toBe(1);
  });

  it('429 without a hint', async () => {
    const last = (await burst(await start({ limits: '429 without a hint' }), 41)).at(-1)!;
    expect([last.status, last.headers['retry-after'], /\d+ s/.test(last.text)]).toEqual([429, undefined, false]);
  });
});

describe('conditional reads and version header', () => {
  const again = async (behaviours: Behaviours) => {
    const { ask, bug } = await start(behaviours);
    const first = await ask('GET', TASKS);
    const headers = { 'if-none-match': first.headers['etag'] ?? '"any"' };
    const second = await ask('GET', TASKS, { headers });
    await bug();
    return [first.headers['etag'] !== undefined, second.status, (await ask('GET', TASKS, { headers })).status];
  };

  it.each<[Behaviours, unknown[]]>([
    [{ 'task object': 'no key' }, [true, 304, 200]],
    [{ 'conditional reads': 'none' }, [false, 200, 200]],
    [{ 'conditional reads': 'an ETag that never changes' }, [true, 304, 304]],
  ])('%j', async (behaviours, expected) => {
    expect(await again(behaviours)).toEqual(expected);
  });

  it('other name, and ignored', async () => {
    const { ask } = await start({ 'version header': 'other name' });
    expect((await ask('GET', TASKS)).body.errorCode).toBe('unsupported_api_version');
    expect((await ask('GET', TASKS, { headers: { 'X-One-Api-Version': '2' } })).status).toBe(200);
    const ignoring = await start({ 'version header': 'ignored' });
    expect((await ignoring.ask('GET', TASKS, { headers: { 'X-Service-Api-Version': '9' } })).status).toBe(200);
  });
});

describe('webhooks', () => {
  const event = (type: string, resource: object, body: object) => ({
    ...{ specversion: '1.0', id: `evt_${JSON.stringify(body)}`, type, workspaceid: 'w' },
    data: {
      resource: { type: type.split('.')[0], ...resource },
      actor: { type: 'user', id: 'u' },
      [type.split('.')[0]!]: body,
    },
  });
  const task = (id: string) =>
    event('task.created', { id, key: 'BUG-1' }, { taskId: id, key: 'BUG-1', title: 'T', status: 'open' });
  const link = event('work_item.created', { id: 'wi_1', taskId: 'tsk_1' }, { workItemId: 'wi_1', taskId: 'tsk_1' });
  const pull = event('pull_request.created', { id: 'p' }, { identifier: '1' });

  /** Events as a subscriber gets them. */
  async function received(behaviours: Behaviours, events: readonly object[], wait = 10_000) {
    const clock = createTravellingClock();
    const sent: HttpRequest[] = [];
    const own: HttpClient = {
      request: async (request) => {
        sent.push(request);
        return { status: 204, headers: {}, body: Buffer.alloc(0) };
      },
      close: async () => undefined,
    };
    const client = plausibleServer({ clock, behaviours }).serviceClient(own);
    const headers = { 'x-service-signature': 'sha256=x', 'x-service-webhook-key': 'k' };
    for (const each of events) {
      const request = { method: 'POST', url: 'http://subscriber', target: 'webhook', headers } as const;
      expect((await client.request({ ...request, body: JSON.stringify(each) })).status).toBe(204);
    }
    await clock.advance(wait);
    return sent.map(({ body, headers: given }) => ({
      ...(JSON.parse(String(body)) as { id: string; type: string; data: Record<string, unknown> }),
      isSigned: given?.['x-service-signature'] !== undefined,
    }));
  }

  it('ours: as the service sends them, with the signature', async () => {
    const events = [task('tsk_1'), link, pull];
    expect(await received({}, events)).toEqual(events.map((each) => ({ ...each, isSigned: true })));
  });

  it.each<[Behaviours['webhooks'], object | undefined, object | undefined]>([
    ['flat camelCase', { taskId: 'tsk_1' }, { workItemId: 'wi_1' }],
    ['nested', { task: { taskId: 'tsk_1' } }, { workItem: { workItemId: 'wi_1' } }],
    ['ids only', undefined, undefined],
  ])('%s', async (value, shownTask, shownLink) => {
    const [first, second, ...more] = await received({ webhooks: value }, [task('tsk_1'), link, pull]);
    expect(more).toEqual([]);
    expect([first!.isSigned, second!.isSigned]).toEqual([false, false]);
    expect(first!.data['resource']).toMatchObject({ type: 'task', taskId: 'tsk_1' });
    expect(second!.data['resource']).toMatchObject({ type: 'workItem', workItemId: 'wi_1', taskId: 'tsk_1' });
    const optional = (shown: object | undefined) => shown && expect.objectContaining(shown);
    const nested = value === 'nested';
    expect(nested ? first!.data : { task: first!.data['task'] }).toMatchObject({
      task: nested ? shownTask : optional(shownTask),
    });
    expect(nested ? second!.data : { workItem: second!.data['workItem'] }).toMatchObject({
      workItem: nested ? shownLink : optional(shownLink),
    });
  });

  it('tasks look as in answers', async () => {
    const [first] = await received({ 'task object': 'no key' }, [task('tsk_1')]);
    expect(first!.data['task']).toEqual({ taskId: 'tsk_1', title: 'T', status: 'open' });
  });

  it('bulk: one event with the ids of tasks', async () => {
    const events = await received({ webhooks: 'bulk' }, [task('tsk_1'), task('tsk_2'), link]);
    expect(events.map(({ type }) => type)).toEqual(['work_item.created', 'task.updated']);
    expect(events[1]!.data).toMatchObject({ resource: { taskIds: ['tsk_1', 'tsk_2'] } });
    expect(events[1]!.data).not.toHaveProperty('task');
  });

  it.each<[Behaviours['webhooks'], string[]]>([
    ['none', []],
    ['doubled', ['a', 'a', 'b', 'b', 'c', 'c']],
    ['out of order', ['b', 'a', 'c']],
  ])('%s', async (value, order) => {
    const events = await received({ webhooks: value }, ['a', 'b', 'c'].map(task));
    expect(events.map(({ data }) => (data['task'] as { taskId: string }).taskId)).toEqual(order);
  });

  it('before the answer of the write: the answer comes a second later', async () => {
    const { bug, people, clock } = await start({ webhooks: 'before the answer of the write' });
    let isAnswered = false;
    const answer = bug().finally(() => {
      isAnswered = true;
    });
    await expect.poll(async () => (await people.listTasks({}, {})).body.tasks.length).toBe(1);
    await expect.poll(() => clock.pending).toBeGreaterThan(0);
    expect(isAnswered).toBe(false);
    await clock.until(() => isAnswered);
    expect((await answer).status).toBe(201);
  });
});

it('counts what was carried out, also where the answer is lost', async () => {
  const { bug, server } = await start({}, ({ route }) => route === 'createBug');
  for (let n = 0; n < 2; n++) await expect(bug({ source: 's' })).rejects.toMatchObject({ code: 'outcome_unknown' });
  expect(server.seen.creations).toEqual(new Map([['["s","T"]', 2]]));
  expect(doubled(server.seen)).toEqual(['["s","T"]']);
  expect(server.seen.requests).toEqual(new Map([['createBug', 2]]));
});

it('every server of the covering array answers a conversation, and no transformation fails on what another made', async () => {
  const running = await startWorkspaceService({ quota: NO_QUOTA });
  const http = createHttpClient({ steps: noSteps, meter: silentMeter });
  onTestFinished(async () => {
    await http.close();
    await running.close();
  });
  const at = (call: () => void) => {
    const timer = setImmediate(call);
    return () => clearImmediate(timer);
  };
  const clock = { ...createTravellingClock(), after: (_ms: number, call: () => void) => at(call) };
  for (const behaviours of coveringArray(valuesByDimension())) {
    const server = plausibleServer({ clock, behaviours: behaviours as Behaviours });
    const client = server.daemonClient(http);
    const ask = async (method: HttpRequest['method'], path: string, body?: object) => {
      const headers = { authorization: `Bearer ${running.apiKey}`, 'x-one-api-version': '2' };
      const typed = { ...headers, ...(body && { 'content-type': 'application/json' }) };
      const url = running.url + path;
      return client.request({ method, url, headers: typed, body: body && JSON.stringify(body), target: 'workspace' });
    };
    const { taskId } = (await running.client().createBug({ body: { title: 'T' } }, {})).body;
    const links = `/tasks/${taskId}/work-items`;
    const answers = [
      await ask('GET', `${TASKS}?all=true`),
      await ask('POST', BUGS, { title: 'T', source: 's', labels: ['x'] }),
      await ask('POST', BUGS, { title: 'T' }),
      await ask('POST', links, { url: URL_ }),
      await ask('POST', links, { url: URL_ }),
      await ask('GET', links),
      await ask('DELETE', `${links}/wi_unknown`),
      await ask('GET', `${RECORDS}?limit=1`),
      await ask('POST', RECORDS, PULL),
    ];
    const statuses = answers.map(({ status }) => status);
    expect(statuses.filter((status) => status >= 500 || status === 401)).toEqual([]);
    expect([statuses[0], Math.floor(statuses[2]! / 100)]).toEqual([200, 2]);
    expect(server.seen.opened).toEqual([]);
  }
});

it('stands between a daemon and the service of its world', async () => {
  const world = await createWorld({ behaviours: { 'creation answer': '200' } });
  onTestFinished(() => world.close());
  const { taskId } = (await world.people.createBug({ body: { title: 'It breaks' } }, {})).body;
  await world.deliver('pull_request', pullEvent({ head: 'bug-1-fix', title: 'Fix it' }));
  await world.settled();
  const { requests, links } = world.server!.seen;
  expect([...links]).toEqual([[`${taskId} https://github.com/acme/app/pull/1`, 1]]);
  expect([...requests.values()].reduce((sum, each) => sum + each)).toBe((await world.requests()).received);
});

describe('the table', () => {
  it('says of each value what leaves it open, and has one server for each value of its own', () => {
    const rows = tableOfDimensions();
    expect(rows.filter(({ leftOpenBy }) => leftOpenBy === '')).toEqual([]);
    expect(singles()).toHaveLength(rows.length - Object.keys(DIMENSIONS).length);
  });

  it('covers each pair of values of two dimensions with at most 80 servers, always the same', () => {
    const values = valuesByDimension();
    const servers = coveringArray(values);
    expect(servers.length).toBeLessThanOrEqual(80);
    expect(coveringArray(values)).toEqual(servers);
    const pairs = new Set(
      servers.flatMap((server) => {
        const chosen = Object.entries(server).map(([dimension, value]) => `${dimension}: ${value}`);
        return chosen.flatMap((one, at) => chosen.slice(at + 1).map((other) => `${one}, ${other}`));
      }),
    );
    const sizes = Object.values(values).map(({ length }) => length);
    const expected = sizes.flatMap((one, at) => sizes.slice(at + 1).map((other) => one * other));
    expect(pairs.size).toBe(expected.reduce((sum, each) => sum + each, 0));
  });
});
