import type { Item, ItemKey } from '../model/item.ts';
import type { Query } from './database.ts';
import type { Tables } from './tables.ts';

export type ItemRow = Tables['items'];

/** What is needed to see that nothing changed; the fields are read only where something did. */
export type ItemMark = Pick<ItemRow, 'key' | 'provider_time' | 'hash'>;

/** SQLite takes 32 766 parameters in a statement; this also keeps the set of statement texts small. */
const KEYS_AT_ONCE = 500;

export async function itemMarks(query: Query, keys: readonly ItemKey[]): Promise<Map<ItemKey, ItemMark>> {
  const marks = new Map<ItemKey, ItemMark>();
  for (let at = 0; at < keys.length; at += KEYS_AT_ONCE) {
    const rows = await query
      .selectFrom('items')
      .select(['key', 'provider_time', 'hash'])
      .where('key', 'in', keys.slice(at, at + KEYS_AT_ONCE))
      .execute();
    for (const row of rows) marks.set(row.key, row);
  }
  return marks;
}

export async function findItem(query: Query, key: ItemKey): Promise<ItemRow | undefined> {
  return query.selectFrom('items').selectAll().where('key', '=', key).executeTakeFirst();
}

export async function saveItem(query: Query, row: ItemRow): Promise<void> {
  const { key: _, ...rest } = row;
  await query
    .insertInto('items')
    .values(row)
    .onConflict((conflict) => conflict.column('key').doUpdateSet(rest))
    .execute();
}

export interface StoredItem {
  readonly item: Item;
  readonly older: Readonly<Record<string, Pick<Item, 'updatedAt' | 'version'>>>;
}

export function readFields(row: Pick<ItemRow, 'fields'>): StoredItem {
  return JSON.parse(row.fields) as StoredItem;
}
