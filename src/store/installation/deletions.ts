import { sql } from 'kysely';
import { keyOf } from '../../platform/database/database-schema.ts';
import { yieldForRequests } from '../../platform/lib/concurrency.ts';
import { forgetRefused } from '../access/refused-requests.ts';
import { prefixWithin } from '../deliveries/inbox.ts';
import { WORKSPACE_TABLES, type WorkspaceTable } from '../schema/tables.ts';
import { changedRows, type Scope, type Sql, scopeOf, workspacesWith } from '../workspace-scope.ts';
import type { Installation } from './installation.ts';

/** Bytes of bodies that one statement frees. More would take long, because SQLite visits all their pages. */
const MAX_BYTES = 8 * 1024 * 1024;

/** The exact condition of the index `inbox_bodies`. With any other text the database would not use the index. */
const HAS_OLD_BODY = sql<boolean>`settled_at is not null and body is not null`;
/** The exact condition of the index `entities_gone`. */
const IS_TOMBSTONE = sql<boolean>`hand = 'gone'`;
const SETTLED = ['applied', 'superseded', 'ignored'] as const;

/** Returns those of these workspaces in which rows are to be deleted that are older than `before`, epoch milliseconds. */
type FindOld = (query: Sql, workspaces: readonly number[], before: number) => Promise<readonly number[]>;

/** Finds what `purgeBodies` purges. */
export const withOldBodies: FindOld = (query, workspaces, before) =>
  workspacesWith(query, workspaces, ({ selectFrom }) => [
    selectFrom('inbox')
      .whereRef('inbox.workspace', '=', 'workspaces.id')
      .where(HAS_OLD_BODY)
      .where('settled_at', '<', before)
      .where('state', 'in', SETTLED),
  ]);

/** Finds what `deleteDeliveries` deletes. */
export const withOldDeliveries: FindOld = (query, workspaces, before) =>
  workspacesWith(query, workspaces, ({ selectFrom }) => [
    selectFrom('inbox')
      .whereRef('inbox.workspace', '=', 'workspaces.id')
      .where('received_at', '<', before)
      .where('state', '!=', 'pending'),
  ]);

/** Finds what `deleteTombstones` deletes. */
export const withOldTombstones: FindOld = (query, workspaces, before) =>
  workspacesWith(query, workspaces, ({ selectFrom }) => [
    selectFrom('entities')
      .whereRef('entities.workspace', '=', 'workspaces.id')
      .where(IS_TOMBSTONE)
      .where('known_at', '<', before),
  ]);

/**
 * Removes the bodies of at most `most` deliveries that were settled before `before`. Bodies of pending deliveries stay because
 * they are not processed yet, and quarantined ones because a person has to examine them.
 *
 * @returns how many; 0 if none is left
 */
export async function purgeBodies(query: Scope, before: number, most: number): Promise<number> {
  const old = await query
    .selectFrom('inbox')
    .select(({ fn }) => ['id', fn<number>('length', ['body']).as('bytes')])
    .where(HAS_OLD_BODY)
    .where('settled_at', '<', before)
    .where('state', 'in', SETTLED)
    .orderBy('settled_at')
    .limit(most)
    .execute();
  const ids = prefixWithin(old, MAX_BYTES);
  if (ids.length === 0) return 0;
  await query.updateTable('inbox').set({ body: null, unpacked_length: null }).where('id', 'in', ids).execute();
  return ids.length;
}

/** Deletes at most `most` settled deliveries that were received before `before`. @returns how many; 0 if none is left */
export function deleteDeliveries(query: Scope, before: number, most: number): Promise<number> {
  const old = deliverySizes(query, most).where('received_at', '<', before).where('state', '!=', 'pending');
  return deleteSelected(query, old.orderBy('received_at'));
}

function deliverySizes(query: Scope, most: number) {
  return query
    .selectFrom('inbox')
    .select(({ fn }) => ['id', fn<number | null>('length', ['body']).as('bytes')])
    .limit(most);
}

async function deleteSelected(query: Scope, selected: ReturnType<typeof deliverySizes>): Promise<number> {
  const ids = prefixWithin(await selected.execute(), MAX_BYTES);
  if (ids.length > 0) await query.deleteFrom('inbox').where('id', 'in', ids).execute();
  return ids.length;
}

/** Deletes at most `most` tombstones of links that were removed before `before`. @returns how many; 0 if none is left */
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

/** Returns the number of the workspace with this name; undefined if it has no rows. */
export async function findWorkspace(query: Sql, name: string): Promise<number | undefined> {
  const row = await query.selectFrom('workspaces').select('id').where('name', '=', name).executeTakeFirst();
  return row?.id;
}

/** Returns the names of all workspaces with rows, including those without a configuration. */
export async function workspacesWithRows(query: Sql): Promise<readonly string[]> {
  const rows = await query.selectFrom('workspaces').select('name').execute();
  return rows.map(({ name }) => name);
}

/**
 * Deletes all rows of a workspace in small transactions, between which other work continues. If the process is killed meanwhile,
 * the workspace still exists and can be deleted again.
 */
export async function forgetWorkspace({ query, commitRelaxed }: Installation, workspace: number): Promise<number> {
  const rows = await deleteRows(async (deleteChunk) => {
    await yieldForRequests();
    return commitRelaxed((transaction) => deleteChunk(scopeOf(transaction, workspace)));
  });
  await scopeOf(query, workspace).deleteFrom('counts').execute();
  await query.deleteFrom('leases').where('workspace', '=', workspace).execute();
  const own = query.selectFrom('workspaces').select('name').where('id', '=', workspace);
  await forgetRefused(query, (await own.executeTakeFirstOrThrow()).name);
  await query.deleteFrom('workspaces').where('id', '=', workspace).execute();
  return rows;
}

/** Rows that one statement deletes. The limit bounds its duration to some milliseconds, and the memory that SQLite needs. */
const CHUNK_SIZE = 300;

/**
 * Deletes all rows of a workspace in chunks, except its name.
 *
 * @param run executes the deletion of one chunk in the scope of the workspace, and returns its result
 * @returns the number of deleted rows
 */
export async function deleteRows(
  run: (deleteChunk: (scope: Scope) => Promise<number>) => Promise<number>,
): Promise<number> {
  let rows = 0;
  for (const table of Object.keys(WORKSPACE_TABLES) as WorkspaceTable[]) {
    for (let deleted = 1; deleted > 0; rows += deleted) deleted = await run((scope) => deleteChunkOf(scope, table));
  }
  return rows;
}

async function deleteChunkOf(scope: Scope, table: WorkspaceTable): Promise<number> {
  if (table === 'inbox') return deleteSelected(scope, deliverySizes(scope, CHUNK_SIZE));
  const [key = ''] = keyOf(WORKSPACE_TABLES[table]);
  const some = scope
    .selectFrom(table as 'items')
    .select(sql.ref<string>(key).as('key'))
    .limit(CHUNK_SIZE);
  return changedRows(scope.deleteFrom(table as 'items').where(sql.ref<string>(key), 'in', some));
}
