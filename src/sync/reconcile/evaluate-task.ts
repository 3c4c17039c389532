import { entity } from '../../model/change.ts';
import type { WorkItem } from '../../model/item.ts';
import { itemLine } from '../../model/task.ts';
import { taskOfSource } from '../../store/cached-tasks.ts';
import { blankEntity, findEntity, forgetEntity, saveEntity } from '../../store/entities.ts';
import { triageSince } from '../../store/meta.ts';
import { dropDifference, findChange, removeChange } from '../../store/outbox-rows.ts';
import type { Scope } from '../../store/workspace-scope.ts';
import { addChange, type Work } from './changes.ts';
import type { TriageDecision } from './triage.ts';

/**
 * The task that was made for an item, by worksync or by whoever wrote its source. One that only the line of its description
 * identifies is remembered, so that no other is made.
 */
export async function adoptTask(query: Scope, item: WorkItem, now: number): Promise<string | undefined> {
  const name = entity.task(item.key);
  const row = await findEntity(query, name);
  if (row?.remote_id) return row.remote_id;
  const task = await taskOfSource(query, item.key, itemLine(item));
  if (!task || task.source === item.key) return task?.taskId;
  const change = await findChange(query, name);
  // Its own answer decides.
  if (change?.state === 'sending') return undefined;
  if (change) await removeChange(query, name);
  const known = { known: row?.desired ?? '{}', known_at: now, remote_id: task.taskId };
  await saveEntity(query, { ...(row ?? blankEntity(name, 'task', { item_key: item.key })), ...known });
  return task.taskId;
}

/**
 * Whether a work item is to become a task. A task is written once, at its creation: whatever becomes of the item or of
 * the task later, no other is made.
 */
export async function evaluateTask(work: Work, item: WorkItem, standing: readonly string[]): Promise<void> {
  const { query } = work;
  const name = entity.task(item.key);
  const present = await findEntity(query, name);
  if (present?.known != null) return;
  if (!work.rules.triage.isOn && present === undefined) return;
  // A request that stands in the row is in flight or with unknown outcome: its answer, or a list, decides.
  const change = present && (await findChange(query, name));
  const isOpen = change?.sent != null && change.state !== 'held';
  const row = present ?? blankEntity(name, 'task', { item_key: item.key });
  const decision = await decideTask(work, item);
  const isWanted = decision.outcome === 'create' && standing.length === 0;
  if (!isWanted && !isOpen) {
    if (change?.state === 'held') await removeChange(query, name);
    else await dropDifference(query, name);
    return forgetEntity(query, name);
  }
  const next = isWanted ? JSON.stringify(decision.task) : null;
  await saveEntity(query, { ...row, desired: next });
  if (!isWanted) return;
  const target = { name, kind: 'task', lane: 'triage' } as const;
  await addChange(work, target, { renewed: row.desired !== next, effect: 'creation' });
}

/** What the rules say, whether or not it was carried out. */
export async function decideTask({ query, source, rules, moment }: Work, item: WorkItem): Promise<TriageDecision> {
  const since = await triageSince(query, source.connection);
  return rules.triage.decide(item, source.connection, since ?? moment.now);
}
