import { entity, ON_ITS_WAY, SETTLE_AFTER } from '../../model/change.ts';
import {
  allTaskKeys,
  expectSources,
  forgetTasks,
  saveTask,
  taskOfSource,
  tasksByKeys,
} from '../../store/cached-tasks.ts';
import { releaseCreates, trustTasks, unknownCreates } from '../../store/creates.ts';
import { findEntities, findEntity, linkedItems, saveEntity } from '../../store/entities.ts';
import { existingItems } from '../../store/items.ts';
import { rowsWritten } from '../../store/kept-rows.ts';
import { TASKS_READ, wishTaskList } from '../../store/list-reads.ts';
import { itemsNaming } from '../../store/mentions.ts';
import { WORKSPACE_ID, writeMeta } from '../../store/meta.ts';
import { findChange, findChanges, type OutboxRow, removeChange, saveChange } from '../../store/outbox-rows.ts';
import type { Answer } from '../../store/workspace-answers.ts';
import type { Scope } from '../../store/workspace-scope.ts';
import type { Moment } from '../context.ts';
import { nameOf } from '../link-rules/item-names-of.ts';
import { isOlder, type ListedTask, taskList, taskShape } from './shapes.ts';
import { onTaskList, type Swept, sweepOf } from './sweep-answers.ts';

/** Keeps tasks, and looks at the items that name them or that they were made for. */
export async function applyTasks(query: Scope, tasks: readonly ListedTask[], moment: Moment): Promise<string[]> {
  const changed = await keepTasks(query, tasks, moment);
  return itemsOfTasks(query, changed);
}

/**
 * Events and answers may overtake one another: what is older than the known state changes nothing.
 *
 * @returns those that are new or have another key or status than before
 */
async function keepTasks(query: Scope, tasks: readonly ListedTask[], moment: Moment): Promise<ListedTask[]> {
  const present = await tasksByKeys(
    query,
    tasks.map(({ key }) => key),
  );
  const adopting = tasks.filter(mayBeAdopted).map(({ source }) => entity.task(source));
  await Promise.all([findEntities(query, adopting), findChanges(query, adopting)]);
  const changed: ListedTask[] = [];
  for (const task of tasks) {
    const { taskId, key, title, status, source, createdAt, updatedAt } = task;
    const held = present.get(key);
    const isOutdated = held?.taskId === taskId && isOlder(updatedAt, held.updatedAt);
    await saveTask(query, isOutdated ? held : { taskId, key, title, status, source, createdAt, updatedAt }, moment.now);
    if (held?.taskId === taskId && (isOutdated || held.status === status)) continue;
    changed.push(task);
    if (mayBeAdopted(task)) await adopt(query, entity.task(source), taskId, moment);
  }
  return changed;
}

/** Its source may be the key of an item. */
function mayBeAdopted({ source }: ListedTask): boolean {
  return source.includes(':');
}

/** The items that name these tasks, that they were made for, or that are linked to them. */
async function itemsOfTasks(query: Scope, tasks: readonly ListedTask[]): Promise<string[]> {
  const names = tasks.flatMap(({ taskId, key }) => [key, nameOf.taskId(taskId)]);
  const linked = await linkedItems(
    query,
    tasks.map(({ taskId }) => taskId),
  );
  const sources = await existingItems(
    query,
    tasks.map(({ source }) => source),
  );
  return [...(await itemsNaming(query, names)), ...linked, ...sources];
}

/**
 * A task whose source is an item's key was made for that item, by us or by whoever wrote so: then none is made any more. A
 * request in flight settles itself.
 */
async function adopt(query: Scope, name: string, taskId: string, moment: Moment): Promise<void> {
  const row = await findEntity(query, name);
  if (!row || row.known !== null) return;
  const change = await findChange(query, name);
  if (change?.state === 'sending') return;
  await saveEntity(query, { ...row, known: row.desired ?? '{}', known_at: moment.now, remote_id: taskId });
  await removeChange(query, name);
}

