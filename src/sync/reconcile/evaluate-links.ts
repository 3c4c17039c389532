import { entity, undoableFrom, type Written } from '../../model/change.ts';
import type { LinkReason } from '../../model/link.ts';
import { existingTasks, taskOfSource } from '../../store/cached-tasks.ts';
import {
  blankEntity,
  type EntityRow,
  findEntity,
  json,
  linksOfItem,
  removeOrTombstone,
  saveEntity,
} from '../../store/entities.ts';
import { dropDifference, findChange, findChanges } from '../../store/outbox-rows.ts';
import { currentRevision } from '../../store/revision.ts';
import type { Scope } from '../../store/workspace-scope.ts';
import { addChange, setDifference, type Work } from './changes.ts';
import { desiredLink } from './desired.ts';
import { type KnownRecord, recordEntity } from './evaluate-record.ts';

/**
 * A link as it is known. `externalId` says whose it is: the one of its item where it is ours; absent where that is not known yet.
 */
export interface KnownLink {
  readonly url?: string;
  readonly externalId?: string | null;
  /** The server's own spelling of the address; absent where it is ours. Its records may not show such a link. */
  readonly spelled?: string;
}

/** Brings the links of an item to those that its text, and the tasks that were made for it, ask for. */
export async function evaluateLinks(
  work: Work,
  wanted: ReadonlyMap<string, LinkReason>,
  record: KnownRecord | undefined,
): Promise<void> {
  const { query, item } = work;
  const rows = new Map((await linksOfItem(query, item.key)).map((row) => [row.task_id as string, row]));
  for (const taskId of record?.taskIds ?? []) {
    // Links that nobody wants of us were made by hand, or before our database was lost: they stay as they are.
    const isNew = wanted.has(taskId) && !rows.has(taskId);
    if (isNew && !(await findEntity(query, entity.link(item.key, taskId))))
      rows.set(taskId, await unexplained(work, taskId));
  }
  const names = [...wanted.keys(), ...rows.keys()].map((taskId) => entity.link(item.key, taskId));
  await findChanges(query, names);
  for (const [taskId, reason] of wanted) {
    const name = entity.link(item.key, taskId);
    const ids = { item_key: item.key, task_id: taskId };
    const row = rows.get(taskId) ?? (await findEntity(query, name)) ?? blankEntity(name, 'link', ids);
    await wantLink(work, row, reason);
    rows.delete(taskId);
  }
  for (const row of rows.values()) await unwantLink(work, row);
}

/**
 * Keeps the links of texts that have not changed: a name that leads elsewhere by now, or nowhere, removes no link. A link that
 * was not made yet is not made any more.
 */
export async function keepLinksOfLostNames(
  { query, item, source, rules }: Work,
  wanted: Map<string, LinkReason>,
  resolved: readonly { readonly via?: string }[],
): Promise<void> {
  for (const { task_id, known, desired } of await linksOfItem(query, item.key)) {
    const reason = json<{ readonly reason?: LinkReason }>(desired)?.reason;
    if (known === null || task_id === null || wanted.has(task_id) || reason?.via === undefined) continue;
    const isNamed = rules.links.mentionsOf(item, source).some(({ text }) => text === reason.text);
    if (isNamed && !resolved.some(({ via }) => via === reason.via)) wanted.set(task_id, reason);
  }
}

/** The tasks of an item: those that it is linked to, or is to be, and the one that was created for it. */
export async function standingTasks(query: Scope, itemKey: string): Promise<string[]> {
  const rows = await linksOfItem(query, itemKey);
  const removed = new Set(rows.filter(({ hand }) => hand === 'removed').map(({ task_id }) => task_id));
  const linked = rows.filter(({ desired, known }) => desired !== null || known !== null);
  const made = await madeTask(query, itemKey);
  const ids = [...linked.map(({ task_id }) => task_id as string), ...(made === undefined ? [] : [made])];
  const existing = await existingTasks(query, ids);
  return [...existing].filter((taskId) => !removed.has(taskId)).sort();
}

