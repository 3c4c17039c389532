import { afterEach, describe, expect, it } from 'vitest';
import { describeExplained } from '../../src/cli/explained.ts';
import { entity } from '../../src/model/change.ts';
import type { TaskUpdate } from '../../src/model/task.ts';
import { blankEntity, findEntity, saveEntity } from '../../src/store/entities.ts';
import { addDifference } from '../../src/store/outbox-rows.ts';
import { createWeather, errorAnswer } from '../support/fakes/weather.ts';
import { createWorld, GITHUB, type World, type WorldOptions } from '../support/harness/daemon.ts';
import { pullEvent } from '../support/vendors/github-payloads.ts';

let world: World;
afterEach(() => world.close());

const BODY = { title: 'Door sticks', description: 'Only in winter', labels: ['door'], priority: 'high' } as const;

const WEBHOOK = { key: 'a shared key for tests only', secret: 'a signing secret for tests only' };

async function open(api: object, options: Partial<WorldOptions> = {}, more: object = {}): Promise<string> {
  world = await createWorld({ ...options, config: { workspace: { api }, ...more } });
  const { body } = await world.people.createBug({ body: { ...BODY, labels: [...BODY.labels] } }, {});
  await world.settled();
  return body.taskId;
}

/** Wants an update, as the rules do. */
async function want(taskId: string, update: TaskUpdate): Promise<void> {
  const { store, wakeOutbox } = world.partition();
  const now = world.clock.now();
  const name = entity.taskUpdate(taskId);
  await store.commit(async (query) => {
    const row = (await findEntity(query, name)) ?? blankEntity(name, 'task_update', { task_id: taskId });
    await saveEntity(query, { ...row, desired: JSON.stringify(update) });
    const change = { kind: 'task_update', lane: 'status', since: now, due: now, weight: 1, effect: 'status' } as const;
    await addDifference(query, { entity: name, ...change, waiting: [] });
  });
  wakeOutbox();
}

async function move(taskId: string, update: TaskUpdate): Promise<void> {
  await want(taskId, update);
  await world.settled();
}

/** The requests that work takes. */
async function costOf(work: () => Promise<void>): Promise<number> {
  const { received } = await world.requests();
  await work();
  return (await world.requests()).received - received;
}

const taskOf = async (taskId: string) => await world.task(taskId);

describe('a status change', () => {
  it('takes a read and an update in the form `whole`', async () => {
    const taskId = await open({ taskUpdate: 'whole' });
    expect(await costOf(() => move(taskId, { status: 'review', from: 'open' }))).toBe(2);
    expect(await taskOf(taskId)).toMatchObject({ ...BODY, status: 'review' });
  });

  it('takes one request in the form `fields` if webhooks report edits and the task was cached within a minute', async () => {
    const workspace = { api: { taskUpdate: 'fields' }, webhook: WEBHOOK };
    const taskId = await open({}, {}, { workspace });
    // The first update of a field is compared with a read.
    expect(await costOf(() => move(taskId, { status: 'in_progress', from: 'open' }))).toBe(2);
    expect(await costOf(() => move(taskId, { status: 'review', from: 'in_progress' }))).toBe(1);
    await world.clock.advance(60_000);
    expect(await costOf(() => move(taskId, { status: 'completed', from: 'review' }))).toBe(2);
    expect(await taskOf(taskId)).toMatchObject({ ...BODY, status: 'completed', completedAt: expect.any(String) });
  });

  it.each(['whole', 'fields'])('leaves a status that a person has just set, in the form `%s`', async (taskUpdate) => {
    const taskId = await open({ taskUpdate });
    await move(taskId, { status: 'in_progress', from: 'open' });
    await world.people.updateTask({ taskId, body: { status: 'completed' } }, {});
    await move(taskId, { status: 'review', from: 'in_progress' });
    expect(await taskOf(taskId)).toMatchObject({ status: 'completed' });
  });

  it('takes a read and writes nothing if a person has changed the status', async () => {
    const taskId = await open({});
    await world.people.updateTask({ taskId, body: { status: 'blocked' } }, {});
    expect(await costOf(() => move(taskId, { status: 'review', from: 'open' }))).toBe(1);
    expect(await taskOf(taskId)).toMatchObject({ status: 'blocked' });
    const [row] = await world.partition().store.query.selectFrom('tasks').select('status').execute();
    expect(row?.status).toBe('blocked');
  });

  it('survives a kill between the read and the answer of the update', async () => {
    const taskId = await open({});
    let revive: (() => Promise<void>) | undefined;
    const updating = move(taskId, { status: 'review', from: 'open' });
    await world.until(async () => {
      if ((await taskOf(taskId)).status !== 'review') return false;
      revive ??= world.kill();
      return true;
    });
    await updating.catch(() => undefined);
    await revive?.();
    await world.settled();
    expect(await taskOf(taskId)).toMatchObject({ ...BODY, status: 'review' });
    const row = await findEntity(world.partition().store.query, entity.taskUpdate(taskId));
    expect(row?.known).toContain('"status":"review"');
  });
});

