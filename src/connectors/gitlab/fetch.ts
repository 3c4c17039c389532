import { z } from 'zod';
import { asSyncError, SyncError } from '../../errors/sync-error.ts';
import type { Clock } from '../../lib/clock.ts';
import type { ItemReference } from '../../model/item.ts';
import type { Fetched } from '../connector.ts';
import { readAnswer, writeJson } from '../kit/json.ts';
import type { Api } from './api.ts';
import { slim } from './schema.ts';
import { SHAPES } from './translate.ts';

const number = z.string().regex(/^[1-9]\d{0,15}$/);
const locator = z.object({ projectId: number, iid: number });
type Locator = z.infer<typeof locator>;

/**
 * Gets one merge request, by numbers that survive renaming and transfer. It is called gone only where the project's
 * merge requests can be listed without it: a lost right also looks like 404.
 */
export async function fetchMergeRequest(
  api: Api,
  clock: Clock,
  reference: ItemReference,
  signal: AbortSignal,
): Promise<Fetched> {
  const wanted = readLocator(reference);
  const path = `/projects/${wanted.projectId}/merge_requests/${wanted.iid}`;
  try {
    const found = readAnswer(await api.get(path, { signal }), `GET ${path}`);
    return { event: SHAPES.mergeRequest, body: writeJson(slim(found)) };
  } catch (thrown) {
    const error = asSyncError(thrown);
    if (error.code === 'not_found' && (await isMissing(api, wanted, signal))) return asGone(wanted, clock);
    throw error;
  }
}

function readLocator(reference: ItemReference): Locator {
  const result = locator.safeParse(reference.locator);
  if (result.success) return result.data;
  throw new SyncError('internal', `the reference to ${reference.key} cannot be fetched`);
}

/** Whether the list says so; throws `not_found` or `forbidden` where it cannot be read. */
async function isMissing(api: Api, { projectId, iid }: Locator, signal: AbortSignal): Promise<boolean> {
  const path = `/projects/${projectId}/merge_requests`;
  const answer = await api.get(path, { query: `state=all&scope=all&iids[]=${iid}`, signal });
  const list = readAnswer(answer, `GET ${path}`);
  return Array.isArray(list) && list.length === 0;
}

function asGone({ projectId, iid }: Locator, clock: Clock): Fetched {
  const body = { project_id: Number(projectId), iid: Number(iid), seen_at: new Date(clock.now()).toISOString() };
  return { event: SHAPES.gone, body: writeJson(body) };
}
