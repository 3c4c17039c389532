// Design: src/decisions/items.md

import { isDeepStrictEqual } from 'node:util';
import type { DeliveryOrigin } from '../../model/delivery.ts';
import { type Item, isFinished, type PullRequest, type Review } from '../../model/item.ts';
import type { StoredItem } from '../../store/items/items.ts';

// Newest wins, field by field.
//
// A delivery carries some fields of an item as of one time of the provider's clock. Each stored field has its own time:
// an older delivery may still fill a field that newer ones do not carry, and changes no other. Two contents of one time
// cannot be ordered, so the object is fetched, and the fetched content wins the tie. Until then the last arrival wins,
// because the vendor may refuse the fetch for good. A state that follows a creation, or finishes an item, is certainly
// later. Merged and declined pull requests never open again, so no time makes an open state replace these.
//
// A time in the future never beats a plausible one. A vendor's clock that is ahead dates states by it, so a state that is
// less than a day ahead counts as of its receipt, and any plausible state after the last plausible one replaces it. A
// state that is further ahead loses against all others, because no clock is a day wrong.
//
// Existence has no time, because removing and restoring may not change the provider's time: a fetch is the authority.
// Any other report that an item is gone is a guess, and is ignored if it is older than the stored state. A report that
// a gone item exists is only a reason to fetch it.
//
// Reviews are merged, not replaced, because vendors report them one by one. Each review is a field of its own, by its id,
// and is ordered by its own time, so it is never contested and needs no fetch. The same holds for the last time at which the
// item was finished, and for the earliest time since which it is open again: older deliveries may show them.

/** Orders two states of an item. If one of them has no version, only their times count. */
type Stamp = Pick<Item, 'updatedAt' | 'toldAt' | 'provenAt' | 'version'>;

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

/** No clock is further ahead than this. A later time is an error. */
const MAX_CLOCK_ERROR_MS = 24 * 3_600_000;

/** Fields that name the item, order its states, or have no time. They are not content. */
const NOT_CONTENT: ReadonlySet<string> = new Set([
  'key',
  'kind',
  'connector',
  'host',
  'updatedAt',
  'toldAt',
  'provenAt',
  'version',
  'isCreation',
  'gone',
]);

/** The fields that show whether an item is finished. */
const STATE_FIELDS: ReadonlySet<string> = new Set(['state', 'rawState', 'closedAt', 'mergedAt', 'isDropped']);
/** The branches at the merge. The oldest merged state decides, so that renaming a branch later changes nothing. */
const AT_MERGE: ReadonlySet<string> = new Set(['mergedBaseBranch', 'mergedDefaultBranch']);

/** The times among the content of an item. */
const CONTENT_TIMES = ['createdAt', 'closedAt', 'mergedAt', 'phaseChangedAt'];

const NEVER: Stamp = { updatedAt: Number.NEGATIVE_INFINITY };

/** The most reviews that are stored with an item; the oldest are dropped. */
const MAX_REVIEWS = 100;

/** The prefix of a review's name among the fields: `reviews.80`. */
const REVIEW = 'reviews.';

type Fields = Readonly<Record<string, unknown>>;

/**
 * Replaces a time in the future by the time of receipt. Keeps the provider's time in `toldAt`, which orders the state.
 *
 * Our own clock may have been set back. A state that the provider dates after the stored one never becomes older than
 * it by this.
 *
 * @param receivedAt epoch milliseconds
 * @param stored the stored state
 */
export function clampTime<Any extends Item>(item: Any, receivedAt: number, stored?: Item): Any {
  const plausible = withPlausibleTimes(item, receivedAt, stored);
  const toldAt = item.updatedAt;
  if (toldAt <= receivedAt + MAX_AHEAD_MS) return plausible;
  const storedAt = stored?.updatedAt ?? receivedAt;
  return { ...plausible, updatedAt: Math.max(receivedAt, Math.min(storedAt, toldAt)), toldAt };
}

/** Replaces impossible times among the content by the stored ones, so that a repeat changes nothing. */
function withPlausibleTimes<Any extends Item>(item: Any, receivedAt: number, stored: Item | undefined): Any {
  const latest = receivedAt + MAX_CLOCK_ERROR_MS;
  const receipt = new Date(receivedAt).toISOString();
  const clamp = (fields: Fields, known: Fields | undefined, names: readonly string[]): Fields => {
    const late = names.filter((name) => Date.parse(String(fields[name])) > latest);
    return late.length === 0
      ? fields
      : { ...fields, ...Object.fromEntries(late.map((name) => [name, known?.[name] ?? receipt])) };
  };
  const clamped = clamp(item as unknown as Fields, stored as unknown as Fields, CONTENT_TIMES) as unknown as Any;
  if (clamped.kind !== 'pull_request') return clamped;
  const { reviews, reviewDecision } = clamped;
  const before = stored?.kind === 'pull_request' ? stored : undefined;
  const atOf = (value: object, known: object | undefined) => clamp(value as Fields, known as Fields, ['at']);
  return {
    ...clamped,
    ...(reviews && {
      reviews: Object.fromEntries(
        Object.entries(reviews).map(([id, review]) => [id, atOf(review, before?.reviews?.[id])]),
      ),
    }),
    ...(reviewDecision && { reviewDecision: atOf(reviewDecision, before?.reviewDecision) }),
  };
}

