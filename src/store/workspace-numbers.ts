import type { Expression, ExpressionBuilder, SqlBool } from 'kysely';
import type { Schema } from './tables.ts';
import type { Sql } from './workspace-scope.ts';

/** The numbers of workspaces, in the order of their names here; who has none yet is given one. */
export async function numbersOf(query: Sql, names: readonly string[]): Promise<readonly number[]> {
  const found = await foundOf(query, names);
  const missing = names.filter((name) => !found.has(name));
  if (missing.length > 0) {
    await query
      .insertInto('workspaces')
      .values(missing.map((name) => ({ name })))
      .onConflict((conflict) => conflict.column('name').doNothing())
      .execute();
  }
  const made = missing.length === 0 ? found : await foundOf(query, names);
  return names.map((name) => made.get(name) as number);
}

async function foundOf(query: Sql, names: readonly string[]): Promise<ReadonlyMap<string, number>> {
  const rows = await query
    .selectFrom('workspaces')
    .select(['id', 'name'])
    .where('name', 'in', ['', ...names])
    .execute();
  return new Map(rows.map(({ id, name }) => [name, id]));
}

type OfWorkspace = (build: ExpressionBuilder<Schema, 'workspaces'>) => Expression<SqlBool>;

/** Of these workspaces, those for which it holds: by `exists`, one look at an index for each. */
export async function workspacesWith(
  query: Sql,
  workspaces: readonly number[],
  holds: OfWorkspace,
): Promise<readonly number[]> {
  const rows = await query
    .selectFrom('workspaces')
    .select('id')
    .where('id', 'in', workspaces)
    .where((build) => holds(build))
    .execute();
  return rows.map(({ id }) => id);
}