export async function applyCreatedTask(query: Scope, answer: Answer, moment: Moment): Promise<string[]> {
  const task = taskShape.parse(answer.body);
  await rememberWorkspace(query, task);
  const row = await findEntity(query, answer.entity);
  if (row) await saveEntity(query, { ...row, remote_id: task.taskId });
  const again = await applyTasks(query, [task], moment);
  return row?.item_key ? [...again, row.item_key] : again;
}

/** Only answers to the daemon's own key, or to callers who are proved to be of this workspace, come here. */
export async function rememberWorkspace(query: Scope, task: ListedTask | undefined): Promise<void> {
  if (task?.workspaceId) await writeMeta(query, WORKSPACE_ID, task.workspaceId);
}

/** One complete list: what it lacks is gone. It is the oracle for the key set and for creates with unknown outcome. */
export async function applyTaskList(query: Scope, answer: Answer, moment: Moment): Promise<Swept> {
  const { tasks } = taskList.parse(answer.body);
  await rowsWritten(query);
  const present = new Set(tasks.map(({ taskId }) => taskId));
  const lacking = [...(await allTaskKeys(query)).keys()].filter((taskId) => !present.has(taskId));
  // One that was seen after the list was asked for may be younger than the list.
  const missing = await forgetTasks(query, lacking, answer.sentAt);
  const sweep = await sweepOf(query, answer);
  const otherwise = sweep ? await changedTasks(query, tasks) : [];
  const changed = await keepTasks(query, tasks, moment);
  await rowsWritten(query);
  await settleCreates(query, answer.sentAt, moment);
  await rowsWritten(query);
  await releaseCreates(query, answer.sentAt);
  await trustTasks(query, answer.sentAt);
  await writeMeta(query, TASKS_READ, String(moment.now));
  await rememberWorkspace(query, tasks[0]);
  const again = await itemsOfTasks(query, changed);
  if (!sweep) return { again };
  const found = { count: tasks.length, changed: otherwise, missing };
  return { again, swept: await onTaskList(query, sweep, found, moment) };
}

/** Keys of those that differ from the known state. */
async function changedTasks(query: Scope, tasks: readonly ListedTask[]): Promise<string[]> {
  const keys = tasks.map(({ key }) => key);
  const held = await tasksByKeys(query, keys);
  const isChanged = ({ taskId, key, title, status, updatedAt }: ListedTask) => {
    const task = held.get(key);
    if (task?.taskId !== taskId || isOlder(updatedAt, task.updatedAt)) return false;
    return task.title !== title || task.status !== status;
  };
  return tasks.filter(isChanged).map(({ key }) => key);
}

/**
 * Creates with unknown outcome, all settled by one list: present → known, and of several the oldest; absent → sent again. For a
 * create that was sent too shortly before the list was asked for, absence proves nothing: another list is requested.
 */
async function settleCreates(query: Scope, sentAt: number, moment: Moment): Promise<void> {
  const changes = await unknownCreates(query);
  const rows = await findEntities(
    query,
    changes.map((change) => change.entity),
  );
  const itemKeys = new Map(rows.map((row) => [row.entity, row.item_key]));
  await expectSources(
    query,
    rows.flatMap(({ item_key }) => item_key ?? []),
  );
  for (const change of changes) {
    const itemKey = itemKeys.get(change.entity);
    const made = itemKey && (await taskOfSource(query, itemKey));
    if (made) await adopt(query, change.entity, made.taskId, moment);
    else if (change.not_before <= sentAt)
      await saveChange(query, { ...change, state: 'pending', not_before: 0, sent: null, sent_at: null });
    else await wishLaterList(query, change, moment);
  }
}

async function wishLaterList(query: Scope, change: OutboxRow, { now, usedShare }: Moment): Promise<void> {
  // Further ahead it can only be where the clock was set back meanwhile.
  const notBefore = Math.min(change.not_before, now + ON_ITS_WAY + SETTLE_AFTER);
  await saveChange(query, { ...change, not_before: notBefore });
  await wishTaskList(query, { now, usedShare, lane: 'triage', notBefore });
}
