import { entity } from '../../model/change.ts';
import {
  blankEntity,
  documentsOfItem,
  type EntityRow,
  findEntity,
  forgetEntity,
  json,
  linksOfItem,
  saveEntity,
} from '../../store/entities.ts';
import { dropDifference, findChange } from '../../store/outbox-rows.ts';
import { addChange, type Work } from './changes.ts';
import { nameOf } from './link-rules/item-names-of.ts';
import type { Resolved } from './resolve.ts';

/** A document as the workspace last told it. */
export interface KnownDocument {
  /** Null: attached to no task. */
  readonly taskId: string | null;
  /** There is no such document, or we may not see it. */
  readonly isMissing: boolean;
  /** Of this state, by the workspace's own clock; absent where it does not tell. */
  readonly updatedAt?: string | null;
}

/**
 * Attaches the documents that an item names to its task. A document belongs to one task: so it is looked at first, and one
 * that is attached already stays where it is. Of several items that name it, the first one claims it.
 */
export async function evaluateDocuments(work: Work, resolved: readonly Resolved[]): Promise<void> {
  if (!work.rules.documents) return;
  const { query, item } = work;
  const prefix = nameOf.document('');
  const ids = resolved.filter(({ outcome }) => outcome === 'document').map(({ name }) => name.slice(prefix.length));
  const taskId = await firstTask(work);
  for (const row of await documentsOfItem(query, item.key)) {
    if (taskId === undefined || !ids.includes(idOf(row))) await letGo(work, row);
  }
  if (taskId === undefined) return;
  for (const id of ids) await wantAttached(work, id, taskId);
}

function idOf({ entity: name }: EntityRow): string {
  return name.slice(entity.document('').length);
}

/** The first task that the item is, or is to be, linked to. */
async function firstTask({ query, item }: Work): Promise<string | undefined> {
  const links = (await linksOfItem(query, item.key)).filter(({ hand }) => hand !== 'removed');
  return links.map(({ task_id }) => task_id as string).sort()[0];
}

async function wantAttached(work: Work, documentId: string, taskId: string): Promise<void> {
  const { query, item } = work;
  const name = entity.document(documentId);
  const present = await findEntity(query, name);
  if (present && present.item_key !== item.key) return;
  const row = present ?? blankEntity(name, 'document', { item_key: item.key });
  const known = json<KnownDocument>(row.known);
  if (known?.taskId || known?.isMissing || row.hand === 'removed') return;
  const isRenewed = row.task_id !== taskId;
  await saveEntity(query, { ...row, task_id: taskId, desired: JSON.stringify({ documentId }) });
  if (known) {
    const target = { name, kind: 'document', lane: 'link' } as const;
    return addChange(work, target, { renewed: isRenewed, effect: 'creation' });
  }
  const read = { name: entity.readDocument(documentId), kind: 'read', lane: 'link' } as const;
  await addChange(work, read, { renewed: false, effect: null });
}

/** Not named any more: what is attached stays so, what is not yet is not attached. */
async function letGo({ query }: Work, row: EntityRow): Promise<void> {
  if (json<KnownDocument>(row.known)?.taskId || (await findChange(query, row.entity))?.sent) return;
  await dropDifference(query, row.entity);
  await dropDifference(query, entity.readDocument(idOf(row)));
  await forgetEntity(query, row.entity);
}
