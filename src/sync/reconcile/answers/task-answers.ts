import { entity } from '../../../model/change.ts';
import type { ItemKey } from '../../../model/item.ts';
import { addressIn, itemLineIn, statusHistory, type Task } from '../../../model/task.ts';
import { isOlder } from '../../../model/workspace-time.ts';
import {
  type EntityRow,
  findEntities,
  findEntity,
  linkedItems,
  mayUpdate,
  saveEntity,
} from '../../../store/changes/entities.ts';
import { findChanges } from '../../../store/changes/outbox-rows.ts';
import { itemsNamed, itemsNaming } from '../../../store/items/item-names.ts';
import { existingItems } from '../../../store/items/items.ts';
import { currentRevision, OWN_KEY_ID, readMeta, TASKS_READ, WORKSPACE_ID, writeMeta } from '../../../store/meta.ts';
import { countTasks, forgetTasks, saveTask, tasksByKeys, tasksReadBefore } from '../../../store/tasks/stored-tasks.ts';
import { markTasksVerified, resumeCreations } from '../../../store/tasks/task-creations.ts';
import { flushRows } from '../../../store/unit-of-work/unit-of-work.ts';
import {
  type Answer,
  enqueueTaskListRead,
  forgetLinkReads,
  noteLinksRead,
  requestTaskReads,
} from '../../../store/workspace/workspace-reads.ts';
import { addFindings, tasksSwept } from '../../../store/workspace/workspace-sweeps.ts';
import type { Scope } from '../../../store/workspace-scope.ts';
import type { AnswerContext, ReportOrder } from '../context.ts';
import { nameOf, normalUrl } from '../link-rules/lookup-names.ts';
import {
  adoptCreation,
  collectCandidates,
  recordMarks,
  requestMarks,
  requestNextList,
  settleCreates,
} from './lost-creations.ts';
import { type ListedTask, taskList, taskShape } from './shapes.ts';
import { type SweepResult, sweepOf } from './sweep-answers.ts';

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
 * Caches tasks. Returns those that are new or whose key or status changed. Events and answers may overtake one another, so a
 * state that is older than the cached one changes nothing. A task is read if the order of the two is unknown.
 */
async function saveTasks(query: Scope, tasks: readonly ListedTask[], context: AnswerContext): Promise<ListedTask[]> {
  const keys = tasks.map(({ key }) => key);
  const cachedTasks = await tasksByKeys(query, keys);
  const creations = tasks.filter(mayBeCreation).map(({ source }) => entity.task(source));
  const updates = await updatesOf(query, tasks, cachedTasks);
  await Promise.all([findEntities(query, creations), findChanges(query, creations)]);
  const order = { ...context.order, isOwn: await isOfOwnKey(query, context.order) };
  const changed: ListedTask[] = [];
  const uncertain: string[] = [];
  for (const task of tasks) {
    const { taskId, key } = task;
    const cached = cachedTasks.get(key);
    const previous = cached?.taskId === taskId ? cached : undefined;
    const update = updates.get(taskId);
    const age = previous === undefined ? 'newer' : ageOf(task, previous, update, order);
    if (age === 'unknown') uncertain.push(taskId);
    const isKept = previous !== undefined && age !== 'newer';
    await saveTask(query, isKept ? previous : reportedTask(task, previous, context.now), context.now);
    if (isKept || previous?.status === task.status) continue;
    if (update !== undefined) await saveUpdateRevision(query, update, context);
    changed.push(task);
    if (mayBeCreation(task)) await adoptCreation(query, entity.task(task.source), taskId, context);
  }
  if (uncertain.length > 0) await requestTaskReads(query, uncertain, context);
  return changed;
}

/** Returns the task to cache. @param previous the cached state, if there is one */
function reportedTask(task: ListedTask, previous: Task | undefined, now: number): Task {
  const { taskId, key, title, status, kind, createdAt } = task;
  // The line of the description comes first, because servers may drop or change the source.
  const source = itemLineIn(task.description) || task.source;
  // An event may lack the time.
  const updatedAt = task.updatedAt || (previous?.status === status ? previous.updatedAt : '');
  const history = statusHistory(previous, { status, createdAt, updatedAt }, now);
  return { taskId, key, title, status, source, kind, createdAt, updatedAt, ...history };
}

