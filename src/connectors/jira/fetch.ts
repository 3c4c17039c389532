import { z } from 'zod';
import { asSyncError, SyncError } from '../../errors/sync-error.ts';
import type { Clock } from '../../lib/clock.ts';
import type { ItemReference } from '../../model/item.ts';
import type { Fetched } from '../connector.ts';
import { writeJson } from '../kit/json.ts';
import type { Api } from './api.ts';
import { readProject } from './projects.ts';
import * as schema from './schema.ts';
import { SHAPES } from './translate.ts';

const locator = z.object({ issueId: schema.id, projectId: schema.id, issueKey: schema.key });

/** The issue that a reference means. Throws `internal`: references are made by this connector alone. */
export function readLocator(reference: ItemReference): z.infer<typeof locator> {
  const result = locator.safeParse(reference.locator);
  if (result.success) return result.data;
  throw new SyncError('internal', `the reference to ${reference.key} cannot be fetched`);
}

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
  const { issueId, projectId, issueKey } = readLocator(reference);
  try {
    const { content } = await api.get(`/rest/api/3/issue/${issueId}`, { fields: schema.FIELDS }, signal);
    return { event: SHAPES.issue, body: writeJson(schema.slim(content)) };
  } catch (thrown) {
    const error = asSyncError(thrown);
    if (error.code !== 'not_found') throw error;
    await readProject(api, projectId, signal);
    const seenAt = new Date(clock.now()).toISOString();
    return { event: SHAPES.gone, body: writeJson({ id: issueId, key: issueKey, projectId, seenAt }) };
  }
}
