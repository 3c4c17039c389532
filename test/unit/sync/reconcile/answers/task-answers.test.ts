import { expect, test } from 'vitest';
import { entity, MAX_TIME_IN_FLIGHT, SETTLE_AFTER } from '../../../../../src/model/change.ts';
import type { ListPage } from '../../../../../src/model/delivery.ts';
import type { Item } from '../../../../../src/model/item.ts';
import { systemRandom } from '../../../../../src/platform/lib/random.ts';
import { saveTask, tasksByKeys } from '../../../../../src/store/cached-tasks.ts';
import type { Store } from '../../../../../src/store/database.ts';
import { blankEntity, findEntity, saveEntity } from '../../../../../src/store/entities.ts';
import { readMeta, TASKS_READ, WORKSPACE_ID } from '../../../../../src/store/meta.ts';
import { findChange, type OutboxRow } from '../../../../../src/store/outbox-rows.ts';
import {
  areTasksUnverified,
  delayCreations,
  markTasksUnverified,
  resumeCreations,
} from '../../../../../src/store/task-creations.ts';
import type { Answer } from '../../../../../src/store/workspace-answers.ts';
import { lastLinksRead } from '../../../../../src/store/workspace-reads.ts';
import { beginSweep, findRunningSweep, recordsSwept } from '../../../../../src/store/workspace-sweeps.ts';
import { recover } from '../../../../../src/sync/outbox/recovery.ts';
import type { PreparedRequest } from '../../../../../src/sync/outbox/request.ts';
import { applyAnswer } from '../../../../../src/sync/reconcile/answers/apply-answer.ts';
import { openTestStore } from '../../../../support/harness/intake.ts';
import { answered, START, saidOf, takeBatch } from '../../../../support/rows/batches.ts';
import { pull, workItem } from '../../../../support/rows/items.ts';
import { allTaskKeys } from '../../../../support/rows/task-keys.ts';

const BUG = workItem({ type: 'Bug', updatedAt: START });
const NAME = entity.task(BUG.key);
const TASK = { taskId: 't9', key: 'BUG-9', title: 'An issue', status: 'open', source: BUG.key };

/** A store with a work item whose task creation waits. */
async function storeWithBug(): Promise<Store> {
  const store = await openTestStore();
  await store.commit((query) => takeBatch(query, [saidOf(BUG)], 1));
  return store;
}

/** Settles the creation as the outbox does after an answer. */
async function settleCreation({ query }: Store): Promise<void> {
  const row = await findEntity(query, NAME);
  if (!row) throw new Error('there is no creation');
  await saveEntity(query, { ...row, known: row.desired });
}

const outbox = async ({ query }: Store) =>
  (await query.selectFrom('outbox').select('entity').orderBy('entity').execute()).map((row) => row.entity);

test('the id of a created task is stored with its item', async () => {
  const store = await storeWithBug();
  await settleCreation(store);
  await store.commit((query) => takeBatch(query, [answered('create-task', TASK, { entity: NAME, seconds: 2 })], 3));
  expect(await findEntity(store.query, NAME)).toMatchObject({ remote_id: 't9', item_key: BUG.key });
});

test('a task that another client created for the item cancels the creation', async () => {
  const store = await storeWithBug();
  expect(await outbox(store)).toContain(NAME);
  await store.commit((query) => takeBatch(query, [answered('saw-task', TASK, { seconds: 2 })], 3));
  expect(await findEntity(store.query, NAME)).toMatchObject({ remote_id: 't9', known: expect.any(String) });
  expect(await outbox(store)).not.toContain(NAME);
});

test('a creation in flight is settled by its own answer, even if another client created a task', async () => {
  const store = await storeWithBug();
  await store.query.updateTable('outbox').set({ state: 'sending', sent: '{}' }).where('entity', '=', NAME).execute();
  await store.commit((query) => takeBatch(query, [answered('saw-task', TASK, { seconds: 2 })], 3));
  expect(await findEntity(store.query, NAME)).toMatchObject({ remote_id: null, known: null });
  expect(await outbox(store)).toContain(NAME);
});

