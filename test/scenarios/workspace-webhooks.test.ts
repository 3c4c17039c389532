import { createHmac } from 'node:crypto';
import { afterEach, describe, expect, it } from 'vitest';
import { createWeather, type Weather } from '../support/fakes/weather.ts';
import { createWorld, GITHUB, type World } from '../support/harness/daemon.ts';
import { answerByNock, nock } from '../support/harness/nock.ts';
import { pullEvent, pullObject } from '../support/vendors/github-payloads.ts';

/** The workspace's own webhooks: CloudEvents to `/webhooks/<workspace>/workspace`. */

const KEY = 'a shared key for tests only';
const SECRET = 'a signing secret for tests only';
const URL_OF_ONE = 'https://github.com/acme/app/pull/1';

let world: World;
let weather: Weather;
answerByNock('127.0.0.1');
afterEach(() => world.close());

async function open(webhook?: object, rules = {}): Promise<void> {
  let clock: World['clock'] | undefined;
  weather = createWeather(() => clock?.elapsed() ?? 0);
  world = await createWorld({
    faults: weather,
    config: { ...CONFIG, rules, ...(webhook && { workspace: { webhook } }) },
  });
  clock = world.clock;
  await world.until(() => weather.arrivals.length >= 2);
  await world.settled();
  asked();
}

const CONFIG = {
  connections: {
    github: GITHUB,
  },
};

/** Requests of the daemon's key since the last look. */
function asked(): string[] {
  return weather.arrivals.splice(0).map(({ method, url }) => `${method} ${url.replace('/api/v1', '')}`);
}

/** Real time, while the world's clock stands. */
const arrives = (condition: () => Promise<boolean>) => expect.poll(condition).toBe(true);

async function inbox() {
  return world
    .partition()
    .store.query.selectFrom('inbox')
    .select(['delivery_key', 'event', 'state', 'reason', 'source'])
    .where('connection', '=', 'workspace')
    .where('source', '=', 'workspace')
    .orderBy('id')
    .execute();
}

/** Until this many events are here and taken over. */
const events = (count: number) =>
  arrives(async () => {
    const rows = await inbox();
    return rows.length >= count && rows.every(({ state }) => state !== 'pending');
  });

/** Subscribes the daemon by the workspace's own API, and configures it with what the workspace answers. */
async function subscribe(use: 'both' | 'key' | 'secret' = 'both'): Promise<void> {
  await open();
  const url = `${world.daemon().address}/webhooks/test/workspace`;
  const { key, secret } = (await world.people.createWebhook({ body: { url } }, {})).body;
  const webhook = use === 'both' ? { key, secret } : { [use]: { key, secret }[use] };
  await world.restart({ keepPort: true, config: { ...CONFIG, workspace: { webhook } } });
  await world.settled();
  asked();
}

let sent = 0;

async function deliver(event: object | string, headers: Record<string, string> = {}, id = `evt_${++sent}`) {
  const body = typeof event === 'string' ? event : JSON.stringify(event);
  const answer = await fetch(`${world.daemon().address}/webhooks/test/workspace`, {
    method: 'POST',
    body,
    headers: {
      'content-type': 'application/cloudevents+json',
      'x-service-event-id': id,
      'x-service-event-type': 'task.created',
      'x-service-webhook-key': KEY,
      'x-service-signature': sign(body),
      ...headers,
    },
  });
  return { status: answer.status, body: (await answer.json()) as Record<string, string> };
}

const sign = (body: string, secret = SECRET) => `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`;

const task = (number: number, more: object = {}) => ({
  taskId: `tsk_${number}`,
  key: `BUG-${number}`,
  title: 'Told by a webhook',
  status: 'open',
  source: 'api',
  createdAt: '2026-01-05T09:00:00.000Z',
  updatedAt: '2026-01-05T09:00:00.000Z',
  ...more,
});
const taskEvent = (number: number, more: object = {}) => ({
  specversion: '1.0',
  id: 'evt',
  type: 'task.created',
  data: { task: task(number, more) },
});

