import { entity, type Written } from '../../../model/change.ts';
import type { ItemKey } from '../../../model/item.ts';
import { addressIn, itemLineIn, type Task } from '../../../model/task.ts';
import { countTasks, forgetTasks, saveTask, tasksByKeys, tasksReadBefore } from '../../../store/cached-tasks.ts';
import { findEntities, findEntity, json, linkedItems, saveEntity } from '../../../store/entities.ts';
import { itemsNamed, itemsNaming } from '../../../store/item-names.ts';
import { existingItems } from '../../../store/items.ts';
import { WORKSPACE_ID, writeMeta } from '../../../store/meta.ts';
import { findChanges } from '../../../store/outbox-rows.ts';
import { markTasksVerified, resumeCreations } from '../../../store/task-creations.ts';
import { flushRows } from '../../../store/unit-of-work/unit-of-work.ts';
import type { Answer } from '../../../store/workspace-answers.ts';
import { enqueueTaskListRead, forgetLinkReads, noteLinksRead, TASKS_READ } from '../../../store/workspace-reads.ts';
import type { Scope } from '../../../store/workspace-scope.ts';
import type { AnswerContext } from '../context.ts';
import { nameOf, normalUrl } from '../link-rules/lookup-names.ts';
import {
  adoptCreation,
  collectCandidates,
  recordMarks,
  requestMarks,
  requestNextList,
  settleCreates,
} from './lost-creations.ts';
import { isOlder, type ListedTask, taskList, taskShape } from './shapes.ts';
import { advanceByTasks, type SweepResult, sweepOf } from './sweep-answers.ts';

/**
 * Caches tasks. Returns the items to evaluate: those that name a changed task, that it was created for, or that are
 * linked to it.
 */
export async function applyTasks(
  query: Scope,
  tasks: readonly ListedTask[],
  context: AnswerContext,
): Promise<ItemKey[]> {
  const changed = await saveTasks(query, tasks, context);
  return itemsOfTasks(query, changed);
}

/**
 * Caches tasks. Returns those that are new or whose key or status changed. Events and answers may overtake one another,
 * so a state that is older than the cached one changes nothing.
 */
async function saveTasks(query: Scope, tasks: readonly ListedTask[], context: AnswerContext): Promise<ListedTask[]> {
  const cachedTasks = await tasksByKeys(
    query,
    tasks.map(({ key }) => key),
  );
  const creations = tasks.filter(mayBeCreation).map(({ source }) => entity.task(source));
  const updatedSince = await tasksUpdatedSince(query, tasks, cachedTasks, context.sentAt);
  await Promise.all([findEntities(query, creations), findChanges(query, creations)]);
  const changed: ListedTask[] = [];
  for (const task of tasks) {
    const { taskId, key, title, status, kind, createdAt, updatedAt } = task;
    // The line of the description comes first, because servers may drop or change the source.
    const source = itemLineIn(task.description) || task.source;
    const cached = cachedTasks.get(key);
    const isSame = cached?.taskId === taskId;
    const isOutdated = isSame && (isOlder(updatedAt, cached.updatedAt) || updatedSince.has(taskId));
    await saveTask(
      query,
      isOutdated
        ? cached
        : { taskId, key, title, status, source, kind, createdAt, updatedAt, ...statusHistory(cached, task, context) },
      context.now,
    );
    if (cached?.taskId === taskId && (isOutdated || cached.status === status)) continue;
    changed.push(task);
    if (mayBeCreation(task)) await adoptCreation(query, entity.task(task.source), taskId, context);
  }
  return changed;
}

/**
 * Returns the tasks whose status worksync has written since this request was sent, by another request. The answer shows
 * another status: it may be the one before.
 */
async function tasksUpdatedSince(
  query: Scope,
  tasks: readonly ListedTask[],
  cachedTasks: ReadonlyMap<string, Task>,
  sentAt: number | undefined,
): Promise<ReadonlySet<string>> {
  const differing = tasks.filter(({ key, status }) => (cachedTasks.get(key)?.status ?? status) !== status);
  if (sentAt === undefined || differing.length === 0) return new Set();
  const rows = await findEntities(
    query,
    differing.map(({ taskId }) => entity.taskUpdate(taskId)),
  );
  const updated = rows.filter((row) => {
    const written = json<Written>(row.written);
    return written !== undefined && written.answeredAt > sentAt && written.sentAt !== sentAt;
  });
  return new Set(updated.flatMap(({ task_id }) => task_id ?? []));
}

/**
 * Returns the latest time at which the status can have been set, and the status before. The time is 0 if the task has not
 * changed since its creation. The clock of the workspace counts, because ours may be behind and observes changes late.
 * Ours counts too if the status changed and the time of the workspace did not.
 */
function statusHistory(
  cached: Task | undefined,
  { taskId, status, createdAt, updatedAt }: ListedTask,
  { now }: AnswerContext,
): Pick<Task, 'formerStatus' | 'statusBefore'> {
  const previous = cached?.taskId === taskId ? cached : undefined;
  if (previous?.status === status) return { formerStatus: previous.formerStatus, statusBefore: previous.statusBefore };
  const changedAt = Date.parse(updatedAt) || now;
  if (previous !== undefined) {
    const isSameTime = previous.updatedAt === updatedAt;
    return { formerStatus: previous.status, statusBefore: isSameTime ? Math.max(changedAt, now) : changedAt };
  }
  return { statusBefore: createdAt === updatedAt ? 0 : changedAt };
}

