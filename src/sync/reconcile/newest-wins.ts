// Design: src/decisions/items.md

import { isDeepStrictEqual } from 'node:util';
import type { DeliveryOrigin } from '../../model/delivery.ts';
import { type Item, isFinished, type Review } from '../../model/item.ts';
import type { StoredItem } from '../../store/items.ts';

// Newest wins, field by field.
//
// A delivery carries some fields of an item as of one time of the provider's clock. Each stored field has its own time:
// an older delivery may still fill a field that newer ones do not carry, and changes no other. Two contents of one time
// cannot be ordered, so the object is fetched, and the fetched content wins the tie. Until then the stored content
// stays, because old events may be repeated. A state that follows a creation, or finishes an item, is certainly later. So
// is a decision of the reviewers, because GitLab reports an approval with the time before it.
//
// Existence has no time, because removing and restoring may not change the provider's time: a fetch is the authority.
// Any other report that an item is gone is a guess, and is ignored if it is older than the stored state. A report that
// a gone item exists is only a reason to fetch it.
//
// Reviews are merged, not replaced, because vendors report them one by one. Each review is a field of its own, by its id,
// and is ordered by its own time, so it is never contested and needs no fetch. The same holds for the last time at which the
// item was finished, and for the earliest time since which it is open again: older deliveries may show them.

/** Orders two states of an item. If one of them has no version, only their times count. */
type Stamp = Pick<Item, 'updatedAt' | 'version'>;

/**
 * `needsFetch`: only the object itself can settle the state, so it must be fetched. The stored state until then is a
 * guess.
 */
export type MergeResult =
  /** No stored field changes. */
  | { readonly outcome: 'unchanged'; readonly needsFetch: boolean }
  | { readonly outcome: 'superseded'; readonly needsFetch: boolean }
  /** `stored` is the new state. */
  | { readonly outcome: 'applied'; readonly stored: StoredItem; readonly needsFetch: boolean };

/** How far a provider's clock may be ahead of ours before its times are clamped, milliseconds. */
const MAX_AHEAD_MS = 5 * 60_000;

/** Fields that name the item, order its states, or have no time. They are not content. */
const NOT_CONTENT: ReadonlySet<string> = new Set([
  'key',
  'kind',
  'connector',
  'host',
  'updatedAt',
  'toldAt',
  'version',
  'isCreation',
  'gone',
]);

const NEVER: Stamp = { updatedAt: Number.NEGATIVE_INFINITY };

/** The most reviews that are stored with an item; the oldest are dropped. */
const MAX_REVIEWS = 100;

/** The prefix of a review's name among the fields: `reviews.80`. */
const REVIEW = 'reviews.';

type Fields = Readonly<Record<string, unknown>>;

/**
 * Replaces a time in the future by the time of receipt, because it would block all later states until then.
 *
 * Our own clock may have been set back. A state that the provider dates after the stored one never becomes older than
 * it by this: it ties with it, and is fetched. A state that the provider does not date after the stored one ties with
 * it too, because the stored time may be a receipt of the wrong clock. This also holds after our clock is right again.
 *
 * @param receivedAt epoch milliseconds
 * @param stored the times of the stored state
 */
export function clampTime<Any extends Item>(
  item: Any,
  receivedAt: number,
  stored: Pick<Item, 'updatedAt' | 'toldAt'> = { updatedAt: receivedAt },
): Any {
  const toldAt = item.updatedAt;
  if (stored.toldAt !== undefined && toldAt <= stored.toldAt) return { ...item, updatedAt: stored.updatedAt, toldAt };
  if (toldAt <= receivedAt + MAX_AHEAD_MS) return item;
  return { ...item, updatedAt: Math.max(receivedAt, Math.min(stored.updatedAt, toldAt)), toldAt };
}

/** Merges a received item into the stored one. `stored` is undefined for a new item. */
export function mergeNewest(stored: StoredItem | undefined, incoming: Item, source: DeliveryOrigin): MergeResult {
  const received = storedForm(incoming);
  if (stored === undefined) return { outcome: 'applied', stored: { item: received, older: {} }, needsFetch: false };
  if (received.gone) return mergeGone(stored, received, source);
  const result = mergeContent(stored, received, source);
  if (!stored.item.gone) return result;
  if (source !== 'fetch') return { ...result, needsFetch: true };
  const { item, older } = result.outcome === 'applied' ? result.stored : stored;
  return { outcome: 'applied', stored: { item: { ...item, gone: false }, older }, needsFetch: false };
}

