import type { ItemKey } from '../model/item.ts';
import type { Scope } from './scope.ts';

/** Replaces the names of a work item. @returns whether they are others than before */
export async function saveItemNames(query: Scope, itemKey: ItemKey, names: readonly string[]): Promise<boolean> {
  const before = new Set(await namesOfItem(query, itemKey));
  if (before.size === names.length && names.every((name) => before.has(name))) return false;
  await query.deleteFrom('item_names').where('item_key', '=', itemKey).execute();
  const rows = names.map((name) => ({ item_key: itemKey, name }));
  if (rows.length > 0) await query.insertInto('item_names').values(rows).execute();
  return true;
}

async function namesOfItem(query: Scope, itemKey: ItemKey): Promise<string[]> {
  const rows = await query.selectFrom('item_names').select('name').where('item_key', '=', itemKey).execute();
  return rows.map(({ name }) => name);
}

export interface NamedItem {
  readonly name: string;
  readonly itemKey: ItemKey;
  /** The connection that it last came through. */
  readonly connection: string;
}

/** The work items that go by one of these names. */
export async function itemsNamed(query: Scope, names: readonly string[]): Promise<NamedItem[]> {
  if (names.length === 0) return [];
  return query
    .selectJoined(['item_names', 'item_key'], ['items', 'key'])
    .select(['item_names.name', 'item_names.item_key as itemKey', 'items.connection'])
    .where('item_names.name', 'in', names)
    .orderBy('item_names.item_key')
    .execute();
}