/** Whether the source of a task may be the key of an item, so that the task was created for it. */
function mayBeCreation({ source }: ListedTask): boolean {
  return source.includes(':');
}

/** Returns the items that name these tasks, that they were created for, or that are linked to them. */
async function itemsOfTasks(query: Scope, tasks: readonly ListedTask[]): Promise<ItemKey[]> {
  const names = tasks.flatMap(({ taskId, key }) => [key, nameOf.taskId(taskId)]);
  const linked = await linkedItems(
    query,
    tasks.map(({ taskId }) => taskId),
  );
  const sources = await existingItems(
    query,
    tasks.map(({ source }) => source),
  );
  const addresses = tasks.flatMap(({ description }) => normalUrl(addressIn(itemLineIn(description))) ?? []);
  const described = await itemsNamed(query, addresses.map(nameOf.url));
  return [...(await itemsNaming(query, names)), ...linked, ...sources, ...described.map(({ itemKey }) => itemKey)];
}

export async function applyCreatedTask(query: Scope, answer: Answer, context: AnswerContext): Promise<ItemKey[]> {
  const task = taskShape.parse(answer.body);
  await saveWorkspaceId(query, task);
  const row = await findEntity(query, answer.entity);
  if (row) await saveEntity(query, { ...row, remote_id: task.taskId });
  await requestMarks(query, context);
  // A new task has no links, so that no addition can be a duplicate.
  await noteLinksRead(query, task.taskId, { revision: (answer.asOf ?? 0) + 1, sentAt: answer.sentAt });
  const reevaluate = await applyTasks(query, [task], context);
  return row?.item_key ? [...reevaluate, row.item_key] : reevaluate;
}

/** Stores the id of the workspace. All answers are to the daemon's own key or to verified clients of this workspace. */
export async function saveWorkspaceId(query: Scope, task: ListedTask | undefined): Promise<void> {
  if (task?.workspaceId) await writeMeta(query, WORKSPACE_ID, task.workspaceId);
}

/**
 * Applies a page of the list of tasks. At the end of a complete list, cached tasks that it lacks are removed, and
 * creations with an unknown outcome are settled. Any other list only adds and updates tasks.
 */
export async function applyTaskList(query: Scope, answer: Answer, context: AnswerContext): Promise<SweepResult> {
  const { tasks, unreadable } = taskList.parse(answer.body);
  const { page = { began: answer.sentAt, isEnd: true, isComplete: unreadable === 0 } } = answer;
  const { began, isEnd, isComplete } = page;
  await flushRows(query);
  const sweep = await sweepOf(query, { ...answer, sentAt: began });
  const differing = sweep ? await differingTasks(query, tasks) : [];
  await collectCandidates(query, tasks, isFirstPage(answer));
  // Never dated before the list began, even if the clock was set back meanwhile.
  const listed = { ...context, now: Math.max(context.now, began), sentAt: began };
  const changed = await saveTasks(query, tasks, listed);
  await flushRows(query);
  await recordMarks(query, tasks);
  await saveWorkspaceId(query, tasks[0]);
  if (!isEnd) return { reevaluate: await itemsOfTasks(query, changed) };
  await writeMeta(query, TASKS_READ, String(context.now));
  const lacking = isComplete ? await lackingTasks(query, { began, now: context.now }) : undefined;
  const missing = lacking === undefined ? [] : await forgetTasks(query, lacking, began);
  await forgetLinkReads(query, lacking ?? []);
  await flushRows(query);
  const adopted = lacking === undefined ? [] : await settleCreates(query, began, context);
  if (lacking === undefined) await requestNextList(query, context);
  await flushRows(query);
  const { now, usedShare } = context;
  if (await resumeCreations(query, began, now))
    await enqueueTaskListRead(query, { now, usedShare, lane: 'triage', notBefore: 0 });
  await markTasksVerified(query, began);
  const reevaluate = [...(await itemsOfTasks(query, changed)), ...adopted];
  if (!sweep) return { reevaluate };
  const found = { count: await countTasks(query), changed: differing, missing };
  return { reevaluate, swept: await advanceByTasks(query, sweep, found, context) };
}

function isFirstPage({ cursor, page, sentAt }: Answer): boolean {
  return cursor === undefined && (page?.began ?? sentAt) === sentAt;
}

/** A list that lacks a task which another answer contained this recently is not complete, milliseconds. */
const RECENT_MS = 3_600_000;

/**
 * Returns the cached tasks that a list lacks; undefined if one of them is so recent that the list cannot be complete.
 */
async function lackingTasks(
  query: Scope,
  { began, now }: { readonly began: number; readonly now: number },
): Promise<readonly string[] | undefined> {
  const lacking = await tasksReadBefore(query, began);
  const isIncomplete = lacking.some(({ seenAt }) => seenAt > now - RECENT_MS);
  return isIncomplete ? undefined : lacking.map(({ taskId }) => taskId);
}

/** Returns the keys of tasks that differ from the cached ones. */
async function differingTasks(query: Scope, tasks: readonly ListedTask[]): Promise<string[]> {
  const keys = tasks.map(({ key }) => key);
  const cachedTasks = await tasksByKeys(query, keys);
  const isChanged = ({ taskId, key, title, status, updatedAt }: ListedTask) => {
    const cached = cachedTasks.get(key);
    if (cached?.taskId !== taskId || isOlder(updatedAt, cached.updatedAt)) return false;
    return cached.title !== title || cached.status !== status;
  };
  return tasks.filter(isChanged).map(({ key }) => key);
}
