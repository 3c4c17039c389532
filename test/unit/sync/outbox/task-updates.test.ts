import { describe, expect, it, test } from 'vitest';
import { entity } from '../../../../src/model/change.ts';
import type { TaskUpdate } from '../../../../src/model/task.ts';
import type { TaskStatuses } from '../../../../src/model/task-status.ts';
import type { WrittenStatus } from '../../../../src/model/written-task.ts';
import { blankEntity, findEntity, saveEntity } from '../../../../src/store/changes/entities.ts';
import { addDifference, findChange, retryChange, updateChange } from '../../../../src/store/changes/outbox-rows.ts';
import { appendDeliveries } from '../../../../src/store/deliveries/append-deliveries.ts';
import { saveItem } from '../../../../src/store/items/items.ts';
import { serverStatusesOf } from '../../../../src/store/status/stored-status.ts';
import {
  noteContest,
  readTaskUpdateFacts,
  saveTask,
  type UpdateForm,
} from '../../../../src/store/tasks/stored-tasks.ts';
import { taskUpdatesOffUntil } from '../../../../src/store/workspace/server-capabilities.ts';
import { WORKSPACE } from '../../../../src/store/workspace/workspace-reads.ts';
import { json } from '../../../../src/store/workspace-scope.ts';
import { MAX_ATTEMPTS } from '../../../../src/sync/outbox/refusals.ts';
import { type Answer, outboxBench } from '../../../support/cost/outbox-bench.ts';
import { openTestStore } from '../../../support/harness/intake.ts';
import { itemRow } from '../../../support/rows/items.ts';

type Fields = Readonly<Record<string, unknown>>;

interface Request {
  readonly method: string;
  readonly task: string;
  readonly body: Fields | undefined;
  readonly ifMatch: string | undefined;
}

/** Replaces the answer to a request; undefined lets the server answer, null is no answer. */
type Override = (request: Request, number: number) => Answer | null | undefined;

interface Setting {
  readonly form?: UpdateForm;
  readonly statuses?: TaskStatuses;
  /** Returns the task after an update. */
  readonly apply?: (task: Fields, body: Fields) => Fields;
  readonly override?: Override;
  /** The server sends tags, which change with the status. */
  readonly hasTags?: boolean;
  readonly areEditsReported?: boolean;
}

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const TIME = '2026-11-01T00:00:00.000Z';
const taskOf = (taskId: string) => ({
  ...{ taskId, key: taskId.toUpperCase(), title: 'Door sticks', description: 'Only in winter', status: 'open' },
  ...{ priority: 'high', labels: ['door'], team: 'north', createdAt: TIME, updatedAt: TIME },
});
const ORIGINAL = taskOf('t1');
const WISH: TaskUpdate = { status: 'review', from: 'open' };
const WRITTEN = expect.objectContaining({ status: 'review', previous: 'open' });

const refusal = (status: number, errorCode = 'some_code'): Answer => ({
  ...{ status, json: { code: status, message: 'not this way', errorCode } },
});
/** Refuses updates; `number` counts them. */
function onPut(refuse: (put: Request, number: number) => Answer | null | undefined): Override {
  let number = 0;
  return (request) => (request.method === 'PUT' ? refuse(request, ++number) : undefined);
}

const MERGE = (task: Fields, body: Fields) => ({ ...task, ...body });

