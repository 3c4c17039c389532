import { describe, expect, it, test } from 'vitest';
import { entity } from '../../../src/model/change.ts';
import type { ItemKey } from '../../../src/model/item.ts';
import type { Store } from '../../../src/store/database.ts';
import { blankEntity } from '../../../src/store/entities.ts';
import { TASKS_READ, writeMeta } from '../../../src/store/meta.ts';
import { beginNotice, noticesOf, requestNotice, settleNotice, withdrawNotices } from '../../../src/store/notices.ts';
import { findChange, removeChange, updateChange } from '../../../src/store/outbox-rows.ts';
import { noteRouteRefused } from '../../../src/store/server-capabilities.ts';
import {
  enqueueInitialReads,
  enqueueTaskListRead,
  lastLinksRead,
  noteLinksRead,
  onTaskListApplied,
  requestTaskList,
  requestTaskReads,
  tasksWereRead,
} from '../../../src/store/workspace-reads.ts';
import { openTestStore } from '../../support/harness/intake.ts';
import { differs } from '../../support/rows/changes.ts';

const NOW = 1_000_000;
const MINUTE = 60_000;

/** The due time of each pending read, relative to `NOW`. */
async function due({ query }: Store): Promise<Record<string, number>> {
  const rows = await query.selectFrom('outbox').select(['entity', 'due']).orderBy('entity').execute();
  return Object.fromEntries(rows.map((row) => [row.entity.replace('read:', ''), row.due - NOW]));
}

const read = ({ query }: Store, taskIds: readonly string[], at = 0) =>
  requestTaskReads(query, taskIds, { now: NOW + at, usedShare: 0 });

/** The list is sent and answered at once. */
async function answerList({ query }: Store, at: number): Promise<void> {
  await removeChange(query, entity.readTasks);
  await onTaskListApplied(query, NOW + at, NOW + at);
}

test('reads up to three tasks singly, each once', async () => {
  const store = await openTestStore();
  await read(store, ['a', 'b', 'a']);
  await read(store, ['a', 'c'], 100);
  expect(await due(store)).toEqual({ 'task:a': 2_400, 'task:b': 2_400, 'task:c': 2_500 });
});

test('reads more than three tasks within a minute by one list, which replaces the single reads', async () => {
  const store = await openTestStore();
  await read(store, ['a', 'b', 'c']);
  await updateChange(store.query, entity.readTask('b'), { state: 'sending', sent: '{}' });
  await read(store, ['d'], 50_000);
  expect(await due(store)).toEqual({ 'task:b': 2_400, tasks: 50_000 + MINUTE });
});

test('reads tasks singly again after a minute', async () => {
  const store = await openTestStore();
  await read(store, ['a', 'b', 'c']);
  for (const taskId of ['a', 'b', 'c']) await removeChange(store.query, entity.readTask(taskId));
  await read(store, ['d'], MINUTE + 1);
  expect(await due(store)).toEqual({ 'task:d': MINUTE + 1 + 2_400 });
});

test('reads even one task by a list if the server has no route for a single task', async () => {
  const store = await openTestStore();
  const refusal = { status: 404, resource: 'a', isCertain: true };
  await noteRouteRefused(store.query, 'getTask', refusal, NOW);
  await read(store, ['a']);
  expect(await due(store)).toEqual({ tasks: MINUTE });
});

test('events cause at most one list in five minutes', async () => {
  const store = await openTestStore();
  await requestTaskList(store.query, NOW);
  await answerList(store, MINUTE);
  expect(await due(store)).toEqual({});
  await requestTaskList(store.query, NOW + 2 * MINUTE);
  await requestTaskList(store.query, NOW + 3 * MINUTE);
  expect(await due(store)).toEqual({ tasks: 6 * MINUTE });
});

test('repeats a list that may be older than an event', async () => {
  const store = await openTestStore();
  await requestTaskList(store.query, NOW);
  await requestTaskList(store.query, NOW + 30_000);
  expect(await due(store)).toEqual({ tasks: MINUTE });
  await answerList(store, MINUTE);
  expect(await due(store)).toEqual({ tasks: 6 * MINUTE });
  await answerList(store, 6 * MINUTE);
  expect(await due(store)).toEqual({});
});

