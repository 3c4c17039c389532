import { sql } from 'kysely';
import type { Item, ItemKey } from '../model/item.ts';
import { dialectOf, textIn } from '../platform/database/dialect.ts';
import { piecesOf } from '../platform/lib/pieces.ts';
import type { CachedRow } from './unit-of-work/cached-tables.ts';
import { rowsWhere, saveRows } from './unit-of-work/unit-of-work.ts';
import type { Scope } from './workspace-scope.ts';

export type ItemRow = CachedRow<'items'>;

/** What is needed to see that nothing changed; the fields are read only where something did. */
export type ItemVersion = Pick<ItemRow, 'key' | 'provider_time' | 'hash' | 'unverified'>;

/** SQLite takes 32 766 parameters in a statement; this also keeps the set of statement texts small. */
const KEYS_AT_ONCE = 500;

export async function itemVersions(query: Scope, keys: readonly ItemKey[]): Promise<Map<ItemKey, ItemVersion>> {
  const marks = new Map<ItemKey, ItemVersion>();
  for (const some of piecesOf(keys, KEYS_AT_ONCE)) {
    const rows = await query
      .selectFrom('items')
      .select(['key', 'provider_time', 'hash', 'unverified'])
      .where('key', 'in', some)
      .execute();
    for (const row of rows) marks.set(row.key, row);
  }
  return marks;
}

/** Which of these are keys of items. */
export async function existingItems(query: Scope, keys: readonly string[]): Promise<ItemKey[]> {
  return (await findItems(query, keys)).map(({ key }) => key);
}

/** Whether nothing of the provider has confirmed the item since a restore. */
export async function isUnverified(query: Scope, key: ItemKey): Promise<boolean> {
  const rows = await query
    .selectFrom('items')
    .select('key')
    .where('key', '=', key)
    // As the index `items_unverified` says it.
    .where('unverified', '=', sql.lit(1))
    .execute();
  return rows.length > 0;
}

/** Where one stands in the order in which unverified items are fetched: open ones first. */
export type UnverifiedPosition = Pick<ItemRow, 'finished' | 'key'>;

