import type { ItemKey } from '../model/item.ts';
import { findItems } from './items.ts';
import { removeRows, rowsWhere, saveRows } from './kept-rows.ts';
import type { Scope } from './workspace-scope.ts';

/** Replaces the names of a work item. @returns whether they are others than before */
export async function saveItemNames(query: Scope, itemKey: ItemKey, names: readonly string[]): Promise<boolean> {
  const before = await rowsWhere(query, 'item_names', 'item_key', [itemKey]);
  const known = new Set(before.map(({ name }) => name));
  const fresh = names.filter((name) => !known.has(name));
  const stale = before.filter(({ name }) => !names.includes(name));
  if (fresh.length + stale.length === 0) return false;
  await removeRows(query, 'item_names', stale);
  const rows = fresh.map((name) => ({ item_key: itemKey, name }));
  await saveRows(query, 'item_names', rows);
  return true;
}

export interface NamedItem {
  readonly name: string;
  readonly itemKey: ItemKey;
  /** The connection that it last came through. */
  readonly connection: string;
}

/** The work items that go by one of these names. */
export async function itemsNamed(query: Scope, names: readonly string[]): Promise<NamedItem[]> {
  const named = await rowsWhere(query, 'item_names', 'name', names);
  const keys = named.map((row) => row.item_key);
  const connections = new Map((await findItems(query, keys)).map(({ key, connection }) => [key, connection]));
  const found = named.flatMap(({ name, item_key: itemKey }) => {
    const connection = connections.get(itemKey);
    return connection === undefined ? [] : [{ name, itemKey, connection }];
  });
  return found.sort((left, right) => (left.itemKey < right.itemKey ? -1 : Number(left.itemKey > right.itemKey)));
}
