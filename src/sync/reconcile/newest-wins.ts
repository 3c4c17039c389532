// Design: src/decisions/items.md

import { isDeepStrictEqual } from 'node:util';
import type { DeliveryOrigin } from '../../model/delivery.ts';
import { type Item, isFinished } from '../../model/item.ts';
import type { StoredItem } from '../../store/items.ts';

// Newest wins, field by field.
//
// A delivery carries some fields of an item as of one time of the provider's clock. Each stored field has its own time:
// an older delivery may still fill a field that newer ones do not carry, and changes no other. Two contents of one time
// cannot be ordered, so the object is fetched, and the fetched content wins the tie. Until then the stored content
// stays, because old events may be repeated. A state that follows a creation, or finishes an item, is certainly later.
//
// Existence has no time, because removing and restoring may not change the provider's time: a fetch is the authority.
// Any other report that an item is gone is a guess, and is ignored if it is older than the stored state. A report that
// a gone item exists is only a reason to fetch it.

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
  const newer = fields.filter((field) => compare(received, stampOfField(stored, field)) > 0);
  const contested = fields.filter(
    (field) =>
      compare(received, stampOfField(stored, field)) === 0 &&
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
  return stored.isCreation === true && received.isCreation !== true;
}

function compare(left: Stamp, right: Stamp): number {
  if (left.updatedAt !== right.updatedAt) return left.updatedAt - right.updatedAt;
  if (left.version === undefined || right.version === undefined) return 0;
  return left.version - right.version;
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
  for (const field of fields) item[field] = fieldOf(received, field);
  const older: Record<string, Stamp> = {};
  for (const field of contentFields(item as unknown as Item)) {
    const stamp = fields.includes(field) ? received : stampOfField(stored, field);
    if (compare(stamp, newest) < 0) older[field] = stampOf(stamp);
  }
  return { item: item as unknown as Item, older };
}

function stampOf({ updatedAt, version }: Stamp): Stamp {
  return version === undefined ? { updatedAt } : { updatedAt, version };
}

/** Returns the provider time of a stored value, or a time before all others if there is no value. */
function stampOfField(stored: StoredItem, field: string): Stamp {
  return carries(stored.item, field) ? (stored.older[field] ?? stored.item) : NEVER;
}

function contentFields(item: Item): string[] {
  return Object.keys(item).filter((field) => !NOT_CONTENT.has(field) && carries(item, field));
}

function carries(item: Item, field: string): boolean {
  return fieldOf(item, field) !== undefined;
}

function fieldOf(item: Item, field: string): unknown {
  return (item as unknown as Fields)[field];
}

/** Compares two values of a field: strings, booleans, null, lists of strings, or texts by name. */
export function isSameValue(left: unknown, right: unknown): boolean {
  return left === right || (typeof left === 'object' && isDeepStrictEqual(left, right));
}

/** Removes absent fields. Every delivery that does not report the item as gone reports that it exists. */
function storedForm(item: Item): Item {
  const present = Object.entries(item).filter(([, value]) => value !== undefined);
  return { ...(Object.fromEntries(present) as unknown as Item), gone: item.gone ?? false };
}
