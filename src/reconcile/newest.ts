import type { DeliverySource } from '../model/delivery.ts';
import type { Item } from '../model/item.ts';

/**
 * Newest wins, field by field.
 *
 * A delivery carries some fields of an item at one time of the provider's clock. Each field held remembers the time it
 * is from, so that an older delivery may still fill a field that newer ones do not carry, and never more than that.
 * Two contents of one time cannot be ordered: the object is fetched, and what was fetched wins its tie.
 */
export interface Held {
  readonly item: Item;
  /** Times of those fields that are older than `item.updatedAt`, because newer deliveries did not carry them. */
  readonly older: Readonly<Record<string, number>>;
}

export type Judgement =
  /** Nothing that is held changes. */
  | { readonly outcome: 'unchanged' }
  | { readonly outcome: 'superseded' }
  /** `held` is the new state; `doubtful`: it is a guess until the object has been fetched. */
  | { readonly outcome: 'applied'; readonly held: Held; readonly doubtful: boolean };

/** A provider's clock may run ahead of ours by this much before we stop believing it. */
const BELIEVED_AHEAD = 5 * 60_000;

/** Fields that name the item or order its states: not content. */
const NOT_CONTENT: ReadonlySet<string> = new Set(['key', 'kind', 'connector', 'host', 'updatedAt', 'version']);

type Fields = Readonly<Record<string, unknown>>;

/** A time from the future would block every honest one until then: it is read as the time of receipt. */
export function clampTime<Any extends Item>(item: Any, receivedAt: number): Any {
  return item.updatedAt > receivedAt + BELIEVED_AHEAD ? { ...item, updatedAt: receivedAt } : item;
}

export function judge(held: Held | undefined, incoming: Item, source: DeliverySource): Judgement {
  if (held === undefined) return { outcome: 'applied', held: { item: present(incoming), older: {} }, doubtful: false };
  const order = compare(incoming, held.item);
  if (order > 0) return takeNewer(held, incoming);
  if (order < 0) return fillFromOlder(held, incoming);
  return settleTie(held, incoming, source);
}

function compare(incoming: Item, held: Item): number {
  if (incoming.updatedAt !== held.updatedAt) return incoming.updatedAt - held.updatedAt;
  if (incoming.version === undefined || held.version === undefined) return 0;
  return incoming.version - held.version;
}

function takeNewer(held: Held, incoming: Item): Judgement {
  const older: Record<string, number> = {};
  for (const field of contentFields(held.item)) {
    if (!carries(incoming, field)) older[field] = timeOf(held, field);
  }
  // Something seen again is not gone, though only deletions carry the field.
  const merged = { ...held.item, ...present(incoming), gone: incoming.gone ?? false } as Item;
  return { outcome: 'applied', held: { item: merged, older }, doubtful: false };
}

function fillFromOlder(held: Held, incoming: Item): Judgement {
  const filled = contentFields(incoming).filter((field) => timeOf(held, field) < incoming.updatedAt);
  if (filled.length === 0) return { outcome: 'superseded' };
  return applied(held, incoming, filled, false);
}

function settleTie(held: Held, incoming: Item, source: DeliverySource): Judgement {
  const carried = contentFields(incoming);
  const stale = carried.filter((field) => timeOf(held, field) < incoming.updatedAt);
  const contested = carried.filter(
    (field) => !stale.includes(field) && !same(fieldOf(incoming, field), fieldOf(held.item, field)),
  );
  if (contested.length === 0 && stale.length === 0) return { outcome: 'unchanged' };
  if (contested.length === 0 || source === 'fetch') return applied(held, incoming, [...stale, ...contested], false);
  // The later arrival is the better guess, except that nothing is taken back from being finished on a guess.
  const guess = reopens(held.item, incoming) ? stale : [...stale, ...contested];
  return applied(held, incoming, guess, true);
}

function applied(held: Held, incoming: Item, fields: readonly string[], doubtful: boolean): Judgement {
  const item: Record<string, unknown> = { ...held.item };
  const older: Record<string, number> = { ...held.older };
  for (const field of fields) {
    item[field] = fieldOf(incoming, field);
    if (incoming.updatedAt < held.item.updatedAt) older[field] = incoming.updatedAt;
    else delete older[field];
  }
  return { outcome: 'applied', held: { item: item as unknown as Item, older }, doubtful };
}

/** Provider time of the value held; minus infinity where none is. */
function timeOf(held: Held, field: string): number {
  if (!carries(held.item, field)) return Number.NEGATIVE_INFINITY;
  return held.older[field] ?? held.item.updatedAt;
}

function reopens(held: Item, incoming: Item): boolean {
  const openStates = ['open', 'in_progress'];
  return held.state !== undefined && !openStates.includes(held.state) && openStates.includes(incoming.state ?? '');
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

/** Fields are strings, booleans, null, or lists of strings. */
export function same(left: unknown, right: unknown): boolean {
  if (left === right) return true;
  if (!Array.isArray(left) || !Array.isArray(right) || left.length !== right.length) return false;
  return left.every((element, index) => element === right[index]);
}

/** Without the absent fields, as it is stored. */
function present<Any extends Item>(item: Any): Any {
  return Object.fromEntries(Object.entries(item).filter(([, value]) => value !== undefined)) as unknown as Any;
}
