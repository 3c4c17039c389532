import { entity } from '../../model/change.ts';
import type { ItemKey, WorkItem } from '../../model/item.ts';
import { itemLine } from '../../model/task.ts';
import { blankEntity, findEntity, forgetEntity, saveEntity } from '../../store/changes/entities.ts';
import { dropDifference, findChange, removeChange } from '../../store/changes/outbox-rows.ts';
import { itemsNaming, passItemNames, saveItemNames } from '../../store/items/item-names.ts';
import { readEvaluatedTasks, saveEvaluatedTasks } from '../../store/items/items.ts';
import { triageSince } from '../../store/meta.ts';
import { taskOfSource } from '../../store/tasks/stored-tasks.ts';
import type { Evaluation } from './context.ts';
import { enqueueChange } from './enqueue.ts';
import { tasksOfItem } from './evaluate-links.ts';
import { formerNamesOf, placedNamesOf } from './link-rules/lookup-names.ts';
import { PLAIN_GRAMMAR } from './link-rules/scan.ts';
import type { TriageDecision } from './triage.ts';

/**
 * Evaluates whether a work item becomes a task, and stores its names. Returns the items that name this one if its tasks
 * or its names have changed.
 */
export async function evaluateWorkItem(evaluation: Evaluation, item: WorkItem): Promise<readonly ItemKey[]> {
  const { query, now, connection } = evaluation;
  const taskIds = await tasksOfItem(query, item.key);
  await evaluateTask(evaluation, item, taskIds);
  const grammar = connection.grammar ?? PLAIN_GRAMMAR;
  const names = { names: placedNamesOf(item, grammar), former: formerNamesOf(item, grammar), now };
  const { movedTo } = item;
  if (movedTo !== undefined) await passTask(evaluation, item, movedTo);
  const { all, isRenamed, isTaken } =
    movedTo === undefined
      ? await saveItemNames(query, item.key, names)
      : await passItemNames(query, item.key, { to: movedTo, ...names });
  const before = await readEvaluatedTasks(query, item.key);
  const haveTasksChanged = before.join() !== taskIds.join();
  if (haveTasksChanged) await saveEvaluatedTasks(query, item.key, taskIds);
  return haveTasksChanged || isTaken || (isRenamed && taskIds.length > 0) ? itemsNaming(query, all) : [];
}

/**
 * Returns the id of the task that was created for an item, by worksync or by another client that set its source. A task
 * that only the last line of its description identifies is stored, so that no second task is created.
 */
export async function adoptTask({ query, now }: Evaluation, item: WorkItem): Promise<string | undefined> {
  const name = entity.task(item.key);
  const row = await findEntity(query, name);
  if (row?.remote_id) return row.remote_id;
  const task = await taskOfSource(query, item.key, itemLine(item));
  if (!task || task.source === item.key) return task?.taskId;
  const change = await findChange(query, name);
  // A request in flight is settled by its own answer.
  if (change?.state === 'sending') return undefined;
  if (change) await removeChange(query, name);
  const known = { known: row?.desired ?? '{}', known_at: now, remote_id: task.taskId };
  await saveEntity(query, { ...(row ?? blankEntity(name, 'task', { item_key: item.key })), ...known });
  return task.taskId;
}

/** The task that was created for an issue belongs to the issue as which it goes on, so that no second task is created. */
async function passTask({ query, now }: Evaluation, { key }: WorkItem, to: ItemKey): Promise<void> {
  const row = await findEntity(query, entity.task(key));
  const name = entity.task(to);
  const existing = await findEntity(query, name);
  if (!row?.remote_id || existing?.remote_id) return;
  const change = await findChange(query, name);
  // A request in flight is settled by its own answer.
  if (change?.state === 'sending') return;
  if (change) await removeChange(query, name);
  const known = { desired: row.desired, known: row.known ?? '{}', known_at: now, remote_id: row.remote_id };
  await saveEntity(query, { ...(existing ?? blankEntity(name, 'task', { item_key: to })), ...known });
}

/**
 * Enqueues the creation of a task if the triage rules want one. Each item becomes at most one task: later changes of
 * the item or of the task create no other.
 */
async function evaluateTask(evaluation: Evaluation, item: WorkItem, taskIds: readonly string[]): Promise<void> {
  const { query, rules } = evaluation;
  const name = entity.task(item.key);
  const existing = await findEntity(query, name);
  if (existing?.known != null) return;
  if (!rules.triage.isOn && existing === undefined) return;
  // A stored request is in flight or has an unknown outcome: its answer, or a list, decides.
  const change = existing && (await findChange(query, name));
  const isUnsettled = change?.sent != null && change.state !== 'held';
  const row = existing ?? blankEntity(name, 'task', { item_key: item.key });
  const decision = await decideTask(evaluation, item);
  const isDesired = decision.outcome === 'create' && taskIds.length === 0;
  if (!isDesired && !isUnsettled) {
    if (change?.state === 'held') await removeChange(query, name);
    else await dropDifference(query, name);
    return forgetEntity(query, name);
  }
  const desired = isDesired ? JSON.stringify(decision.task) : null;
  await saveEntity(query, { ...row, desired });
  if (!isDesired) return;
  await enqueueChange(evaluation, 'task', name, { renewed: row.desired !== desired, effect: 'creation' });
}

/** Returns the decision of the triage rules, whether or not it was carried out. */
export async function decideTask(
  { query, connection, rules, now }: Evaluation,
  item: WorkItem,
): Promise<TriageDecision> {
  const since = await triageSince(query, connection.name);
  return rules.triage.decide(item, connection.name, since ?? now);
}
