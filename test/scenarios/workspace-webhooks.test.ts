import { createHmac } from 'node:crypto';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createWorld, type World } from '../support/harness/daemon.ts';
import { answerByNock, nock } from '../support/harness/nock.ts';
import { pullObject } from '../support/vendors/github-payloads.ts';

const KEY = 'a shared key for tests only';
const SECRET = 'a signing secret for tests only';
const NEXT = 'the next value for tests only';
const URL_OF_ONE = 'https://github.com/acme/app/pull/1';

let world: World;
let before = 0;
answerByNock('127.0.0.1');

async function open(webhook?: object, rules = {}): Promise<void> {
  world = await createWorld({ config: { rules, ...(webhook && { workspace: { webhook } }) } });
  await world.until(() => world.weather.arrivals.length >= 2);
  await world.settled();
  world.weather.asked();
  before = 0;
}

async function inbox() {
  const rows = world.partition().store.query.selectFrom('inbox').orderBy('id').where('source', '=', 'workspace');
  const all = rows.select(['delivery_key', 'event', 'state', 'reason']).where('connection', '=', 'workspace');
  return (await all.execute()).slice(before);
}

/** Until this many events are here and taken over. */
const events = (count: number) =>
  expect
    .poll(async () => {
      const rows = await inbox();
      return rows.length >= count && rows.every(({ state }) => state !== 'pending');
    })
    .toBe(true);

/** Subscribes the daemon by the workspace's own API, and configures it with what the workspace answers. */
async function subscribe(use: 'both' | 'key' | 'secret' = 'both'): Promise<void> {
  await open();
  const url = `${world.daemon().address}/webhooks/test/workspace`;
  const { key, secret } = (await world.people.createWebhook({ body: { url } }, {})).body;
  const webhook = use === 'both' ? { key, secret } : { [use]: { key, secret }[use] };
  await world.restart({ keepPort: true, config: { workspace: { webhook } } });
  await world.settled();
  world.weather.asked();
}

let sent = 0;

async function post(body: string, headers: Readonly<Record<string, string>>) {
  const url = `${world.daemon().address}/webhooks/test/workspace`;
  const answer = await fetch(url, { method: 'POST', body, headers });
  return [answer.status, ((await answer.json()) as { delivery?: string }).delivery];
}

async function deliver(event: object | string, headers: Record<string, string> = {}, id = `evt_${++sent}`) {
  const body = typeof event === 'string' ? event : JSON.stringify(event);
  return post(body, {
    'content-type': 'application/cloudevents+json',
    'x-service-event-id': id,
    'x-service-event-type': 'task.created',
    'x-service-webhook-key': KEY,
    'x-service-signature': sign(body),
    ...headers,
  });
}

const sign = (body: string, secret = SECRET) => `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`;
const time = (passed: number) => new Date(world.clock.now() + passed).toISOString();

const taskEvent = (number: number, more: object = {}) => {
  const times = { createdAt: '2026-01-05T09:00:00.000Z', updatedAt: '2026-01-05T09:00:00.000Z' };
  const told = { key: `BUG-${number}`, title: 'Told by a webhook', status: 'open', source: 'api' };
  const task = { taskId: `tsk_${number}`, ...told, ...times, ...more };
  return { specversion: '1.0', id: 'evt', type: 'task.created', data: { task } };
};

