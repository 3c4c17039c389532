import { z } from 'zod';
import { asSyncError } from '../../errors/sync-error.ts';
import type { Clock } from '../../lib/clock.ts';
import type { ItemReference } from '../../model/item.ts';
import type { Fetched } from '../connector.ts';
import { parseAnswer, writeJson } from '../kit/json.ts';
import { readLocator } from '../kit/locator.ts';
import { unjudged } from '../kit/outcome.ts';
import type { Api } from './api.ts';
import type { Options } from './options.ts';
import * as schema from './schema.ts';
import { SHAPES } from './translate.ts';

export const locator = z.object({
  id: schema.id,
  projectId: schema.id.optional(),
  shortId: schema.shortId.optional(),
  isFollowed: unjudged,
});

export function pathOf({ organization }: Options, id: string): string {
  return `/organizations/${organization}/issues/${id}/`;
}

/**
 * Gets one issue. It is gone where another one comes in its place, with which it was merged, and where there is none; the latter
 * only if its project can be seen, since a lost right also looks like 404.
 */
export async function fetchIssue(
  api: Api,
  { options, clock }: { readonly options: Options; readonly clock: Clock },
  reference: ItemReference,
  signal: AbortSignal,
): Promise<Fetched> {
  const { id, projectId, shortId, isFollowed } = readLocator(locator, reference);
  const path = pathOf(options, id);
  const found = await findIssue(api, path, signal);
  if (found?.id === id)
    return { event: isFollowed ? SHAPES.judged : SHAPES.issue, body: writeJson(schema.slim(found)) };
  // Nothing is held of it, and nobody can tell whether it is gone or hidden.
  if (projectId === undefined || shortId === undefined) return { event: SHAPES.missing, body: writeJson({}) };
  if (!found) await api.get(`/projects/${options.organization}/${projectId}/`, signal);
  const seenAt = new Date(clock.now()).toISOString();
  return { event: SHAPES.gone, body: writeJson({ id, shortId, projectId, seenAt }) };
}

async function findIssue(api: Api, path: string, signal: AbortSignal): Promise<{ id: string } | undefined> {
  try {
    const data = parseAnswer(
      z.looseObject({ id: schema.id }),
      (await api.get(path, signal, schema.KEPT)).content,
      `GET ${path}`,
    );
    return data;
  } catch (thrown) {
    if (asSyncError(thrown).code !== 'not_found') throw thrown;
    return undefined;
  }
}