/** The task that was made for an item, by us or by whoever had its key for a source. */
async function madeTask(query: Scope, itemKey: string): Promise<string | undefined> {
  const row = await findEntity(query, entity.task(itemKey));
  return row?.remote_id ?? (await taskOfSource(query, itemKey))?.taskId;
}

/** The workspace says that the link exists, and we do not know who made it. */
async function unexplained({ query, item, moment }: Work, taskId: string): Promise<EntityRow> {
  const known = JSON.stringify({ url: item.url } satisfies KnownLink);
  const revision = await currentRevision(query);
  const ids = { item_key: item.key, task_id: taskId, known, known_at: moment.now, revision };
  return blankEntity(entity.link(item.key, taskId), 'link', ids);
}

async function wantLink(work: Work, row: EntityRow, reason: LinkReason): Promise<void> {
  const link = desiredLink(work.item);
  if (link === undefined) return;
  const next = JSON.stringify({ ...link, reason });
  const hand = row.hand === 'gone' ? null : row.hand;
  await saveEntity(work.query, { ...row, desired: next, hand });
  // A link that a person took away is not added again while the text goes on naming the task.
  const differs = row.known === null && row.hand !== 'removed';
  const target = { name: row.entity, kind: 'link', lane: 'link' } as const;
  await setDifference(work, target, { differs, renewed: row.desired !== next, effect: 'creation' });
}

async function unwantLink(work: Work, row: EntityRow): Promise<void> {
  const { query } = work;
  if (row.known === null) return abandonLink(work, row);
  // A task that the list does not show may be closed: its links stay.
  if ((await existingTasks(query, [row.task_id as string])).size === 0) return dropDifference(query, row.entity);
  await saveEntity(query, { ...row, desired: null });
  if (row.hand === 'manual') return dropDifference(query, row.entity);
  const { externalId } = json<KnownLink>(row.known) ?? {};
  if (externalId !== undefined && row.remote_id !== null) {
    const renewed = row.desired !== null;
    const target = { name: row.entity, kind: 'link', lane: 'link' } as const;
    const notBefore = undoableFrom(json<Written>(row.written));
    return setDifference(work, target, { differs: true, renewed, effect: 'removal', notBefore });
  }
  // Who made it, and under which id, only the task's links can tell; the answer brings us back here.
  const target = { name: entity.readLinks(row.task_id as string), kind: 'read', lane: 'link' } as const;
  await addChange(work, target, { renewed: true, effect: 'removal' });
}

/** The workspace is known to have nothing, unless a request is in flight: then its answer decides. */
async function abandonLink(work: Work, row: EntityRow): Promise<void> {
  const { query } = work;
  const change = await findChange(query, row.entity);
  // A request that stands in the row is in flight or with unknown outcome.
  if (change === undefined || change.sent === null) {
    await dropDifference(query, row.entity);
    await removeOrTombstone(query, row);
    return strikeTask(work, row.task_id as string);
  }
  await saveEntity(query, { ...row, desired: null });
  const target = { name: row.entity, kind: 'link', lane: 'link' } as const;
  await addChange(work, target, { renewed: row.desired !== null, effect: 'removal' });
}

/** The record's list of tasks is older than what the link's own row said: named anew, the task is to be linked anew. */
async function strikeTask({ query, item, source }: Work, taskId: string): Promise<void> {
  if (item.kind !== 'pull_request') return;
  const row = await findEntity(query, recordEntity(item, source));
  const known = json<KnownRecord>(row?.known ?? null);
  if (!row || !known?.taskIds?.includes(taskId)) return;
  const taskIds = known.taskIds.filter((id) => id !== taskId);
  await saveEntity(query, { ...row, known: JSON.stringify({ ...known, taskIds }) });
}