/** Takes only the fact that the item is gone: the time of such a report is the time of the removal, or of our read. */
function mergeGone(stored: StoredItem, received: Item, source: DeliveryOrigin): MergeResult {
  if (stored.item.gone) return { outcome: 'unchanged', needsFetch: false };
  const needsFetch = source !== 'fetch';
  if (needsFetch && compare(received, stored.item) < 0) return { outcome: 'superseded', needsFetch };
  return { outcome: 'applied', stored: { ...stored, item: { ...stored.item, gone: true } }, needsFetch };
}

function mergeContent(stored: StoredItem, received: Item, source: DeliveryOrigin): MergeResult {
  const order = compare(received, stored.item);
  const fields = contentFields(received);
  const newer = fields.filter((field) => compareField(stored, received, field) > 0);
  const contested = fields.filter(
    (field) =>
      compareField(stored, received, field) === 0 &&
      !isSameValue(fieldOf(received, field), fieldOf(stored.item, field)),
  );
  if (order <= 0 && newer.length + contested.length === 0)
    return { outcome: order < 0 ? 'superseded' : 'unchanged', needsFetch: false };
  const needsFetch = contested.length > 0 && source !== 'fetch';
  const taken = needsFetch && !isLater(stored.item, received, contested) ? newer : [...newer, ...contested];
  if (order <= 0 && taken.length === 0) return { outcome: 'unchanged', needsFetch };
  return { outcome: 'applied', stored: mergeFields(stored, received, taken), needsFetch };
}

/**
 * Decides whether the received state is later than a stored state of the same time. Compares the provider's own times
 * if ours replaced them, otherwise the order of events.
 */
function isLater(stored: Item, received: Item, contested: readonly string[]): boolean {
  const isClamped = received.toldAt !== undefined || stored.toldAt !== undefined;
  const [receivedTime, storedTime] = [received.toldAt ?? received.updatedAt, stored.toldAt ?? stored.updatedAt];
  if (isClamped && receivedTime !== storedTime) return receivedTime > storedTime;
  if (contested.includes('state')) {
    if (received.state === 'merged') return true;
    if (isFinished(received) !== isFinished(stored)) return isFinished(received);
  }
  if (contested.includes('reviewDecision') && isDecided(received) !== isDecided(stored)) return isDecided(received);
  return stored.isCreation === true && received.isCreation !== true;
}

function isDecided(item: Item): boolean {
  return item.kind === 'pull_request' && item.reviewDecision !== undefined && item.reviewDecision.state !== 'none';
}

function compare(left: Stamp, right: Stamp): number {
  if (left.updatedAt !== right.updatedAt) return left.updatedAt - right.updatedAt;
  if (left.version === undefined || right.version === undefined) return 0;
  return left.version - right.version;
}

/** Orders the received and the stored value of a field. A review that the stored item has no room for counts as older. */
function compareField(stored: StoredItem, received: Item, field: string): number {
  const order = compare(received, stampOfField(stored, field));
  if (field === 'lastClosedAt') return closedTimeOf(received) > closedTimeOf(stored.item) ? 1 : -1;
  if (field === 'openSince') return isOpenEarlier(received, stored.item) ? 1 : -1;
  if (!field.startsWith(REVIEW)) return order;
  const review = fieldOf(received, field) as Review;
  const known = fieldOf(stored.item, field) as Review | undefined;
  if (known) return compareReviews(review, known) || order || compareTexts(textOf(review), textOf(known));
  const id = field.slice(REVIEW.length);
  return newestReviews({ ...reviewsOf(stored.item), [id]: review })[id] ? 1 : -1;
}

function closedTimeOf({ lastClosedAt }: Item): number {
  return lastClosedAt === undefined ? Number.NEGATIVE_INFINITY : Date.parse(lastClosedAt);
}

function isOpenEarlier(received: Item, stored: Item): boolean {
  const [at, known] = [openTimeOf(received), openTimeOf(stored)];
  const closedAt = Math.max(closedTimeOf(received), closedTimeOf(stored));
  return Number.isFinite(closedAt) && at > closedAt && (at < known || known <= closedAt);
}

function openTimeOf({ openSince }: Item): number {
  return openSince === undefined ? Number.NEGATIVE_INFINITY : Date.parse(openSince);
}

/** Returns the item without a time since which it is open, if it was finished later; from its present state if that is open. */
function withOpenSince(item: Item): Item {
  if (item.openSince === undefined || openTimeOf(item) > closedTimeOf(item)) return item;
  const { openSince: _, ...others } = item;
  const isOpen = !isFinished(item) && item.updatedAt > closedTimeOf(item);
  return { ...others, ...(isOpen && { openSince: new Date(item.updatedAt).toISOString() }) } as Item;
}