/** A workspace with any number of tasks, and the outbox that updates them. */
async function bench({ form = 'whole', statuses = {}, apply = MERGE, override, hasTags, ...setting }: Setting = {}) {
  const { areEditsReported = true } = setting;
  const store = await openTestStore();
  const tasks = new Map<string, Fields>();
  const requests: Request[] = [];
  const seen = (taskId: string) => tasks.get(taskId) ?? taskOf(taskId);
  const all = await outboxBench(
    store,
    0,
    (_, { method, path, body, headers }) => {
      const task = path.split('/').at(-1) as string;
      const tag = hasTags ? { headers: { etag: `"${JSON.stringify(seen(task)['status'])}"` } } : {};
      const request = { method, task, body: body as Fields | undefined, ifMatch: headers['if-match'] };
      const number = requests.push(request);
      const replaced = override?.(request, number);
      if (replaced !== undefined) return replaced ?? undefined;
      if (method !== 'GET') tasks.set(task, apply(seen(task), request.body ?? {}));
      return { status: 200, json: seen(task), ...(method === 'GET' && tag) };
    },
    { form, statuses, areEditsReported },
  );
  const { clock } = all;
  const changeOf = (taskId = 't1') => findChange(store.query, entity.taskUpdate(taskId));
  const cache = (fields: Fields) =>
    store.commit((query) => saveTask(query, { ...ORIGINAL, ...fields, source: 'api' } as never, clock.now()));
  const want = (wish: Partial<TaskUpdate>, taskId = 't1') =>
    store.commit(async (query) => {
      const name = entity.taskUpdate(taskId);
      const row = (await findEntity(query, name)) ?? blankEntity(name, 'task_update', { task_id: taskId });
      await saveEntity(query, { ...row, desired: JSON.stringify(wish) });
      const times = { since: clock.now(), due: clock.now(), weight: 1, waiting: [] };
      await addDifference(query, { entity: name, kind: 'task_update', lane: 'status', effect: 'status', ...times });
    });
  /** Sends the update as often as it is repeated, each time as soon as its pause has ended. */
  async function repeat(taskId: string, attempts: number): Promise<void> {
    for (let each = 0; each < attempts; each++) {
      const change = await changeOf(taskId);
      if (change?.state !== 'pending') break;
      await clock.advance(Math.max(0, change.not_before - clock.now()));
      const own = await all.slot();
      const prepared = await all.take(own, change.entity);
      if (prepared) await all.attempt(prepared, own);
    }
  }
  return {
    ...{ ...all, tasks, requests, want, cache },
    puts: () => requests.filter(({ method }) => method === 'PUT'),
    methods: () => requests.map(({ method }) => method),
    now: () => seen('t1'),
    set: (fields: Fields) => void tasks.set('t1', { ...seen('t1'), ...fields }),
    send: () => all.send(entity.taskUpdate('t1')),
    /** Claims the update, and does not send it. */
    claim: async () => all.take(await all.slot(), entity.taskUpdate('t1')),
    /** Wants updates one after the other, and sends each as often as it is repeated. */
    async move(taskIds: string | readonly string[], update: Partial<TaskUpdate> = {}, attempts = MAX_ATTEMPTS) {
      for (const taskId of [taskIds].flat()) {
        await cache(seen(taskId));
        await want({ status: 'review', from: String(seen(taskId)['status']), ...update }, taskId);
        await repeat(taskId, attempts);
      }
    },
    change: changeOf,
    release: (taskId: string) =>
      store.commit(async (query) => retryChange(query, (await findChange(query, entity.taskUpdate(taskId)))!)),
    stateOf: async (taskId = 't1') => {
      const change = await changeOf(taskId);
      return change ? `${change.state}: ${change.error}` : seen(taskId)['status'];
    },
    known: async () => json<WrittenStatus>((await findEntity(store.query, entity.taskUpdate('t1')))?.known ?? null),
    facts: () => readTaskUpdateFacts(store.query),
    offUntil: (time = clock.now()) => taskUpdatesOffUntil(store.query, time),
    events: async () =>
      (await store.query.selectFrom('inbox').select('event').orderBy('id').execute()).map(({ event }) => event),
  };
}

/** Opens a workspace in which an update of the cached task `t1` is wanted. */
async function setUp({ update, ...setting }: Setting & { readonly update?: Partial<TaskUpdate> } = {}) {
  const all = await bench(setting);
  await all.cache(ORIGINAL);
  await all.want({ ...WISH, ...update });
  return all;
}

test('uses the words of the server in both directions', async () => {
  const { send, now, set, known } = await setUp({ statuses: { open: 'Todo', review: 'In Review' } });
  set({ status: 'Todo' });
  await send();
  expect([now()['status'], await known()]).toEqual(['In Review', WRITTEN]);
});

test('changes only the labels that it names', async () => {
  const { send, set, now } = await setUp({ update: { addLabels: ['staging'], removeLabels: ['door', 'other'] } });
  set({ labels: ['door', 'mine'] });
  await send();
  expect(now()['labels']).toEqual(['mine', 'staging']);
});

test.each<[what: string, status: string, update: Partial<TaskUpdate>, known: unknown]>([
  ['that has the wanted status', 'review', {}, {}],
  ['that has the wanted labels', 'open', { status: undefined, addLabels: ['door'] }, { labels: ['+door'] }],
  ['whose status somebody else set', 'blocked', {}, undefined],
])('sends no update to a task %s, and passes the read on', async (_what, status, update, written) => {
  const { send, set, methods, change, known, events, throttle } = await setUp({ update });
  set({ status });
  await send();
  expect([methods(), await change(), await known()]).toEqual([['GET'], undefined, written]);
  expect([await events(), throttle.used().used]).toEqual([['read-task'], 1]);
});

