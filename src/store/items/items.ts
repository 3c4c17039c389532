import { sql } from 'kysely';
import type { Item, ItemKey } from '../../model/item.ts';
import { textIn } from '../../platform/database/database-schema.ts';
import { chunksOf } from '../../platform/lib/concurrency.ts';
import { type CachedRow, newRow } from '../unit-of-work/cached-tables.ts';
import { rowsWhere, saveRows } from '../unit-of-work/unit-of-work.ts';
import type { NewRow, Scope } from '../workspace-scope.ts';

export type ItemRow = CachedRow<'items'>;

/** The columns that show whether an item changed. The fields are read only if it did. */
export type ItemVersion = Pick<ItemRow, 'key' | 'provider_time' | 'hash' | 'unverified'>;

/** Keys of one statement. SQLite allows 32 766 parameters; the limit also keeps the number of different statements small. */
const KEYS_AT_ONCE = 500;

export async function itemVersions(query: Scope, keys: readonly ItemKey[]): Promise<Map<ItemKey, ItemVersion>> {
  const columns = query.selectFrom('items').select(['key', 'provider_time', 'hash', 'unverified']);
  const versions = new Map<ItemKey, ItemVersion>();
  for (const some of chunksOf(keys, KEYS_AT_ONCE))
    for (const row of await columns.where('key', 'in', some).execute()) versions.set(row.key, row);
  return versions;
}

/** Returns those of these keys that belong to a stored item. */
export async function existingItems(query: Scope, keys: readonly string[]): Promise<ItemKey[]> {
  return (await findItems(query, keys)).map(({ key }) => key);
}

/** Returns the provider's time of the newest stored state of any item, epoch milliseconds; undefined without items. */
export async function newestProviderTime(query: Scope): Promise<number | undefined> {
  const newest = query.selectFrom('items').select(({ fn }) => fn.max<number | null>('provider_time').as('time'));
  return (await newest.executeTakeFirst())?.time ?? undefined;
}

/**
 * Returns the name of an item for people, in logs; its key if it has none. `isUnverified`: nothing from the provider has confirmed it
 * since a restore; false if it is not stored.
 */
export async function itemSummary(
  query: Scope,
  key: ItemKey,
): Promise<{ readonly name: string; readonly isUnverified: boolean }> {
  const columns = query.selectFrom('items').select([ITEM_NAME.as('name'), 'unverified']);
  const row = await columns.where('key', '=', key).executeTakeFirst();
  return { name: row?.name ?? key, isUnverified: row?.unverified === 1 };
}

/**
 * Selects the name of an item for people from the table `items`: `acme/api#12`, `group/project!12`, `ENG-123`; null if only its
 * key is known. The column `called`, by which people search, has `#` before every number.
 */
export const ITEM_NAME = sql<string | null>`replace(
  ${sql.ref('items.called')}, '#', coalesce(${sql.ref('items.number_sign')}, '#'))`;

/** The position of an item in the order in which unverified items are fetched: open ones first. */
export type UnverifiedPosition = Pick<ItemRow, 'finished' | 'key'>;

/** Returns the next unverified items of a connection after a position. */
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

/** Returns items that are not gone, either open or finished ones, in the order of their keys. */
export async function itemsAfter(query: Scope, after: ItemKey, most: number, finished = false): Promise<ItemKey[]> {
  const rows = await query
    .selectFrom('items')
    .select('key')
    .where('key', '>', after)
    // For open items the exact condition of the index `items_open`. With any other text the database would not use the index.
    .where('finished', '=', sql.lit(finished ? 1 : 0))
    .where('gone', '=', sql.lit(0))
    .orderBy('key')
    .limit(most)
    .execute();
  return rows.map(({ key }) => key);
}

export type OpenPullRequest = Awaited<ReturnType<typeof openPullRequests>>[number];

/** Returns the branches and the repositories of at most `most` open pull requests, as far as they are known. */
export async function openPullRequests(query: Scope, most: number) {
  const field = (name: string) => textIn(query.dialect, 'fields', ['item', name]);
  return query
    .selectFrom('items')
    .select([field('baseBranch').as('baseBranch'), field('defaultBranch').as('defaultBranch')])
    .select([field('repoId').as('repoId'), field('repoName').as('repoName')])
    .where('kind', '=', 'pull_request')
    .where('finished', '=', sql.lit(0))
    .where('gone', '=', sql.lit(0))
    .orderBy('key')
    .limit(most)
    .execute();
}

export async function findItem(query: Scope, key: ItemKey): Promise<ItemRow | undefined> {
  const [row] = await findItems(query, [key]);
  return row;
}

export async function findItems(query: Scope, keys: readonly ItemKey[]): Promise<readonly ItemRow[]> {
  return rowsWhere(query, 'items', 'key', keys);
}

/** Ids of deliveries that are stored with an item. */
export const MOST_DELIVERIES = 20;

/**
 * Saves an item. Its evaluated tasks stay as they are, and it counts as verified unless the row says otherwise.
 *
 * @param delivery the id of the delivery that changed the item
 */