describe('with a subscription at the workspace', () => {
  afterEach(() => world.close());

  it.each(['both', 'key', 'secret'] as const)('a new task of a person is linkable at once (%s)', async (use) => {
    await subscribe(use);
    const { key } = await world.bug();
    await events(1);
    expect(await inbox()).toMatchObject([{ event: 'task.created', state: 'applied' }]);
    await world.pull({ title: `${key}: fix` });
    await world.settled();
    expect(world.weather.asked().sort()).toEqual([
      expect.stringMatching(/^POST \/tasks\/[^/]+\/work-items$/),
      expect.stringMatching(/^POST .*\/pull-request-records$/),
    ]);
  });

  it('the echo of the daemon’s own writes causes no request', async () => {
    await subscribe();
    await world.bug();
    await events(1);
    for (const [second, title] of ['BUG-1: fix', 'BUG-1: fix it', 'fix it', 'BUG-1: fix it well'].entries()) {
      await world.pull({ title, updated: `2026-01-05T09:00:0${second}Z` });
      await world.settled();
    }
    await events(1 + 4 + 3);
    await world.settled();
    expect(world.weather.asked()).toHaveLength(7);
    await world.clock.advance(30 * 60_000);
    await world.settled();
    expect(world.weather.asked()).toEqual([]);
    expect((await inbox()).every(({ state }) => state === 'applied')).toBe(true);
  });

  it('what people do by hand is known without a read: a link removed, a link made, a record changed', async () => {
    await subscribe();
    const { taskId } = await world.bug();
    await events(1);
    await world.pull({ title: 'BUG-1: fix', updated: '2026-01-05T09:00:00Z' });
    await world.settled();
    await events(3);
    world.weather.asked();
    const onlyTheRecord = [expect.stringMatching(/pull-request-records$/)];
    const [link] = await world.links(taskId);
    await world.people.removeWorkItem({ taskId, workItemId: link?.workItemId ?? '' }, {});
    await events(4);
    await world.pull({ title: 'BUG-1: fix it', updated: '2026-01-05T09:00:01Z' });
    await world.settled();
    await events(5);
    expect(world.weather.asked()).toEqual(onlyTheRecord);
    expect(await world.links(taskId)).toEqual([]);

    await world.people.addWorkItem({ taskId, body: { url: URL_OF_ONE } }, {});
    await events(6);
    await world.pull({ title: 'fix it', updated: '2026-01-05T09:00:02Z' });
    await world.settled();
    await events(7);
    expect(world.weather.asked()).toEqual(onlyTheRecord);
    expect(await world.links(taskId)).toMatchObject([{ externalId: null }]);

    // Perhaps it was edited at the provider too: that is asked before the record is written over.
    const provider = nock('https://api.github.com').get('/repos/acme/app/pulls/1');
    provider.reply(200, pullObject({ title: 'fix it', updated: '2026-01-05T09:00:02Z' }));
    const record = { provider: 'github', repoId: '5001', identifier: '1', title: 'By hand', url: URL_OF_ONE } as const;
    const branches = { headBranch: 'feature', baseBranch: 'main', state: 'open' } as const;
    await world.people.createPullRequest({ body: { ...record, ...branches } }, {});
    await events(8);
    await world.settled();
    await events(9);
    await world.settled();
    expect(world.weather.asked()).toEqual(onlyTheRecord);
    expect(await world.records()).toMatchObject([{ title: 'fix it' }]);
    expect(nock.isDone()).toBe(true);
  });
});

describe('a delivery', () => {
  beforeAll(() => open({ key: [KEY, NEXT], secret: [NEXT, SECRET] }));
  beforeEach(async () => {
    before = 0;
    before = (await inbox()).length;
  });
  afterAll(() => world.close());

  it('is stored once under the id of its event', async () => {
    expect(await deliver(taskEvent(7), {}, 'evt_same')).toEqual([202, 'new']);
    expect(await deliver(taskEvent(7), {}, 'evt_same')).toEqual([202, 'repeated']);
    await events(1);
    expect(await inbox()).toMatchObject([{ delivery_key: 'evt_same', state: 'applied' }]);
  });

  it('with a wrong key or a wrong signature is 401, and nothing is stored', async () => {
    const wrong: Record<string, string>[] = [
      ...['', 'another key of some length', `${KEY}x`].map((key) => ({ 'x-service-webhook-key': key })),
      ...['', sign('another body'), sign('{}', 'x'.repeat(20))].map((given) => ({ 'x-service-signature': given })),
    ];
    for (const headers of wrong) expect(await deliver(taskEvent(7), headers)).toEqual([401, undefined]);
    expect(await inbox()).toEqual([]);
  });

  it('without data, of an unknown type, or older than a day is ignored', async () => {
    await deliver({ type: 'work_item.created' });
    await deliver({ type: 'sprint.changed' });
    await deliver({ ...taskEvent(7), time: time(-25 * 60 * 60_000) });
    await deliver({ ...taskEvent(8), time: time(0) });
    await events(4);
    expect(await inbox()).toMatchObject([
      { state: 'ignored', reason: 'the event does not name the task of the link' },
      { state: 'ignored', reason: 'unknown event type' },
      { state: 'ignored', reason: 'the event is older than 24 hours' },
      { state: 'applied' },
    ]);
    expect(await world.metrics()).toMatch(/workspace_events_unknown_total\{.*type="sprint\.changed"\} 1/);
  });
});