/** The unverified items of a connection that follow this place. */
export async function unverifiedAfter(
  query: Scope,
  connection: string,
  { finished, key }: UnverifiedPosition,
  most: number,
): Promise<readonly Pick<ItemRow, 'finished' | 'key' | 'fields'>[]> {
  return query
    .selectFrom('items')
    .select(['finished', 'key', 'fields'])
    .where('connection', '=', connection)
    .where('unverified', '=', sql.lit(1))
    .where(({ or, and, eb }) =>
      or([eb('finished', '>', finished), and([eb('finished', '=', finished), eb('key', '>', key)])]),
    )
    .orderBy('finished')
    .orderBy('key')
    .limit(most)
    .execute();
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

/** Items that are not gone, by their keys: the open ones, or the finished ones. */
export async function itemsAfter(
  query: Scope,
  after: ItemKey,
  { finished, most }: { readonly finished: boolean; readonly most: number },
): Promise<ItemKey[]> {
  const rows = await query
    .selectFrom('items')
    .select('key')
    .where('key', '>', after)
    .where('finished', '=', sql.lit(finished ? 1 : 0))
    .where('gone', '=', sql.lit(0))
    .orderBy('key')
    .limit(most)
    .execute();
  return rows.map(({ key }) => key);
}

export async function findItem(query: Scope, key: ItemKey): Promise<ItemRow | undefined> {
  const [row] = await findItems(query, [key]);
  return row;
}

export async function findItems(query: Scope, keys: readonly ItemKey[]): Promise<readonly ItemRow[]> {
  return rowsWhere(query, 'items', 'key', keys);
}

/** Deliveries that an item remembers. */
export const MOST_DELIVERIES = 20;

/** Its tasks stay as they were. Verified unless told otherwise. @param delivery what changed it */
export async function saveItem(
  query: Scope,
  row: Omit<ItemRow, 'standing' | 'deliveries' | 'unverified'> & Partial<Pick<ItemRow, 'unverified'>>,
  delivery: number,
): Promise<void> {
  const before = await findItem(query, row.key);
  const others = readDeliveries(before).filter((id) => id !== delivery);
  const deliveries = JSON.stringify([...others.slice(1 - MOST_DELIVERIES), delivery]);
  await saveRows(query, 'items', [{ unverified: 0, ...row, standing: before?.standing ?? null, deliveries }]);
}

/** Ids of the last deliveries that changed an item, the newest last. */
export function readDeliveries(row: Pick<ItemRow, 'deliveries'> | undefined): readonly number[] {
  return row?.deliveries ? (JSON.parse(row.deliveries) as number[]) : [];
}

export interface StoredItem {
  readonly item: Item;
  readonly older: Readonly<Record<string, Pick<Item, 'updatedAt' | 'version'>>>;
}

export function readFields(row: Pick<ItemRow, 'fields'>): StoredItem {
  return JSON.parse(row.fields) as StoredItem;
}

/** The tasks of a work item, as they were when its dependants were last evaluated. */
export async function readEvaluatedTasks(query: Scope, key: ItemKey): Promise<readonly string[]> {
  const row = await findItem(query, key);
  return row?.standing ? (JSON.parse(row.standing) as string[]) : [];
}

export async function saveEvaluatedTasks(query: Scope, key: ItemKey, taskIds: readonly string[]): Promise<void> {
  const row = await findItem(query, key);
  const standing = taskIds.length === 0 ? null : JSON.stringify(taskIds);
  if (row) await saveRows(query, 'items', [{ ...row, standing }]);
}

/** Nobody reads a longer list. */
const MOST = 5;

/** Items by their address, as their provider spells it. Newest first. */
export function itemsAtUrl(query: Scope, url: string): Promise<ItemKey[]> {
  return itemsWith(query, 'url', url);
}

/** Items by what people call them: `group/project#12`, or `!12` for a merge request, or `ENG-123`. Newest first. */
export function itemsByDisplayName(query: Scope, text: string): Promise<ItemKey[]> {
  return itemsWith(query, 'called', text.replace(/!(?=\d+$)/, '#'));
}

async function itemsWith(query: Scope, column: 'url' | 'called', text: string): Promise<ItemKey[]> {
  const rows = await query
    .selectFrom('items')
    .select('key')
    .where(column, '=', text)
    .orderBy('seen_at', 'desc')
    .limit(MOST)
    .execute();
  return rows.map(({ key }) => key);
}

/** The items that a task is linked to, then those with one of these names in their texts: at most `most`, whichever come first. */
export async function itemsOfTask(
  query: Scope,
  { taskId, names, most }: { readonly taskId: string; readonly names: readonly string[]; readonly most: number },
): Promise<ItemKey[]> {
  const linked = await query
    .selectFrom('entities')
    .select('item_key')
    .where('task_id', '=', taskId)
    .where('kind', '=', 'link')
    .limit(most)
    .execute();
  const naming = await query.selectFrom('mentions').select('item_key').where('name', 'in', names).limit(most).execute();
  return [...new Set([...linked, ...naming].flatMap(({ item_key }) => item_key ?? []))].slice(0, most);
}

/** An item as people know it. */
export interface ItemLabel {
  readonly key: ItemKey;
  readonly kind: Item['kind'];
  /** `acme/api#12`, `ENG-123`; null where nothing but its key is known. */
  readonly called: string | null;
  readonly title: string | null;
  readonly url: string | null;
}

/** What people call these items. */
export async function itemLabels(query: Scope, keys: readonly ItemKey[]): Promise<ItemLabel[]> {
  const items: ItemLabel[] = [];
  for (const some of piecesOf([...new Set(keys)], KEYS_AT_ONCE)) {
    const rows = await query
      .selectFrom('items')
      .select(['key', 'kind', 'called', 'url'])
      .select(textIn(dialectOf(query.whole), 'fields', ['item', 'title']).as('title'))
      .where('key', 'in', some)
      .execute();
    items.push(...rows);
  }
  return items;
}

/** Names of items that begin so, at most `most`. */
export async function namesWithPrefix(query: Scope, start: string, most: number): Promise<string[]> {
  const rows = await query
    .selectFrom('items')
    .select('called')
    .where('called', '>=', start)
    .where('called', '<', `${start}\uffff`)
    .orderBy('called')
    .limit(most)
    .execute();
  return rows.flatMap(({ called }) => called ?? []);
}
