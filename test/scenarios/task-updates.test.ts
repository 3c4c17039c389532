import { afterEach, describe, expect, it } from 'vitest';
import { entity } from '../../src/model/change.ts';
import type { TaskUpdate } from '../../src/model/task.ts';
import { blankEntity, findEntity, saveEntity } from '../../src/store/changes/entities.ts';
import { addDifference } from '../../src/store/changes/outbox-rows.ts';
import { createWorld, type World, type WorldOptions } from '../support/harness/daemon.ts';

let world: World;
afterEach(() => world.close());

const BODY = { title: 'Door sticks', description: 'Only in winter', labels: ['door'], priority: 'high' } as const;

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

const storedStatus = async () =>
  (await world.partition().store.query.selectFrom('tasks').select('status').execute())[0]?.status;

describe('a status change', () => {
  it('takes one request in the form `fields` if webhooks report edits and the task was cached within a minute', async () => {
    const webhook = { key: 'a shared key for tests only', secret: 'a signing secret for tests only' };
    const workspace = { api: { taskUpdate: 'fields' }, webhook };
    const taskId = await open({}, {}, { workspace });
    // The first update of a field is compared with a read.
    expect(await world.costOf(() => move(taskId, { status: 'in_progress', from: 'open' }))).toBe(2);
    expect(await world.costOf(() => move(taskId, { status: 'review', from: 'in_progress' }))).toBe(1);
    await world.clock.advance(60_000);
    expect(await world.costOf(() => move(taskId, { status: 'completed', from: 'review' }))).toBe(2);
    expect(await world.task(taskId)).toMatchObject({ ...BODY, status: 'completed', completedAt: expect.any(String) });
  });

  it('survives a kill between the read and the answer of the update', async () => {
    const taskId = await open({});
    let revive: (() => Promise<void>) | undefined;
    const updating = move(taskId, { status: 'review', from: 'open' });
    await world.until(async () => {
      if ((await world.task(taskId)).status !== 'review') return false;
      revive ??= world.kill();
      return true;
    });
    await updating.catch(() => undefined);
    await revive?.();
    await world.settled();
    expect(await world.task(taskId)).toMatchObject({ ...BODY, status: 'review' });
    const row = await findEntity(world.partition().store.query, entity.taskUpdate(taskId));
    expect(row?.known).toContain('"status":"review"');
  });
});

describe('the undoing of a status change', () => {
  it('restores the status before it, as a status of a person', async () => {
    const taskId = await open({});
    await move(taskId, { status: 'review', from: 'open' });
    const undone = { task: 'BUG-1', from: 'review', to: 'open' };
    expect(
      await world.costOf(async () => expect(await world.ask('status-undo', { task: 'bug-1' })).toEqual(undone)),
    ).toBe(2);
    expect(await world.task(taskId)).toMatchObject({ ...BODY, status: 'open' });
    await world.settled();
    expect(await storedStatus()).toBe('open');
    await expect(world.ask('status-undo', { task: 'BUG-1' })).rejects.toMatchObject({ code: 'conflict' });
  });

  it('is refused if somebody has changed the status since, or worksync has set none', async () => {
    const taskId = await open({});
    await expect(world.ask('status-undo', { task: 'BUG-1' })).rejects.toMatchObject({ code: 'conflict' });
    await move(taskId, { status: 'review', from: 'open' });
    await world.people.updateTask({ taskId, body: { status: 'blocked' } }, {});
    const refused = { code: 'conflict', message: expect.stringContaining('blocked since') };
    await expect(world.ask('status-undo', { task: 'BUG-1' })).rejects.toMatchObject(refused);
    expect(await world.task(taskId)).toMatchObject({ status: 'blocked' });
  });
});
