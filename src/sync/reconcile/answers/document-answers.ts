import { entity } from '../../../model/change.ts';
import { findEntity, json, saveEntity } from '../../../store/entities.ts';
import { findChange } from '../../../store/outbox-rows.ts';
import { runSequentially } from '../../../store/unit-of-work/unit-of-work.ts';
import type { Answer } from '../../../store/workspace-answers.ts';
import type { Scope } from '../../../store/workspace-scope.ts';
import { addFindings } from '../../../store/workspace-sweeps.ts';
import type { EvaluationContext } from '../context.ts';
import type { KnownDocument } from '../evaluate-documents.ts';
import { documentShape, isOlder, standingDocuments } from './shapes.ts';

/** Whether a document may be attached: see `sync/reconcile/evaluate-documents.ts`. */
export async function applyDocument(
  query: Scope,
  answer: Answer,
  moment: EvaluationContext,
): Promise<readonly string[]> {
  const body = documentShape.parse(answer.body);
  const documentId = answer.entity.slice(entity.readDocument('').length);
  const { taskId = null, updatedAt = null } = body ?? {};
  const standing = { documentId, taskId, updatedAt, isMissing: body === null };
  const { again, isMoved } = await see(query, standing, answer.sentAt, moment);
  if (isMoved) await addFindings(query, [{ what: 'document-moved', entity: entity.document(documentId) }], moment.now);
  return again;
}

export async function applySeenDocuments(query: Scope, answer: Answer, moment: EvaluationContext): Promise<string[]> {
  const { documents } = standingDocuments.parse(answer.body);
  const looks = documents.map((document) => (own: Scope) => see(own, document, answer.sentAt, moment));
  return (await runSequentially(query, looks)).flatMap(({ again }) => again);
}

/** If a document was attached here and is elsewhere now, or nowhere, a person moved it, and it stays so. */
async function see(
  query: Scope,
  { documentId, taskId, isMissing, updatedAt }: KnownDocument & { readonly documentId: string },
  sentAt: number,
  moment: EvaluationContext,
): Promise<{ readonly again: readonly string[]; readonly isMoved: boolean }> {
  const row = await findEntity(query, entity.document(documentId));
  if (!row || (row.known_at ?? 0) >= sentAt || (await findChange(query, row.entity))?.sent != null)
    return { again: [], isMoved: false };
  const before = json<KnownDocument>(row.known);
  // Events come late: one from before it was attached here tells that it is attached nowhere.
  if (!isMissing && isOlder(updatedAt, before?.updatedAt)) return { again: [], isMoved: false };
  const wasOurs = before?.taskId != null && before.taskId === row.task_id;
  const isMoved = wasOurs && taskId !== row.task_id;
  const hand = isMoved ? 'removed' : row.hand;
  const known = JSON.stringify({ taskId, isMissing, ...(updatedAt && { updatedAt }) } satisfies KnownDocument);
  await saveEntity(query, { ...row, known, known_at: moment.now, hand });
  return { again: row.item_key ? [row.item_key] : [], isMoved };
}
