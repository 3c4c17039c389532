import { expect, test } from 'vitest';
import { entity } from '../../../../src/model/change.ts';
import type { TaskUpdate } from '../../../../src/model/task.ts';
import type { StatusWords } from '../../../../src/model/task-status.ts';
import type { WrittenStatus } from '../../../../src/model/written-status.ts';
import { saveTask } from '../../../../src/store/cached-tasks.ts';
import { blankEntity, findEntity, json, saveEntity } from '../../../../src/store/entities.ts';
import { addDifference, findChange, updateChange } from '../../../../src/store/outbox-rows.ts';
import { taskUpdatesOffUntil } from '../../../../src/store/server-capabilities.ts';
import { serverStatusesOf } from '../../../../src/store/stored-status.ts';
import { noteContest, readTaskUpdateFacts, type UpdateForm } from '../../../../src/store/task-update-facts.ts';
import { MAX_BLOCK } from '../../../../src/sync/outbox/claim.ts';
import { type Answer, outboxBench } from '../../../support/cost/outbox-bench.ts';
import { openTestStore } from '../../../support/harness/intake.ts';

const TASK_ID = 'tsk_1';
const NAME = entity.taskUpdate(TASK_ID);
const TIME = '2026-11-01T00:00:00.000Z';
const ORIGINAL = {
  taskId: TASK_ID,
  key: 'BUG-1',
  title: 'Door sticks',
  description: 'Only in winter',
  status: 'open',
  priority: 'high',
  labels: ['door'],
  team: 'north',
  createdAt: TIME,
  updatedAt: TIME,
};
type Fields = Readonly<Record<string, unknown>>;

interface Request {
  readonly method: string;
  readonly body: Fields | undefined;
  readonly ifMatch: string | undefined;
}

/** Replaces the answer to a request; undefined lets the server answer, null is no answer. */
type Override = (request: Request, number: number) => Answer | null | undefined;

const refusal = (status: number, errorCode: string): Answer => ({
  status,
  json: { code: status, message: 'not this way', errorCode },
});

/** A server with one task. `apply` returns the task after an update. */
function taskServer(apply: (task: Fields, body: Fields) => Fields, override: Override) {
  const requests: Request[] = [];
  const server = { task: ORIGINAL as Fields, requests };
  const answer = (_: string, { method, body, headers }: { method: string; body?: unknown; headers: Fields }) => {
    const request = { method, body: body as Fields | undefined, ifMatch: headers['if-match'] as string | undefined };
    requests.push(request);
    const replaced = override(request, requests.length);
    if (replaced !== undefined) return replaced ?? undefined;
    if (method !== 'GET') server.task = apply(server.task, request.body ?? {});
    return { status: 200, json: server.task };
  };
  return { ...server, answer, now: () => server.task, set: (task: Fields) => void (server.task = task) };
}

const MERGE = (task: Fields, body: Fields) => ({ ...task, ...body });
/** A server that clears each field that the body lacks. */
const REPLACE = (task: Fields, body: Fields) => ({ taskId: task['taskId'], key: task['key'], labels: [], ...body });
const asUsual: Override = () => undefined;

interface Setting {
  readonly form?: UpdateForm;
  readonly words?: StatusWords;
  readonly update?: Partial<TaskUpdate>;
  readonly apply?: typeof MERGE;
  readonly override?: Override;
}

const WRITTEN = expect.objectContaining({ status: 'review', previous: 'open' });
const WISH: TaskUpdate = { status: 'review', from: 'open' };