/** A dismissed review is later than all its other states. Otherwise the time of the review decides. */
function compareReviews(left: Review, right: Review): number {
  const dismissed = Number(left.state === 'dismissed') - Number(right.state === 'dismissed');
  return dismissed || Date.parse(left.at) - Date.parse(right.at);
}

/** Makes the order of two reviews complete: their deliveries may come in any order. */
function textOf({ state, reviewer, isMember }: Review): string {
  return `${state} ${reviewer} ${isMember ?? ''}`;
}

function newestReviews(reviews: Readonly<Record<string, Review>>): Readonly<Record<string, Review>> {
  const all = Object.entries(reviews);
  if (all.length <= MAX_REVIEWS) return reviews;
  const byAge = all.toSorted(([a, one], [b, other]) => Date.parse(one.at) - Date.parse(other.at) || compareTexts(a, b));
  return Object.fromEntries(byAge.slice(-MAX_REVIEWS));
}

function reviewsOf(item: Item): Readonly<Record<string, Review>> | undefined {
  return item.kind === 'pull_request' ? item.reviews : undefined;
}

function compareTexts(left: string, right: string): number {
  return left < right ? -1 : Number(left > right);
}

/** Takes these fields of the received item, each with its time. The time of the item is the newest of all. */
function mergeFields(stored: StoredItem, received: Item, fields: readonly string[]): StoredItem {
  const order = compare(received, stored.item);
  const newest = order > 0 ? received : stored.item;
  const { version: _, toldAt: __, isCreation: ___, ...content } = stored.item;
  const toldAt = received.toldAt ?? newest.toldAt;
  const isCreation = newest.isCreation === true && (order !== 0 || received.isCreation === true);
  const item: Record<string, unknown> = {
    ...content,
    ...stampOf(newest),
    ...(toldAt !== undefined && { toldAt }),
    ...(isCreation && { isCreation }),
  };
  const reviews: Record<string, Review> = { ...reviewsOf(stored.item) };
  for (const field of fields) {
    const value = fieldOf(received, field);
    if (field.startsWith(REVIEW)) reviews[field.slice(REVIEW.length)] = value as Review;
    else item[field] = value;
  }
  if (Object.keys(reviews).length > 0) item['reviews'] = newestReviews(reviews);
  const older: Record<string, Stamp> = {};
  for (const field of contentFields(item as unknown as Item)) {
    const stamp = fields.includes(field) ? received : stampOfField(stored, field);
    if (compare(stamp, newest) < 0) older[field] = stampOf(stamp);
  }
  return { item: withOpenSince(item as unknown as Item), older };
}

function stampOf({ updatedAt, version }: Stamp): Stamp {
  return version === undefined ? { updatedAt } : { updatedAt, version };
}

/** Returns the provider time of a stored value, or a time before all others if there is no value. */
function stampOfField(stored: StoredItem, field: string): Stamp {
  return carries(stored.item, field) ? (stored.older[field] ?? stored.item) : NEVER;
}

/** Returns the names of the fields that the item carries, with each review as a field. */
function contentFields(item: Item): string[] {
  const fields = Object.keys(item).filter((field) => !NOT_CONTENT.has(field) && carries(item, field));
  const reviews = reviewsOf(item);
  if (!reviews) return fields;
  return [...fields.filter((field) => field !== 'reviews'), ...Object.keys(reviews).map((id) => REVIEW + id)];
}

function carries(item: Item, field: string): boolean {
  return fieldOf(item, field) !== undefined;
}

function fieldOf(item: Item, field: string): unknown {
  if (field.startsWith(REVIEW)) return reviewsOf(item)?.[field.slice(REVIEW.length)];
  return (item as unknown as Fields)[field];
}

/** Compares two values of a field: strings, booleans, null, lists of strings, or texts by name. */
export function isSameValue(left: unknown, right: unknown): boolean {
  return left === right || (typeof left === 'object' && isDeepStrictEqual(left, right));
}

/** Removes absent fields and surplus reviews. Every delivery that does not report the item as gone reports that it exists. */
function storedForm(item: Item): Item {
  const present = Object.entries(item).filter(([, value]) => value !== undefined);
  const reviews = reviewsOf(item);
  const shortened = reviews && { reviews: newestReviews(reviews) };
  const at = new Date(item.updatedAt).toISOString();
  const isOpen = item.kind === 'work_item' && item.state !== undefined;
  const closed = isFinished(item) ? { lastClosedAt: item.closedAt ?? at } : isOpen && { openSince: at };
  return { ...(Object.fromEntries(present) as unknown as Item), ...shortened, ...closed, gone: item.gone ?? false };
}
