import { describe, expect, it } from 'vitest';
import { entity } from '../../../../src/model/change.ts';
import type { TaskUpdate } from '../../../../src/model/task.ts';
import { saveTask } from '../../../../src/store/cached-tasks.ts';
import { blankEntity, findEntity, saveEntity } from '../../../../src/store/entities.ts';
import { addDifference, findChange, retryChange, updateChange } from '../../../../src/store/outbox-rows.ts';
import { taskUpdatesOffUntil } from '../../../../src/store/server-capabilities.ts';
import { readTaskUpdateFacts, type UpdateForm } from '../../../../src/store/task-update-facts.ts';
import { prepareNext } from '../../../../src/sync/outbox/claim.ts';
import { MAX_ATTEMPTS } from '../../../../src/sync/outbox/refusals.ts';
import { type Answer, outboxBench } from '../../../support/cost/outbox-bench.ts';
import { openTestStore } from '../../../support/harness/intake.ts';

type Fields = Readonly<Record<string, unknown>>;

interface Put {
  readonly task: string;
  readonly body: Fields;
  readonly ifMatch: string | undefined;
}

const DAY = 86_400_000;
const TIME = '2026-11-01T00:00:00.000Z';
const taskOf = (taskId: string): Fields => ({
  ...{ taskId, key: taskId.toUpperCase(), title: 'Door sticks', description: null, status: 'open', priority: 'none' },
  ...{ labels: ['door'], createdAt: TIME, updatedAt: TIME },
});

const refusal = (status: number, errorCode = 'some_code'): Answer => ({
  status,
  json: { code: status, message: 'not this way', errorCode },
});

/** A server with any number of tasks, whose tags change with their statuses. `refuse` refuses updates. */
async function setUp(
  refuse: (put: Put, number: number) => Answer | undefined,
  form: UpdateForm = 'fields',
  refuseRead: (task: string) => Answer | undefined = () => undefined,
) {
  const store = await openTestStore();
  const tasks = new Map<string, Fields>();
  const puts: Put[] = [];
  const seen = (taskId: string) => tasks.get(taskId) ?? taskOf(taskId);
  const tagOf = (taskId: string) => `"${JSON.stringify(seen(taskId)['status'])}"`;
  const bench = await outboxBench(
    store,
    0,
    (_, { method, path, body, headers }) => {
      const task = path.split('/').at(-1) as string;
      const etag = { etag: tagOf(task) };
      if (method === 'GET') return refuseRead(task) ?? { status: 200, json: seen(task), headers: etag };
      const put = { task, body: body as unknown as Fields, ifMatch: headers['if-match'] };
      puts.push(put);
      const refused = refuse(put, puts.length);
      if (refused) return refused;
      tasks.set(task, { ...seen(task), ...put.body });
      return { status: 200, json: seen(task) };
    },
    { form, words: {}, areEditsReported: true },
  );
  const { clock } = bench;
  async function send(taskId: string, attempts: number): Promise<number[]> {
    const pauses: number[] = [];
    for (let each = 0; each < attempts; each++) {
      const change = await findChange(store.query, entity.taskUpdate(taskId));
      if (change?.state !== 'pending') break;
      const pause = Math.max(0, change.not_before - clock.now());
      if (each > 0) pauses.push(pause);
      await clock.advance(pause);
      const own = await bench.slot();
      const prepared = await bench.take(own, change.entity);
      if (prepared) await bench.attempt(prepared, own);
    }
    return pauses;
  }
  return {
    ...bench,
    puts,
    tasks,
    /** Wants an update and sends it as often as it is repeated, each time as soon as its pause has ended. */
    async move(taskId: string, update: Partial<TaskUpdate> = {}, attempts = MAX_ATTEMPTS) {
      const name = entity.taskUpdate(taskId);
      const wish = { status: 'review', from: String(seen(taskId)['status']), ...update };
      await store.commit(async (query) => {
        await saveTask(query, { ...taskOf(taskId), ...seen(taskId), source: 'api' } as never, clock.now());
        const row = (await findEntity(query, name)) ?? blankEntity(name, 'task_update', { task_id: taskId });
        await saveEntity(query, { ...row, desired: JSON.stringify(wish) });
        const times = { since: clock.now(), due: clock.now(), weight: 1, waiting: [] };
        await addDifference(query, { entity: name, kind: 'task_update', lane: 'status', effect: 'status', ...times });
      });
      return send(taskId, attempts);
    },
    release: (taskId: string) =>
      store.commit(async (query) => retryChange(query, (await findChange(query, entity.taskUpdate(taskId)))!)),
    stateOf: async (taskId: string) => {
      const change = await findChange(store.query, entity.taskUpdate(taskId));
      return change ? `${change.state}: ${change.error}` : seen(taskId)['status'];
    },
    facts: () => readTaskUpdateFacts(store.query),
  };
}