it.each(['record', 'off'])(
  'a task gets its status back when its last link is gone, with mirror: %s',
  async (mirror) => {
    const rules = { workflow: { preset: 'standard' } };
    world = await createWorld({ config: { connections: { github: { ...GITHUB, mirror } }, rules } });
    const { taskId } = await world.bug('Door sticks');
    const pull = async (title: string) => {
      await world.clock.advance(1_000);
      const updated = new Date(world.clock.now()).toISOString();
      await world.deliver('pull_request', pullEvent({ number: 1, title, updated }));
    };
    await pull('BUG-1: Oil the hinges');
    await world.settled();
    expect(await taskOf(taskId)).toMatchObject({ status: 'review' });
    await pull('Oil the hinges');
    await world.partition().reconcile.drain();
    const [link] = await world.links(taskId);
    await world.people.removeWorkItem({ taskId, workItemId: link?.workItemId ?? '' }, {});
    await world.settled();
    expect(await taskOf(taskId)).toMatchObject({ status: 'open' });
  },
);

describe('the undoing of a status change', () => {
  it('restores the status before it, as a status of a person', async () => {
    const taskId = await open({});
    await move(taskId, { status: 'review', from: 'open' });
    const undone = { task: 'BUG-1', from: 'review', to: 'open' };
    expect(await costOf(async () => expect(await world.ask('status-undo', { task: 'bug-1' })).toEqual(undone))).toBe(2);
    expect(await taskOf(taskId)).toMatchObject({ ...BODY, status: 'open' });
    await world.settled();
    const [row] = await world.partition().store.query.selectFrom('tasks').select('status').execute();
    expect(row?.status).toBe('open');
    await expect(world.ask('status-undo', { task: 'BUG-1' })).rejects.toMatchObject({ code: 'conflict' });
  });

  it('is refused if somebody has changed the status since, or worksync has set none', async () => {
    const taskId = await open({});
    await expect(world.ask('status-undo', { task: 'BUG-1' })).rejects.toMatchObject({ code: 'conflict' });
    await move(taskId, { status: 'review', from: 'open' });
    await world.people.updateTask({ taskId, body: { status: 'blocked' } }, {});
    const refused = { code: 'conflict', message: expect.stringContaining('blocked since') };
    await expect(world.ask('status-undo', { task: 'BUG-1' })).rejects.toMatchObject(refused);
    expect(await taskOf(taskId)).toMatchObject({ status: 'blocked' });
  });
});