test('a list that is too early settles no creation, even if the process of that creation died', async () => {
  const store = await storeWithBug();
  const { query } = store;
  const sent: PreparedRequest = {
    ...{ action: 'create-task', entity: NAME, kind: 'task', lane: 'triage', body: {}, known: null, taskId: null },
    ...{ waiting: 0, attempts: 0, open: false, sentAt: START },
    revision: 1,
    trace: { itemKey: null, since: START, due: START, askedAt: START, slotAt: START, deliveries: [] },
  };
  const sending = { state: 'sending', sent: JSON.stringify(sent), sent_at: START } as const;
  await query.updateTable('outbox').set(sending).where('entity', '=', NAME).execute();
  const context = { now: START, random: systemRandom(), usedShare: 0, visibility: 0 };
  await store.commit((transaction) => recover(transaction, context, MAX_TIME_IN_FLIGHT));
  // The next process reads the list at once for another reason.
  await store.commit((scope) => takeBatch(scope, [answered('read-tasks', { tasks: [] }, { seconds: 1 })], 1));
  const [row] = await query.selectFrom('outbox').select(['state', 'not_before']).where('entity', '=', NAME).execute();
  expect(row).toEqual({ state: 'unknown', not_before: START + MAX_TIME_IN_FLIGHT + SETTLE_AFTER });
});

/** The times of the requests and of the processing. */
const REQUESTED = START + 20_000;
const NOW = START + 30_000;

const MADE = { ...TASK, source: 'api', createdAt: '', updatedAt: '2026-03-01T00:00:00Z' };
const NAMING = pull({ title: 'BUG-9: a change', url: 'https://github.com/acme/api/pull/1' });

async function apply(
  { commit }: Store,
  action: 'saw-tasks' | 'read-tasks',
  tasks: readonly object[],
  more: Partial<Answer> = {},
) {
  const answer = { action, entity: '', sentAt: REQUESTED, body: { tasks }, ...more };
  return commit((query) => applyAnswer(query, answer, { now: NOW, usedShare: 0 }));
}

/** A store with cached tasks. */
async function cached(tasks: readonly object[], at = REQUESTED): Promise<Store> {
  const store = await openTestStore();
  for (const task of tasks) await saveTask(store.query, { ...MADE, ...task }, at);
  return store;
}

/** A complete list may lack a task that was last read at this time. */
const LONG_AGO = REQUESTED - 3_600_000;

const cachedTask = async ({ query }: Store) => (await tasksByKeys(query, ['BUG-9'])).get('BUG-9');

/** Stores that worksync wrote the cached status by a request, and that the update was settled at revision 7. */
async function wroteAtRevision7({ query }: Store): Promise<void> {
  const row = blankEntity(entity.taskUpdate('t9'), 'task_update', { task_id: 't9' });
  await saveEntity(query, { ...row, revision: 7, known_at: REQUESTED - 60_000 });
}

const LATER = '2026-03-01T00:00:01Z';
const EARLIER = '2026-02-28T23:59:59Z';

// The cached status is `open`, as of MADE.updatedAt.
test.each<[report: string, status: string, isRead: boolean, answer: Partial<Answer>, task: object]>([
  ['an answer to a later request', 'review', false, { asOf: 7 }, {}],
  ['an answer to an earlier request, of the same time', 'open', true, { asOf: 6 }, {}],
  ['an answer to an earlier request, of a later time', 'review', false, { asOf: 6 }, { updatedAt: LATER }],
  ['an answer to an earlier request, of an earlier time', 'open', false, { asOf: 6 }, { updatedAt: EARLIER }],
  ['an answer to a later request, of an earlier time', 'open', false, { asOf: 7 }, { updatedAt: EARLIER }],
  ['an event of a later time', 'review', false, {}, { updatedAt: LATER }],
  ['an event of the same time', 'open', true, {}, {}],
  ['an event of an earlier time', 'open', false, {}, { updatedAt: EARLIER }],
  ['an event without a time', 'open', true, {}, { updatedAt: undefined }],
  [
    'an event without a time, an hour later',
    'review',
    false,
    { sentAt: REQUESTED + 3_600_000 },
    { updatedAt: undefined },
  ],
])('another status than worksync wrote, reported by %s: %s is known, and the task is read: %s', async (...row) => {
  const [, status, isRead, answer, task] = row;
  const store = await cached([{ status: 'open' }]);
  await wroteAtRevision7(store);
  await apply(store, 'saw-tasks', [{ ...MADE, status: 'review', ...task }], answer);
  expect(await cachedTask(store)).toMatchObject({ status });
  expect((await outbox(store)).includes(entity.readTask('t9'))).toBe(isRead);
});

const LAST_YEAR = '2025-01-01T00:00:00Z';

test.each([
  ['the creation set it', 0, { createdAt: MADE.updatedAt }],
  ['a person may have set it then', Date.parse(LAST_YEAR), { createdAt: '2020-01-01T00:00:00Z', updatedAt: LAST_YEAR }],
])('the status of a task that is listed for the first time: %s', async (_who, statusBefore, task) => {
  const store = await cached([]);
  await apply(store, 'read-tasks', [{ ...MADE, ...task }]);
  expect(await cachedTask(store)).toMatchObject({ statusBefore });
});

