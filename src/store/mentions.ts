import type { ItemKey } from '../model/item.ts';
import type { Scope } from './scope.ts';

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
  const rows = await query.selectFrom('mentions').select(['name', 'reason']).where('item_key', '=', itemKey).execute();
  const before = new Map(rows.map(({ name, reason }) => [name, reason]));
  const reasons = new Map<string, Brought<Reason>>();
  for (const { name, reason } of mentions) reasons.set(name, keepDelivery(reason, before.get(name), delivery));
  const after = new Map([...reasons].map(([name, reason]) => [name, JSON.stringify(reason)]));
  const stale = [...before.keys()].filter((name) => after.get(name) !== before.get(name));
  const fresh = [...after].filter(([name, reason]) => before.get(name) !== reason);
  if (stale.length > 0)
    await query.deleteFrom('mentions').where('item_key', '=', itemKey).where('name', 'in', stale).execute();
  const added = fresh.map(([name, reason]) => ({ item_key: itemKey, name, reason }));
  if (added.length > 0) await query.insertInto('mentions').values(added).execute();
  return { reasons, added: new Set([...after.keys()].filter((name) => !before.has(name))) };
}

/** What was kept of an item's mentions, by name. */
export async function readMentions(query: Scope, itemKey: ItemKey): Promise<Map<string, Brought<object>>> {
  const rows = await query.selectFrom('mentions').select(['name', 'reason']).where('item_key', '=', itemKey).execute();
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

const AT_ONCE = 500;

/** The items that name one of these. */
export async function itemsNaming(query: Scope, names: readonly string[]): Promise<ItemKey[]> {
  const keys = new Set<ItemKey>();
  for (let at = 0; at < names.length; at += AT_ONCE) {
    const rows = await query
      .selectFrom('mentions')
      .select('item_key')
      .distinct()
      .where('name', 'in', names.slice(at, at + AT_ONCE))
      .execute();
    for (const row of rows) keys.add(row.item_key);
  }
  return [...keys];
}