describe('a delivery to a workspace that', () => {
  afterEach(() => world.close());

  it('moves tasks is an edit unless our own key caused it: then the task is read', async () => {
    await open({ secret: SECRET }, { workflow: { preset: 'standard' } });
    const found: unknown[] = [];
    const own = { type: 'api_key', id: 'key_own' };
    for (const [index, actor] of [
      own,
      { type: 'api_key', id: 'key_other' },
      { type: 'user', id: 'key_own' },
    ].entries()) {
      const { taskId, key } = await world.bug();
      await world.pull({ number: index + 1, title: `${key}: fix` });
      await world.until(async () => (await world.task(taskId)).status === 'review');
      await world.settled();
      const [workItem] = await world.links(taskId);
      await deliver({ type: 'work_item.created', data: { actor: own, workItem } });
      await events(2 * index + 1);
      const task = await world.task(taskId);
      world.weather.asked();
      const later = { ...task, status: 'blocked', updatedAt: time(1_000) };
      await deliver({ type: 'task.updated', data: { actor, task: later } });
      await events(2 * index + 2);
      await world.settled();
      const [explained] = (await world.ask('explain', { target: key ?? '' })).statuses;
      found.push([explained?.setBy?.who, world.weather.asked().length]);
    }
    expect(found).toEqual([
      ['worksync', 1],
      ['person', 0],
      ['person', 0],
    ]);
  });
});

describe('a server that sends a shared key, its own header names and no signature', () => {
  beforeEach(() => open({ key: KEY, headers: 'X-One-' }));
  afterEach(() => world.close());

  const send = (event: object, { key = KEY, id = `evt_${++sent}` } = {}) =>
    post(JSON.stringify({ specversion: '1.0', id, time: time(0), ...event }), {
      'content-type': 'application/cloudevents+json; charset=utf-8',
      'x-one-event-id': id,
      'X-ONE-Event-Type': 'task.created',
      'X-One-Webhook-Key': key,
      'x-one-retry-num': '0',
    });

  it('verifies the key by HEAD and by GET, in the header only', async () => {
    const inQuery = `workspace?key=${encodeURIComponent(KEY)}&x-one-webhook-key=${encodeURIComponent(KEY)}`;
    for (const method of ['HEAD', 'GET']) {
      const ask = async (headers: Record<string, string>, path = 'workspace') =>
        (await fetch(`${world.daemon().address}/webhooks/test/${path}`, { method, headers })).status;
      expect(await ask({ 'x-one-webhook-key': KEY })).toBe(204);
      expect(await ask({ 'x-one-webhook-key': `${KEY}x` })).toBe(401);
      expect(await ask({ 'x-service-webhook-key': KEY })).toBe(401);
      expect(await ask({}, inQuery)).toBe(401);
    }
    expect(await inbox()).toEqual([]);
  });

  it('that names a task or a link without carrying it leads to a read of that alone', async () => {
    const { taskId, key } = await world.bug();
    await send({ type: 'task.created', data: { resource: { type: 'task', id: taskId, taskId } } });
    await events(1);
    await world.settled();
    expect(world.weather.asked()).toEqual([`GET /workspaces/current/tasks/${taskId}`]);
    await world.pull({ title: `${key}: fix` });
    await world.settled();
    expect(await world.links(taskId)).toMatchObject([{ url: URL_OF_ONE }]);
    world.weather.asked();
    await send({ type: 'work_item.created', data: { resource: { type: 'work_item', id: 'wi_new', taskId } } });
    await events(2);
    await world.settled();
    expect(world.weather.asked()).toEqual([`GET /tasks/${taskId}/work-items`]);
  });

  it('that names many tasks leads to one list in five minutes', async () => {
    const taskIds = [];
    for (const title of ['A', 'B', 'C', 'D']) taskIds.push((await world.bug(title)).taskId);
    const bulk = { type: 'task.updated', data: { resource: { type: 'task', workspaceId: 'w_1', taskIds } } };
    const from = world.clock.elapsed();
    for (let minute = 0; minute < 9; minute++) {
      await send(bulk);
      await events(minute + 1);
      await world.clock.advance(60_000);
    }
    const lists = world.weather.arrivals.map(({ at, url }) => [
      Math.round((at - from) / 60_000),
      url.includes('/tasks?'),
    ]);
    expect(lists).toEqual([
      [1, true],
      [6, true],
    ]);
    expect(await world.partition().store.query.selectFrom('tasks').select('key').execute()).toHaveLength(4);
  });
});