test.each<[what: string, expected: object, isEvaluated: boolean, before: object | undefined, reported: object]>([
  ['is new', {}, true, undefined, {}],
  ['is unchanged', {}, false, {}, {}],
  ['has another title', { title: 'Other' }, false, {}, { title: 'Other' }],
  ['has another status', { status: 'done' }, true, {}, { status: 'done' }],
  ['has another id', { taskId: 't10' }, true, {}, { taskId: 't10' }],
  ['is reported late', { status: 'open' }, false, {}, { status: 'done', updatedAt: '2026-02-01T00:00:00Z' }],
  ['has no time', { status: 'done' }, true, {}, { status: 'done', updatedAt: undefined }],
])(
  'a task that %s is cached, and a new id or status causes an evaluation',
  async (_what, expected, isEvaluated, before, reported) => {
    const store = await cached(before ? [before] : []);
    await store.commit((query) => takeBatch(query, [saidOf(NAMING)], 1));
    await store.query.deleteFrom('entities').where('kind', '=', 'link').execute();
    const { reevaluate } = await apply(store, 'saw-tasks', [{ ...MADE, ...reported }]);
    expect(await cachedTask(store)).toMatchObject({ ...MADE, ...expected, updatedAt: expect.any(String) });
    expect(reevaluate).toEqual(isEvaluated ? [NAMING.key] : []);
  },
);

test.each<[what: string, item: Item, task?: object]>([
  ['names its key', NAMING],
  [
    'names its id',
    { ...NAMING, title: 'See https://app.example.com/workspace/tasks/9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d' },
  ],
  ['is its source', BUG, { source: BUG.key }],
])('an item that %s is evaluated after the task is reported', async (_what, item, task = {}) => {
  const store = await openTestStore();
  await store.commit((query) => takeBatch(query, [saidOf(item)], 1));
  const id = '9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d';
  const { reevaluate } = await apply(store, 'saw-tasks', [{ ...MADE, taskId: id, ...task }]);
  expect(reevaluate).toEqual([item.key]);
});

test('a linked item is evaluated after its task changes', async () => {
  const store = await cached([{}]);
  const link = blankEntity(entity.link(NAMING.key, 't9'), 'link', { item_key: NAMING.key, task_id: 't9' });
  await saveEntity(store.query, link);
  expect((await apply(store, 'saw-tasks', [{ ...MADE, status: 'done' }])).reevaluate).toEqual([NAMING.key]);
});

test.each<[what: string, readAt: number, keys: readonly string[], page?: Partial<ListPage>]>([
  ['removes a task that it lacks', LONG_AGO, []],
  ['keeps a task that was read within the last hour', NOW - 3_600_000 + 1, ['BUG-9']],
  ['keeps a task that was read after its request', REQUESTED + 1, ['BUG-9']],
  ['keeps all tasks if it is not known to be complete', LONG_AGO, ['BUG-9'], { isComplete: false }],
  ['keeps all tasks until its last page', LONG_AGO, ['BUG-9'], { isEnd: false, isComplete: false }],
  ['keeps a task that was read after its first page was requested', REQUESTED - 1, ['BUG-9'], { began: REQUESTED - 2 }],
])('a task list %s', async (_what, readAt, keys, page) => {
  const store = await cached([{}], readAt);
  await apply(store, 'read-tasks', [], { page: { began: REQUESTED, isEnd: true, isComplete: true, ...page } });
  expect([...(await allTaskKeys(store.query)).values()]).toEqual(keys);
});

test('a list that lacks a recently read task removes none', async () => {
  const store = await cached([{}], LONG_AGO);
  await saveTask(store.query, { ...MADE, taskId: 't1', key: 'BUG-1' }, REQUESTED - 1);
  await apply(store, 'read-tasks', []);
  expect([...(await allTaskKeys(store.query)).values()].toSorted()).toEqual(['BUG-1', 'BUG-9']);
});

test('a listed task is kept, even if its list was requested in the same millisecond', async () => {
  const store = await cached([{}, { taskId: 't1', key: 'BUG-1' }], LONG_AGO);
  await apply(store, 'read-tasks', [MADE], { sentAt: NOW });
  expect([...(await allTaskKeys(store.query)).values()]).toEqual(['BUG-9']);
});

test('a list with an unreadable task removes none', async () => {
  const store = await cached([{}], LONG_AGO);
  await apply(store, 'read-tasks', [{ title: 'without an id' }]);
  expect([...(await allTaskKeys(store.query)).values()]).toEqual(['BUG-9']);
});

