import { entity } from '../../model/change.ts';
import { isOlder } from '../../model/workspace-time.ts';
import {
  blankEntity,
  documentsOfItem,
  type EntityRow,
  findEntity,
  forgetEntity,
  linksOfItem,
  mayUpdate,
  saveEntity,
} from '../../store/changes/entities.ts';
import { dropDifference, findChange } from '../../store/changes/outbox-rows.ts';
import { runSequentially } from '../../store/unit-of-work/unit-of-work.ts';
import { type Answer, enqueueReads } from '../../store/workspace/workspace-reads.ts';
import { addFindings } from '../../store/workspace/workspace-sweeps.ts';
import { json, type Scope } from '../../store/workspace-scope.ts';
import { documentShape, listedDocuments } from './answers/shapes.ts';
import type { AnswerContext, Evaluation } from './context.ts';
import { enqueueChange } from './enqueue.ts';
import { nameOf } from './link-rules/lookup-names.ts';
import type { Resolved } from './resolve.ts';

/** The known state of a document. */
interface KnownDocument {
  /** Null: attached to no task. */
  readonly taskId: string | null;
  /** There is no such document, or the key may not read it. */
  readonly isMissing: boolean;
  /** The time of this state by the workspace's clock. Absent: the workspace returned none. */
  readonly updatedAt?: string | null;
}

/**
 * Attaches the documents that an item names to its task. A document belongs to one task, so it is read first, and an
 * attached one stays where it is. If several items name a document, the first one claims it.
 */
export async function evaluateDocuments(evaluation: Evaluation, resolved: readonly Resolved[]): Promise<void> {
  const { query, item, rules } = evaluation;
  const prefix = nameOf.document('');
  const documents = rules.documents ? resolved.filter(({ outcome }) => outcome === 'document') : [];
  const ids = documents.map(({ name }) => name.slice(prefix.length));
  const taskId = await firstTask(evaluation);
  for (const row of await documentsOfItem(query, item.key)) {
    if (taskId === undefined || !ids.includes(documentIdOf(row))) await cancelAttachment(query, row);
  }
  if (taskId === undefined) return;
  for (const id of ids) await attachDocument(evaluation, id, taskId);
}

function documentIdOf({ entity: name }: EntityRow): string {
  return name.slice(entity.document('').length);
}

/** Returns the first task with an existing or desired link. */
async function firstTask({ query, item }: Evaluation): Promise<string | undefined> {
  const links = (await linksOfItem(query, item.key)).filter(({ hand }) => hand !== 'removed');
  return links.map(({ task_id }) => task_id as string).sort()[0];
}

/** Enqueues the attachment of a document, or the read that must come first. */
async function attachDocument(evaluation: Evaluation, documentId: string, taskId: string): Promise<void> {
  const { query, item } = evaluation;
  const name = entity.document(documentId);
  const existing = await findEntity(query, name);
  if (existing && existing.item_key !== item.key) return;
  const row = existing ?? blankEntity(name, 'document', { item_key: item.key });
  const known = json<KnownDocument>(row.known);
  if (known?.taskId || known?.isMissing || row.hand === 'removed') return;
  const renewed = row.task_id !== taskId;
  await saveEntity(query, { ...row, task_id: taskId, desired: JSON.stringify({ documentId }) });
  if (known) return enqueueChange(evaluation, 'document', name, { renewed, effect: 'creation' });
  await enqueueChange(evaluation, 'read', entity.readDocument(documentId), { renewed: false, effect: null });
}

/** Cancels a waiting attachment, because the item no longer names the document. An existing attachment stays. */
async function cancelAttachment(query: Scope, row: EntityRow): Promise<void> {
  if (json<KnownDocument>(row.known)?.taskId || (await findChange(query, row.entity))?.sent) return;
  await dropDifference(query, row.entity);
  await dropDifference(query, entity.readDocument(documentIdOf(row)));
  await forgetEntity(query, row.entity);
}

/** Applies the answer to the read of a document. Returns the items to evaluate. */
export async function applyDocument(query: Scope, answer: Answer, context: AnswerContext): Promise<readonly string[]> {
  const body = documentShape.parse(answer.body);
  const documentId = answer.entity.slice(entity.readDocument('').length);
  const { taskId = null, updatedAt = null } = body ?? {};
  const document = { documentId, taskId, updatedAt, isMissing: body === null };
  const { reevaluate, isMoved } = await updateKnownDocument(query, document, answer, context);
  if (isMoved) await addFindings(query, [{ what: 'document-moved', entity: entity.document(documentId) }], context.now);
  return reevaluate;
}

/** Applies documents that an event or the answer to another client contains. Returns the items to evaluate. */
export async function applyListedDocuments(query: Scope, answer: Answer, context: AnswerContext): Promise<string[]> {
  const { documents } = listedDocuments.parse(answer.body);
  const updates = documents.map((document) => (own: Scope) => updateKnownDocument(own, document, answer, context));
  return (await runSequentially(query, updates)).flatMap(({ reevaluate }) => reevaluate);
}

/**
 * Updates the known state. A document that worksync attached and that has another task now was moved by a person, and
 * stays there. If the report may be older than the attachment, the document is read.
 */
async function updateKnownDocument(
  query: Scope,
  { documentId, taskId, isMissing, updatedAt }: KnownDocument & { readonly documentId: string },
  { sentAt, asOf }: Answer,
  { now }: AnswerContext,
) {
  const row = await findEntity(query, entity.document(documentId));
  if (!row || (row.known_at ?? 0) >= sentAt || (await findChange(query, row.entity))?.sent != null)
    return { reevaluate: [], isMoved: false };
  const before = json<KnownDocument>(row.known);
  // An event may arrive late, with the state before worksync attached the document.
  if (!isMissing && isOlder(updatedAt, before?.updatedAt)) return { reevaluate: [], isMoved: false };
  const wasAttachedByUs = before?.taskId != null && before.taskId === row.task_id;
  const isMoved = wasAttachedByUs && taskId !== row.task_id;
  const isNewer = isMissing || (asOf === undefined ? isOlder(before?.updatedAt, updatedAt) : mayUpdate(row, asOf));
  if (isMoved && !isNewer) {
    await enqueueReads(query, [entity.readDocument(documentId)], now, 'backfill');
    return { reevaluate: [], isMoved: false };
  }
  const hand = isMoved ? 'removed' : row.hand;
  const known = JSON.stringify({ taskId, isMissing, ...(updatedAt && { updatedAt }) } satisfies KnownDocument);
  await saveEntity(query, { ...row, known, known_at: now, hand });
  return { reevaluate: row.item_key ? [row.item_key] : [], isMoved };
}
