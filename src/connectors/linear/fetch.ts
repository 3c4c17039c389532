import { z } from 'zod';
import { SyncError } from '../../errors/sync-error.ts';
import type { Clock } from '../../lib/clock.ts';
import type { ItemReference } from '../../model/item.ts';
import type { Fetched } from '../connector.ts';
import { writeJson } from '../kit/json.ts';
import { readLocator } from '../kit/locator.ts';
import { unjudged } from '../kit/outcome.ts';
import type { Api } from './api.ts';
import { ONE_ISSUE } from './queries.ts';
import * as schema from './schema.ts';
import { SHAPES } from './translate.ts';

export const locator = z.object({
  issueId: schema.id,
  teamId: schema.id.optional(),
  identifier: schema.identifier.optional(),
  isFollowed: unjudged,
});

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
  const { issueId, teamId, identifier, isFollowed } = readLocator(locator, reference);
  // No team has the id of an issue: where the team is not known, none is found.
  const variables = { issueId, teamId: teamId ?? issueId };
  const { data } = await api.ask({ document: ONE_ISSUE, variables, data: found, use: 'fetch', keep: true, signal });
  const [issue] = data.issues.nodes;
  const event = isFollowed ? SHAPES.judged : SHAPES.issue;
  if (issue !== undefined) return { event, body: writeJson(issue) };
  // Nothing is held of it, and nobody can tell whether it is gone or hidden.
  if (teamId === undefined || identifier === undefined) return { event: SHAPES.missing, body: writeJson({}) };
  if (data.teams.nodes.length === 0)
    throw new SyncError('not_found', `${identifier} cannot be seen, and its team neither`);
  const seenAt = new Date(clock.now()).toISOString();
  return { event: SHAPES.gone, body: writeJson({ id: issueId, identifier, teamId, seenAt }) };
}
