import type { Expression, ExpressionBuilder } from 'kysely';
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

type OfWorkspace = (build: ExpressionBuilder<Schema, 'workspaces'>) => readonly Expression<unknown>[];

/**
 * Of these workspaces, those for which one of the subqueries finds a row: one look at an index for each. A subquery selects one
 * column of one row. It is used as a value, since PostgreSQL would turn `exists` into a join that may read the rows of all workspaces.
 */
export async function workspacesWith(
  query: Sql,
  workspaces: readonly number[],
  rows: OfWorkspace,
): Promise<readonly number[]> {
  const found = await query
    .selectFrom('workspaces')
    .select('id')
    .where('id', 'in', workspaces)
    .where((build) => build.or(rows(build).map((row) => build(row, 'is not', null))))
    .execute();
  return found.map(({ id }) => id);
}