describe('with a subscription at the workspace', () => {
  it.each(['both', 'key', 'secret'] as const)('a new task of a person is linkable at once (%s)', async (use) => {
    await subscribe(use);
    const { key } = (await world.people.createBug({ body: { title: 'By a person' } }, {})).body;
    await events(1);
    expect(await inbox()).toMatchObject([{ event: 'task.created', state: 'applied' }]);
    await world.deliver('pull_request', pullEvent({ title: `${key}: fix` }));
    await world.settled();
    expect(asked().sort()).toEqual([
      expect.stringMatching(/^POST \/tasks\/[^/]+\/work-items$/),
      expect.stringMatching(/^POST .*\/pull-request-records$/),
    ]);
  });

  it('the pull request may have named the task before it was there', async () => {
    await subscribe();
    await world.people.createBug({ body: { title: 'The first' } }, {});
    await events(1);
    await world.deliver('pull_request', pullEvent({ title: 'BUG-2: fix' }));
    await world.until(() => weather.arrivals.length > 0);
    const { taskId } = (await world.people.createBug({ body: { title: 'The second' } }, {})).body;
    await events(3);
    await world.until(() => weather.arrivals.some(({ url }) => url.endsWith('/work-items')));
    expect((await world.people.listWorkItems({ taskId }, {})).body.workItems).toMatchObject([{ url: URL_OF_ONE }]);
  });

  it('the echo of the daemon’s own writes causes no request', async () => {
    await subscribe();
    await world.people.createBug({ body: { title: 'By a person' } }, {});
    await events(1);
    for (const [second, title] of ['BUG-1: fix', 'BUG-1: fix it', 'fix it', 'BUG-1: fix it well'].entries()) {
      await world.deliver('pull_request', pullEvent({ title, updated: `2026-01-05T09:00:0${second}Z` }));
      await world.settled();
    }
    await events(1 + 4 + 3);
    await world.settled();
    const before = asked();
    expect(before).toHaveLength(7);
    await world.clock.advance(30 * 60_000);
    await world.settled();
    expect(asked()).toEqual([]);
    expect((await inbox()).every(({ state }) => state === 'applied')).toBe(true);
  });

  it('what people do by hand is known without a read: a link removed, a link made, a record changed', async () => {
    await subscribe();
    const { taskId } = (await world.people.createBug({ body: { title: 'By a person' } }, {})).body;
    await events(1);
    await world.deliver('pull_request', pullEvent({ title: 'BUG-1: fix' }));
    await world.settled();
    await events(3);
    asked();
    const [link] = (await world.people.listWorkItems({ taskId }, {})).body.workItems;
    await world.people.removeWorkItem({ taskId, workItemId: link?.workItemId ?? '' }, {});
    await events(4);
    await world.deliver('pull_request', pullEvent({ title: 'BUG-1: fix it', updated: '2026-01-05T09:00:01Z' }));
    await world.settled();
    await events(5);
    expect(asked()).toEqual([expect.stringMatching(/pull-request-records$/)]);
    expect((await world.people.listWorkItems({ taskId }, {})).body.workItems).toEqual([]);

    await world.people.addWorkItem({ taskId, body: { url: URL_OF_ONE } }, {});
    await events(6);
    await world.deliver('pull_request', pullEvent({ title: 'fix it', updated: '2026-01-05T09:00:02Z' }));
    await world.settled();
    await events(7);
    expect(asked()).toEqual([expect.stringMatching(/pull-request-records$/)]);
    expect((await world.people.listWorkItems({ taskId }, {})).body.workItems).toMatchObject([{ externalId: null }]);

    const record = {
      provider: 'github' as const,
      repoId: '5001',
      identifier: '1',
      title: 'By hand',
      headBranch: 'feature',
    };
    // Perhaps it was edited at the provider too: that is asked before the record is written over.
    const provider = nock('https://api.github.com').get('/repos/acme/app/pulls/1');
    provider.reply(200, pullObject({ title: 'fix it', updated: '2026-01-05T09:00:02Z' }));
    await world.people.createPullRequest(
      { body: { ...record, baseBranch: 'main', state: 'open', url: URL_OF_ONE } },
      {},
    );
    await events(8);
    await world.settled();
    await events(9);
    await world.settled();
    expect(asked()).toEqual([expect.stringMatching(/pull-request-records$/)]);
    const [held] = (await world.people.listPullRequests({ query: {} }, {})).body.pullRequests;
    expect(held).toMatchObject({ title: 'fix it' });
    expect(nock.isDone()).toBe(true);
  });

  it('documents that nobody named are no matter, and the gateway’s cached reads end', async () => {
    await subscribe();
    const { secret } = await world.partition().upstream.tokens.create('for a test');
    const read = async () => {
      const path = '/api/v1/workspaces/current/documents';
      const answer = await fetch(world.daemon().address + path, { headers: { authorization: `Bearer ${secret}` } });
      return ((await answer.json()) as { documents: unknown[] }).documents.length;
    };
    expect(await read()).toBe(0);
    await world.people.createDocument({ body: { title: 'A page', content: 'x' } as never }, {});
    await events(1);
    expect(await inbox()).toMatchObject([{ event: 'document.created', state: 'applied' }]);
    expect(await read()).toBe(1);
  });
});

