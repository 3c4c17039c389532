import { type CachedRow, newRow } from '../unit-of-work/cached-tables.ts';
import { removeRows, rowsWhere, saveRows } from '../unit-of-work/unit-of-work.ts';
import type { Scope } from '../workspace-scope.ts';

export type EntityRow = CachedRow<'entities'>;

export async function findEntity(query: Scope, entity: string): Promise<EntityRow | undefined> {
  const [row] = await rowsWhere(query, 'entities', 'entity', [entity]);
  return row;
}

/** Returns the entities with these names; missing ones are left out. */
export async function findEntities(query: Scope, names: readonly string[]): Promise<readonly EntityRow[]> {
  return rowsWhere(query, 'entities', 'entity', names);
}

/** Returns everything that the workspace has or should have because of these items. */
export async function entitiesOf(query: Scope, itemKeys: readonly string[]): Promise<readonly EntityRow[]> {
  return rowsWhere(query, 'entities', 'item_key', itemKeys);
}

/** Returns the links of an item, without tombstones. */
export async function linksOfItem(query: Scope, itemKey: string): Promise<EntityRow[]> {
  return (await allLinksOfItem(query, itemKey)).filter(({ hand }) => hand !== 'gone');
}

/** Returns the links of an item, including tombstones. */
export async function allLinksOfItem(query: Scope, itemKey: string): Promise<EntityRow[]> {
  return ofKind('link', await rowsWhere(query, 'entities', 'item_key', [itemKey]));
}

function ofKind(kind: EntityRow['kind'], rows: readonly EntityRow[]): EntityRow[] {
  return rows.filter((row) => row.kind === kind);
}

/** Returns the documents that an item has claimed. */
export async function documentsOfItem(query: Scope, itemKey: string): Promise<EntityRow[]> {
  return ofKind('document', await rowsWhere(query, 'entities', 'item_key', [itemKey]));
}

/** Returns the links of a task, without tombstones. */
export async function linksOfTask(query: Scope, taskId: string): Promise<EntityRow[]> {
  return (await allLinksOfTask(query, taskId)).filter(({ hand }) => hand !== 'gone');
}

/** Returns the links of a task, including tombstones. */
export async function allLinksOfTask(query: Scope, taskId: string): Promise<EntityRow[]> {
  return ofKind('link', await rowsWhere(query, 'entities', 'task_id', [taskId]));
}

/** Returns the items that have a link to one of these tasks. */
export async function linkedItems(query: Scope, taskIds: readonly string[]): Promise<string[]> {
  const rows = ofKind('link', await rowsWhere(query, 'entities', 'task_id', taskIds));
  const links = rows.filter(({ hand }) => hand !== 'gone');
  return [...new Set(links.flatMap(({ item_key }) => item_key ?? []))];
}

export async function saveEntity(query: Scope, row: EntityRow): Promise<void> {
  await saveRows(query, 'entities', [row]);
}

export async function forgetEntity(query: Scope, entity: string): Promise<void> {
  await removeRows(query, 'entities', [{ entity }]);
}

/** Removes an entity. A link that the workspace has reported becomes a tombstone for a day, so that no late answer restores it. */
export async function removeOrTombstone(query: Scope, row: EntityRow): Promise<void> {
  if (row.kind !== 'link' || row.revision === 0) return forgetEntity(query, row.entity);
  await saveEntity(query, { ...row, desired: null, known: null, hand: 'gone' });
}

/** Replaces future times of known states by now, because otherwise no state that is read before that time would be newer. */
export async function clampKnownTimes(query: Scope, now: number): Promise<void> {
  await query.updateTable('entities').set({ known_at: now }).where('known_at', '>', now).execute();
}

/** Tasks that suffice to recognise how lists show them. */
const MAX_CREATED_TASKS = 100;

/** Returns some of the tasks that worksync created for items. */
export async function createdTasks(query: Scope) {
  return query
    .selectFrom('entities')
    .select(['item_key', 'remote_id', 'desired'])
    .where('entity', '>', 'task:')
    .where('entity', '<', 'task;')
    .where('kind', '=', 'task')
    .where('remote_id', 'is not', null)
    .orderBy('entity')
    .limit(MAX_CREATED_TASKS)
    .execute();
}

/** Records read by one statement. */
const RECORDS_PER_PAGE = 100;

/** Returns the items with a record, in the order of their records; `next` is the position of the next page. */
export async function recordedItemsAfter(query: Scope, after: string) {
  const rows = await query
    .selectFrom('entities')
    .select(['entity', 'item_key'])
    .where('entity', '>', after)
    .where('entity', '<', 'pull_request;')
    .where('kind', '=', 'pull_request')
    .orderBy('entity')
    .limit(RECORDS_PER_PAGE)
    .execute();
  const items = rows.flatMap(({ item_key }) => item_key ?? []);
  return { items, next: rows.length < RECORDS_PER_PAGE ? undefined : rows.at(-1)?.entity };
}

/** Returns a row without any desired or known state. */
export function blankEntity(entity: string, kind: EntityRow['kind'], ids: Partial<EntityRow> = {}): EntityRow {
  return newRow('entities', { entity, kind, ...ids });
}

/** Returns whether an answer as of revision `asOf` may change the known state of an entity. */
export function mayUpdate({ revision }: { readonly revision: number }, asOf: number): boolean {
  return revision <= asOf;
}
