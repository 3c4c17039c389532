import { removeRows, rowsWhere, saveRows } from './kept-rows.ts';
import type { KeptRow } from './kept-tables.ts';
import type { Scope } from './workspace-scope.ts';

export type EntityRow = KeptRow<'entities'>;

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

export async function linksOfItem(query: Scope, itemKey: string): Promise<EntityRow[]> {
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

export async function linksOfTask(query: Scope, taskId: string): Promise<EntityRow[]> {
  return ofKind('link', await rowsWhere(query, 'entities', 'task_id', [taskId]));
}

/** The items that have links to one of these tasks. */
export async function linkedItems(query: Scope, taskIds: readonly string[]): Promise<string[]> {
  const links = ofKind('link', await rowsWhere(query, 'entities', 'task_id', taskIds));
  return [...new Set(links.flatMap(({ item_key }) => item_key ?? []))];
}

export async function saveEntity(query: Scope, row: EntityRow): Promise<void> {
  await saveRows(query, 'entities', [row]);
}

export async function forgetEntity(query: Scope, entity: string): Promise<void> {
  await removeRows(query, 'entities', [{ entity }]);
}

/** What is known from a time ahead counts as known just now: otherwise nothing that is read before that time says more. */
export async function redateKnown(query: Scope, now: number): Promise<void> {
  await query.updateTable('entities').set({ known_at: now }).where('known_at', '>', now).execute();
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
    ...ids,
  };
}

/** A JSON column as an object; undefined where it is null. */
export function json<Value = Record<string, unknown>>(column: string | null): Value | undefined {
  return column === null ? undefined : (JSON.parse(column) as Value);
}