async function setUp({ form = 'whole', words = {}, update, apply = MERGE, override = asUsual }: Setting = {}) {
  const store = await openTestStore();
  const server = taskServer(apply, override);
  const bench = await outboxBench(store, 0, server.answer, { form, words, areEditsReported: true });
  const { clock } = bench;
  const want = (wish: TaskUpdate) =>
    store.commit(async (query) => {
      const row = (await findEntity(query, NAME)) ?? blankEntity(NAME, 'task_update', { task_id: TASK_ID });
      await saveEntity(query, { ...row, desired: JSON.stringify(wish) });
      const change = { kind: 'task_update', lane: 'status', since: clock.now(), due: clock.now(), weight: 1 } as const;
      await addDifference(query, { entity: NAME, ...change, effect: 'status', waiting: [] });
    });
  await store.commit(async (query) => {
    await saveTask(query, { ...ORIGINAL, source: 'api' }, clock.now());
  });
  await want({ ...WISH, ...update });
  return {
    ...bench,
    server,
    want,
    send: () => bench.send(NAME),
    change: () => findChange(store.query, NAME),
    known: async () => json<WrittenStatus>((await findEntity(store.query, NAME))?.known ?? null),
    facts: () => readTaskUpdateFacts(store.query),
    history: () => store.query.selectFrom('requests').select(['action', 'outcome']).orderBy('id').execute(),
    events: async () =>
      (await store.query.selectFrom('inbox').select('event').orderBy('id').execute()).map(({ event }) => event),
  };
}

const methods = ({ requests }: { readonly requests: readonly Request[] }) => requests.map(({ method }) => method);

test('reads the task and sends it back whole with the changed status', async () => {
  const { send, server, change, known, history, events, throttle } = await setUp();
  await send();
  expect(server.requests.map(({ method, body }) => [method, body])).toEqual([
    ['GET', undefined],
    ['PUT', { ...ORIGINAL, status: 'review' }],
  ]);
  expect([await change(), await known()]).toEqual([undefined, WRITTEN]);
  expect(await history()).toEqual([
    { action: 'read-task', outcome: 'answered' },
    { action: 'update-task', outcome: 'answered' },
  ]);
  expect(await events()).toEqual(['update-task']);
  expect(throttle.used().used).toBe(2);
});

test('uses the words of the server in both directions', async () => {
  const words = { open: 'Todo', review: 'In Review' };
  const { send, server, known } = await setUp({ words });
  server.set({ ...ORIGINAL, status: 'Todo' });
  await send();
  expect([server.now()['status'], await known()]).toEqual(['In Review', WRITTEN]);
});

test('changes only the labels that it names', async () => {
  const { send, server } = await setUp({ update: { addLabels: ['staging'], removeLabels: ['door', 'other'] } });
  server.set({ ...ORIGINAL, labels: ['door', 'mine'] });
  await send();
  expect(server.now()['labels']).toEqual(['mine', 'staging']);
});

test('records labels that the task has already, so that they are not wanted again', async () => {
  const { send, server, known } = await setUp({ update: { status: undefined, addLabels: ['door'] } });
  await send();
  expect([methods(server), await known()]).toEqual([['GET'], { labels: ['+door'] }]);
});

test('sends an update not before its earliest time', async () => {
  const { send, want, take, slot, clock, change } = await setUp();
  await want({ ...WISH, status: 'completed', notBefore: clock.now() + 60_000 });
  expect(await take(await slot(), NAME)).toBeUndefined();
  await clock.advance(60_000);
  await send();
  expect(await change()).toBeUndefined();
});

test('sends an update at once if its earliest time is beyond the final delay', async () => {
  const { send, want, clock, change } = await setUp();
  await want({ ...WISH, status: 'completed', notBefore: clock.now() + 3_600_000 });
  await send();
  expect(await change()).toBeUndefined();
});

test('sends no update to a task that has the wanted status', async () => {
  const { send, server, change, known, throttle } = await setUp();
  server.set({ ...ORIGINAL, status: 'review' });
  await send();
  expect([methods(server), await change(), await known(), throttle.used().used]).toEqual([['GET'], undefined, {}, 1]);
});

test('writes nothing over a status that somebody else set, and passes the read on', async () => {
  const { send, server, change, events, known } = await setUp();
  server.set({ ...ORIGINAL, status: 'blocked' });
  await send();
  expect([methods(server), await change(), await known()]).toEqual([['GET'], undefined, undefined]);
  expect(await events()).toEqual(['read-task']);
});

test('sends the newer wish after a read that differs from the older one', async () => {
  const { send, server, change, want } = await setUp({
    override: ({ method }) => (method === 'GET' && server.requests.length === 1 ? wantMeanwhile() : undefined),
  });
  let wanted: Promise<void> | undefined;
  const wantMeanwhile = () => {
    wanted = want({ status: 'review', from: 'blocked' });
    return undefined;
  };
  server.set({ ...ORIGINAL, status: 'blocked' });
  await send();
  await wanted;
  expect((await change())?.state).toBe('pending');
  await send();
  expect([server.now()['status'], await change()]).toEqual(['review', undefined]);
});

