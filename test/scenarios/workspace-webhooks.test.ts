import { createHmac } from 'node:crypto';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createWorld, type World } from '../support/harness/daemon.ts';
import { answerByNock, nock } from '../support/harness/nock.ts';
import { pullObject } from '../support/vendors/github-payloads.ts';

/** The workspace's own webhooks: CloudEvents to `/webhooks/<workspace>/workspace`. */

const KEY = 'a shared key for tests only';
const SECRET = 'a signing secret for tests only';
const NEXT = 'the next value for tests only';
const URL_OF_ONE = 'https://github.com/acme/app/pull/1';

let world: World;
/** Deliveries before the present test. */
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

  it('the pull request may have named the task before it was there', async () => {
    await subscribe();
    await world.bug('The first');
    await events(1);
    await world.pull({ title: 'BUG-2: fix' });
    await world.until(() => world.weather.arrivals.length > 0);
    const { taskId } = await world.bug('The second');
    await events(3);
    await world.until(() => world.weather.arrivals.some(({ url }) => url.endsWith('/work-items')));
    expect(await world.links(taskId)).toMatchObject([{ url: URL_OF_ONE }]);
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

  it('is taken by each of two live values while one replaces the other', async () => {
    const event = JSON.stringify(taskEvent(7));
    const headers = { 'x-service-webhook-key': NEXT, 'x-service-signature': sign(event, NEXT) };
    for (const each of [{}, headers]) expect((await deliver(event, each))[0]).toBe(202);
  });

  it('with no JSON, or an event without a type, is quarantined and holds up nothing', async () => {
    for (const body of ['no JSON', '{"data":{}}', JSON.stringify(taskEvent(8))]) await deliver(body);
    await events(3);
    const quarantined = { state: 'quarantined', reason: expect.stringContaining('delivery_malformed') };
    expect(await inbox()).toMatchObject([quarantined, quarantined, { state: 'applied' }]);
  });

  it('without data, and one that is older than a day, is ignored', async () => {
    await deliver({ type: 'work_item.created' });
    await deliver({ ...taskEvent(7), time: time(-25 * 60 * 60_000) });
    await deliver({ ...taskEvent(8), time: time(0) });
    await events(3);
    expect(await inbox()).toMatchObject([
      { state: 'ignored', reason: 'the event does not name the task of the link' },
      { state: 'ignored', reason: 'the event is older than 24 hours' },
      { state: 'applied' },
    ]);
  });

  it('of an unknown type is ignored, and counted under at most 50 types', async () => {
    for (let number = 1; number <= 52; number++) await deliver({ type: `sprint.changed_${number}` });
    await deliver({ type: 'no label "can" hold this' });
    await deliver({ type: 'sprint.changed_7' });
    await events(54);
    expect(new Set((await inbox()).map(({ state, reason }) => `${state}: ${reason}`))).toEqual(
      new Set(['ignored: unknown event type']),
    );
    const lines = (await world.metrics())
      .split('\n')
      .filter((line) => line.includes('workspace_events_unknown_total{'));
    const counts = new Map(lines.map((line) => [/type="([^"]+)"/.exec(line)?.[1], Number(line.split(' ').at(-1))]));
    expect(counts.size).toBe(51);
    expect([counts.get('sprint.changed_7'), counts.get('other')]).toEqual([2, 3]);
  });

  it('that comes late changes nothing that is newer', async () => {
    await deliver(taskEvent(9, { title: 'New', updatedAt: '2026-01-05T09:00:05.000Z' }));
    await deliver(taskEvent(9, { title: 'Old', updatedAt: '2026-01-05T09:00:04.000Z' }));
    await events(2);
    const tasks = world.partition().store.query.selectFrom('tasks').select('fields').where('key', '=', 'BUG-9');
    expect(JSON.parse((await tasks.executeTakeFirst())?.fields ?? '')).toMatchObject({ title: 'New' });
  });
});

describe('a delivery to a workspace that', () => {
  afterEach(() => world.close());

  it.each([
    ['a key alone', { key: KEY }, { 'x-service-webhook-key': `${KEY}x` }, { 'x-service-signature': '' }],
    ['a secret alone', { secret: SECRET }, { 'x-service-signature': '' }, { 'x-service-webhook-key': '' }],
  ])('has %s needs that alone', async (_name, webhook, wrong: object, right: object) => {
    await open(webhook);
    expect((await deliver(taskEvent(7), { ...wrong }))[0]).toBe(401);
    expect((await deliver(taskEvent(7), { ...right }))[0]).toBe(202);
  });

  it('has no webhook finds no address', async () => {
    await open();
    expect((await deliver(taskEvent(7)))[0]).toBe(404);
  });

  it('attaches documents is no news if it comes when we have attached its document, and is if a person detached it', async () => {
    await open({ secret: SECRET }, { documents: 'attach' });
    const { taskId } = await world.bug();
    const { body: plan } = await world.people.createDocument({ body: { title: 'Plan' } }, {});
    const { documentId } = plan;
    const url = `${new URL((await world.partition().status()).address).origin}/documents/${documentId}`;
    await world.clock.advance(1_000);
    await world.pull({ title: 'BUG-1', body: url });
    const standing = async () => (await world.people.getDocument({ documentId }, {})).body;
    await world.until(async () => (await standing()).taskId === taskId);
    await world.settled();
    const hand = async () => {
      const rows = world.partition().store.query.selectFrom('entities').select('hand').where('kind', '=', 'document');
      return (await rows.executeTakeFirst())?.hand;
    };
    const told = (document: object) => ({ ...taskEvent(1), type: 'document.updated', data: { document } });
    await world.clock.advance(1_000);
    await deliver(told(plan));
    await events(1);
    expect(await hand()).toBe(null);
    await world.clock.advance(1_000);
    await world.people.detachDocument({ taskId, documentId }, {});
    await deliver(told(await standing()));
    await events(2);
    expect(await hand()).toBe('removed');
  });

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
      const ask = async (headers: Record<string, string>, path = 'workspace') => {
        const answer = await fetch(`${world.daemon().address}/webhooks/test/${path}`, { method, headers });
        return [answer.status, await answer.text()];
      };
      expect(await ask({ 'x-one-webhook-key': KEY })).toEqual([204, '']);
      expect(await ask({ 'x-one-webhook-key': `${KEY}x` })).toEqual([401, '']);
      expect(await ask({ 'x-service-webhook-key': KEY })).toEqual([401, '']);
      expect(await ask({}, inQuery)).toEqual([401, '']);
      expect((await ask({ 'x-one-webhook-key': KEY }, 'github'))[0]).toBe(405);
    }
    expect(await inbox()).toEqual([]);
  });

  it('is accepted: tasks and links are known without a read, and a repeated event is recognised', async () => {
    const body = await world.bug();
    const { taskId } = body;
    const resource = { type: 'task', id: taskId, workspaceId: 'w_1', taskId };
    const task = { ...body, labels: [{ id: 'l' }], priority: null };
    const created = { type: 'task.created', data: { resource, task } };
    expect(await send(created, { key: 'a wrong key of some length' })).toEqual([401, undefined]);
    expect(await send(created, { id: 'evt_same' })).toEqual([202, 'new']);
    expect(await send(created, { id: 'evt_same' })).toEqual([202, 'repeated']);
    await events(1);
    await world.pull({ title: `${body.key}: fix` });
    await world.settled();
    expect(world.weather.asked().filter((request) => request.startsWith('GET'))).toEqual([]);
    const [link] = await world.links(taskId);
    expect(link).toMatchObject({ url: URL_OF_ONE });

    // The echo of worksync's own link, once whole and once by its ids.
    const workItemId = link?.workItemId ?? '';
    const ids = { type: 'workItem', id: workItemId, workItemId, taskId };
    await send({ type: 'workItem.created', data: { resource: ids, workItem: link } });
    await send({ type: 'workItem.created', data: { resource: ids } });
    // A person removes it.
    await world.people.removeWorkItem({ taskId, workItemId }, {});
    await send({ type: 'workItem.deleted', data: { resource: ids } });
    await events(4);
    await world.clock.advance(10 * 60_000);
    await world.settled();
    expect(world.weather.asked()).toEqual([]);
    expect(await world.links(taskId)).toEqual([]);
    expect((await inbox()).map(({ state }) => state)).toEqual(['applied', 'applied', 'applied', 'applied']);
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

  it('that names a task that is gone leads to one list', async () => {
    await send({ type: 'task.deleted', data: { resource: { type: 'task', id: 'tsk_gone' } } });
    await events(1);
    await world.clock.advance(2 * 60_000);
    await world.settled();
    expect(world.weather.asked()).toEqual([
      'GET /workspaces/current/tasks/tsk_gone',
      expect.stringMatching(/^GET \/workspaces\/current\/tasks\?/),
    ]);
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