test('sends no update while the workspace refuses requests, and reads the task again after that', async () => {
  const { send, methods, change, slot, store, clock, throttle, now } = await setUp({
    override: ({ method }) => (method === 'GET' && methods().length === 1 ? refusedMeanwhile() : undefined),
  });
  const other = await slot();
  await store.commit((query) => other.record(query));
  function refusedMeanwhile() {
    void other.complete({ status: 429, retryAfter: MINUTE });
    return undefined;
  }
  await send();
  expect([methods(), (await change())?.state, throttle.used().used]).toEqual([['GET'], 'pending', 2]);
  await clock.advance(MINUTE);
  await send();
  expect([methods(), now()['status']]).toEqual([['GET', 'GET', 'PUT'], 'review']);
});

test.each([
  ['not before its earliest time', MINUTE, true],
  ['at once if its earliest time is beyond the final delay', HOUR, false],
])('sends an update %s', async (_what, delay, waits) => {
  const { want, claim, clock } = await setUp();
  await want({ ...WISH, status: 'completed', notBefore: clock.now() + delay });
  if (waits) {
    expect(await claim()).toBeUndefined();
    await clock.advance(delay);
  }
  expect(await claim()).toBeDefined();
});

test.each([
  ['waits for pending deliveries of the connection of a linked item', 'jira', true],
  ['waits for pending deliveries of the workspace', WORKSPACE, true],
  ['does not wait for pending deliveries of other connections', 'forge', false],
])('a final status %s', async (_what, connection, waits) => {
  const { claim, want, clock, store } = await setUp();
  await want({ ...WISH, status: 'completed', notBefore: clock.now() });
  await store.commit(async (query) => {
    await saveItem(query, itemRow('jira:ENG-1'), 1);
    await saveEntity(query, blankEntity('link:t1:1', 'link', { task_id: 't1', item_key: 'jira:ENG-1' }));
    const delivery = { connection, key: 'd', source: 'webhook', event: 'e', body: Buffer.from('{}') } as const;
    await appendDeliveries(query, [delivery], clock.now());
  });
  expect((await claim()) === undefined).toBe(waits);
});

test('switches updates off when whole tasks clear fields too', async () => {
  const apply = (task: Fields, body: Fields) => ({ ...task, ...body, description: null });
  const { send, facts, offUntil, want, claim } = await setUp({ apply });
  await send();
  expect((await facts()).off).toMatch(/^update_clears_fields: .*description/);
  expect(await offUntil(0)).toBe(Number.POSITIVE_INFINITY);
  await want({ status: 'completed', from: 'review' });
  expect(await claim()).toBeUndefined();
});

test('leaves out the fields that only the server writes after they were refused', async () => {
  const { send, requests, methods, facts, change } = await setUp({
    override: ({ body }) => (body?.['createdAt'] === undefined ? undefined : refusal(400, 'validation_failed')),
  });
  await send();
  const { title, description, priority, labels } = ORIGINAL;
  expect(methods()).toEqual(['GET', 'PUT', 'GET', 'PUT']);
  expect(requests.at(-1)?.body).toEqual({ title, description, priority, labels, status: 'review' });
  expect([(await facts()).readOnly, await change()]).toEqual(['certain', undefined]);
});

test.each<[form: UpdateForm, newWish: Partial<TaskUpdate>]>([
  ['fields', {}],
  ['whole', { status: 'in_progress' }],
])(
  'recognises an update in the form `%s` that was not answered by the status, whatever is wanted since',
  async (form, newWish) => {
    const all: Awaited<ReturnType<typeof setUp>> = await setUp({
      form,
      override: onPut(({ body }) => {
        all.set({ status: body?.['status'] });
        return null;
      }),
    });
    await all.send();
    expect([(await all.change())?.state, await all.known()]).toEqual(['pending', undefined]);
    await all.want({ ...WISH, ...newWish });
    await all.send();
    expect([all.methods(), await all.change(), await all.known()]).toEqual([['GET', 'PUT', 'GET'], undefined, WRITTEN]);
  },
);

