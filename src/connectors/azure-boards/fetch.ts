import { z } from 'zod';
import { asSyncError } from '../../errors/sync-error.ts';
import type { Clock } from '../../lib/clock.ts';
import type { ItemReference } from '../../model/item.ts';
import type { Fetched } from '../connector.ts';
import { parseAnswer, writeJson } from '../kit/json.ts';
import { readLocator } from '../kit/locator.ts';
import { unjudged } from '../kit/outcome.ts';
import type { Api } from './api.ts';
import { enrich } from './enrich.ts';
import type { Directory } from './projects.ts';
import * as schema from './schema.ts';
import { SHAPES } from './translate.ts';

export const locator = z.object({
  id: z.string().regex(/^[1-9]\d{0,14}$/),
  projectId: schema.projectId.optional(),
  isFollowed: unjudged,
});

/** Of a work item that is held. */
export const heldLocator = locator.required({ projectId: true });

const placed = z.object({ fields: z.object({ 'System.TeamProject': z.string().min(1) }) });

/**
 * Gets one work item by its number, which survives moves. It is called gone only where its project can be seen: a lost
 * right also looks like 404, and so does one in the recycle bin, which comes back when it is restored.
 */
export async function fetchWorkItem(
  api: Api,
  directory: Directory,
  clock: Clock,
  reference: ItemReference,
  signal: AbortSignal,
): Promise<Fetched> {
  const { id, projectId, isFollowed } = readLocator(locator, reference);
  const path = `/_apis/wit/workitems/${id}`;
  try {
    const { content } = await api.get(path, { fields: schema.FIELDS }, signal, schema.KEPT);
    const data = parseAnswer(placed, content, `GET ${path}`);
    const project = await directory.project(data.fields['System.TeamProject'], signal);
    const event = isFollowed ? SHAPES.judged : SHAPES.workItem;
    return { event, body: writeJson(await enrich(content, project, directory, signal)) };
  } catch (thrown) {
    const error = asSyncError(thrown);
    if (error.code !== 'not_found') throw error;
    // Nothing is held of it, and nobody can tell whether it is gone or hidden.
    if (projectId === undefined) return { event: SHAPES.missing, body: writeJson({}) };
    // Asked anew: what was kept may be from before the right was lost.
    await api.get(`/_apis/projects/${projectId}`, {}, signal);
    const seenAt = new Date(clock.now()).toISOString();
    return { event: SHAPES.gone, body: writeJson({ id: Number(id), projectId, seenAt }) };
  }
}
