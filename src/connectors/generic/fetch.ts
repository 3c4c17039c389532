import { asSyncError } from '../../errors/sync-error.ts';
import type { Clock } from '../../lib/clock.ts';
import type { ItemReference } from '../../model/item.ts';
import type { Fetched } from '../connector.ts';
import { writeJson } from '../kit/json.ts';
import type { Rest } from '../kit/rest.ts';
import { locatorOf } from '../kit/tracker-rows.ts';
import { PARTS, SHAPES } from './translate.ts';

/** Gets one item. 410 says that it is gone; 404 proves nothing, since a lost right may look the same. */
export async function fetchItem(
  feed: Rest | undefined,
  clock: Clock,
  reference: ItemReference,
  signal: AbortSignal,
): Promise<Fetched> {
  const { id, container, identifier } = locatorOf(PARTS, reference);
  // What webhooks have told stands then.
  if (!feed) return { event: SHAPES.unknown, body: writeJson({}) };
  try {
    const { content } = await feed.get(`/items/${id}`, {}, signal, true);
    return { event: SHAPES.item, body: writeJson(content) };
  } catch (thrown) {
    const error = asSyncError(thrown);
    if (error.status !== 410) throw error;
    const seenAt = new Date(clock.now()).toISOString();
    return { event: SHAPES.gone, body: writeJson({ id, project: { id: container }, identifier, seenAt }) };
  }
}
