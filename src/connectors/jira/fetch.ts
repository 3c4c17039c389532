import { z } from 'zod';
import { asSyncError } from '../../errors/sync-error.ts';
import type { Clock } from '../../lib/clock.ts';
import type { ItemReference } from '../../model/item.ts';
import type { Fetched } from '../connector.ts';
import { writeJson } from '../kit/json.ts';
import { readLocator } from '../kit/locator.ts';
import { unjudged } from '../kit/outcome.ts';
import type { Api } from './api.ts';
import { readProject } from './projects.ts';
import * as schema from './schema.ts';
import { SHAPES } from './translate.ts';

export const locator = z.object({
  issueId: schema.id,
  projectId: schema.id.optional(),
  issueKey: schema.key.optional(),
  isFollowed: unjudged,
});

/**
 * Gets one issue by its id, which survives moves. It is called gone only where its project can be seen: a lost right also
 * looks like 404.
 */
export async function fetchIssue(
  api: Api,
  clock: Clock,
  reference: ItemReference,
  signal: AbortSignal,
): Promise<Fetched> {
  const { issueId, projectId, issueKey, isFollowed } = readLocator(locator, reference);
  try {
    const { content } = await api.get(`/rest/api/3/issue/${issueId}`, { fields: schema.FIELDS }, signal, schema.KEPT);
    const event = isFollowed ? SHAPES.judged : SHAPES.issue;
    return { event, body: writeJson(schema.slim(content)) };
  } catch (thrown) {
    const error = asSyncError(thrown);
    if (error.code !== 'not_found') throw error;
    // Nothing is held of it, and nobody can tell whether it is gone or hidden.
    if (projectId === undefined || issueKey === undefined) return { event: SHAPES.missing, body: writeJson({}) };
    await readProject(api, projectId, signal);
    const seenAt = new Date(clock.now()).toISOString();
    return { event: SHAPES.gone, body: writeJson({ id: issueId, key: issueKey, projectId, seenAt }) };
  }
}
