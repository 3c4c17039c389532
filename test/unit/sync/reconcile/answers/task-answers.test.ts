import { expect, test } from 'vitest';
import { entity, MAX_TIME_IN_FLIGHT, SETTLE_AFTER } from '../../../../../src/model/change.ts';
import type { ListPage } from '../../../../../src/model/delivery.ts';
import type { Item } from '../../../../../src/model/item.ts';
import { systemRandom } from '../../../../../src/platform/lib/random.ts';
import { saveTask, tasksByKeys } from '../../../../../src/store/cached-tasks.ts';
import type { Store } from '../../../../../src/store/database.ts';
import { blankEntity, findEntity, saveEntity } from '../../../../../src/store/entities.ts';
import { readMeta, WORKSPACE_ID } from '../../../../../src/store/meta.ts';
import { findChange, type OutboxRow } from '../../../../../src/store/outbox-rows.ts';
import {
  areTasksUnverified,
  delayCreations,
  markTasksUnverified,
  resumeCreations,
} from '../../../../../src/store/task-creations.ts';
import type { Answer } from '../../../../../src/store/workspace-answers.ts';
import { lastLinksRead, TASKS_READ } from '../../../../../src/store/workspace-reads.ts';
import { beginSweep, openSweep, recordsSwept } from '../../../../../src/store/workspace-sweeps.ts';
import { recover } from '../../../../../src/sync/outbox/recovery.ts';
import type { PreparedRequest } from '../../../../../src/sync/outbox/request.ts';
import { applyAnswer } from '../../../../../src/sync/reconcile/answers/apply.ts';
import { answered, START, saidOf, takeBatch } from '../../../../support/batches.ts';
import { openTestStore } from '../../../../support/intake.ts';
import { pull, workItem } from '../../../../support/items.ts';
import { allTaskKeys } from '../../../../support/task-keys.ts';

const BUG = workItem({ type: 'Bug', updatedAt: START });
const NAME = entity.task(BUG.key);
const TASK = { taskId: 't9', key: 'BUG-9', title: 'An issue', status: 'open', source: BUG.key };

/** A work item of which a task is to be made. */
async function wanted(): Promise<Store> {
  const store = await openTestStore();
  await store.commit((query) => takeBatch(query, [saidOf(BUG)], 1));
  return store;
}

/** As the outbox leaves it when the workspace has answered. */
async function known({ query }: Store): Promise<void> {
  const row = await findEntity(query, NAME);
  if (!row) throw new Error('no task is wanted');
  await saveEntity(query, { ...row, known: row.desired });
}

const outbox = async ({ query }: Store) =>
  (await query.selectFrom('outbox').select('entity').orderBy('entity').execute()).map((row) => row.entity);

test('the id of a task that was made is kept with the item that it was made for', async () => {
  const store = await wanted();
  await known(store);
  await store.commit((query) => takeBatch(query, [answered('create-task', TASK, { entity: NAME, seconds: 2 })], 3));
  expect(await findEntity(store.query, NAME)).toMatchObject({ remote_id: 't9', item_key: BUG.key });
});

test('a task that somebody else made for the item is the task of it: none is made any more', async () => {
  const store = await wanted();
  expect(await outbox(store)).toContain(NAME);
  await store.commit((query) => takeBatch(query, [answered('saw-task', TASK, { seconds: 2 })], 3));
  expect(await findEntity(store.query, NAME)).toMatchObject({ remote_id: 't9', known: expect.any(String) });
  expect(await outbox(store)).not.toContain(NAME);
});

test('a request for a task that is on its way settles itself, whoever made one meanwhile', async () => {
  const store = await wanted();
  await store.query.updateTable('outbox').set({ state: 'sending', sent: '{}' }).where('entity', '=', NAME).execute();
  await store.commit((query) => takeBatch(query, [answered('saw-task', TASK, { seconds: 2 })], 3));
  expect(await findEntity(store.query, NAME)).toMatchObject({ remote_id: null, known: null });
  expect(await outbox(store)).toContain(NAME);
});

test('a list that was read too early settles no creation any sooner, although the process that sent it is dead', async () => {
  const store = await wanted();
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
  // Its successor reads what there is at once, for other reasons.
  await store.commit((scope) => takeBatch(scope, [answered('read-tasks', { tasks: [] }, { seconds: 1 })], 1));
  const [row] = await query.selectFrom('outbox').select(['state', 'not_before']).where('entity', '=', NAME).execute();
  expect(row).toEqual({ state: 'unknown', not_before: START + MAX_TIME_IN_FLIGHT + SETTLE_AFTER });
});

/** When the answers were asked for, and when they are processed. */
const ASKED = START + 20_000;
const NOW = START + 30_000;

const MADE = { ...TASK, source: 'api', createdAt: '', updatedAt: '2026-03-01T00:00:00Z' };
const NAMING = pull({ title: 'BUG-9: a change', url: 'https://github.com/acme/api/pull/1' });