test('removes a task from the cache that is gone', async () => {
  const { send, server, change, events, store, want } = await setUp({
    override: (_, number) => (number > 2 ? refusal(404, 'not_found') : undefined),
  });
  await send();
  await want({ status: 'completed', from: 'review' });
  await send();
  expect([methods(server), await change(), await taskUpdatesOffUntil(store.query, 0)]).toEqual([
    ['GET', 'PUT', 'GET'],
    undefined,
    undefined,
  ]);
  expect(await events()).toEqual(['update-task', 'update-task']);
});

test('makes the update conditional on a strong tag, and reads again after 412', async () => {
  let tag = '"1"';
  const { send, server, change } = await setUp({
    override: ({ method, ifMatch }) => {
      if (method === 'GET') return { status: 200, json: server.now(), headers: { etag: tag } };
      if (ifMatch !== '"1"') return undefined;
      tag = 'W/"2"';
      return refusal(412, 'precondition_failed');
    },
  });
  await send();
  expect((await change())?.state).toBe('pending');
  await send();
  expect(server.requests.map(({ method, ifMatch }) => [method, ifMatch])).toEqual([
    ['GET', undefined],
    ['PUT', '"1"'],
    ['GET', undefined],
    ['PUT', undefined],
  ]);
  expect(server.now()['status']).toBe('review');
});

test('reads before the first update in fields, and then updates a task cached within a minute by one request', async () => {
  const { send, server, want, store, clock, throttle } = await setUp({ form: 'fields' });
  await send();
  expect(server.requests.map(({ method, body }) => [method, body])).toEqual([
    ['GET', undefined],
    ['PUT', { status: 'review' }],
  ]);
  await store.commit((query) => saveTask(query, { ...ORIGINAL, source: 'api', status: 'review' }, clock.now()));
  await want({ status: 'completed', from: 'review' });
  await send();
  expect([methods(server), throttle.used().used]).toEqual([['GET', 'PUT', 'PUT'], 3]);
  await store.commit((query) => saveTask(query, { ...ORIGINAL, source: 'api', status: 'completed' }, clock.now()));
  await clock.advance(60_000);
  await want({ status: 'review', from: 'completed' });
  await send();
  expect(methods(server)).toEqual(['GET', 'PUT', 'PUT', 'GET', 'PUT']);
});

test('restores the fields that an update in fields cleared, and sends whole tasks from then on', async () => {
  const { send, server, facts, change, want } = await setUp({ form: 'fields', apply: REPLACE });
  await send();
  // The answer lacks the cleared fields, so a read shows that they are gone.
  expect(methods(server)).toEqual(['GET', 'PUT', 'GET', 'PUT']);
  expect(server.now()).toEqual({ ...ORIGINAL, status: 'review' });
  expect([await facts(), await change()]).toEqual([{ fieldsOff: 'certain' }, undefined]);
  await want({ status: 'completed', from: 'review' });
  await send();
  expect(server.now()).toEqual({ ...ORIGINAL, status: 'completed' });
});

test('switches updates off when whole tasks clear fields too', async () => {
  const apply = (task: Fields, body: Fields) => ({ ...task, ...body, description: null });
  const { send, facts, store, want, take, slot } = await setUp({ apply });
  await send();
  expect((await facts()).off).toMatch(/^update_clears_fields: .*description/);
  expect(await taskUpdatesOffUntil(store.query, 0)).toBe(Number.POSITIVE_INFINITY);
  await want({ status: 'completed', from: 'review' });
  expect(await take(await slot(), NAME)).toBeUndefined();
});

test('reads the task after an update whose answer contains no task', async () => {
  const { send, server, known, want } = await setUp({
    override: ({ method, body }) => {
      if (method === 'GET') return undefined;
      server.set({ ...server.now(), ...body });
      return { status: 204 };
    },
  });
  await send();
  expect([methods(server), await known()]).toEqual([['GET', 'PUT', 'GET'], WRITTEN]);
  await want({ status: 'completed', from: 'review' });
  await send();
  expect(methods(server).slice(3)).toEqual(['GET', 'PUT']);
});