describe.each([
  ['409', refusal(409, 'conflict')],
  ['409 with an unknown code', refusal(409)],
  ['409 of a proxy', { status: 409 }],
  ['412', refusal(412, 'precondition_failed')],
  ['412 with the code of another status', refusal(412, 'conflict')],
  ['412 of a proxy', { status: 412 }],
])('%s for one task', (_name, conflict) => {
  it('once: reads again, sends the status, and concludes nothing', async () => {
    const { move, stateOf, puts, facts } = await setUp((_, number) => (number === 1 ? conflict : undefined));
    await move('t1');
    await move('t2');
    expect([await stateOf('t1'), await stateOf('t2')]).toEqual(['review', 'review']);
    expect(puts.map(({ task, ifMatch }) => [task, ifMatch])).toEqual([
      ['t1', '""open""'],
      ['t1', '""open""'],
      ['t2', undefined],
    ]);
    expect(await facts()).toMatchObject({ ifMatch: { passed: true }, statuses: { review: { passed: true } } });
  });

  it('for good: pauses ever longer, holds this change with its own reason, and sends those of other tasks', async () => {
    const { move, stateOf, puts } = await setUp(({ task }) => (task === 't1' ? conflict : undefined));
    const pauses = await move('t1');
    expect(pauses).toHaveLength(MAX_ATTEMPTS - 1);
    expect(pauses[0]).toBeLessThanOrEqual(2_000);
    expect(pauses.slice(2)).toEqual([30_000, 30_000]);
    expect(await stateOf('t1')).toMatch(/^held: conflict: PUT .*\/t1: 4/);
    const sent = puts.length;
    for (const task of ['t2', 't3', 't4']) await move(task);
    expect([await stateOf('t2'), await stateOf('t3'), await stateOf('t4')]).toEqual(['review', 'review', 'review']);
    expect(puts.slice(sent).map(({ task }) => task)).toEqual(['t2', 't3', 't4']);
  });
});

it('writes nothing after a conflict if somebody has changed the status meanwhile', async () => {
  const { move, tasks, puts, stateOf, store } = await setUp(({ task }) => {
    tasks.set(task, { ...taskOf(task), status: 'blocked' });
    return refusal(409, 'conflict');
  });
  await move('t1');
  expect([puts.length, await stateOf('t1')]).toEqual([1, 'blocked']);
  expect(await store.query.selectFrom('inbox').select('event').execute()).toEqual([
    { event: 'look-again' },
    { event: 'read-task' },
  ]);
});

it('counts only conflicts in a row', async () => {
  const { move, stateOf, puts } = await setUp((_, number) => {
    if (number < MAX_ATTEMPTS) return refusal(503);
    return number === MAX_ATTEMPTS ? refusal(409) : undefined;
  });
  await move('t1', {}, MAX_ATTEMPTS + 1);
  expect([puts.length, await stateOf('t1')]).toEqual([MAX_ATTEMPTS + 1, 'review']);
});

describe('`If-Match`', () => {
  const never = ({ ifMatch }: Put) => (ifMatch === undefined ? undefined : refusal(412, 'precondition_failed'));

  it('is left out for a day once three tasks were refused with it and none was accepted', async () => {
    const { move, stateOf, puts, clock, facts } = await setUp(never, 'whole');
    await move('t1', {}, 2);
    await move('t2', {}, 2);
    expect(puts.every(({ ifMatch }) => ifMatch !== undefined)).toBe(true);
    await move('t3', {}, 3);
    expect([await stateOf('t3'), puts.at(-1)?.ifMatch]).toEqual(['review', undefined]);
    expect((await facts()).ifMatch?.refused).toEqual(['t1', 't2', 't3']);
    await move('t4', {}, 1);
    expect([await stateOf('t4'), puts.at(-1)?.ifMatch]).toEqual(['review', undefined]);
    await clock.advance(DAY);
    await move('t5', {}, 1);
    expect(puts.at(-1)?.ifMatch).toBeDefined();
  });

  it('is kept for ever once a server has accepted it', async () => {
    const { move, puts } = await setUp((put) => (put.task === 't0' ? undefined : never(put)), 'whole');
    for (const task of ['t0', 't1', 't2', 't3', 't4']) await move(task);
    expect(puts.every(({ ifMatch }) => ifMatch !== undefined)).toBe(true);
  });
});

