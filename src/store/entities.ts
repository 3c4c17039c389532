import type { CachedRow } from './unit-of-work/cached-tables.ts';
import { removeRows, rowsWhere, saveRows } from './unit-of-work/unit-of-work.ts';
import type { Scope } from './workspace-scope.ts';

export type EntityRow = CachedRow<'entities'>;

export async function findEntity(query: Scope, entity: string): Promise<EntityRow | undefined> {
  const [row] = await rowsWhere(query, 'entities', 'entity', [entity]);
  return row;
}

/** Those of these names that there are. */
export async function findEntities(query: Scope, names: readonly string[]): Promise<readonly EntityRow[]> {
  return rowsWhere(query, 'entities', 'entity', names);
}

/** Everything that the workspace holds, or should, of these items. */
export async function entitiesOf(query: Scope, itemKeys: readonly string[]): Promise<readonly EntityRow[]> {
  return rowsWhere(query, 'entities', 'item_key', itemKeys);
}

/** Without the links that worksync removed. */
export async function linksOfItem(query: Scope, itemKey: string): Promise<EntityRow[]> {
  return (await allLinksOfItem(query, itemKey)).filter(({ hand }) => hand !== 'gone');
}

/** With the links that worksync removed lately. */
export async function allLinksOfItem(query: Scope, itemKey: string): Promise<EntityRow[]> {
  return ofKind('link', await rowsWhere(query, 'entities', 'item_key', [itemKey]));
}

function ofKind(kind: EntityRow['kind'], rows: readonly EntityRow[]): EntityRow[] {
  return rows.filter((row) => row.kind === kind);
}

/** Which of these there are. */
export async function existingEntities(query: Scope, names: readonly string[]): Promise<Set<string>> {
  return new Set((await findEntities(query, names)).map(({ entity }) => entity));
}

/** The documents that an item has claimed. */
export async function documentsOfItem(query: Scope, itemKey: string): Promise<EntityRow[]> {
  return ofKind('document', await rowsWhere(query, 'entities', 'item_key', [itemKey]));
}

/** Without the links that worksync removed. */
export async function linksOfTask(query: Scope, taskId: string): Promise<EntityRow[]> {
  return (await allLinksOfTask(query, taskId)).filter(({ hand }) => hand !== 'gone');
}

/** With the links that worksync removed lately. */
export async function allLinksOfTask(query: Scope, taskId: string): Promise<EntityRow[]> {
  return ofKind('link', await rowsWhere(query, 'entities', 'task_id', [taskId]));
}

/** The items that have links to one of these tasks. */
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

/** A link of which the workspace has said something stays for a day, so that no late answer brings it back. */
export async function removeOrTombstone(query: Scope, row: EntityRow): Promise<void> {
  if (row.kind !== 'link' || row.revision === 0) return forgetEntity(query, row.entity);
  await saveEntity(query, { ...row, desired: null, known: null, hand: 'gone' });
}

/** What is known from a time ahead counts as known just now: otherwise nothing that is read before that time says more. */
export async function clampKnownTimes(query: Scope, now: number): Promise<void> {
  await query.updateTable('entities').set({ known_at: now }).where('known_at', '>', now).execute();
}

/** Tasks looked at to learn how lists show them. */
const MADE = 100;

/** Tasks that worksync made for items, some of them. */
export async function createdTasks(
  query: Scope,
): Promise<readonly Pick<EntityRow, 'item_key' | 'remote_id' | 'desired'>[]> {
  return query
    .selectFrom('entities')
    .select(['item_key', 'remote_id', 'desired'])
    .where('entity', '>', 'task:')
    .where('entity', '<', 'task;')
    .where('kind', '=', 'task')
    .where('remote_id', 'is not', null)
    .orderBy('entity')
    .limit(MADE)
    .execute();
}

/** Records of one statement. */
const MIRRORED = 100;

/** Items whose pull request is mirrored, by their records; `next` is where to go on. */
export async function recordedItemsAfter(
  query: Scope,
  after: string,
): Promise<{ readonly items: string[]; readonly next?: string }> {
  const rows = await query
    .selectFrom('entities')
    .select(['entity', 'item_key'])
    .where('entity', '>', after)
    .where('entity', '<', 'pull_request;')
    .where('kind', '=', 'pull_request')
    .orderBy('entity')
    .limit(MIRRORED)
    .execute();
  const items = rows.flatMap(({ item_key }) => item_key ?? []);
  const next = rows.length < MIRRORED ? undefined : rows.at(-1)?.entity;
  return next === undefined ? { items } : { items, next };
}

/** A row about which nothing is known yet. */
export function blankEntity(entity: string, kind: EntityRow['kind'], ids: Partial<EntityRow> = {}): EntityRow {
  return {
    entity,
    kind,
    item_key: null,
    task_id: null,
    desired: null,
    known: null,
    known_at: null,
    remote_id: null,
    hand: null,
    written: null,
    revision: 0,
    ...ids,
  };
}

/** A JSON column as an object; undefined where it is null. */
export function json<Value = Record<string, unknown>>(column: string | null): Value | undefined {
  return column === null ? undefined : (JSON.parse(column) as Value);
}
