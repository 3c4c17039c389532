import { entity, undoableFrom, type Written } from '../../model/change.ts';
import { externalIdOf, type Item, type LinkReason } from '../../model/item.ts';
import { cut, LONGEST_TITLE } from '../../model/text-limits.ts';
import {
  blankEntity,
  type EntityRow,
  findEntity,
  linksOfItem,
  removeOrTombstone,
  saveEntity,
} from '../../store/changes/entities.ts';
import { dropDifference, findChange, findChanges } from '../../store/changes/outbox-rows.ts';
import { currentRevision } from '../../store/meta.ts';
import { existingTasks, taskOfSource } from '../../store/tasks/stored-tasks.ts';
import { json, type Scope } from '../../store/workspace-scope.ts';
import type { Evaluation } from './context.ts';
import { enqueueChange, enqueueDifference } from './enqueue.ts';
import { type KnownRecord, recordEntity } from './evaluate-record.ts';

/** The known state of a link. */
export interface KnownLink {
  readonly url?: string;
  /** The owner: the id of the item if worksync owns the link. Absent: the owner is not known yet. */
  readonly externalId?: string | null;
  /**
   * The server's own spelling of the address. Absent: it is ours. The server's records may not show a link with another
   * spelling.
   */
  readonly spelled?: string;
}

/** Returns the address of a link, as worksync knows it or wants it. */
export function urlOfLink(row: EntityRow): string | undefined {
  return json<KnownLink>(row.known ?? row.desired)?.url;
}

/** Enqueues the differences between the desired links of an item and the known ones. */
export async function evaluateLinks(
  evaluation: Evaluation,
  desired: ReadonlyMap<string, LinkReason>,
  record: KnownRecord | undefined,
): Promise<void> {
  const { query, item } = evaluation;
  const rows = new Map((await linksOfItem(query, item.key)).map((row) => [row.task_id as string, row]));
  for (const taskId of record?.taskIds ?? []) {
    // Links that are not desired were made by hand, or before the database was lost: they stay.
    const isNew = desired.has(taskId) && !rows.has(taskId);
    if (isNew && !(await findEntity(query, entity.link(item.key, taskId))))
      rows.set(taskId, await linkOfUnknownOwner(evaluation, taskId));
  }
  const links = [...desired].map(([taskId, reason]) => ({ taskId, reason, name: entity.link(item.key, taskId) }));
  await findChanges(query, [...links.map(({ name }) => name), ...[...rows.values()].map((row) => row.entity)]);
  for (const { taskId, reason, name } of links) {
    const ids = { item_key: item.key, task_id: taskId };
    const row = rows.get(taskId) ?? (await findEntity(query, name)) ?? blankEntity(name, 'link', ids);
    await addLink(evaluation, row, reason);
    rows.delete(taskId);
  }
  for (const row of rows.values()) await removeLink(evaluation, row);
}

/**
 * Keeps the existing links of an unchanged text: a name that now means another item, or none, removes no link. Links
 * that do not exist yet are no longer made.
 */
export async function keepLinksOfLostNames(
  { query, item, connection, rules }: Evaluation,
  desired: Map<string, LinkReason>,
  resolved: readonly { readonly via?: string }[],
): Promise<void> {
  for (const { task_id, known, desired: stored } of await linksOfItem(query, item.key)) {
    const reason = json<{ readonly reason?: LinkReason }>(stored)?.reason;
    if (known === null || task_id === null || desired.has(task_id) || reason?.via === undefined) continue;
    const isNamed = rules.links.mentionsOf(item, connection).some(({ text }) => text === reason.text);
    if (isNamed && !resolved.some(({ via }) => via === reason.via)) desired.set(task_id, reason);
  }
}

/** Returns the tasks of an item: those with an existing or desired link, and the task that was created for it. */
export async function tasksOfItem(query: Scope, itemKey: string): Promise<string[]> {
  const rows = await linksOfItem(query, itemKey);
  const removed = new Set(rows.filter(({ hand }) => hand === 'removed').map(({ task_id }) => task_id));
  const linked = rows.filter(({ desired, known }) => desired !== null || known !== null);
  const created = await createdTask(query, itemKey);
  const ids = [...linked.map(({ task_id }) => task_id as string), ...(created === undefined ? [] : [created])];
  const existing = await existingTasks(query, ids);
  return [...existing].filter((taskId) => !removed.has(taskId)).sort();
}