describe('a delivery', () => {
  it('of a document that comes when we have attached it since is no news, and one of what people do then is', async () => {
    await open({ secret: SECRET });
    await world.restart({
      config: { ...CONFIG, workspace: { webhook: { secret: SECRET } }, rules: { documents: 'attach' } },
    });
    const { taskId } = (await world.people.createBug({ body: { title: 'One' } }, {})).body;
    const { body: before } = await world.people.createDocument({ body: { title: 'Plan' } }, {});
    const { documentId } = before;
    const url = `${new URL((await world.partition().status()).address).origin}/documents/${documentId}`;
    await world.clock.advance(1_000);
    await world.deliver('pull_request', pullEvent({ number: 1, title: 'BUG-1', body: url }));
    await world.settled();
    const standing = async () => (await world.people.getDocument({ documentId }, {})).body;
    await world.until(async () => (await standing()).taskId === taskId);
    await world.settled();
    const hand = async () => {
      const rows = world.partition().store.query.selectFrom('entities').select('hand').where('kind', '=', 'document');
      return (await rows.executeTakeFirst())?.hand;
    };
    const told = (document: object) => ({ ...taskEvent(1), type: 'document.updated', data: { document } });
    await world.clock.advance(1_000);
    await deliver(told(before));
    await events(1);
    expect(await hand()).toBe(null);
    await world.clock.advance(1_000);
    await world.people.detachDocument({ taskId, documentId }, {});
    await deliver(told(await standing()));
    await events(2);
    expect(await hand()).toBe('removed');
  });

  it('is stored once under the id of its event', async () => {
    await open({ key: KEY, secret: SECRET });
    expect(await deliver(taskEvent(7), {}, 'evt_same')).toEqual({ status: 202, body: { delivery: 'new' } });
    expect(await deliver(taskEvent(7), {}, 'evt_same')).toEqual({ status: 202, body: { delivery: 'repeated' } });
    await events(1);
    expect(await inbox()).toMatchObject([{ delivery_key: 'evt_same', state: 'applied' }]);
  });

  it.each([
    ['no key', { key: KEY }, { 'x-service-webhook-key': '' }],
    ['another key', { key: KEY }, { 'x-service-webhook-key': 'another key of some length' }],
    ['a key that only begins right', { key: KEY }, { 'x-service-webhook-key': `${KEY}x` }],
    ['another signature', { secret: SECRET }, { 'x-service-signature': sign('another body') }],
    ['the signature of another secret', { secret: SECRET }, { 'x-service-signature': sign('{}', 'x'.repeat(20)) }],
    ['no signature', { secret: SECRET }, { 'x-service-signature': '' }],
    ['a right key and a wrong signature', { key: KEY, secret: SECRET }, { 'x-service-signature': sign('x') }],
    ['a right signature and a wrong key', { key: KEY, secret: SECRET }, { 'x-service-webhook-key': 'wrong' }],
  ])('with %s is 401, and nothing is stored', async (_name, webhook, headers) => {
    await open(webhook);
    expect((await deliver(taskEvent(7), headers as unknown as Record<string, string>)).status).toBe(401);
    expect(await inbox()).toEqual([]);
  });

  it('is taken by each of two live values while one replaces the other', async () => {
    const next = 'the next value for tests only';
    await open({ key: [KEY, next], secret: [next, SECRET] });
    const event = JSON.stringify(taskEvent(7));
    const headers = { 'x-service-webhook-key': next, 'x-service-signature': sign(event, next) };
    expect((await deliver(event)).status).toBe(202);
    expect((await deliver(event, headers)).status).toBe(202);
  });

  it('has no address where no webhook is configured', async () => {
    await open();
    expect((await deliver(taskEvent(7))).status).toBe(404);
  });

  it.each([
    ['no JSON', 'no JSON'],
    ['an event without a type', '{"data":{}}'],
  ])('with %s is quarantined and holds up nothing', async (_name, body) => {
    await open({ secret: SECRET });
    expect((await deliver(body)).status).toBe(202);
    await deliver(taskEvent(8));
    await events(2);
    expect(await inbox()).toMatchObject([
      { state: 'quarantined', reason: expect.stringContaining('delivery_malformed') },
      { state: 'applied' },
    ]);
  });

  it('without data is ignored', async () => {
    await open({ secret: SECRET });
    await deliver({ type: 'work_item.created' });
    await events(1);
    const reason = 'the event does not name the task of the link';
    expect(await inbox()).toMatchObject([{ state: 'ignored', reason }]);
  });

  it('of an unknown type is ignored, and counted under at most 50 types', async () => {
    await open({ secret: SECRET });
    for (let number = 1; number <= 52; number++) await deliver({ type: `sprint.changed_${number}` });
    await deliver({ type: 'no label "can" hold this' });
    await deliver({ type: 'sprint.changed_7' });
    await events(54);
    expect(new Set((await inbox()).map(({ state, reason }) => `${state}: ${reason}`))).toEqual(
      new Set(['ignored: unknown event type']),
    );
    const lines = (await world.metrics())
      .split('\n')
      .filter((line) => line.startsWith('worksync_workspace_events_unknown'));
    const counts = new Map(lines.map((line) => [/type="([^"]+)"/.exec(line)?.[1], Number(line.split(' ').at(-1))]));
    expect(counts.size).toBe(51);
    expect([counts.get('sprint.changed_7'), counts.get('other')]).toEqual([2, 3]);
  });

  it('that is older than a day is ignored', async () => {
    await open({ secret: SECRET });
    await deliver({ ...taskEvent(7), time: new Date(world.clock.now() - 25 * 60 * 60_000).toISOString() });
    await deliver({ ...taskEvent(8), time: new Date(world.clock.now()).toISOString() });
    await events(2);
    expect(await inbox()).toMatchObject([
      { state: 'ignored', reason: 'the event is older than 24 hours' },
      { state: 'applied' },
    ]);
  });

  it.each([
    ['the daemon’s own key', { type: 'api_key', id: 'key_own' }, ['worksync', 1]],
    ['another key', { type: 'api_key', id: 'key_other' }, ['person', 0]],
    ['a user, whose key it may be', { type: 'user', id: 'key_own' }, ['person', 0]],
  ])('that %s caused is an edit unless the key is ours: then the task is read', async (_name, actor, expected) => {
    await open({ secret: SECRET }, { workflow: { preset: 'standard' } });
    const { taskId } = (await world.people.createBug({ body: { title: 'By a person' } }, {})).body;
    await world.deliver('pull_request', pullEvent({ title: 'BUG-1: fix' }));
    await world.until(async () => (await world.people.getTask({ taskId }, {})).body.status === 'review');
    await world.settled();
    const [workItem] = (await world.people.listWorkItems({ taskId }, {})).body.workItems;
    await deliver({ type: 'work_item.created', data: { actor: { type: 'api_key', id: 'key_own' }, workItem } });
    await events(1);
    const task = (await world.people.getTask({ taskId }, {})).body;
    asked();
    const later = { ...task, status: 'blocked', updatedAt: new Date(world.clock.now() + 1_000).toISOString() };
    await deliver({ type: 'task.updated', data: { actor, task: later } });
    await events(2);
    await world.settled();
    const [explained] = (await world.ask('explain', { target: 'BUG-1' })).statuses;
    expect([explained?.setBy?.who, asked().length]).toEqual(expected);
  });

  it('that comes late changes nothing that is newer', async () => {
    await open({ secret: SECRET });
    await deliver(taskEvent(9, { title: 'New', updatedAt: '2026-01-05T09:00:05.000Z' }));
    await events(1);
    await deliver(taskEvent(9, { title: 'Old', updatedAt: '2026-01-05T09:00:04.000Z' }));
    await events(2);
    const [row] = await world.partition().store.query.selectFrom('tasks').select('fields').execute();
    expect(JSON.parse(row?.fields ?? '')).toMatchObject({ title: 'New' });
  });
});

describe('a server that sends a shared key, its own header names and no signature', () => {
  const NAMES = { key: KEY, headers: 'X-One-' };
  let number = 0;

  async function post(event: object, { key = KEY, id = `evt_${++number}` } = {}) {
    const answer = await fetch(`${world.daemon().address}/webhooks/test/workspace`, {
      method: 'POST',
      body: JSON.stringify({ specversion: '1.0', id, time: new Date(world.clock.now()).toISOString(), ...event }),
      headers: {
        'content-type': 'application/cloudevents+json; charset=utf-8',
        'x-one-event-id': id,
        'X-ONE-Event-Type': 'task.created',
        'X-One-Webhook-Key': key,
        'x-one-retry-num': '0',
      },
    });
    return [answer.status, ((await answer.json()) as { delivery?: string }).delivery];
  }

  const createTask = async (title: string) => (await world.people.createBug({ body: { title } }, {})).body;

  it.each(['HEAD', 'GET'])('%s verifies the key, in the header only', async (method) => {
    await open(NAMES);
    const ask = async (headers: Record<string, string>, path = 'workspace') => {
      const answer = await fetch(`${world.daemon().address}/webhooks/test/${path}`, { method, headers });
      return [answer.status, await answer.text()];
    };
    expect(await ask({ 'x-one-webhook-key': KEY })).toEqual([204, '']);
    expect(await ask({ 'x-one-webhook-key': `${KEY}x` })).toEqual([401, '']);
    expect(await ask({ 'x-service-webhook-key': KEY })).toEqual([401, '']);
    expect(
      await ask({}, `workspace?key=${encodeURIComponent(KEY)}&x-one-webhook-key=${encodeURIComponent(KEY)}`),
    ).toEqual([401, '']);
    expect((await ask({ 'x-one-webhook-key': KEY }, 'github'))[0]).toBe(405);
    expect(await inbox()).toEqual([]);
  });

  it('is accepted: tasks and links are known without a read, and a repeated event is recognised', async () => {
    await open(NAMES);
    const body = await createTask('By a person');
    const resource = { type: 'task', id: body.taskId, workspaceId: 'w_1', taskId: body.taskId };
    const created = {
      type: 'task.created',
      data: { resource, task: { ...body, labels: [{ id: 'l' }], priority: null } },
    };
    expect(await post(created, { key: 'a wrong key of some length' })).toEqual([401, undefined]);
    expect(await post(created, { id: 'evt_same' })).toEqual([202, 'new']);
    expect(await post(created, { id: 'evt_same' })).toEqual([202, 'repeated']);
    await events(1);
    await world.deliver('pull_request', pullEvent({ title: `${body.key}: fix` }));
    await world.settled();
    expect(asked().filter((request) => request.startsWith('GET'))).toEqual([]);
    const [link] = (await world.people.listWorkItems({ taskId: body.taskId }, {})).body.workItems;
    expect(link).toMatchObject({ url: URL_OF_ONE });

    // The echo of worksync's own link, once whole and once by its ids.
    const ids = { type: 'workItem', id: link?.workItemId, workItemId: link?.workItemId, taskId: body.taskId };
    await post({ type: 'workItem.created', data: { resource: ids, workItem: link } });
    await post({ type: 'workItem.created', data: { resource: ids } });
    // A person removes it.
    await world.people.removeWorkItem({ taskId: body.taskId, workItemId: link?.workItemId ?? '' }, {});
    await post({ type: 'workItem.deleted', data: { resource: ids } });
    await events(4);
    await world.clock.advance(10 * 60_000);
    await world.settled();
    expect(asked()).toEqual([]);
    expect((await world.people.listWorkItems({ taskId: body.taskId }, {})).body.workItems).toEqual([]);
    expect((await inbox()).map(({ state }) => state)).toEqual(['applied', 'applied', 'applied', 'applied']);
  });

  it('that names a task without carrying it leads to a read of that task', async () => {
    await open(NAMES);
    const { taskId, key } = await createTask('By a person');
    await post({ type: 'task.created', data: { resource: { type: 'task', id: taskId, taskId } } });
    await events(1);
    await world.settled();
    expect(asked()).toEqual([`GET /workspaces/current/tasks/${taskId}`]);
    await world.deliver('pull_request', pullEvent({ title: `${key}: fix` }));
    await world.settled();
    expect((await world.people.listWorkItems({ taskId }, {})).body.workItems).toMatchObject([{ url: URL_OF_ONE }]);
  });

  it('that names a task that is gone leads to one list', async () => {
    await open(NAMES);
    await post({ type: 'task.deleted', data: { resource: { type: 'task', id: 'tsk_gone' } } });
    await events(1);
    await world.clock.advance(2 * 60_000);
    await world.settled();
    expect(asked()).toEqual([
      'GET /workspaces/current/tasks/tsk_gone',
      expect.stringMatching(/^GET \/workspaces\/current\/tasks\?/),
    ]);
  });

  it('that names many tasks leads to one list in five minutes', async () => {
    await open(NAMES);
    const tasks = [];
    for (const title of ['A', 'B', 'C', 'D']) tasks.push(await createTask(title));
    const taskIds = tasks.map(({ taskId }) => taskId);
    const bulk = { type: 'task.updated', data: { resource: { type: 'task', workspaceId: 'w_1', taskIds } } };
    const from = world.clock.elapsed();
    for (let minute = 0; minute < 9; minute++) {
      await post(bulk);
      await events(minute + 1);
      await world.clock.advance(60_000);
    }
    const lists = weather.arrivals.map(({ at, url }) => [Math.round((at - from) / 60_000), url.includes('/tasks?')]);
    expect(lists).toEqual([
      [1, true],
      [6, true],
    ]);
    expect(await world.partition().store.query.selectFrom('tasks').select('key').execute()).toHaveLength(4);
  });

  it('that names a link without its address leads to a read of the links of its task', async () => {
    await open(NAMES);
    const { taskId } = await createTask('By a person');
    await post({ type: 'work_item.created', data: { resource: { type: 'work_item', id: 'wi_new', taskId } } });
    await events(1);
    await world.settled();
    expect(asked()).toEqual([`GET /tasks/${taskId}/work-items`]);
  });
});