/** Returns the updates of those tasks whose reported status differs from the cached one, by their ids. */
async function updatesOf(
  query: Scope,
  tasks: readonly ListedTask[],
  cachedTasks: ReadonlyMap<string, Task>,
): Promise<ReadonlyMap<string, EntityRow>> {
  const differing = tasks.filter(({ key, status }) => (cachedTasks.get(key)?.status ?? status) !== status);
  const names = differing.map(({ taskId }) => entity.taskUpdate(taskId));
  const rows = names.length === 0 ? [] : await findEntities(query, names);
  return new Map(rows.map((row) => [row.task_id as string, row]));
}

/** Stores the revision at which a new status became known, so that no older answer reverts it. */
async function saveUpdateRevision(query: Scope, update: EntityRow, { order, now }: AnswerContext): Promise<void> {
  const received = order?.receivedRevision ?? (await currentRevision(query));
  await saveEntity(query, { ...update, known_at: now, revision: Math.max(update.revision, received) });
}

/** An event that is received later than this after a status became known is newer: the workspace repeats events for some minutes. */
const MAX_EVENT_DELAY_MS = 900_000;

/** Whether the daemon's own key caused an event. Only a read shows whether a person used the key. */
async function isOfOwnKey(query: Scope, { key }: Partial<ReportOrder> = {}): Promise<boolean> {
  return key !== undefined && (await readMeta(query, OWN_KEY_ID)) === key;
}

/**
 * Compares a reported state with the cached one. Of two times of the workspace the later one is newer. If they are equal or absent,
 * the revision decides: an answer to a request that was sent after the cached status became known is newer. In all other cases
 * the order is unknown, and always if our own key changed the status: the answer to its request tells more than the event.
 *
 * @param update the last update of the task by worksync; undefined if there is none, or if the status is the cached one
 */
function ageOf(
  { updatedAt, status }: ListedTask,
  cached: Task,
  update: EntityRow | undefined,
  { asOf, sentAt, isOwn }: Partial<ReportOrder> & { readonly isOwn: boolean },
): 'newer' | 'older' | 'unknown' {
  if (isOlder(updatedAt, cached.updatedAt)) return 'older';
  if (isOwn && status !== cached.status) return 'unknown';
  if (update === undefined || update.revision === 0) return 'newer';
  if (asOf !== undefined && mayUpdate(update, asOf)) return 'newer';
  const isLate = asOf === undefined && sentAt !== undefined && sentAt > (update.known_at ?? 0) + MAX_EVENT_DELAY_MS;
  return isLate || isOlder(cached.updatedAt, updatedAt) ? 'newer' : 'unknown';
}

/** Whether the source of a task may be the key of an item, so that the task was created for it. */
function mayBeCreation({ source }: ListedTask): boolean {
  return source.includes(':');
}

/** Returns the items that name these tasks, that they were created for, or that are linked to them. */
export async function itemsOfTasks(query: Scope, tasks: readonly ListedTask[]): Promise<ItemKey[]> {
  const names = tasks.flatMap(({ taskId, key }) => [key, nameOf.taskId(taskId)]);
  const ids = tasks.map(({ taskId }) => taskId);
  const linked = await linkedItems(query, ids);
  const keys = tasks.map(({ source }) => source);
  const sources = await existingItems(query, keys);
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
  const listed = { ...context, order: answer, now: Math.max(context.now, began) };
  const changed = await saveTasks(query, tasks, listed);
  await flushRows(query);
  await recordMarks(query, tasks);
  await saveWorkspaceId(query, tasks[0]);
  if (!isEnd) return { reevaluate: await itemsOfTasks(query, changed) };
  await writeMeta(query, TASKS_READ, String(context.now));
  const lacking = isComplete ? await lackingTasks(query, began, context.now) : undefined;
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
  const findings = [
    ...differing.map((key) => ({ what: 'task-changed' as const, entity: key })),
    ...missing.map((key) => ({ what: 'task-missing' as const, entity: key })),
  ];
  await addFindings(query, findings, now);
  return { reevaluate, swept: await tasksSwept(query, sweep, await countTasks(query), now) };
}

function isFirstPage({ cursor, page, sentAt }: Answer): boolean {
  return cursor === undefined && (page?.began ?? sentAt) === sentAt;
}

/** A list that lacks a task which another answer contained this recently is not complete, milliseconds. */
const RECENT_MS = 3_600_000;

/**
 * Returns the cached tasks that a list lacks; undefined if one of them is so recent that the list cannot be complete.
 */
async function lackingTasks(query: Scope, began: number, now: number): Promise<readonly string[] | undefined> {
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