/** Returns the task that was created for an item, by worksync or by another client that set its source. */
async function createdTask(query: Scope, itemKey: string): Promise<string | undefined> {
  const row = await findEntity(query, entity.task(itemKey));
  return row?.remote_id ?? (await taskOfSource(query, itemKey))?.taskId;
}

/** Returns the row of a link that the workspace reports, although worksync does not know its owner. */
async function linkOfUnknownOwner({ query, item, now }: Evaluation, taskId: string): Promise<EntityRow> {
  const known = JSON.stringify({ url: item.url } satisfies KnownLink);
  const revision = await currentRevision(query);
  const ids = { item_key: item.key, task_id: taskId, known, known_at: now, revision };
  return blankEntity(entity.link(item.key, taskId), 'link', ids);
}

async function addLink(evaluation: Evaluation, row: EntityRow, reason: LinkReason): Promise<void> {
  const link = desiredLink(evaluation.item);
  if (link === undefined) return;
  const desired = JSON.stringify({ ...link, reason: withNamedAt(reason, row, evaluation) });
  const hand = row.hand === 'gone' ? null : row.hand;
  await saveEntity(evaluation.query, { ...row, desired, hand });
  // A link that a person removed is not added again while the text still names the task.
  const differs = row.known === null && row.hand !== 'removed';
  await enqueueDifference(evaluation, 'link', row.entity, {
    differs,
    renewed: row.desired !== desired,
    effect: 'creation',
  });
}

/** Dates a reason by the provider's time of the state that named the task first. */
function withNamedAt(reason: LinkReason, row: EntityRow, { item }: Evaluation): LinkReason {
  const before = json<{ readonly reason?: LinkReason }>(row.desired)?.reason;
  return { ...reason, namedAt: before?.namedAt ?? item.updatedAt };
}

/** Returns the desired work-item link of a task (W39); undefined while the item has no address. */
export function desiredLink(item: Item) {
  if (!item.url) return undefined;
  return {
    url: item.url,
    ...(item.title !== undefined && { title: cut(item.title, LONGEST_TITLE) }),
    externalId: externalIdOf(item.key),
    provider: item.connector,
  };
}

async function removeLink(evaluation: Evaluation, row: EntityRow): Promise<void> {
  const { query } = evaluation;
  if (row.known === null) return cancelLink(evaluation, row);
  // A task that the list does not contain may be closed: its links stay.
  if ((await existingTasks(query, [row.task_id as string])).size === 0) return dropDifference(query, row.entity);
  await saveEntity(query, { ...row, desired: null });
  if (row.hand === 'manual') return dropDifference(query, row.entity);
  const { externalId } = json<KnownLink>(row.known) ?? {};
  if (externalId !== undefined && row.remote_id !== null) {
    const renewed = row.desired !== null;
    const notBefore = undoableFrom(json<Written>(row.written));
    return enqueueChange(evaluation, 'link', row.entity, { renewed, effect: 'removal', notBefore });
  }
  // Only the task's links show the owner and the id. Their answer causes another evaluation.
  await enqueueChange(evaluation, 'read', entity.readLinks(row.task_id as string), {
    renewed: true,
    effect: 'removal',
  });
}

/** Cancels a link that the workspace does not have. If a request is in flight, its answer decides. */
async function cancelLink(evaluation: Evaluation, row: EntityRow): Promise<void> {
  const { query } = evaluation;
  const change = await findChange(query, row.entity);
  // A stored request is in flight or has an unknown outcome.
  if (change === undefined || change.sent === null) {
    await dropDifference(query, row.entity);
    await removeOrTombstone(query, row);
    return removeTaskFromRecord(evaluation, row.task_id as string);
  }
  await saveEntity(query, { ...row, desired: null });
  await enqueueChange(evaluation, 'link', row.entity, { renewed: row.desired !== null, effect: 'removal' });
}

/**
 * Removes a task from the known record, whose list is older than the row of the link. A new mention must add the link
 * again.
 */
async function removeTaskFromRecord({ query, item, connection }: Evaluation, taskId: string): Promise<void> {
  if (item.kind !== 'pull_request') return;
  const row = await findEntity(query, recordEntity(item, connection));
  const known = json<KnownRecord>(row?.known ?? null);
  if (!row || !known?.taskIds?.includes(taskId)) return;
  const taskIds = known.taskIds.filter((id) => id !== taskId);
  await saveEntity(query, { ...row, known: JSON.stringify({ ...known, taskIds }) });
}
