import { sql } from 'kysely';
import { nextTurn } from '../lib/turn.ts';
import { WORKSPACE_TABLES, type WorkspaceTable } from './copy-rows.ts';
import type { Installation } from './installation.ts';
import { type Scope, type Sql, scopeOf } from './scope.ts';

/** The number of a workspace that has rows; undefined where there is none of this name. */
export async function findWorkspace(query: Sql, name: string): Promise<number | undefined> {
  const row = await query.selectFrom('workspaces').select('id').where('name', '=', name).executeTakeFirst();
  return row?.id;
}

/** Deletes all rows of a workspace, in small pieces beside the work of others. Killed in between, it is there still. */
export async function forgetWorkspace({ query }: Installation, workspace: number): Promise<number> {
  const scope = scopeOf(query, workspace);
  const rows = await deleteRows(scope, nextTurn);
  await scope.deleteFrom('counts').execute();
  await query.deleteFrom('workspaces').where('id', '=', workspace).execute();
  return rows;
}

/** Rows of one statement: some milliseconds, and what SQLite keeps of them until it ends. */
const AT_ONCE = 100;

/**
 * Deletes all rows of a workspace, and leaves its name.
 *
 * @param between called after each statement
 * @returns how many rows there were
 */
export async function deleteRows(scope: Scope, between: () => Promise<void> = async () => undefined): Promise<number> {
  let rows = 0;
  for (const table of Object.keys(WORKSPACE_TABLES) as WorkspaceTable[]) {
    for (let deleted = AT_ONCE; deleted > 0; rows += deleted) {
      deleted = await deleteSome(scope, table);
      await between();
    }
  }
  return rows;
}

async function deleteSome(scope: Scope, table: WorkspaceTable): Promise<number> {
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
