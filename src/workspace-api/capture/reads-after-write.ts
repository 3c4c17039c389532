import { entity } from '../../model/change.ts';
import { findEntity, json } from '../../store/entities.ts';
import { readRecordsRoute } from '../../store/server-capabilities.ts';
import { enqueueReads } from '../../store/workspace-reads.ts';
import type { Scope } from '../../store/workspace-scope.ts';
import type { Matched } from './route-of.ts';

/**
 * Requests reads of what a write may have changed.
 *
 * @returns whether there is anything to read
 */
export async function enqueueReadsAfter(
  query: Scope,
  { route, ids }: Matched,
  sent: unknown,
  now: number,
): Promise<boolean> {
  const reads = await readsFor(query, { route, ids }, sent);
  await enqueueReads(query, reads, now);
  return reads.length > 0;
}

async function readsFor(query: Scope, { route, ids }: Matched, sent: unknown): Promise<string[]> {
  switch (route) {
    case 'addWorkItem':
    case 'removeWorkItem':
      return [entity.readLinks(ids['taskId'] ?? '')];
    case 'createBug':
    case 'createIdea':
    case 'updateTask':
      return [entity.readTasks];
    case 'createPullRequest':
    case 'recordPullRequest':
    case 'updatePullRequest':
      return readsOfRecord(query, sent);
    case 'attachDocument':
    case 'detachDocument':
    case 'deleteDocument':
      return readsOfDocument(query, ids['documentId'] ?? (sent as Fields)?.['documentId']);
    default:
      return [];
  }
}

type Fields = Readonly<Record<string, unknown>> | undefined;

/** Records are found by their branch: the whole list may be long. */
async function readsOfRecord(query: Scope, sent: unknown): Promise<string[]> {
  if ((await readRecordsRoute(query)).state !== 'open') return [];
  const { provider, repoId, identifier, headBranch } = (sent as Fields) ?? {};
  if (typeof provider !== 'string' || (typeof repoId !== 'string' && typeof repoId !== 'number')) return [];
  const held = await findEntity(query, entity.pullRequest(provider, String(repoId), String(identifier)));
  const known: Fields = json(held?.known ?? null);
  const branch = known?.['headBranch'] ?? headBranch;
  return typeof branch === 'string' ? [entity.readRecords(provider, String(repoId), branch)] : [];
}

/** Only those that were attached here are followed. */
async function readsOfDocument(query: Scope, documentId: unknown): Promise<string[]> {
  if (typeof documentId !== 'string' || !(await findEntity(query, entity.document(documentId)))) return [];
  return [entity.readDocument(documentId)];
}
