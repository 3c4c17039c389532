import type { Query } from './database.ts';
import type { Tables } from './tables.ts';

export type EntityRow = Tables['entities'];

export async function findEntity(query: Query, entity: string): Promise<EntityRow | undefined> {
  return query.selectFrom('entities').selectAll().where('entity', '=', entity).executeTakeFirst();
}

export async function linksOfItem(query: Query, itemKey: string): Promise<EntityRow[]> {
  return query.selectFrom('entities').selectAll().where('item_key', '=', itemKey).where('kind', '=', 'link').execute();
}

export async function linksOfTask(query: Query, taskId: string): Promise<EntityRow[]> {
  return query.selectFrom('entities').selectAll().where('task_id', '=', taskId).where('kind', '=', 'link').execute();
}

export async function saveEntity(query: Query, row: EntityRow): Promise<void> {
  const { entity: _, ...rest } = row;
  await query
    .insertInto('entities')
    .values(row)
    .onConflict((conflict) => conflict.column('entity').doUpdateSet(rest))
    .execute();
}

export async function forgetEntity(query: Query, entity: string): Promise<void> {
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
    ...ids,
  };
}

/** A JSON column as an object; undefined where it is null. */
export function json<Value = Record<string, unknown>>(column: string | null): Value | undefined {
  return column === null ? undefined : (JSON.parse(column) as Value);
}
