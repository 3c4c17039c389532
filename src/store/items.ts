import { type Selectable, sql } from 'kysely';
import type { Item, ItemKey } from '../model/item.ts';
import type { Scope } from './scope.ts';
import type { Tables } from './tables.ts';

export type ItemRow = Selectable<Tables['items']>;

/** What is needed to see that nothing changed; the fields are read only where something did. */
export type ItemMark = Pick<ItemRow, 'key' | 'provider_time' | 'hash'>;

/** SQLite takes 32 766 parameters in a statement; this also keeps the set of statement texts small. */
const KEYS_AT_ONCE = 500;

export async function itemMarks(query: Scope, keys: readonly ItemKey[]): Promise<Map<ItemKey, ItemMark>> {
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

/** Which of these are keys of items. */
export async function existingItems(query: Scope, keys: readonly string[]): Promise<ItemKey[]> {
  return [...(await itemMarks(query, [...new Set(keys)])).keys()];
}

/** Items that are neither finished nor gone, by their keys. */
export async function openItemsAfter(query: Scope, after: ItemKey, most: number): Promise<ItemKey[]> {
  const rows = await query
    .selectFrom('items')
    .select('key')
    .where('key', '>', after)
    // As the index `items_open` says it, which would not serve otherwise.
    .where('finished', '=', sql.lit(0))
    .where('gone', '=', sql.lit(0))
    .orderBy('key')
    .limit(most)
    .execute();
  return rows.map(({ key }) => key);
}

export async function findItem(query: Scope, key: ItemKey): Promise<ItemRow | undefined> {
  return query.selectFrom('items').selectAll().where('key', '=', key).executeTakeFirst();
}

/** The rest follows from it, or stays as it was. */
export type NewItem = Omit<ItemRow, 'standing' | 'url' | 'called'>;

/** What stands for it stays as it was. */
export async function saveItem(query: Scope, row: NewItem): Promise<void> {
  const { key: _, ...rest } = row;
  await query
    .insertInto('items')
    .values(row)
    .onConflict((conflict) => conflict.columns(['workspace', 'key']).doUpdateSet(rest))
    .execute();
}

export interface StoredItem {
  readonly item: Item;
  readonly older: Readonly<Record<string, Pick<Item, 'updatedAt' | 'version'>>>;
}

export function readFields(row: Pick<ItemRow, 'fields'>): StoredItem {
  return JSON.parse(row.fields) as StoredItem;
}

/** The tasks that stand for a work item, as they were last told. */
export async function readStanding(query: Scope, key: ItemKey): Promise<readonly string[]> {
  const row = await query.selectFrom('items').select('standing').where('key', '=', key).executeTakeFirst();
  return row?.standing ? (JSON.parse(row.standing) as string[]) : [];
}

export async function saveStanding(query: Scope, key: ItemKey, taskIds: readonly string[]): Promise<void> {
  await query
    .updateTable('items')
    .set({ standing: taskIds.length === 0 ? null : JSON.stringify(taskIds) })
    .where('key', '=', key)
    .execute();
}