/** Merges a received item into the stored one. `stored` is undefined for a new item. */
export function mergeNewest(stored: StoredItem | undefined, incoming: Item, source: DeliveryOrigin): MergeResult {
  const received = comeBack(stored?.item, storedForm(incoming));
  if (stored === undefined) return { outcome: 'applied', stored: { item: received, older: {} }, needsFetch: false };
  if (received.gone) return mergeGone(stored, received, source);
  const result = mergeContent(stored, received, source);
  if (!stored.item.gone) return result;
  if (source !== 'fetch') return { ...result, needsFetch: true };
  const { item, older } = result.outcome === 'applied' ? result.stored : stored;
  return { outcome: 'applied', stored: { item: { ...item, gone: false }, older }, needsFetch: false };
}

/** An item that left the scope has come back to it with every report of its present place. */
function comeBack(stored: Item | undefined, received: Item): Item {
  const isAway = stored?.kind === 'work_item' && stored.movedAway != null;
  return isAway && received.kind === 'work_item' ? { movedAway: null, ...received } : received;
}

/** Takes only the fact that the item is gone: the time of such a report is the time of the removal, or of our read. */
function mergeGone(stored: StoredItem, received: Item, source: DeliveryOrigin): MergeResult {
  if (stored.item.gone) return { outcome: 'unchanged', needsFetch: false };
  const needsFetch = source !== 'fetch';
  if (needsFetch && compare(received, stored.item) < 0) return { outcome: 'superseded', needsFetch };
  return { outcome: 'applied', stored: { ...stored, item: { ...stored.item, gone: true } }, needsFetch };
}

function mergeContent(before: StoredItem, received: Item, source: DeliveryOrigin): MergeResult {
  // Earlier versions did not store the branches of the merge.
  const stored: StoredItem = { ...before, item: { ...branchesAtMerge(before.item), ...before.item } as Item };
  const order = compare(received, stored.item);
  const fields = contentFields(received);
  const isSame = (field: string) => isSameValue(fieldOf(received, field), fieldOf(stored.item, field));
  // A plausible time replaces a time in the future, even if the value is the same.
  const isProven = (field: string) => isSame(field) && doubtOf(received) < doubtOf(stampOfField(stored, field));
  const newer = fields.filter((field) => compareField(stored, received, field) > 0 || isProven(field));
  const contested = fields.filter((field) => compareField(stored, received, field) === 0 && !isSame(field));
  if (order <= 0 && newer.length + contested.length === 0)
    return { outcome: order < 0 ? 'superseded' : 'unchanged', needsFetch: false };
  const isFetched = source === 'fetch';
  const won = isFetched ? contested : contested.filter((field) => winsTie(stored, received, field, contested));
  // A final state needs no fetch, because no vendor reverts it.
  const isDecided = (field: string) => STATE_FIELDS.has(field) && compareFinality(received, stored.item) !== 0;
  const needsFetch = !isFetched && !contested.every(isDecided);
  const taken = [...newer, ...won];
  if (order <= 0 && taken.length === 0) return { outcome: 'unchanged', needsFetch };
  return { outcome: 'applied', stored: mergeFields(stored, received, taken), needsFetch };
}

/** Decides whether the received value of a contested field replaces the stored one until a fetch decides. */
function winsTie(stored: StoredItem, received: Item, field: string, contested: readonly string[]): boolean {
  const finality = compareFinality(received, stored.item);
  if (finality !== 0) return finality > 0;
  const doubt = doubtOf(received);
  const storedDoubt = doubtOf(stampOfField(stored, field));
  if (doubt < storedDoubt) return true;
  if (doubt > storedDoubt && doubt === IMPOSSIBLE) return false;
  if (contested.includes('state') && isFinished(received) !== isFinished(stored.item)) return isFinished(received);
  return received.isCreation !== true || stored.item.isCreation === true;
}

/** Returns a positive number if only the received state is final, a negative one if only the stored state is. */
function compareFinality(received: Item, stored: Item): number {
  if (received.state === undefined) return 0;
  return Number(isFinal(received)) - Number(isFinal(stored));
}

