import { sql } from 'kysely';
import { yieldForRequests } from '../platform/lib/yield.ts';
import { prefixWithin } from './inbox.ts';
import type { Installation } from './installation.ts';
import { forgetRefused } from './refused-requests.ts';
import { WORKSPACE_TABLES, type WorkspaceTable } from './schema/tables.ts';
import { workspacesWith } from './workspace-numbers.ts';
import { type Scope, type Sql, scopeOf } from './workspace-scope.ts';

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

/** The number of a workspace that has rows; undefined where there is none of this name. */
export async function findWorkspace(query: Sql, name: string): Promise<number | undefined> {
  const row = await query.selectFrom('workspaces').select('id').where('name', '=', name).executeTakeFirst();
  return row?.id;
}

/** The workspaces that have rows, also those without a configuration. */
export async function workspacesWithRows(query: Sql): Promise<readonly string[]> {
  const rows = await query.selectFrom('workspaces').select('name').execute();
  return rows.map(({ name }) => name);
}

/** Deletes all rows of a workspace, in small pieces beside the work of others. Killed in between, it is there still. */
export async function forgetWorkspace({ query, commitRelaxed }: Installation, workspace: number): Promise<number> {
  const rows = await deleteRows(async (piece) => {
    await yieldForRequests();
    return commitRelaxed((transaction) => piece(scopeOf(transaction, workspace)));
  });
  await scopeOf(query, workspace).deleteFrom('counts').execute();
  await query.deleteFrom('leases').where('workspace', '=', workspace).execute();
  const { name } = await query
    .selectFrom('workspaces')
    .select('name')
    .where('id', '=', workspace)
    .executeTakeFirstOrThrow();
  await forgetRefused(query, name);
  await query.deleteFrom('workspaces').where('id', '=', workspace).execute();
  return rows;
}

/** Rows of one statement: some milliseconds, and what SQLite keeps of them until it ends. */
const AT_ONCE = 300;

/**
 * Deletes all rows of a workspace piece by piece, and leaves its name.
 *
 * @param run carries one piece out
 * @returns how many rows there were
 */
export async function deleteRows(run: (piece: (scope: Scope) => Promise<number>) => Promise<number>): Promise<number> {
  let rows = 0;
  for (const table of Object.keys(WORKSPACE_TABLES) as WorkspaceTable[]) {
    for (let deleted = 1; deleted > 0; rows += deleted) deleted = await run((scope) => deleteSome(scope, table));
  }
  return rows;
}

async function deleteSome(scope: Scope, table: WorkspaceTable): Promise<number> {
  if (table === 'inbox') return deleteAnyDeliveries(scope, AT_ONCE);
  const [key] = WORKSPACE_TABLES[table];
  const some = scope
    .selectFrom(table as 'items')
    .select(sql.ref<string>(key).as('key'))
    .limit(AT_ONCE);
  const deleted = await scope
    .deleteFrom(table as 'items')
    .where(sql.ref<string>(key), 'in', some)
    .executeTakeFirst();
  return Number(deleted.numDeletedRows);
}
