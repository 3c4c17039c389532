import type { ItemKey } from '../model/item.ts';
import { removeRows, rowsWhere, saveRows } from './unit-of-work/unit-of-work.ts';
import type { Scope } from './workspace-scope.ts';

/** What a text names, and why; `reason` is the caller's own, without the delivery. */
export interface StoredMention<Reason extends object> {
  readonly name: string;
  readonly reason: Reason;
}

/** With the delivery that brought it, where that is known. */
type Brought<Reason> = Reason & { readonly delivery?: number };

export interface SavedMentions<Reason extends object> {
  /** By name. */
  readonly reasons: ReadonlyMap<string, Brought<Reason>>;
  /** Names that the item's text did not hold before. */
  readonly added: ReadonlySet<string>;
}

/**
 * Replaces what an item's text names; unchanged means no write. A mention keeps the delivery that brought it for as
 * long as it stays as it is.
 */
export async function saveMentions<Reason extends object>(
  query: Scope,
  itemKey: ItemKey,
  mentions: readonly StoredMention<Reason>[],
  delivery: number | undefined,
): Promise<SavedMentions<Reason>> {
  const rows = await rowsWhere(query, 'mentions', 'item_key', [itemKey]);
  const before = new Map(rows.map(({ name, reason }) => [name, reason]));
  const reasons = new Map<string, Brought<Reason>>();
  for (const { name, reason } of mentions) reasons.set(name, keepDelivery(reason, before.get(name), delivery));
  const after = new Map([...reasons].map(([name, reason]) => [name, JSON.stringify(reason)]));
  const stale = rows.filter(({ name }) => !after.has(name));
  const fresh = [...after].filter(([name, reason]) => before.get(name) !== reason);
  if (stale.length > 0) await removeRows(query, 'mentions', stale);
  const added = fresh.map(([name, reason]) => ({ item_key: itemKey, name, reason }));
  if (added.length > 0) await saveRows(query, 'mentions', added);
  return { reasons, added: new Set([...after.keys()].filter((name) => !before.has(name))) };
}

/** The items whose stored mentions are not these. */
export async function itemsMentioningOther<Reason extends object>(
  query: Scope,
  mentions: ReadonlyMap<ItemKey, readonly StoredMention<Reason>[]>,
): Promise<ItemKey[]> {
  const stored = Map.groupBy(
    await rowsWhere(query, 'mentions', 'item_key', [...mentions.keys()]),
    (row) => row.item_key,
  );
  return [...mentions].flatMap(([key, wanted]) => {
    const rows = new Map((stored.get(key) ?? []).map(({ name, reason }) => [name, reason.replace(DELIVERY, '}')]));
    const isSame =
      rows.size === wanted.length && wanted.every(({ name, reason }) => rows.get(name) === JSON.stringify(reason));
    return isSame ? [] : [key];
  });
}

/** Always the last part of a stored reason. */
const DELIVERY = /,"delivery":\d+\}$/;

/** What was kept of an item's mentions, by name. */
export async function readMentions(query: Scope, itemKey: ItemKey): Promise<Map<string, Brought<object>>> {
  const rows = await rowsWhere(query, 'mentions', 'item_key', [itemKey]);
  return new Map(rows.map(({ name, reason }) => [name, JSON.parse(reason) as Brought<object>]));
}

function keepDelivery<Reason extends object>(
  reason: Reason,
  before: string | undefined,
  delivery: number | undefined,
): Brought<Reason> {
  const known = before === undefined ? undefined : (JSON.parse(before) as Brought<Reason>);
  const isKept = known !== undefined && JSON.stringify({ ...known, delivery: undefined }) === JSON.stringify(reason);
  if (isKept) return known;
  return delivery === undefined ? reason : { ...reason, delivery };
}

/** The items that name one of these. */
export async function itemsNaming(query: Scope, names: readonly string[]): Promise<ItemKey[]> {
  const rows = await rowsWhere(query, 'mentions', 'name', names);
  return [...new Set(rows.map((row) => row.item_key))];
}
