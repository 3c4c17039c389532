import { z } from 'zod';
import { entity } from '../../../model/change.ts';
import { existingTasks } from '../../../store/cached-tasks.ts';
import { findEntities, linksOfTask } from '../../../store/entities.ts';
import { findChanges } from '../../../store/outbox-rows.ts';
import { routeOffUntil } from '../../../store/server-capabilities.ts';
import type { Answer } from '../../../store/workspace-answers.ts';
import { enqueueReads, requestTaskReads } from '../../../store/workspace-reads.ts';
import type { Scope } from '../../../store/workspace-scope.ts';
import type { EvaluationContext } from '../context.ts';

const ids = z.array(z.string()).default([]);

/** Resources that an event names without carrying them. */
const namedShape = z.object({
  taskIds: ids,
  /** The tasks were created: those that are known already need no read. */
  isNew: z.boolean().default(false),
  /** Tasks whose links changed. */
  linkTaskIds: ids,
  /** The link that was created. */
  workItemId: z.string().optional(),
  documentIds: ids,
});

export type Named = z.input<typeof namedShape>;

/** Requests reads of what an event names. Nobody waits for links and documents: their reads delay no other request. */
export async function applyNamed(query: Scope, answer: Answer, moment: EvaluationContext): Promise<void> {
  const { taskIds, isNew, linkTaskIds, workItemId, documentIds } = namedShape.parse(answer.body);
  const known = isNew ? await existingTasks(query, taskIds) : new Set<string>();
  const changed = taskIds.filter((taskId) => !known.has(taskId));
  const hasSingleRoute = (await routeOffUntil(query, 'getTask', moment.now)) === undefined;
  await requestTaskReads(query, changed, { ...moment, hasSingleRoute });
  const reads: string[] = [];
  for (const taskId of linkTaskIds) {
    if (!(await holdsLink(query, taskId, workItemId))) reads.push(entity.readLinks(taskId));
  }
  // Only documents that an item names matter.
  for (const row of await findEntities(query, documentIds.map(entity.document)))
    reads.push(entity.readDocument(row.entity.slice(entity.document('').length)));
  // Loads all of them by one statement.
  await findChanges(query, reads);
  await enqueueReads(query, reads, moment.now, 'backfill');
}

/** The event reports a link that worksync wrote itself, or has read since. */
async function holdsLink(query: Scope, taskId: string, workItemId: string | undefined): Promise<boolean> {
  if (workItemId === undefined) return false;
  const links = await linksOfTask(query, taskId);
  return links.some((link) => link.known !== null && link.remote_id === workItemId);
}
