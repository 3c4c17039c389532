import { sql } from 'kysely';
import { prefixWithin } from './inbox.ts';
import { workspacesWith } from './workspace-numbers.ts';
import type { Scope, Sql } from './workspace-scope.ts';

/** Bytes of bodies that are freed in one statement: SQLite goes through all their pages. */
const MOST_BYTES = 8 * 1024 * 1024;

/** Word for word the condition of the index `inbox_bodies`, which would not serve otherwise. */
const BODY_IS_KEPT = sql<boolean>`settled_at is not null and body is not null`;
/** Word for word the condition of the index `entities_gone`. */
const IS_TOMBSTONE = sql<boolean>`hand = 'gone'`;
const SETTLED = ['applied', 'superseded', 'ignored'] as const;

/** Of these workspaces, those of which `purgeBodies` would purge some. */
export function withOldBodies(query: Sql, workspaces: readonly number[], before: number): Promise<readonly number[]> {
  return workspacesWith(query, workspaces, ({ selectFrom }) => [
    selectFrom('inbox')
      .whereRef('inbox.workspace', '=', 'workspaces.id')
      .where(BODY_IS_KEPT)
      .where('settled_at', '<', before)
      .where('state', 'in', SETTLED)
      .select('inbox.id')
      .limit(1),
  ]);
}

/** Of these workspaces, those of which `deleteDeliveries` would delete some. */
export function withOldDeliveries(
  query: Sql,
  workspaces: readonly number[],
  before: number,
): Promise<readonly number[]> {
  return workspacesWith(query, workspaces, ({ selectFrom }) => [
    selectFrom('inbox')
      .whereRef('inbox.workspace', '=', 'workspaces.id')
      .where('received_at', '<', before)
      .where('state', '!=', 'pending')
      .select('inbox.id')
      .limit(1),
  ]);
}

/** Of these workspaces, those of which `deleteTombstones` would delete some. */
export function withOldTombstones(
  query: Sql,
  workspaces: readonly number[],
  before: number,
): Promise<readonly number[]> {
  return workspacesWith(query, workspaces, ({ selectFrom }) => [
    selectFrom('entities')
      .whereRef('entities.workspace', '=', 'workspaces.id')
      .where(IS_TOMBSTONE)
      .where('entities.known_at', '<', before)
      .select('entities.entity')
      .limit(1),
  ]);
}

/**
 * Empties the bodies of deliveries that were settled before `before`, at most `most` of them; returns how many, 0 where
 * none is left. Pending bodies are still to be read, and a person must look at quarantined ones: both stay.
 */
export async function purgeBodies(query: Scope, before: number, most: number): Promise<number> {
  const old = await query
    .selectFrom('inbox')
    .select(({ fn }) => ['id', fn<number>('length', ['body']).as('bytes')])
    .where(BODY_IS_KEPT)
    .where('settled_at', '<', before)
    .where('state', 'in', SETTLED)
    .orderBy('settled_at')
    .limit(most)
    .execute();
  const ids = prefixWithin(old, MOST_BYTES);
  if (ids.length === 0) return 0;
  await query.updateTable('inbox').set({ body: null, unpacked_length: null }).where('id', 'in', ids).execute();
  return ids.length;
}

/**
 * Deletes deliveries received before `before` that are no longer pending, at most `most`; returns how many, 0 where none is
 * left.
 */
export function deleteDeliveries(query: Scope, before: number, most: number): Promise<number> {
  const old = deliveries(query, most).where('received_at', '<', before).where('state', '!=', 'pending');
  return remove(query, old.orderBy('received_at'));
}

/** Of all deliveries, whatever their state. */
export function deleteAnyDeliveries(query: Scope, most: number): Promise<number> {
  return remove(query, deliveries(query, most));
}

function deliveries(query: Scope, most: number) {
  return query
    .selectFrom('inbox')
    .select(({ fn }) => ['id', fn<number | null>('length', ['body']).as('bytes')])
    .limit(most);
}

async function remove(query: Scope, chosen: ReturnType<typeof deliveries>): Promise<number> {
  const ids = prefixWithin(await chosen.execute(), MOST_BYTES);
  if (ids.length > 0) await query.deleteFrom('inbox').where('id', 'in', ids).execute();
  return ids.length;
}

/** Deletes links that worksync removed before `before`, at most `most`; returns how many, 0 where none is left. */
export async function deleteTombstones(query: Scope, before: number, most: number): Promise<number> {
  const old = await query
    .selectFrom('entities')
    .select('entity')
    .where(IS_TOMBSTONE)
    .where('known_at', '<', before)
    .orderBy('known_at')
    .limit(most)
    .execute();
  const names = old.map(({ entity }) => entity);
  if (names.length > 0) await query.deleteFrom('entities').where('entity', 'in', names).execute();
  return names.length;
}
