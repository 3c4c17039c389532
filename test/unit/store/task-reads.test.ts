import { expect, test } from 'vitest';
import { entity } from '../../../src/model/change.ts';
import type { Store } from '../../../src/store/database.ts';
import { removeChange, updateChange } from '../../../src/store/outbox-rows.ts';
import { onTaskListApplied, requestTaskList, requestTaskReads } from '../../../src/store/workspace-reads.ts';
import { openTestStore } from '../../support/intake.ts';

const NOW = 1_000_000;
const MINUTE = 60_000;

/** When each waiting read is due, after `NOW`. */
async function due({ query }: Store): Promise<Record<string, number>> {
  const rows = await query.selectFrom('outbox').select(['entity', 'due']).orderBy('entity').execute();
  return Object.fromEntries(rows.map((row) => [row.entity.replace('read:', ''), row.due - NOW]));
}

const read = ({ query }: Store, taskIds: readonly string[], at = 0, hasSingleRoute = true) =>
  requestTaskReads(query, taskIds, { now: NOW + at, usedShare: 0, hasSingleRoute });

/** The list is sent and answered at once. */
async function answerList({ query }: Store, at: number): Promise<void> {
  await removeChange(query, entity.readTasks);
  await onTaskListApplied(query, NOW + at, NOW + at);
}

test('up to three tasks are read one by one, each once', async () => {
  const store = await openTestStore();
  await read(store, ['a', 'b', 'a']);
  await read(store, ['a', 'c'], 100);
  expect(await due(store)).toEqual({ 'task:a': 2_400, 'task:b': 2_400, 'task:c': 2_500 });
});

test('more than three tasks within a minute are read by one list, in place of the single reads', async () => {
  const store = await openTestStore();
  await read(store, ['a', 'b', 'c']);
  await updateChange(store.query, entity.readTask('b'), { state: 'sending', sent: '{}' });
  await read(store, ['d'], 50_000);
  expect(await due(store)).toEqual({ 'task:b': 2_400, tasks: 50_000 + MINUTE });
});

test('after a minute single reads are possible again', async () => {
  const store = await openTestStore();
  await read(store, ['a', 'b', 'c']);
  for (const taskId of ['a', 'b', 'c']) await removeChange(store.query, entity.readTask(taskId));
  await read(store, ['d'], MINUTE + 1);
  expect(await due(store)).toEqual({ 'task:d': MINUTE + 1 + 2_400 });
});

test('without a route for a single task even one task needs the list', async () => {
  const store = await openTestStore();
  await read(store, ['a'], 0, false);
  expect(await due(store)).toEqual({ tasks: MINUTE });
});

test('events cause one list in five minutes', async () => {
  const store = await openTestStore();
  await requestTaskList(store.query, NOW);
  await answerList(store, MINUTE);
  expect(await due(store)).toEqual({});
  await requestTaskList(store.query, NOW + 2 * MINUTE);
  await requestTaskList(store.query, NOW + 3 * MINUTE);
  expect(await due(store)).toEqual({ tasks: 6 * MINUTE });
});

test('a list that may be older than an event is followed by another one', async () => {
  const store = await openTestStore();
  await requestTaskList(store.query, NOW);
  await requestTaskList(store.query, NOW + 30_000);
  expect(await due(store)).toEqual({ tasks: MINUTE });
  await answerList(store, MINUTE);
  expect(await due(store)).toEqual({ tasks: 6 * MINUTE });
  await answerList(store, 6 * MINUTE);
  expect(await due(store)).toEqual({});
});

test('an event during a list in flight does not repeat that list at once', async () => {
  const store = await openTestStore();
  await requestTaskList(store.query, NOW);
  await updateChange(store.query, entity.readTasks, { state: 'sending', sent: '{}' });
  await requestTaskList(store.query, NOW + MINUTE);
  const [row] = await store.query.selectFrom('outbox').select('next_since').execute();
  expect(row?.next_since).toBe(null);
  await answerList(store, MINUTE);
  expect(await due(store)).toEqual({ tasks: 6 * MINUTE });
});

test('a clock that was set back delays a list by five minutes at most', async () => {
  const store = await openTestStore();
  await requestTaskList(store.query, NOW + 60 * MINUTE);
  await answerList(store, 61 * MINUTE);
  await requestTaskList(store.query, NOW);
  expect(await due(store)).toEqual({ tasks: 5 * MINUTE });
});