it.each([
  { status: 409, errorCode: 'conflict', code: 'conflict' },
  { status: 412, errorCode: 'conflict', code: 'conflict' },
  { status: 400, errorCode: 'validation_failed', code: 'refused' },
])('$status for one task holds its change, and other tasks get the same status', async (refused) => {
  const { status, errorCode, code } = refused;
  const weather = createWeather(() => 0);
  const config = { rules: { workflow: { preset: 'standard' } } };
  world = await createWorld({ faults: weather, config });
  const ids: string[] = [];
  for (const title of ['Door sticks', 'Window sticks', 'Lid sticks']) ids.push((await world.bug(title)).taskId);
  const [first = '', second = '', third = ''] = ids;
  weather.turn({
    before: ({ method, url }) =>
      method === 'PUT' && url.endsWith(first) ? errorAnswer(status, errorCode, 'not now') : undefined,
  });
  const openPull = async (number: number) => {
    const updated = new Date(world.clock.now()).toISOString();
    await world.deliver('pull_request', pullEvent({ number, title: `BUG-${number}: oil it`, updated }));
    await world.settled();
  };
  const explained = async () => (await world.ask('explain', { target: 'BUG-1' })).statuses[0];
  await openPull(1);
  await world.until(async () => (await explained())?.change?.state === 'held');
  expect(await explained()).toMatchObject({
    status: 'open',
    reason: { code: 'refused', detail: `${code}: PUT /workspaces/current/tasks/${first}: ${status} not now` },
  });
  const text = describeExplained(await world.ask('explain', { target: 'BUG-1' }));
  expect(text).toContain('status open → review (standard: open): held');
  expect(text).toContain(`held release update:${first}"`);
  await openPull(2);
  await openPull(3);
  expect([(await taskOf(second)).status, (await taskOf(third)).status]).toEqual(['review', 'review']);
  weather.clear();
  await world.ask('release', { classes: [], entities: ['update:BUG-1'] });
  await world.settled();
  expect((await taskOf(first)).status).toBe('review');
});

it('explains an update that failed as one that is sent again', async () => {
  const weather = createWeather(() => 0);
  const config = { rules: { workflow: { preset: 'standard' } } };
  world = await createWorld({ faults: weather, config });
  await world.bug('Door sticks');
  weather.turn({
    before: ({ method }) => (method === 'PUT' ? errorAnswer(500, 'internal_error', 'later') : undefined),
  });
  const updated = new Date(world.clock.now()).toISOString();
  await world.deliver('pull_request', pullEvent({ number: 1, title: 'BUG-1: oil it', updated }));
  const explained = () => world.ask('explain', { target: 'BUG-1' });
  await world.until(async () => (await explained()).statuses[0]?.change?.error !== null);
  expect((await explained()).statuses[0]).toMatchObject({
    status: 'open',
    wanted: { status: 'review' },
    reason: null,
    change: {
      state: 'pending',
      sets: 'status open → review (standard: open)',
      error: expect.stringContaining('500 later'),
    },
  });
  expect(await world.ask('changes', { limit: 9 })).toMatchObject([{ sets: 'status open → review (standard: open)' }]);
  expect(describeExplained(await explained())).toMatch(
    /next: status open → review \(standard: open\) failed: .*; to be sent again, probably at/,
  );
});

describe('a server with task updates', () => {
  it.each([
    ['PUT of changed fields', {}],
    ['PUT of the whole task', {}],
    ['PUT of the whole task', { taskUpdate: 'fields' }],
    ['PATCH', { routes: { updateTask: { method: 'PATCH' } } }],
    ['PATCH', { taskUpdate: 'fields', routes: { updateTask: { method: 'PATCH' } } }],
  ] as const)('by %s gets %j, and keeps all other fields', async (value, api) => {
    const taskId = await open(api, { behaviours: { 'task updates': value } });
    await move(taskId, { status: 'in_progress', from: 'open' });
    await move(taskId, { status: 'review', addLabels: ['staging'], from: 'in_progress' });
    expect(await taskOf(taskId)).toMatchObject({ ...BODY, labels: ['door', 'staging'], status: 'review' });
  });

  it.each([
    ['task updates', 'none'],
    ['single task route', 'none'],
  ] as const)('by %s: %s keeps its statuses, and the status names the reason', async (dimension, value) => {
    const rules = { workflow: { preset: 'standard' } };
    const taskId = await open({}, { behaviours: { [dimension]: value } }, { rules });
    await world.deliver('pull_request', pullEvent({ title: 'Fixes BUG-1' }, 'opened'));
    await world.until(async () => {
      const { causes } = await world.partition().status();
      return causes.some(({ code }) => code === 'task_updates_off');
    });
    expect(await taskOf(taskId)).toMatchObject({ ...BODY, status: 'open' });
  });
});