test('a page saves its tasks, but the list counts as read only after the last page', async () => {
  const store = await openTestStore();
  await markTasksUnverified(store.query, REQUESTED);
  await apply(store, 'read-tasks', [MADE], { page: { began: REQUESTED, isEnd: false, isComplete: false } });
  expect(await cachedTask(store)).toMatchObject({ taskId: 't9' });
  expect(await readMeta(store.query, TASKS_READ)).toBeUndefined();
  expect(await areTasksUnverified(store.query)).toBe(true);
});

test('a complete list stores its time and its workspace, and verifies the tasks', async () => {
  const store = await openTestStore();
  await markTasksUnverified(store.query, REQUESTED);
  await apply(store, 'read-tasks', [{ ...MADE, workspaceId: 'w1' }]);
  expect(await readMeta(store.query, TASKS_READ)).toBe(String(NOW));
  expect(await readMeta(store.query, WORKSPACE_ID)).toBe('w1');
  expect(await areTasksUnverified(store.query)).toBe(false);
});

test('a list releases the creations that wait for it', async () => {
  const store = await storeWithBug();
  await delayCreations(store.query, [BUG.key], START);
  await apply(store, 'read-tasks', []);
  expect(await findChange(store.query, NAME)).toMatchObject({ not_before: 0 });
});

test('another list is requested for a creation that was delayed after this one was sent', async () => {
  const store = await storeWithBug();
  await delayCreations(store.query, [BUG.key], REQUESTED + 1);
  await apply(store, 'read-tasks', []);
  expect(await findChange(store.query, entity.readTasks)).toMatchObject({ state: 'pending', not_before: 0 });
  const { not_before } = (await findChange(store.query, NAME)) as OutboxRow;
  expect(not_before).toBeGreaterThan(NOW);
  await resumeCreations(store.query, NOW, NOW);
  expect(await findChange(store.query, NAME)).toMatchObject({ not_before: 0 });
});

test('a sweep round reports changed and missing tasks', async () => {
  const before = ['title', 'status', 'same', 'late', 'gone', 'other'].map((key) => ({ taskId: key, key }));
  const store = await cached(before, LONG_AGO);
  await beginSweep(store.query, REQUESTED);
  const listed = ['title', 'status', 'same', 'late', 'other', 'new'].map((key) => ({ ...MADE, taskId: key, key }));
  const change: Readonly<Record<string, object>> = {
    title: { title: 'Other' },
    status: { status: 'done' },
    late: { title: 'Other', updatedAt: '2026-02-01T00:00:00Z' },
    other: { taskId: 'another' },
  };
  const { swept } = await apply(
    store,
    'read-tasks',
    listed.map((task) => ({ ...task, ...change[task.key] })),
  );
  const findings = await store.query.selectFrom('workspace_findings').select(['what', 'entity']).execute();
  expect(findings.map(({ what, entity: name }) => `${what} ${name}`).toSorted()).toEqual([
    'task-changed status',
    'task-changed title',
    'task-missing gone',
    'task-missing other',
  ]);
  expect(swept).toBeUndefined();
  expect(await findRunningSweep(store.query)).toMatchObject({ tasks: 6, tasks_at: NOW });
});

test('a list that was requested before the round does not advance it', async () => {
  const store = await cached([{}]);
  await beginSweep(store.query, REQUESTED + 1);
  await apply(store, 'read-tasks', []);
  expect(await findRunningSweep(store.query)).toMatchObject({ tasks_at: null });
});

test('the list of tasks ends a round that has listed the records', async () => {
  const store = await cached([{}]);
  const { sweep } = await beginSweep(store.query, REQUESTED);
  await recordsSwept(store.query, sweep, REQUESTED + 5);
  expect((await apply(store, 'read-tasks', [MADE])).swept).toMatchObject({ finished_at: NOW, tasks: 1 });
});

test('a list takes earlier deliveries of its batch into account', async () => {
  const store = await cached([{ taskId: 't1', key: 'BUG-1' }], LONG_AGO);
  const earlier = answered('saw-tasks', { tasks: [MADE, { ...MADE, taskId: 't1', key: 'BUG-1' }] }, { seconds: 1 });
  const batch = [earlier, answered('read-tasks', { tasks: [MADE] }, { seconds: 2 })];
  await store.commit((query) => takeBatch(query, batch, 1));
  expect([...(await allTaskKeys(store.query)).values()].toSorted()).toEqual(['BUG-1', 'BUG-9']);
});

test('links are added to a created task without a read of its links', async () => {
  const store = await storeWithBug();
  await settleCreation(store);
  const answer = { action: 'create-task', entity: NAME, sentAt: REQUESTED, asOf: 4, body: TASK } as const;
  await store.commit((query) => applyAnswer(query, answer, { now: NOW, usedShare: 0 }));
  expect(await lastLinksRead(store.query, 't9')).toMatchObject({ revision: 5 });
});
