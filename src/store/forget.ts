import { sql } from 'kysely';
import { yieldForRequests } from '../platform/lib/yield.ts';
import { deleteAnyDeliveries } from './deletions.ts';
import type { Installation } from './installation.ts';
import { forgetRefused } from './refused-requests.ts';
import { WORKSPACE_TABLES, type WorkspaceTable } from './schema/tables.ts';
import { type Scope, type Sql, scopeOf } from './workspace-scope.ts';

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