test('does not repeat a list at once after an event during its flight', async () => {
  const store = await openTestStore();
  await requestTaskList(store.query, NOW);
  await updateChange(store.query, entity.readTasks, { state: 'sending', sent: '{}' });
  await requestTaskList(store.query, NOW + MINUTE);
  const [row] = await store.query.selectFrom('outbox').select('next_since').execute();
  expect(row?.next_since).toBe(null);
  await answerList(store, MINUTE);
  expect(await due(store)).toEqual({ tasks: 6 * MINUTE });
});

test('delays a list by at most five minutes after the clock was set back', async () => {
  const store = await openTestStore();
  await requestTaskList(store.query, NOW + 60 * MINUTE);
  await answerList(store, 61 * MINUTE);
  await requestTaskList(store.query, NOW);
  expect(await due(store)).toEqual({ tasks: 5 * MINUTE });
});

describe('the initial reads', () => {
  it('are both lists if a connection records; writes wait only for the tasks', async () => {
    const { query } = await openTestStore();
    await enqueueInitialReads(query, 50, false);
    expect(await findChange(query, 'read:pull_requests')).toBeUndefined();
    await enqueueInitialReads(query, 50, true);
    expect(await findChange(query, 'read:tasks')).toMatchObject({ kind: 'read', due: 50, state: 'pending' });
    expect(await findChange(query, 'read:pull_requests')).toMatchObject({ kind: 'read', due: 50, state: 'pending' });
    expect(await tasksWereRead(query)).toBe(false);
    await writeMeta(query, TASKS_READ, '60');
    expect(await tasksWereRead(query)).toBe(true);
  });

  it('are requested once, and not after they were done', async () => {
    const { query } = await openTestStore();
    await writeMeta(query, TASKS_READ, '1');
    await enqueueInitialReads(query, 50, true);
    await enqueueInitialReads(query, 90, true);
    expect(await findChange(query, 'read:tasks')).toBeUndefined();
    expect(await findChange(query, 'read:pull_requests')).toMatchObject({ due: 50 });
  });

  it('schedules a list by its lane, and not before the time from which it proves something', async () => {
    const { query } = await openTestStore();
    await enqueueTaskListRead(query, { now: 1_000, usedShare: 0, lane: 'triage', notBefore: 61_000 });
    expect(await findChange(query, 'read:tasks')).toMatchObject({ lane: 'triage', due: 3_400, not_before: 61_000 });
  });
});

test('ends only the waits for a read of the links after the links of a task were read', async () => {
  const { query } = await openTestStore();
  for (const [item, taskId, awaits] of [
    ['a', 't1', 'links'],
    ['b', 't1', null],
    ['a', 't2', 'links'],
  ] as const) {
    const row = blankEntity(`link:${item}>${taskId}`, 'link', { task_id: taskId, desired: '{}' });
    await differs(query, row, { not_before: 9, awaits });
  }
  const READ = { revision: 5, sentAt: 7 };
  expect(await lastLinksRead(query, 't1')).toBeUndefined();
  await noteLinksRead(query, 't1', READ);
  expect([await lastLinksRead(query, 't1'), await lastLinksRead(query, 't2')]).toEqual([READ, undefined]);
  const waits = async (entity: string) => (await findChange(query, entity))?.not_before;
  expect([await waits('link:a>t1'), await waits('link:b>t1'), await waits('link:a>t2')]).toEqual([0, 9, 9]);
});

describe('notices', () => {
  const keyOf = (index: number | string) => `note:${index}` as ItemKey;
  const WANTED = { comment: ['kept'], close: ['kept'], status: ['kept'] };

  test('withdraws what another configuration wanted, by how far it came', async () => {
    const store = await openTestStore();
    const { query } = store;
    const request = (name: string, wanted: string, connection = 'other') =>
      requestNotice(query, { itemKey: keyOf(name), kind: 'comment', connection, wanted, now: 0 });
    const noticeOf = async (name: string) => (await noticesOf(query, keyOf(name)))[0]!;
    await request('kept', 'first', 'kept');
    await request('new', 'first');
    await request('tried', 'first');
    await beginNotice(query, await noticeOf('tried'));
    await request('written', 'first');
    await settleNotice(query, await noticeOf('written'));
    await request('written', 'second');
    await withdrawNotices(store, WANTED);
    expect(await noticesOf(query, keyOf('new'))).toEqual([]);
    expect(await noticeOf('kept')).toMatchObject({ state: 'waiting', wanted: 'first', done: null });
    expect(await noticeOf('tried')).toMatchObject({ state: 'done', wanted: null, done: '' });
    expect(await noticeOf('written')).toMatchObject({ state: 'done', wanted: 'first', done: 'first' });
  });
});