/** Whether no vendor reverts the state. Work items and closed pull requests may be opened again. */
function isFinal(item: Item): boolean {
  return item.kind === 'pull_request' && (item.state === 'merged' || item.state === 'declined');
}

/** Degrees of doubt about the time of a state: plausible, of a clock that is ahead, or impossible. */
const [PLAUSIBLE, AHEAD, IMPOSSIBLE] = [0, 1, 2];

function doubtOf(stamp: Stamp): number {
  const ahead = stamp.toldAt === undefined ? 0 : stamp.toldAt - stamp.updatedAt;
  if (ahead <= 0) return PLAUSIBLE;
  return ahead <= MAX_CLOCK_ERROR_MS ? AHEAD : IMPOSSIBLE;
}

/** Returns the provider's own time of a state. */
function providerTime({ updatedAt, toldAt }: Stamp): number {
  return toldAt ?? updatedAt;
}

/** Returns the newest plausible time of a state or of those that it replaced. */
function provenTime(stamp: Stamp): number | undefined {
  return doubtOf(stamp) === PLAUSIBLE ? providerTime(stamp) : stamp.provenAt;
}

/** Orders a received state and a stored one. Returns zero if they cannot be ordered. */
function compare(received: Stamp, stored: Stamp): number {
  const order = providerTime(received) - providerTime(stored);
  const [doubt, storedDoubt] = [doubtOf(received), doubtOf(stored)];
  // The receipt of a state from the future is certainly not older than the stored state.
  if (doubt > storedDoubt) return doubt === AHEAD ? Math.max(0, received.updatedAt - stored.updatedAt) : 0;
  if (doubt < storedDoubt)
    return providerTime(received) < (stored.provenAt ?? providerTime(received)) ? -1 : Math.max(0, order);
  if (order !== 0) return doubt === IMPOSSIBLE ? 0 : order;
  if (received.version === undefined || stored.version === undefined) return 0;
  return received.version - stored.version;
}

/** Orders the received and the stored value of a field. A review that the stored item has no room for counts as older. */
function compareField(stored: StoredItem, received: Item, field: string): number {
  const order = carries(stored.item, field) ? compare(received, stampOfField(stored, field)) : 1;
  if (STATE_FIELDS.has(field) && compareFinality(received, stored.item) * order < 0) return 0;
  if (field === 'lastClosedAt') return closedTimeOf(received) > closedTimeOf(stored.item) ? 1 : -1;
  if (AT_MERGE.has(field) && carries(stored.item, field))
    return -order || compareTexts(String(fieldOf(stored.item, field)), String(fieldOf(received, field)));
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
  const isReplaced = order > 0 || (order === 0 && doubtOf(received) < doubtOf(stored.item));
  const newest = isReplaced ? received : stored.item;
  const newestStamp = isReplaced ? stampAfter(stored.item, received) : stampOf(stored.item);
  const { version: _, toldAt: __, provenAt: ___, isCreation: ____, ...content } = stored.item;
  const isCreation = newest.isCreation === true && (order !== 0 || received.isCreation === true);
  const item: Record<string, unknown> = {
    ...content,
    ...newestStamp,
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
    const before = stampOfField(stored, field);
    const stamp = fields.includes(field) ? stampAfter(before, received) : stampOf(before);
    if (compare(stamp, newestStamp) < 0 || doubtOf(stamp) !== doubtOf(newestStamp)) older[field] = stamp;
  }
  return { item: withOpenSince(item as unknown as Item), older };
}

function stampOf({ updatedAt, toldAt, provenAt, version }: Stamp): Stamp {
  return {
    updatedAt,
    ...(toldAt !== undefined && { toldAt }),
    ...(provenAt !== undefined && { provenAt }),
    ...(version !== undefined && { version }),
  };
}

/** Returns the stamp of a received state that replaces a stored one. A state from the future keeps the plausible time before it. */
function stampAfter(stored: Stamp, received: Stamp): Stamp {
  const provenAt = doubtOf(received) === PLAUSIBLE ? undefined : provenTime(stored);
  return stampOf({ ...received, ...(provenAt !== undefined && Number.isFinite(provenAt) && { provenAt }) });
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
  const known = { ...shortened, ...closed, ...branchesAtMerge(item), gone: item.gone ?? false };
  return { ...Object.fromEntries(present), ...known } as unknown as Item;
}

function branchesAtMerge(item: Item): Partial<PullRequest> {
  if (item.kind !== 'pull_request' || (item.mergedAt == null && item.state !== 'merged')) return {};
  const { baseBranch, defaultBranch } = item;
  return {
    ...(baseBranch !== undefined && { mergedBaseBranch: baseBranch }),
    ...(defaultBranch !== undefined && { mergedDefaultBranch: defaultBranch }),
  };
}
