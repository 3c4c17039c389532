import type { Selectable } from 'kysely';
import type { Scope } from './scope.ts';
import type { Tables } from './tables.ts';

export type EntityRow = Selectable<Tables['entities']>;

export async function findEntity(query: Scope, entity: string): Promise<EntityRow | undefined> {
  return query.selectFrom('entities').selectAll().where('entity', '=', entity).executeTakeFirst();
}

export async function linksOfItem(query: Scope, itemKey: string): Promise<EntityRow[]> {
  return query.selectFrom('entities').selectAll().where('item_key', '=', itemKey).where('kind', '=', 'link').execute();
}

/** Which of these there are. */
export async function existingEntities(query: Scope, names: readonly string[]): Promise<Set<string>> {
  const found = new Set<string>();
  for (let at = 0; at < names.length; at += AT_ONCE) {
    const some = names.slice(at, at + AT_ONCE);
    const rows = await query.selectFrom('entities').select('entity').where('entity', 'in', some).execute();
    for (const { entity } of rows) found.add(entity);
  }
  return found;
}

/** The documents that an item has claimed. */
export async function documentsOfItem(query: Scope, itemKey: string): Promise<EntityRow[]> {
  return query
    .selectFrom('entities')
    .selectAll()
    .where('item_key', '=', itemKey)
    .where('kind', '=', 'document')
    .execute();
}

export async function linksOfTask(query: Scope, taskId: string): Promise<EntityRow[]> {
  return query.selectFrom('entities').selectAll().where('task_id', '=', taskId).where('kind', '=', 'link').execute();
}

const AT_ONCE = 500;

/** The items that have links to one of these tasks. */
export async function linkedItems(query: Scope, taskIds: readonly string[]): Promise<string[]> {
  const keys = new Set<string>();
  for (let at = 0; at < taskIds.length; at += AT_ONCE) {
    const rows = await query
      .selectFrom('entities')
      .select('item_key')
      .where('task_id', 'in', taskIds.slice(at, at + AT_ONCE))
      .where('kind', '=', 'link')
      .execute();
    for (const { item_key } of rows) if (item_key !== null) keys.add(item_key);
  }
  return [...keys];
}

export async function saveEntity(query: Scope, row: EntityRow): Promise<void> {
  const { entity: _, ...rest } = row;
  await query
    .insertInto('entities')
    .values(row)
    .onConflict((conflict) => conflict.columns(['workspace', 'entity']).doUpdateSet(rest))
    .execute();
}

export async function forgetEntity(query: Scope, entity: string): Promise<void> {
  await query.deleteFrom('entities').where('entity', '=', entity).execute();
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