async function tell(
  { commit }: Store,
  action: 'saw-tasks' | 'read-tasks',
  tasks: readonly object[],
  more: Partial<Answer> = {},
) {
  const answer = { action, entity: '', sentAt: ASKED, body: { tasks }, ...more };
  return commit((query) => applyAnswer(query, answer, { now: NOW, usedShare: 0 }));
}

/** Tasks that were seen before the answers were asked for. */
async function seen(tasks: readonly object[], at = ASKED): Promise<Store> {
  const store = await openTestStore();
  for (const task of tasks) await saveTask(store.query, { ...MADE, ...task }, at);
  return store;
}

/** So long ago that a complete list may lack the tasks that were seen then. */
const LONG_AGO = ASKED - 3_600_000;

const keptTask = async ({ query }: Store) => (await tasksByKeys(query, ['BUG-9'])).get('BUG-9');

test.each<[what: string, kept: object, isTold: boolean, held: object | undefined, told: object]>([
  ['is new', {}, true, undefined, {}],
  ['is as it was', {}, false, {}, {}],
  ['has another title', { title: 'Other' }, false, {}, { title: 'Other' }],
  ['has another status', { status: 'done' }, true, {}, { status: 'done' }],
  ['has another id', { taskId: 't10' }, true, {}, { taskId: 't10' }],
  ['is told late', { status: 'open' }, false, {}, { status: 'done', updatedAt: '2026-02-01T00:00:00Z' }],
  ['tells no time', { status: 'done' }, true, {}, { status: 'done', updatedAt: undefined }],
])(
  'a task that %s is kept so, and looked at by those who name it where that tells',
  async (_what, kept, isTold, held, told) => {
    const store = await seen(held ? [held] : []);
    await store.commit((query) => takeBatch(query, [saidOf(NAMING)], 1));
    await store.query.deleteFrom('entities').where('kind', '=', 'link').execute();
    const { reevaluate } = await tell(store, 'saw-tasks', [{ ...MADE, ...told }]);
    expect(await keptTask(store)).toMatchObject({ ...MADE, ...kept, updatedAt: expect.any(String) });
    expect(reevaluate).toEqual(isTold ? [NAMING.key] : []);
  },
);

test.each<[what: string, item: Item, task?: object]>([
  ['names its key', NAMING],
  [
    'names its id',
    { ...NAMING, title: 'See https://app.example.com/workspace/tasks/9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d' },
  ],
  ['is its source', BUG, { source: BUG.key }],
])('an item that %s is looked at when a task comes', async (_what, item, task = {}) => {
  const store = await openTestStore();
  await store.commit((query) => takeBatch(query, [saidOf(item)], 1));
  const id = '9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d';
  const { reevaluate } = await tell(store, 'saw-tasks', [{ ...MADE, taskId: id, ...task }]);
  expect(reevaluate).toEqual([item.key]);
});

test('an item that is linked to a task is looked at when that becomes another', async () => {
  const store = await seen([{}]);
  const link = blankEntity(entity.link(NAMING.key, 't9'), 'link', { item_key: NAMING.key, task_id: 't9' });
  await saveEntity(store.query, link);
  expect((await tell(store, 'saw-tasks', [{ ...MADE, status: 'done' }])).reevaluate).toEqual([NAMING.key]);
});

test.each<[what: string, seenAt: number, keys: readonly string[], page?: Partial<ListPage>]>([
  ['forgets a task that it lacks', LONG_AGO, []],
  ['keeps a task that was seen within the last hour', NOW - 3_600_000 + 1, ['BUG-9']],
  ['keeps a task that was seen after its request', ASKED + 1, ['BUG-9']],
  ['keeps all tasks if it is not known to be complete', LONG_AGO, ['BUG-9'], { isComplete: false }],
  ['keeps all tasks until its last page', LONG_AGO, ['BUG-9'], { isEnd: false, isComplete: false }],
  ['keeps a task that was seen after its first page was requested', ASKED - 1, ['BUG-9'], { began: ASKED - 2 }],
])('a task list %s', async (_what, seenAt, keys, page) => {
  const store = await seen([{}], seenAt);
  await tell(store, 'read-tasks', [], { page: { began: ASKED, isEnd: true, isComplete: true, ...page } });
  expect([...(await allTaskKeys(store.query)).values()]).toEqual(keys);
});

test('a task list that lacks one recently seen task forgets none', async () => {
  const store = await seen([{}], LONG_AGO);
  await saveTask(store.query, { ...MADE, taskId: 't1', key: 'BUG-1' }, ASKED - 1);
  await tell(store, 'read-tasks', []);
  expect([...(await allTaskKeys(store.query)).values()].toSorted()).toEqual(['BUG-1', 'BUG-9']);
});

test('a task that the list shows is no task that it lacks, although no time passed since its request', async () => {
  const store = await seen([{}, { taskId: 't1', key: 'BUG-1' }], LONG_AGO);
  await tell(store, 'read-tasks', [MADE], { sentAt: NOW });
  expect([...(await allTaskKeys(store.query)).values()]).toEqual(['BUG-9']);
});

