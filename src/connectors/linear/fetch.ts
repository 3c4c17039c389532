import { z } from 'zod';
import { SyncError } from '../../errors/sync-error.ts';
import type { Clock } from '../../lib/clock.ts';
import type { ItemReference } from '../../model/item.ts';
import type { Fetched } from '../connector.ts';
import { writeJson } from '../kit/json.ts';
import { readLocator } from '../kit/locator.ts';
import type { Api } from './api.ts';
import { ONE_ISSUE } from './queries.ts';
import * as schema from './schema.ts';
import { SHAPES } from './translate.ts';

export const locator = z.object({ issueId: schema.id, teamId: schema.id, identifier: schema.identifier });

const found = z.object({
  issues: z.object({ nodes: z.array(z.unknown()) }),
  teams: z.object({ nodes: z.array(z.unknown()) }),
});

/**
 * Gets one issue by its id, which survives moves. It is called gone only where its team can be seen: a lost right also
 * looks like nothing there.
 */
export async function fetchIssue(
  api: Api,
  clock: Clock,
  reference: ItemReference,
  signal: AbortSignal,
): Promise<Fetched> {
  const { issueId, teamId, identifier } = readLocator(locator, reference);
  const variables = { issueId, teamId };
  const { data } = await api.ask({ document: ONE_ISSUE, variables, data: found, use: 'fetch', signal });
  const [issue] = data.issues.nodes;
  if (issue !== undefined) return { event: SHAPES.issue, body: writeJson(issue) };
  if (data.teams.nodes.length === 0)
    throw new SyncError('not_found', `${identifier} cannot be seen, and its team neither`);
  const seenAt = new Date(clock.now()).toISOString();
  return { event: SHAPES.gone, body: writeJson({ id: issueId, identifier, teamId, seenAt }) };
}
