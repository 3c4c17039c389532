import { sql } from 'kysely';
import { WORKSPACE_TABLES, type WorkspaceTable } from './copy-rows.ts';
import type { Installation } from './installation.ts';
import { type Sql, scopeOf } from './scope.ts';

/** Rows of one statement. */
const AT_ONCE = 1_000;

/** The number of a workspace that has rows; undefined where there is none of this name. */
export async function findWorkspace(query: Sql, name: string): Promise<number | undefined> {
  const row = await query.selectFrom('workspaces').select('id').where('name', '=', name).executeTakeFirst();
  return row?.id;
}

/** Deletes all rows of a workspace, in small pieces beside the work of others. Killed in between, it is there still. */
export async function forgetWorkspace({ query }: Installation, workspace: number): Promise<number> {
  let rows = 0;
  for (const table of Object.keys(WORKSPACE_TABLES) as WorkspaceTable[]) {
    for (let deleted = AT_ONCE; deleted > 0; rows += deleted) deleted = await deleteSome(query, workspace, table);
  }
  await query.deleteFrom('workspaces').where('id', '=', workspace).execute();
  return rows;
}

async function deleteSome(query: Sql, workspace: number, table: WorkspaceTable): Promise<number> {
  const [key] = WORKSPACE_TABLES[table];
  const scope = scopeOf(query, workspace);
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
