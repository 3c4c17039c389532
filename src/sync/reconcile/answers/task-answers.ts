import { entity } from '../../../model/change.ts';
import { addressIn, itemLineIn } from '../../../model/task.ts';
import { countTasks, forgetTasks, saveTask, tasksByKeys, tasksReadBefore } from '../../../store/cached-tasks.ts';
import { findEntities, findEntity, linkedItems, saveEntity } from '../../../store/entities.ts';
import { itemsNamed, itemsNaming } from '../../../store/item-names.ts';
import { existingItems } from '../../../store/items.ts';
import { WORKSPACE_ID, writeMeta } from '../../../store/meta.ts';
import { findChanges } from '../../../store/outbox-rows.ts';
import { markTasksVerified, resumeCreations } from '../../../store/task-creations.ts';
import { flushRows } from '../../../store/unit-of-work/unit-of-work.ts';
import type { Answer } from '../../../store/workspace-answers.ts';
import { enqueueTaskListRead, forgetLinkReads, noteLinksRead, TASKS_READ } from '../../../store/workspace-reads.ts';
import type { Scope } from '../../../store/workspace-scope.ts';
import type { EvaluationContext } from '../context.ts';
import { nameOf, normalUrl } from '../link-rules/item-names-of.ts';
import { adopt, noteCandidates, noteMarks, settleCreates, waitForAnotherList } from './lost-creations.ts';
import { isOlder, type ListedTask, taskList, taskShape } from './shapes.ts';
import { onTaskList, type Swept, sweepOf } from './sweep-answers.ts';

/** Keeps tasks, and looks at the items that name them or that they were made for. */
export async function applyTasks(
  query: Scope,
  tasks: readonly ListedTask[],
  moment: EvaluationContext,
): Promise<string[]> {
  const changed = await keepTasks(query, tasks, moment);
  return itemsOfTasks(query, changed);
}

/**
 * Events and answers may overtake one another: what is older than the known state changes nothing.
 *
 * @returns those that are new or have another key or status than before
 */
async function keepTasks(query: Scope, tasks: readonly ListedTask[], moment: EvaluationContext): Promise<ListedTask[]> {
  const present = await tasksByKeys(
    query,
    tasks.map(({ key }) => key),
  );
  const adopting = tasks.filter(mayBeAdopted).map(({ source }) => entity.task(source));
  await Promise.all([findEntities(query, adopting), findChanges(query, adopting)]);
  const changed: ListedTask[] = [];
  for (const task of tasks) {
    const { taskId, key, title, status, createdAt, updatedAt } = task;
    // Servers may drop or change the source; the line of the description is a text of people like any other.
    const source = itemLineIn(task.description) || task.source;
    const held = present.get(key);
    const isOutdated = held?.taskId === taskId && isOlder(updatedAt, held.updatedAt);
    await saveTask(query, isOutdated ? held : { taskId, key, title, status, source, createdAt, updatedAt }, moment.now);
    if (held?.taskId === taskId && (isOutdated || held.status === status)) continue;
    changed.push(task);
    if (mayBeAdopted(task)) await adopt(query, entity.task(task.source), taskId, moment);
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
  const addresses = tasks.flatMap(({ description }) => normalUrl(addressIn(itemLineIn(description))) ?? []);
  const described = await itemsNamed(query, addresses.map(nameOf.url));
  return [...(await itemsNaming(query, names)), ...linked, ...sources, ...described.map(({ itemKey }) => itemKey)];
}

export async function applyCreatedTask(query: Scope, answer: Answer, moment: EvaluationContext): Promise<string[]> {
  const task = taskShape.parse(answer.body);
  await rememberWorkspace(query, task);
  const row = await findEntity(query, answer.entity);
  if (row) await saveEntity(query, { ...row, remote_id: task.taskId });
  // A task that was just made has no links that could be doubled.
  await noteLinksRead(query, task.taskId, { revision: (answer.asOf ?? 0) + 1, sentAt: answer.sentAt });
  const again = await applyTasks(query, [task], moment);
  return row?.item_key ? [...again, row.item_key] : again;
}

/** Only answers to the daemon's own key, or to callers who are proved to be of this workspace, come here. */
export async function rememberWorkspace(query: Scope, task: ListedTask | undefined): Promise<void> {
  if (task?.workspaceId) await writeMeta(query, WORKSPACE_ID, task.workspaceId);
}

/**
 * A page of the list of tasks. At the end of a list that is known to be complete, what it lacks is gone, and creations with
 * unknown outcome are settled. Any other list adds and updates, and proves nothing.
 */
export async function applyTaskList(query: Scope, answer: Answer, moment: EvaluationContext): Promise<Swept> {
  const { tasks, unreadable } = taskList.parse(answer.body);
  const { page = { began: answer.sentAt, isEnd: true, isComplete: unreadable === 0 } } = answer;
  const { began, isEnd } = page;
  await flushRows(query);
  const sweep = await sweepOf(query, { ...answer, sentAt: began });
  const otherwise = sweep ? await changedTasks(query, tasks) : [];
  await noteCandidates(query, tasks, isFirstPage(answer));
  // Not earlier than the list began, whatever the clock did meanwhile.
  const changed = await keepTasks(query, tasks, { ...moment, now: Math.max(moment.now, began) });
  await flushRows(query);
  await noteMarks(query, tasks);
  await rememberWorkspace(query, tasks[0]);
  if (!isEnd) return { again: await itemsOfTasks(query, changed) };
  await writeMeta(query, TASKS_READ, String(moment.now));
  const lacking = page.isComplete ? await lackingTasks(query, { began, now: moment.now }) : undefined;
  const missing = lacking === undefined ? [] : await forgetTasks(query, lacking, began);
  await forgetLinkReads(query, lacking ?? []);
  await flushRows(query);
  const adopted = lacking === undefined ? [] : await settleCreates(query, began, moment);
  if (lacking === undefined) await waitForAnotherList(query, moment);
  await flushRows(query);
  const { now, usedShare } = moment;
  if (await resumeCreations(query, began, now))
    await enqueueTaskListRead(query, { now, usedShare, lane: 'triage', notBefore: 0 });
  await markTasksVerified(query, began);
  const again = [...(await itemsOfTasks(query, changed)), ...adopted];
  if (!sweep) return { again };
  const found = { count: await countTasks(query), changed: otherwise, missing };
  return { again, swept: await onTaskList(query, sweep, found, moment) };
}

function isFirstPage({ cursor, page, sentAt }: Answer): boolean {
  return cursor === undefined && (page?.began ?? sentAt) === sentAt;
}

/** Tasks that were seen so lately are still there: a list without one of them is not complete, milliseconds. */
const SEEN_LATELY = 3_600_000;

/** The tasks that a complete list lacks; undefined where it lacks one that was seen so lately that the list cannot be complete. */
async function lackingTasks(
  query: Scope,
  { began, now }: { readonly began: number; readonly now: number },
): Promise<readonly string[] | undefined> {
  const lacking = await tasksReadBefore(query, began);
  const isDoubtful = lacking.some(({ seenAt }) => seenAt > now - SEEN_LATELY);
  return isDoubtful ? undefined : lacking.map(({ taskId }) => taskId);
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
