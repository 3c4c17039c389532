import { z } from 'zod';
import { asSyncError } from '../../errors/sync-error.ts';
import type { Clock } from '../../lib/clock.ts';
import type { ItemReference } from '../../model/item.ts';
import type { Fetched } from '../connector.ts';
import { writeJson } from '../kit/json.ts';
import { readLocator } from '../kit/locator.ts';
import type { Rest } from '../kit/rest.ts';
import { id } from './schema.ts';
import { SHAPES } from './translate.ts';

const locator = z.object({ id, projectId: id, identifier: z.string().regex(/^[^/?%]{1,200}$/) });

/** Gets one item. 410 says that it is gone; 404 proves nothing, since a lost right may look the same. */
export async function fetchItem(
  feed: Rest | undefined,
  clock: Clock,
  reference: ItemReference,
  signal: AbortSignal,
): Promise<Fetched> {
  const data = readLocator(locator, reference);
  // Then the state from webhooks stays.
  if (!feed) return { event: SHAPES.unknown, body: writeJson({}) };
  try {
    const { content } = await feed.get(`/items/${data.id}`, {}, signal, true);
    return { event: SHAPES.item, body: writeJson(content) };
  } catch (thrown) {
    const error = asSyncError(thrown);
    if (error.status !== 410) throw error;
    const seenAt = new Date(clock.now()).toISOString();
    const body = { id: data.id, project: { id: data.projectId }, identifier: data.identifier, seenAt };
    return { event: SHAPES.gone, body: writeJson(body) };
  }
}