export async function saveItem(
  query: Scope,
  row: Omit<NewRow<'items'>, 'standing' | 'deliveries' | 'phase' | 'reverts'>,
  delivery: number,
): Promise<void> {
  const previous = await findItem(query, row.key);
  const others = readDeliveries(previous).filter((id) => id !== delivery);
  const deliveries = JSON.stringify([...others.slice(1 - MOST_DELIVERIES), delivery]);
  const confirmed = { unverified: 0, number_sign: null, ...row } as const;
  await saveRows(query, 'items', [newRow('items', { ...previous, ...confirmed, deliveries })]);
}

/** Returns the ids of the last deliveries that changed an item, the newest last. */
export function readDeliveries(row: Pick<ItemRow, 'deliveries'> | undefined): readonly number[] {
  return row?.deliveries ? (JSON.parse(row.deliveries) as number[]) : [];
}

export interface StoredItem {
  readonly item: Item;
  readonly older: Readonly<Record<string, Pick<Item, 'updatedAt' | 'toldAt' | 'provenAt' | 'version'>>>;
}

export function readFields(row: Pick<ItemRow, 'fields'>): StoredItem {
  return JSON.parse(row.fields) as StoredItem;
}

/** Returns the tasks that a work item had when the items that depend on it were last evaluated. */
export async function readEvaluatedTasks(query: Scope, key: ItemKey): Promise<readonly string[]> {
  const row = await findItem(query, key);
  return row?.standing ? (JSON.parse(row.standing) as string[]) : [];
}

export async function saveEvaluatedTasks(query: Scope, key: ItemKey, taskIds: readonly string[]): Promise<void> {
  const row = await findItem(query, key);
  const standing = taskIds.length === 0 ? null : JSON.stringify(taskIds);
  if (row) await saveRows(query, 'items', [{ ...row, standing }]);
}

/** Stores what the rules for task states need of an item: its phase, and the pull request that it reverts. */
export async function saveWorkflowFacts(
  query: Scope,
  key: ItemKey,
  facts: Pick<ItemRow, 'phase' | 'reverts'>,
): Promise<void> {
  const row = await findItem(query, key);
  if (!row || (row.phase === facts.phase && row.reverts === facts.reverts)) return;
  await saveRows(query, 'items', [{ ...row, ...facts }]);
}

/** Returns the pull requests that revert one with this key, or with the names of these commits. */
export async function revertsOf(query: Scope, names: readonly string[]): Promise<readonly ItemRow[]> {
  return rowsWhere(query, 'items', 'reverts', names);
}

/** Items with the same address or name that are returned. People do not read a longer list. */
const MAX_SAME_NAME = 5;

/** Returns the name as the column `called` has it. */
function withHash(name: string): string {
  return name.replace(/!(?=\d*$)/, '#');
}

/** Returns the items with this address, as their provider spells it, the newest first. */
export function itemsAtUrl(query: Scope, url: string): Promise<ItemKey[]> {
  return itemsWith(query, 'url', url);
}

/** Returns the items with this display name, the newest first: `group/project#12`, `group/project!12`, `ENG-123`. */
export function itemsByDisplayName(query: Scope, text: string): Promise<ItemKey[]> {
  return itemsWith(query, 'called', withHash(text));
}

async function itemsWith(query: Scope, column: 'url' | 'called', text: string): Promise<ItemKey[]> {
  const rows = await query
    .selectFrom('items')
    .select('key')
    .where(column, '=', text)
    .orderBy('seen_at', 'desc')
    .limit(MAX_SAME_NAME)
    .execute();
  return rows.map(({ key }) => key);
}

/** Returns at most `most` items: first those with a link to the task, then those whose texts contain one of these names. */
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
  const naming = await itemsNamingFirst(query, names, most);
  return [...new Set([...linked.flatMap(({ item_key }) => item_key ?? []), ...naming])].slice(0, most);
}

/** Returns at most `most` items whose texts contain one of these names. */
export async function itemsNamingFirst(query: Scope, names: readonly string[], most: number): Promise<ItemKey[]> {
  const rows = await query.selectFrom('mentions').select('item_key').where('name', 'in', names).limit(most).execute();
  return rows.map(({ item_key }) => item_key);
}

/** Returns the names, titles and addresses of these items for people. The name is null if only the key of the item is known. */
export async function itemLabels(query: Scope, keys: readonly ItemKey[]) {
  const labels = query
    .selectFrom('items')
    .select(['key', 'kind', 'url', ITEM_NAME.as('name')])
    .select(textIn(query.dialect, 'fields', ['item', 'title']).as('title'));
  const pieces = [];
  for (const some of chunksOf([...new Set(keys)], KEYS_AT_ONCE))
    pieces.push(await labels.where('key', 'in', some).execute());
  return pieces.flat();
}

/** Returns at most `most` display names that begin with the prefix. */
export async function namesWithPrefix(query: Scope, prefix: string, most: number): Promise<string[]> {
  const searched = withHash(prefix);
  const rows = await query
    .selectFrom('items')
    .select(ITEM_NAME.as('name'))
    .where('called', '>=', searched)
    .where('called', '<', `${searched}\uffff`)
    .orderBy('called')
    .limit(most)
    .execute();
  return rows.flatMap(({ name }) => name ?? []);
}