test('holds status changes for a day after others changed twenty back, in this workspace', async () => {
  const { send, requests, now, change, want, claim, store, clock } = await setUp();
  const { query } = store;
  const isStopped = async () =>
    (await serverStatusesOf(query.whole, [query.workspace], clock.now()))(query.workspace).areStatusesContested;
  for (let each = 0; each < 19; each++) await store.commit((own) => noteContest(own, clock.now(), clock.now()));
  expect(await isStopped()).toBe(false);
  await store.commit((own) => noteContest(own, clock.now(), clock.now()));
  expect([await isStopped(), await claim()]).toEqual([true, undefined]);
  const { state, error } = (await change()) ?? {};
  expect([state, error]).toEqual(['held', expect.stringMatching(/^workflow_contested: .* 20 /)]);
  await want({ from: 'open', addLabels: ['seen'] });
  await store.commit((own) => updateChange(own, entity.taskUpdate('t1'), { state: 'pending' }));
  await send();
  expect(requests.at(-1)?.body).toEqual({ ...ORIGINAL, labels: ['door', 'seen'] });
  await clock.advance(DAY);
  await want(WISH);
  await send();
  expect([await isStopped(), now()['status']]).toEqual([false, 'review']);
});

describe.each([
  ['409', refusal(409, 'conflict')],
  ['409 of a proxy', { status: 409 }],
  ['412', refusal(412, 'precondition_failed')],
])('%s for one task', (_name, conflict) => {
  it('once: reads again, sends the status, and concludes nothing', async () => {
    const override = onPut((_, number) => (number === 1 ? conflict : undefined));
    const { move, stateOf, puts, facts } = await bench({ form: 'fields', hasTags: true, override });
    await move(['t1', 't2']);
    expect([await stateOf('t1'), await stateOf('t2')]).toEqual(['review', 'review']);
    expect(puts().map(({ task, ifMatch }) => [task, ifMatch])).toEqual([
      ['t1', '""open""'],
      ['t1', '""open""'],
      ['t2', undefined],
    ]);
    expect(await facts()).toMatchObject({ ifMatch: { passed: true }, statuses: { review: { passed: true } } });
  });
});

it('writes nothing after a conflict if somebody has changed the status meanwhile', async () => {
  const { move, set, puts, stateOf, events } = await bench({
    ...{ form: 'fields', hasTags: true },
    override: onPut(() => {
      set({ status: 'blocked' });
      return refusal(409, 'conflict');
    }),
  });
  await move('t1');
  expect([puts().length, await stateOf()]).toEqual([1, 'blocked']);
  expect(await events()).toEqual(['look-again', 'read-task']);
});

describe('`If-Match`', () => {
  const refused = refusal(412, 'precondition_failed');

  it('is left out for a day once three tasks were refused with it and none was accepted', async () => {
    const override = onPut(({ ifMatch }) => (ifMatch === undefined ? undefined : refused));
    const { move, stateOf, puts, clock, facts } = await bench({ hasTags: true, override });
    await move(['t1', 't2'], {}, 2);
    expect(puts().every(({ ifMatch }) => ifMatch !== undefined)).toBe(true);
    await move('t3', {}, 3);
    expect([await stateOf('t3'), puts().at(-1)?.ifMatch]).toEqual(['review', undefined]);
    expect((await facts()).ifMatch?.refused).toEqual(['t1', 't2', 't3']);
    await move('t4', {}, 1);
    expect([await stateOf('t4'), puts().at(-1)?.ifMatch]).toEqual(['review', undefined]);
    await clock.advance(DAY);
    await move('t5', {}, 1);
    expect(puts().at(-1)?.ifMatch).toBeDefined();
  });

  it('is kept for ever once a server has accepted it', async () => {
    const override = onPut(({ task, ifMatch }) => (task === 't0' || ifMatch === undefined ? undefined : refused));
    const { move, puts } = await bench({ hasTags: true, override });
    await move(['t0', 't1', 't2', 't3', 't4']);
    expect(puts().every(({ ifMatch }) => ifMatch !== undefined)).toBe(true);
  });
});

describe.each([
  ['400', refusal(400, 'validation_failed')],
  ['another status in the answer', { status: 200, json: taskOf('any') }],
])('a status that is refused with %s', (_name, refused) => {
  /** A server that refuses the status `review` for these tasks, or for all. */
  const refusing = (...tasks: string[]) =>
    bench({
      ...{ form: 'fields', hasTags: true },
      override: onPut(({ task, body }) => {
        const isOne = tasks.length === 0 || tasks.includes(task);
        return isOne && body?.['status'] === 'review' ? refused : undefined;
      }),
    });

  it('for three tasks and accepted for none is not sent for a day; the reason names no other task', async () => {
    const { move, stateOf, puts, release, clock } = await refusing();
    await move(['t1', 't2']);
    await release('t1');
    await move(['t1', 't3']);
    const sent = puts().length;
    await move('t4');
    expect(puts()).toHaveLength(sent);
    expect(await stateOf('t4')).toBe(
      'held: status_unknown: the workspace refused the status review for three tasks, and accepted it for none',
    );
    await move('t5', { status: 'completed' });
    expect(await stateOf('t5')).toBe('completed');
    await clock.advance(DAY);
    await move(['t6', 't7']);
    expect(await stateOf('t6')).toMatch(/^held: refused: .*\bt6\b/);
    expect(await stateOf('t7')).toMatch(/^held: status_unknown/);
  });

  it('for three tasks is sent to each other one once it was accepted', async () => {
    const { move, stateOf } = await refusing('t1', 't2', 't3');
    await move(['t0', 't1', 't2', 't3', 't4']);
    expect([await stateOf('t0'), await stateOf('t4')]).toEqual(['review', 'review']);
    expect(await stateOf('t3')).toMatch(/^held: refused/);
  });
});

