import { z } from 'zod';
import type { Item, ItemReference } from '../../model/item.ts';
import type { Translation } from '../connector.ts';

/**
 * The part of a locator that says: the webhook did not tell whether this is in scope. `fetch` then marks what it gets, so
 * that `translate` judges it.
 */
export const UNJUDGED = { isFollowed: 'unknown' } as const;
export const unjudged = z.literal('unknown').optional();

/** The outcome of a fetch that found nothing, of an item that worksync does not have. */
export const NOT_FOUND: Translation = { outcome: 'ignored', reason: 'not_found' };

export const NOT_FOLLOWED: Translation = { outcome: 'ignored', reason: 'event_not_followed' };

/** @param word the vendor's word for a container of items */
export function outOfScope(word: string): Translation {
  return { outcome: 'ignored', reason: `${word}_not_in_scope` };
}

/** The items that have all they need, and references to the others. */
export function itemsOrReferences<Some extends Item>(
  items: readonly Some[],
  isWhole: (item: Some) => boolean,
  reference: (item: Some) => ItemReference,
): Translation {
  const references = items.filter((item) => !isWhole(item)).map(reference);
  if (references.length === 0) return { outcome: 'items', items };
  const whole = items.filter(isWhole);
  return whole.length === 0 ? { outcome: 'references', references } : { outcome: 'items', items: whole, references };
}
