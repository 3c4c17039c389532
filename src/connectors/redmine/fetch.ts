import { z } from 'zod';
import { asSyncError } from '../../errors/sync-error.ts';
import type { Clock } from '../../lib/clock.ts';
import type { Shape } from '../../lib/shape.ts';
import type { ItemReference } from '../../model/item.ts';
import type { Fetched } from '../connector.ts';
import { parseAnswer, writeJson } from '../kit/json.ts';
import { readLocator } from '../kit/locator.ts';
import { unjudged } from '../kit/outcome.ts';
import type { Api } from './api.ts';
import { readProject } from './projects.ts';
import * as schema from './schema.ts';
import type { Statuses } from './statuses.ts';
import { SHAPES } from './translate.ts';

const number = z.string().regex(/^[1-9]\d{0,15}$/);
export const locator = z.object({ issueId: number, projectId: number.optional(), isFollowed: unjudged });

const found = z.object({ issue: z.looseObject({ project: z.looseObject({ id: schema.id }) }) });

const KEPT: Shape = { issue: schema.KEPT };

/**
 * Gets one issue. What may not be seen is 403 here, and 404 does not exist; either is called gone only where its project can be
 * read, since a lost right, or something else at a wrong address, answers so too.
 */
export async function fetchIssue(
  api: Api,
  { statuses, clock }: { readonly statuses: Statuses; readonly clock: Clock },
  reference: ItemReference,
  signal: AbortSignal,
): Promise<Fetched> {
  const { issueId, projectId, isFollowed } = readLocator(locator, reference);
  const isJudged = isFollowed === 'unknown';
  const path = `/issues/${issueId}.json`;
  try {
    const data = parseAnswer(found, (await api.get(path, {}, signal, KEPT)).content, `GET ${path}`);
    const { issue } = data;
    const body = {
      issue: schema.slim(issue),
      statuses: await statuses.beside([issue], signal),
      ...(isJudged ? { project: await readProject(api, String(issue.project.id), signal) } : {}),
    };
    return { event: SHAPES.issue, body: writeJson(body) };
  } catch (thrown) {
    const error = asSyncError(thrown);
    if (error.code !== 'not_found' && error.code !== 'forbidden') throw error;
  }
  // Nothing is held of it, and nobody can tell whether it is gone or hidden.
  if (projectId === undefined) return { event: SHAPES.missing, body: writeJson({}) };
  const project = await readProject(api, projectId, signal);
  const seenAt = new Date(clock.now()).toISOString();
  const body = { id: Number(issueId), projectId: Number(projectId), seenAt, ...(isJudged ? { project } : {}) };
  return { event: SHAPES.gone, body: writeJson(body) };
}
