import { z } from 'zod';
import type { StandingComment } from '../../model/comment.ts';
import type { Item, ItemReference } from '../../model/item.ts';
import type { Translation } from '../connector.ts';

/**
 * The part of a locator that says: the webhook did not tell whether this is followed. `fetch` then names its shape so that
 * `translate` judges what was fetched.
 */
export const UNJUDGED = { isFollowed: 'unknown' } as const;
export const unjudged = z.literal('unknown').optional();

/** What a fetch becomes that found nothing, where nothing is held that could be gone. */
export const NOT_FOUND: Translation = { outcome: 'ignored', reason: 'not_found' };

export const NOT_FOLLOWED: Translation = { outcome: 'ignored', reason: 'event_not_followed' };

/** @param word what the vendor calls where items lie */
export function outOfScope(word: string): Translation {
  return { outcome: 'ignored', reason: `${word}_not_in_scope` };
}

/** What tells of a comment on one thing. */
export function withComment(translation: Translation, comment: StandingComment | undefined): Translation {
  return comment && translation.outcome === 'references' ? { ...translation, comment } : translation;
}

/** Items that can be taken as they are, and references to those that cannot. */
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