test('a task list with an unreadable task forgets none', async () => {
  const store = await seen([{}], LONG_AGO);
  await tell(store, 'read-tasks', [{ title: 'without an id' }]);
  expect([...(await allTaskKeys(store.query)).values()]).toEqual(['BUG-9']);
});

test('a page that is not the last one saves its tasks, and the list counts as unread', async () => {
  const store = await openTestStore();
  await markTasksUnverified(store.query, ASKED);
  await tell(store, 'read-tasks', [MADE], { page: { began: ASKED, isEnd: false, isComplete: false } });
  expect(await keptTask(store)).toMatchObject({ taskId: 't9' });
  expect(await readMeta(store.query, TASKS_READ)).toBeUndefined();
  expect(await areTasksUnverified(store.query)).toBe(true);
});

test('a list tells that all tasks were read, of which workspace, and that no creation need wait for it', async () => {
  const store = await openTestStore();
  await markTasksUnverified(store.query, ASKED);
  await tell(store, 'read-tasks', [{ ...MADE, workspaceId: 'w1' }]);
  expect(await readMeta(store.query, TASKS_READ)).toBe(String(NOW));
  expect(await readMeta(store.query, WORKSPACE_ID)).toBe('w1');
  expect(await areTasksUnverified(store.query)).toBe(false);
});

test('a creation that waits for the list waits no longer', async () => {
  const store = await wanted();
  await delayCreations(store.query, [BUG.key], START);
  await tell(store, 'read-tasks', []);
  expect(await findChange(store.query, NAME)).toMatchObject({ not_before: 0 });
});

test('requests another list for a creation that was held after this one was sent', async () => {
  const store = await wanted();
  await delayCreations(store.query, [BUG.key], ASKED + 1);
  await tell(store, 'read-tasks', []);
  expect(await findChange(store.query, entity.readTasks)).toMatchObject({ state: 'pending', not_before: 0 });
  const { not_before } = (await findChange(store.query, NAME)) as OutboxRow;
  expect(not_before).toBeGreaterThan(NOW);
  await resumeCreations(store.query, NOW, NOW);
  expect(await findChange(store.query, NAME)).toMatchObject({ not_before: 0 });
});

test('a round of the sweep reports tasks that people changed, and those that are not there any more', async () => {
  const held = ['title', 'status', 'same', 'late', 'gone', 'other'].map((key) => ({ taskId: key, key }));
  const store = await seen(held, LONG_AGO);
  await beginSweep(store.query, ASKED);
  const told = ['title', 'status', 'same', 'late', 'other', 'new'].map((key) => ({ ...MADE, taskId: key, key }));
  const change: Readonly<Record<string, object>> = {
    title: { title: 'Other' },
    status: { status: 'done' },
    late: { title: 'Other', updatedAt: '2026-02-01T00:00:00Z' },
    other: { taskId: 'another' },
  };
  const { swept } = await tell(
    store,
    'read-tasks',
    told.map((task) => ({ ...task, ...change[task.key] })),
  );
  const found = await store.query.selectFrom('workspace_findings').select(['what', 'entity']).execute();
  expect(found.map(({ what, entity: name }) => `${what} ${name}`).toSorted()).toEqual([
    'task-changed status',
    'task-changed title',
    'task-missing gone',
    'task-missing other',
  ]);
  expect(swept).toBeUndefined();
  expect(await openSweep(store.query)).toMatchObject({ tasks: 6, tasks_at: NOW });
});

test('a list that was asked for before the round began is no list of it', async () => {
  const store = await seen([{}]);
  await beginSweep(store.query, ASKED + 1);
  await tell(store, 'read-tasks', []);
  expect(await openSweep(store.query)).toMatchObject({ tasks_at: null });
});

test('the list of tasks ends a round that has listed the records', async () => {
  const store = await seen([{}]);
  const { sweep } = await beginSweep(store.query, ASKED);
  await recordsSwept(store.query, sweep, ASKED + 5);
  expect((await tell(store, 'read-tasks', [MADE])).swept).toMatchObject({ finished_at: NOW, tasks: 1 });
});

test('a task list takes into account what the same batch reported before it', async () => {
  const store = await seen([{ taskId: 't1', key: 'BUG-1' }], LONG_AGO);
  const seenBefore = answered('saw-tasks', { tasks: [MADE, { ...MADE, taskId: 't1', key: 'BUG-1' }] }, { seconds: 1 });
  const batch = [seenBefore, answered('read-tasks', { tasks: [MADE] }, { seconds: 2 })];
  await store.commit((query) => takeBatch(query, batch, 1));
  expect([...(await allTaskKeys(store.query)).values()].toSorted()).toEqual(['BUG-1', 'BUG-9']);
});

test('links may be added to a task that was just made without a read of its links', async () => {
  const store = await wanted();
  await known(store);
  const answer = { action: 'create-task', entity: NAME, sentAt: ASKED, asOf: 4, body: TASK } as const;
  await store.commit((query) => applyAnswer(query, answer, { now: NOW, usedShare: 0 }));
  expect(await lastLinksRead(store.query, 't9')).toMatchObject({ revision: 5 });
});
