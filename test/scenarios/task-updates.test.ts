import { afterEach, describe, expect, it } from 'vitest';
import { describeExplained } from '../../src/cli/items/explained.ts';
import { entity } from '../../src/model/change.ts';
import type { TaskUpdate } from '../../src/model/task.ts';
import { blankEntity, findEntity, saveEntity } from '../../src/store/changes/entities.ts';
import { addDifference } from '../../src/store/changes/outbox-rows.ts';
import { readTaskUpdateFacts } from '../../src/store/tasks/stored-tasks.ts';
import { errorAnswer } from '../support/fakes/weather.ts';
import { createWorld, GITHUB, type World, type WorldOptions } from '../support/harness/daemon.ts';
import { drawn, sampleOf } from '../support/harness/depth.ts';
import { pullEvent } from '../support/vendors/github-payloads.ts';

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

const STANDARD = { workflow: { preset: 'standard' } };

describe('a status change', () => {
  it('takes a read and an update in the form `whole`', async () => {
    const taskId = await open({ taskUpdate: 'whole' });
    expect(await world.costOf(() => move(taskId, { status: 'review', from: 'open' }))).toBe(2);
    expect(await world.task(taskId)).toMatchObject({ ...BODY, status: 'review' });
  });

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

  it.each(['whole', 'fields'])('leaves a status that a person has just set, in the form `%s`', async (taskUpdate) => {
    const taskId = await open({ taskUpdate });
    await move(taskId, { status: 'in_progress', from: 'open' });
    await world.people.updateTask({ taskId, body: { status: 'completed' } }, {});
    await move(taskId, { status: 'review', from: 'in_progress' });
    expect(await world.task(taskId)).toMatchObject({ status: 'completed' });
  });

  it('takes a read and writes nothing if a person has changed the status', async () => {
    const taskId = await open({});
    await world.people.updateTask({ taskId, body: { status: 'blocked' } }, {});
    expect(await world.costOf(() => move(taskId, { status: 'review', from: 'open' }))).toBe(1);
    expect(await world.task(taskId)).toMatchObject({ status: 'blocked' });
    expect(await storedStatus()).toBe('blocked');
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

it.each(['record', 'off'])(
  'a task gets its status back when its last link is gone, with mirror: %s',
  async (mirror) => {
    world = await createWorld({ config: { connections: { github: { ...GITHUB, mirror } }, rules: STANDARD } });
    const { taskId } = await world.bug();
    const pull = async (title: string) => {
      await world.clock.advance(1_000);
      await world.pull({ title });
    };
    await pull('BUG-1: Oil the hinges');
    await world.settled();
    expect(await world.task(taskId)).toMatchObject({ status: 'review' });
    await pull('Oil the hinges');
    await world.partition().reconcile.drain();
    const [link] = await world.links(taskId);
    await world.people.removeWorkItem({ taskId, workItemId: link?.workItemId ?? '' }, {});
    await world.settled();
    expect(await world.task(taskId)).toMatchObject({ status: 'open' });
  },
);

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

it.each([
  { status: 409, errorCode: 'conflict', code: 'conflict' },
  { status: 412, errorCode: 'conflict', code: 'conflict' },
  { status: 400, errorCode: 'validation_failed', code: 'refused' },
])('$status for one task holds its change, and other tasks get the same status', async (refused) => {
  const { status, errorCode, code } = refused;
  world = await createWorld({ config: { rules: STANDARD } });
  const ids: string[] = [];
  for (const title of ['Door sticks', 'Window sticks', 'Lid sticks']) ids.push((await world.bug(title)).taskId);
  const [first = '', second = '', third = ''] = ids;
  world.weather.turn({
    before: ({ method, url }) =>
      method === 'PUT' && url.endsWith(first) ? errorAnswer(status, errorCode, 'not now') : undefined,
  });
  const openPull = async (number: number) => {
    await world.pull({ number, title: `BUG-${number}: oil it` });
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
  expect([(await world.task(second)).status, (await world.task(third)).status]).toEqual(['review', 'review']);
  world.weather.clear();
  await world.ask('release', { classes: [], entities: ['update:BUG-1'] });
  await world.settled();
  expect((await world.task(first)).status).toBe('review');
});

it('explains an update that failed as one that is sent again', async () => {
  world = await createWorld({ config: { rules: STANDARD } });
  await world.bug('Door sticks');
  world.weather.turn({
    before: ({ method }) => (method === 'PUT' ? errorAnswer(500, 'internal_error', 'later') : undefined),
  });
  await world.pull({ title: 'BUG-1: oil it' });
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
    expect(await world.task(taskId)).toMatchObject({ ...BODY, labels: ['door', 'staging'], status: 'review' });
  });

  it.each([
    ['task updates', 'none'],
    ['single task route', 'none'],
  ] as const)('by %s: %s keeps its statuses, and the status names the reason', async (dimension, value) => {
    const taskId = await open({}, { behaviours: { [dimension]: value } }, { rules: STANDARD });
    await world.pull({ title: 'Fixes BUG-1' }, { action: 'opened' });
    await world.until(async () => {
      const { causes } = await world.partition().status();
      return causes.some(({ code }) => code === 'task_updates_off');
    });
    expect(await world.task(taskId)).toMatchObject({ ...BODY, status: 'open' });
  });
});

describe('events within seconds of each other, while nobody edits', () => {
  const PULLS = drawn(40, 8);
  /** Seconds from the opening of a pull request to its labels. */
  const LATER = [1.5, 2, 2.7, 3.3, 4, 4.5];
  const LABELS = ['bug', 'urgent', 'api', 'web'];
  const SERVERS = [
    ['whole', true],
    ['whole', false],
    ['fields', true],
    ['fields', false],
  ] as const;

  async function openServer(taskUpdate: 'whole' | 'fields', hasWebhooks: boolean): Promise<void> {
    const quota = { requests: 5_000, burst: 1_500 };
    const workspace = { api: { taskUpdate } };
    world = await createWorld({ quota, config: { rules: STANDARD, quota, workspace } });
    if (!hasWebhooks) return;
    const url = `${world.daemon().address}/webhooks/test/workspace`;
    const { key, secret } = (await world.people.createWebhook({ body: { url } }, {})).body;
    await world.restart({ keepPort: true, config: { workspace: { ...workspace, webhook: { key, secret } } } });
  }

  /** Four labels and a request for changes, all within half a second. */
  async function change(number: number, title: string): Promise<void> {
    for (const count of LABELS.keys()) {
      await world.pull({ number, title, labels: LABELS.slice(0, count + 1) }, { action: 'labeled' });
      await world.clock.advance(100);
    }
    const updated = new Date(world.clock.now()).toISOString();
    const { pull_request, repository, sender } = pullEvent({ number, title, labels: LABELS, updated });
    const review = { id: number, state: 'changes_requested', submitted_at: updated, user: { login: 'ben', id: 8 } };
    const payload = { action: 'submitted', review, pull_request, repository, sender };
    expect(await world.deliver('pull_request_review', payload)).toBe(202);
  }

  it.each(sampleOf(SERVERS, 3))(
    'leave each task in progress, and to the rule that moved it: form %s, webhooks of the workspace %s',
    async (form, hasWebhooks) => {
      await openServer(form, hasWebhooks);
      for (let task = 0; task < PULLS; task++) await world.bug(`Task ${task}`);
      await world.settled();
      for (let number = 1; number <= PULLS; number++) {
        const title = `Fixes BUG-${number}`;
        const created = new Date(world.clock.now()).toISOString();
        await world.pull({ number, title, created }, { action: 'opened' });
        await world.clock.advance((LATER[number % LATER.length] as number) * 1_000);
        await change(number, title);
      }
      await world.clock.advance(180_000);
      await world.settled();
      const statuses = Object.entries(await world.statuses());
      expect(statuses.map(([, status]) => status)).toEqual(statuses.map(() => 'in_progress'));
      for (const [key] of statuses) {
        const [explained] = (await world.ask('explain', { target: key })).statuses;
        expect(explained?.setBy).toMatchObject({ who: 'worksync', rule: 'standard: changes' });
      }
      expect(await readTaskUpdateFacts(world.partition().store.query)).not.toHaveProperty('contested');
    },
  );
});
