import { type ExpressionBuilder, type SelectQueryBuilder, sql } from 'kysely';
import type { Schema } from './schema/tables.ts';
import type { Sql } from './workspace-scope.ts';

/** Returns the numbers of workspaces, in the order of the names. A new name gets a number first. */
export async function numbersOf(query: Sql, names: readonly string[]): Promise<readonly number[]> {
  const stored = await storedNumbers(query, names);
  const missing = names.filter((name) => !stored.has(name));
  if (missing.length > 0) {
    await query
      .insertInto('workspaces')
      .values(missing.map((name) => ({ name })))
      .onConflict((conflict) => conflict.column('name').doNothing())
      .execute();
  }
  const numbers = missing.length === 0 ? stored : await storedNumbers(query, names);
  return names.map((name) => numbers.get(name) as number);
}

async function storedNumbers(query: Sql, names: readonly string[]): Promise<ReadonlyMap<string, number>> {
  const rows = await query
    .selectFrom('workspaces')
    .select(['id', 'name'])
    .where('name', 'in', ['', ...names])
    .execute();
  return new Map(rows.map(({ id, name }) => [name, id]));
}

/** Selects rows of a workspace of the outer query. */
type RowsOfWorkspace = (
  build: ExpressionBuilder<Schema, 'workspaces'>,
) => readonly SelectQueryBuilder<Schema, never, object>[];

/**
 * Returns those of these workspaces for which one of the subqueries finds a row, by one index lookup per workspace. The row is compared
 * as a value, because PostgreSQL would turn `exists` into a join that may read the rows of all workspaces.
 */
export async function workspacesWith(
  query: Sql,
  workspaces: readonly number[],
  rows: RowsOfWorkspace,
): Promise<readonly number[]> {
  const found = await query
    .selectFrom('workspaces')
    .select('id')
    .where('id', 'in', workspaces)
    .where((build) =>
      build.or(rows(build).map((row) => build(row.select(sql.lit(1).as('found')).limit(1), 'is not', null))),
    )
    .execute();
  return found.map(({ id }) => id);
}
