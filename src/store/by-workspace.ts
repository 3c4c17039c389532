import type { AliasedSelectQueryBuilder, ExpressionBuilder, SelectQueryBuilder } from 'kysely';
import { dialectOf, rowsIn, rowsOfSubquery } from '../platform/database/dialect.ts';
import type { Schema } from './schema/tables.ts';
import type { Sql } from './workspace-scope.ts';

/** The part of a result that belongs to one workspace, by the number of the workspace. */
export type ByWorkspace<Part> = (workspace: number) => Part;

interface OwnedRow {
  readonly workspace: number;
}

/** Groups the rows that one statement read for several workspaces. */
export function groupByWorkspace<Row extends OwnedRow>(rows: readonly Row[]): ByWorkspace<readonly Row[]> {
  const groups = Map.groupBy(rows, (row) => row.workspace);
  return (workspace) => groups.get(workspace) ?? [];
}

/** Maps each workspace to the count that one statement found for it; 0 without a row. */
export function countsByWorkspace(rows: readonly (OwnedRow & { readonly count: number })[]): ByWorkspace<number> {
  const counts = new Map(rows.map(({ workspace, count }) => [workspace, count]));
  return (workspace) => counts.get(workspace) ?? 0;
}

/** Removes the number of the workspace, which is not shown. */
export function withoutWorkspace<Row extends OwnedRow>(row: Row): Omit<Row, 'workspace'> {
  const { workspace: _workspace, ...rest } = row;
  return rest;
}

/** Builds a subquery for each row of `workspaces`. */
type OfEach<Subquery> = (build: ExpressionBuilder<Schema, 'workspaces'>) => Subquery;

/** Reads the rows that a subquery returns for each workspace, so that each list is bounded and read in the order of an index. */
export async function rowsOfEach<Row extends OwnedRow>(
  query: Sql,
  workspaces: readonly number[],
  rows: OfEach<SelectQueryBuilder<never, never, Row>>,
): Promise<ByWorkspace<readonly Row[]>> {
  const found = await query
    .selectFrom('workspaces')
    .select((build) => rowsOfSubquery(dialectOf(query), rows(build)).as('rows'))
    .where('id', 'in', workspaces)
    .execute();
  return groupByWorkspace(found.flatMap((each) => rowsIn(each.rows)));
}

/** Reads single values of each workspace, by one index lookup each, under their names. Values that are null are left out. */
export async function valuesOfEach(
  query: Sql,
  workspaces: readonly number[],
  values: OfEach<readonly AliasedSelectQueryBuilder<object, string>[]>,
): Promise<ByWorkspace<Readonly<Record<string, number>>>> {
  if (workspaces.length === 0) return () => ({});
  const rows = await query
    .selectFrom('workspaces')
    .select('id as workspace')
    .select(values)
    .where('id', 'in', workspaces)
    .execute();
  const found = new Map(rows.map(({ workspace, ...own }) => [workspace, Object.entries<number | null>(own)]));
  return (workspace) =>
    Object.fromEntries(
      (found.get(workspace) ?? []).flatMap(([name, value]) => (value === null ? [] : [[name, value]])),
    );
}