describe.each([
  ['400', refusal(400, 'validation_failed')],
  ['422', refusal(422)],
  ['another status in the answer', { status: 200, json: taskOf('any') }],
])('a status that is refused with %s', (_name, refused) => {
  const ofReview = ({ body }: Put) => body['status'] === 'review';

  it('for one task holds the change of this task only, and is sent to others', async () => {
    const { move, stateOf } = await setUp((put) => (put.task === 't1' && ofReview(put) ? refused : undefined));
    await move('t1');
    expect(await stateOf('t1')).toMatch(/^held: refused: .*\bt1\b/);
    for (const task of ['t2', 't3']) await move(task);
    expect([await stateOf('t2'), await stateOf('t3')]).toEqual(['review', 'review']);
  });

  it('for three tasks and accepted for none is not sent for a day; the reason names no other task', async () => {
    const { move, stateOf, puts, release, clock } = await setUp((put) => (ofReview(put) ? refused : undefined));
    for (const task of ['t1', 't2']) await move(task);
    await release('t1');
    await move('t1');
    await move('t3');
    const sent = puts.length;
    await move('t4');
    expect(puts).toHaveLength(sent);
    expect(await stateOf('t4')).toBe(
      'held: status_unknown: the workspace refused the status review for three tasks, and accepted it for none',
    );
    await move('t5', { status: 'completed' });
    expect(await stateOf('t5')).toBe('completed');
    await clock.advance(DAY);
    await move('t6');
    expect(await stateOf('t6')).toMatch(/^held: refused: .*\bt6\b/);
    await move('t7');
    expect(await stateOf('t7')).toMatch(/^held: status_unknown/);
  });

  it('for three tasks is sent again once its word changes in the configuration', async () => {
    const { move, store, clock } = await setUp((put) => (ofReview(put) ? refused : undefined));
    for (const task of ['t1', 't2', 't3', 't4']) await move(task);
    const name = entity.taskUpdate('t4');
    await store.commit((query) => updateChange(query, name, { state: 'pending' }));
    const eligible = { now: clock.now(), onlyReads: false, statusWords: { review: 'In Review' } };
    expect(await store.commit((query) => prepareNext(query, eligible, name))).toMatchObject({ entity: name });
  });

  it('for three tasks is sent to each other one once it was accepted', async () => {
    const isRefused = (put: Put) => ofReview(put) && ['t1', 't2', 't3'].includes(put.task);
    const { move, stateOf } = await setUp((put) => (isRefused(put) ? refused : undefined));
    for (const task of ['t0', 't1', 't2', 't3', 't4']) await move(task);
    expect([await stateOf('t0'), await stateOf('t4')]).toEqual(['review', 'review']);
    expect(await stateOf('t3')).toMatch(/^held: refused/);
  });
});

it('concludes nothing about a status from the answers of a proxy', async () => {
  const isBlocked = ({ task, body }: Put) => task !== 't4' && body['status'] === 'review';
  const { move, stateOf } = await setUp((put) => (isBlocked(put) ? { status: 400 } : undefined));
  for (const task of ['t1', 't2', 't3']) {
    await move(`other-${task}`, { status: 'completed' });
    await move(task);
    expect(await stateOf(task)).toMatch(/^held: refused: .*: 400 without an error object/);
  }
  await move('t4');
  expect(await stateOf('t4')).toBe('review');
});

it('changes the form for all tasks only if the same task accepts another form', async () => {
  const { move, facts, puts } = await setUp(({ task }) => (task === 't1' ? refusal(400) : undefined));
  await move('t1');
  expect(puts.map(({ body }) => Object.keys(body).length)).toEqual([1, 9, 5]);
  await move('t2');
  expect(puts.at(-1)?.body).toEqual({ status: 'review' });
  expect(await facts()).not.toHaveProperty('fieldsOff');
});

it('holds the update of a task that is found but answered with 404, and sends those of others', async () => {
  const { move, stateOf, store, clock } = await setUp(({ task }) => (task === 't1' ? refusal(404) : undefined));
  await move('t1', {}, 1);
  expect(await taskUpdatesOffUntil(store.query, clock.now())).toBeUndefined();
  await move('t2');
  await move('t1');
  expect(await stateOf('t1')).toMatch(/^held: not_found: PUT .*\/t1: 404/);
  expect(await stateOf('t2')).toBe('review');
});

it('holds the update of a task whose read is refused, and sends those of others', async () => {
  const refuseRead = (task: string) => (task === 't1' ? refusal(400) : undefined);
  const { move, stateOf, store, clock } = await setUp(() => undefined, 'whole', refuseRead);
  await move('t0');
  await move('t1', {}, 2);
  expect(await taskUpdatesOffUntil(store.query, clock.now())).toBeUndefined();
  await move('t2');
  await move('t1');
  expect(await stateOf('t1')).toMatch(/^held: refused: GET .*\/t1: 400/);
  expect(await stateOf('t2')).toBe('review');
});