test('leaves out the fields that only the server writes after they were refused', async () => {
  const { send, server, facts, change } = await setUp({
    override: ({ body }) => (body?.['createdAt'] === undefined ? undefined : refusal(400, 'validation_failed')),
  });
  await send();
  const { title, description, priority, labels } = ORIGINAL;
  expect(methods(server)).toEqual(['GET', 'PUT', 'GET', 'PUT']);
  expect(server.requests.at(-1)?.body).toEqual({ title, description, priority, labels, status: 'review' });
  expect([(await facts()).readOnly, await change()]).toEqual(['certain', undefined]);
});

test('recognises the status of an earlier update without answer, although the rules want another one since', async () => {
  const { send, server, change, known, want } = await setUp({
    override: ({ method }, number) => {
      if (method === 'GET' || number > 2) return undefined;
      server.set({ ...ORIGINAL, status: 'review' });
      return null;
    },
  });
  await send();
  await want({ status: 'in_progress', from: 'open' });
  await send();
  expect(methods(server)).toEqual(['GET', 'PUT', 'GET']);
  expect([await change(), await known()]).toEqual([undefined, WRITTEN]);
});

test('holds status changes for a day after others changed twenty back, in this workspace', async () => {
  const { send, server, change, want, take, slot, store, clock } = await setUp();
  const { query } = store;
  const isStopped = async () =>
    (await serverStatusesOf(query.whole, [query.workspace], clock.now()))(query.workspace).areStatusesContested;
  for (let each = 0; each < 19; each++) await store.commit((own) => noteContest(own, clock.now(), clock.now()));
  expect(await isStopped()).toBe(false);
  await store.commit((own) => noteContest(own, clock.now(), clock.now()));
  expect([await isStopped(), await take(await slot(), NAME)]).toEqual([true, undefined]);
  const { state, error } = (await change()) ?? {};
  expect([state, error]).toEqual(['held', expect.stringMatching(/^workflow_contested: .* 20 /)]);
  await want({ from: 'open', addLabels: ['seen'] });
  await store.commit((own) => updateChange(own, NAME, { state: 'pending' }));
  await send();
  expect(server.requests.at(-1)?.body).toEqual({ ...ORIGINAL, labels: ['door', 'seen'] });
  await clock.advance(86_400_000);
  await want(WISH);
  await send();
  expect([await isStopped(), server.now()['status']]).toEqual([false, 'review']);
});

test('holds an update that is answered with another status', async () => {
  const { send, change } = await setUp({ apply: (task) => task });
  await send();
  const { state, error } = (await change()) ?? {};
  expect([state, error]).toEqual(['held', expect.stringMatching(/^refused: .* review of the task tsk_1 with open$/)]);
});

test('waits while the workspace has no route for updates', async () => {
  const { send, server, change, store, clock } = await setUp({
    override: ({ method }) => (method === 'GET' ? undefined : refusal(405, 'method_not_allowed')),
  });
  await send();
  expect([methods(server), (await change())?.state]).toEqual([['GET', 'PUT'], 'pending']);
  expect((await change())?.not_before).toBe(clock.now() + MAX_BLOCK);
  expect(await taskUpdatesOffUntil(store.query, clock.now())).toBe(clock.now() + 3_600_000);
});

test('waits while the workspace has no route that reads a task', async () => {
  const { send, server, change, store, clock } = await setUp({ override: () => refusal(405, 'method_not_allowed') });
  await send();
  expect([methods(server), (await change())?.state]).toEqual([['GET'], 'pending']);
  expect(await taskUpdatesOffUntil(store.query, clock.now())).toBeGreaterThan(clock.now());
});

test('repeats an update without an answer from the read on', async () => {
  let isLost = true;
  const { send, server, change, known } = await setUp({
    form: 'fields',
    override: ({ method, body }) => {
      if (method === 'GET' || !isLost) return undefined;
      isLost = false;
      server.set({ ...server.now(), ...body });
      return null;
    },
  });
  await send();
  expect([(await change())?.state, await known()]).toEqual(['pending', undefined]);
  await send();
  expect([methods(server), await change(), await known()]).toEqual([['GET', 'PUT', 'GET'], undefined, WRITTEN]);
});