it('concludes nothing about a status from the answers of a proxy', async () => {
  const override = onPut(({ task, body }) =>
    task !== 't4' && body?.['status'] === 'review' ? { status: 400 } : undefined,
  );
  const { move, stateOf } = await bench({ form: 'fields', hasTags: true, override });
  for (const task of ['t1', 't2', 't3']) {
    await move(`other-${task}`, { status: 'completed' });
    await move(task);
    expect(await stateOf(task)).toMatch(/^held: refused: .*: 400 without an error object/);
  }
  await move('t4');
  expect(await stateOf('t4')).toBe('review');
});

it('changes the form for all tasks only if the same task accepts another form', async () => {
  const override = onPut(({ task }) => (task === 't1' ? refusal(400) : undefined));
  const { move, facts, puts } = await bench({ form: 'fields', hasTags: true, override });
  await move('t1');
  expect(puts().map(({ body }) => Object.keys(body ?? {}).length)).toEqual([1, 10, 5]);
  await move('t2');
  expect(puts().at(-1)?.body).toEqual({ status: 'review' });
  expect(await facts()).not.toHaveProperty('fieldsOff');
});

test.each([
  ['that is found but answered with 404', 'fields', 'PUT', 404, 'not_found', []],
  ['whose read is refused', 'whole', 'GET', 400, 'refused', ['t0']],
] as const)(
  'holds the update of a task %s, and sends those of others',
  async (_what, form, refused, status, code, before) => {
    const override: Override = ({ method, task }) =>
      method === refused && task === 't1' ? refusal(status) : undefined;
    const { move, stateOf, offUntil } = await bench({ form, hasTags: true, override });
    await move(before);
    await move('t1', {}, 1 + before.length);
    expect(await offUntil()).toBeUndefined();
    await move(['t2', 't1']);
    expect(await stateOf('t1')).toMatch(new RegExp(`^held: ${code}: ${refused} .*/t1: ${status}`));
    expect(await stateOf('t2')).toBe('review');
  },
);

test('removes a task from the cache that is gone', async () => {
  const { send, methods, change, events, offUntil, want } = await setUp({
    override: (_, number) => (number > 2 ? refusal(404, 'not_found') : undefined),
  });
  await send();
  await want({ status: 'completed', from: 'review' });
  await send();
  expect([methods(), await change(), await offUntil(0)]).toEqual([['GET', 'PUT', 'GET'], undefined, undefined]);
  expect(await events()).toEqual(['update-task', 'update-task']);
});

test('reads the task after an update whose answer contains no task', async () => {
  const { send, methods, set, known } = await setUp({
    override: ({ method, body }) => {
      if (method === 'GET') return undefined;
      set({ ...body });
      return { status: 204 };
    },
  });
  await send();
  expect([methods(), await known()]).toEqual([['GET', 'PUT', 'GET'], WRITTEN]);
});

test.each([400, 404])('repeats the read of a task as long as only a proxy refuses it: %i', async (status) => {
  const override: Override = ({ method, task }) => (method === 'GET' && task === 't1' ? { status } : undefined);
  const { move, stateOf, offUntil, methods } = await bench({ override });
  await move('t0');
  await move('t1', {}, MAX_ATTEMPTS + 2);
  expect(await stateOf('t1')).toMatch(new RegExp(`^pending: .* ${status} without an error object`));
  expect([methods().length, await offUntil()]).toEqual([2 + MAX_ATTEMPTS + 2, undefined]);
});

test('keeps the route for updates while only a proxy refuses them', async () => {
  const { move, offUntil } = await bench({ form: 'fields', hasTags: true, override: onPut(() => ({ status: 405 })) });
  await move('t1');
  expect(await offUntil()).toBeUndefined();
});
