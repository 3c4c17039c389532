// Design: src/decisions/database.md

import type * as kysely from 'kysely';
import { sql } from 'kysely';
import { type Dialect, dialectOf, rowsIn, rowsOfSubquery } from '../platform/database/database-schema.ts';
import type { Database } from '../platform/database/database-types.ts';
import { chunksOf, yieldForRequests } from '../platform/lib/concurrency.ts';
import type { Schema, Tables } from './schema/tables.ts';
import type { CachedRows } from './unit-of-work/cached-tables.ts';

/** Runs statements on the whole database: a transaction, or the database itself for single statements. */
export type Sql = kysely.Kysely<Schema> | kysely.Transaction<Schema>;

/** A table whose rows belong to workspaces. */
type Table = keyof Tables;

/**
 * The rows of one workspace, inside or outside of a transaction. Each statement begins here. It already has the condition on the
 * workspace and knows no other table, so that it cannot reach the rows of another workspace by mistake.
 */
export interface Scope {
  readonly workspace: number;
  readonly dialect: Dialect;
  /** The unit of work; see `unit-of-work.ts`. Absent: each statement goes to the database. */
  readonly unitOfWork?: CachedRows;
  /** The whole database, for statements on rows of several workspaces. Such a statement names the workspaces itself. */
  readonly whole: Sql;
  selectFrom<T extends Table>(table: T): kysely.SelectQueryBuilder<Pick<Schema, T>, T, object>;
  /** Begins an inner join of two tables on these columns. */
  selectJoined<A extends Table, B extends Table>(
    one: Column<A>,
    other: Column<B>,
  ): kysely.SelectQueryBuilder<Pick<Schema, A | B>, A | B, object>;
  /** Begins a query over the result of another query of this scope. */
  selectOver<Alias extends string, Row>(
    rows: kysely.AliasedSelectQueryBuilder<Row, Alias>,
  ): kysely.SelectQueryBuilder<Record<Alias, Row>, Alias, object>;
  insertInto<T extends Table>(table: T): Insertion<T>;
  updateTable<T extends Table>(table: T): kysely.UpdateQueryBuilder<Pick<Schema, T>, T, T, kysely.UpdateResult>;
  deleteFrom<T extends Table>(table: T): kysely.DeleteQueryBuilder<Pick<Schema, T>, T, kysely.DeleteResult>;
}

/** A table, and one of its columns. */
type Column<T extends Table> = readonly [table: T, column: keyof Schema[T] & string];

interface Insertion<T extends Table> {
  values(rows: NewRow<T> | readonly NewRow<T>[]): kysely.InsertQueryBuilder<Pick<Schema, T>, T, kysely.InsertResult>;
}

/** A row to insert. The scope adds the workspace. */
export type NewRow<T extends Table> = Omit<kysely.Insertable<Schema[T]>, 'workspace'>;

/**
 * Returns the scope of a workspace.
 *
 * @param workspace its number in the table `workspaces`
 * @param dialect of `whole`; callers that know it pass it, because each transaction begins a scope
 */
export function scopeOf(whole: Sql, workspace: number, dialect = dialectOf(whole)): Scope {
  const scope = {
    workspace,
    dialect,
    whole,
    selectFrom: (table: Table) => whole.selectFrom(anyTable(table)).where(workspaceRef(table), '=', workspace),
    selectJoined: ([one, column]: Column<Table>, [other, same]: Column<Table>) =>
      whole
        .selectFrom(anyTable(one))
        .innerJoin(anyTable(other), (join) =>
          join
            .onRef(workspaceRef(other), '=', workspaceRef(one))
            .onRef(columnRef(other, same), '=', columnRef(one, column)),
        )
        .where(workspaceRef(one), '=', workspace),
    selectOver: (rows: kysely.AliasedSelectQueryBuilder<object, string>) => whole.selectFrom(rows),
    insertInto: (table: Table) => ({
      values(rows: object | readonly object[]) {
        const own = [rows].flat().map((row) => ({ ...row, workspace }));
        return whole.insertInto(anyTable(table)).values(own as kysely.Insertable<Schema[AnyTable]>[]);
      },
    }),
    updateTable: (table: Table) => whole.updateTable(anyTable(table)).where(workspaceRef(table), '=', workspace),
    deleteFrom: (table: Table) => whole.deleteFrom(anyTable(table)).where(workspaceRef(table), '=', workspace),
  };
  return scope as unknown as Scope;
}

/** Returns the number of rows that a statement changed or deleted. */
export async function changedRows(statement: {
  executeTakeFirstOrThrow(): Promise<kysely.UpdateResult | kysely.DeleteResult>;
}): Promise<number> {
  const result = await statement.executeTakeFirstOrThrow();
  return Number('numUpdatedRows' in result ? result.numUpdatedRows : result.numDeletedRows);
}

/** Returns the number of rows that a query finds. */
export async function countRows<DB, TB extends keyof DB>(
  rows: kysely.SelectQueryBuilder<DB, TB, object>,
): Promise<number> {
  const counted = await rows.select(sql<number>`count(*)`.as('count')).executeTakeFirstOrThrow();
  return Number((counted as { readonly count: number }).count);
}

/** Kysely cannot type a statement on a table that is a parameter, so every table is treated as this one. */
type AnyTable = 'meta';

function anyTable(table: Table): AnyTable {
  return table as AnyTable;
}

function workspaceRef(table: Table): `${AnyTable}.workspace` {
  return `${table}.workspace` as `${AnyTable}.workspace`;
}

function columnRef(table: Table, column: string): `${AnyTable}.name` {
  return `${table}.${column}` as `${AnyTable}.name`;
}

/** The rows of one workspace in the database that all workspaces share. */
export interface Store extends Pick<Database<Schema>, 'file' | 'fault' | 'checkFileReplaced' | 'keptLog'> {
  /** For single statements outside of a transaction. */
  readonly query: Scope;
  /** Runs `work` in one durable transaction; rolls back when it throws. */
  commit<Result>(work: (scope: Scope) => Promise<Result>): Promise<Result>;
  /** Commits without waiting for the disk, for work that is repeated if a power failure undoes it. */
  commitRelaxed<Result>(work: (scope: Scope) => Promise<Result>): Promise<Result>;
}

/** Runs one statement with these values as its parameters. */
type CompiledStatement<Values extends object, Row> = (query: Sql, values: Values) => Promise<readonly Row[]>;

/** Stands in a statement for a value that is given with each run. */
class Placeholder {
  readonly name: string;

  constructor(name: string) {
    this.name = name;
  }
}

/**
 * Compiles a statement once for each dialect and each set of value names, for statements that often run with other values. Compiling
 * takes longer than the answer of an index.
 *
 * @param build gets a placeholder for each value. It may pass or spread them into the statement, but must not read them.
 */
export function compileStatement<Values extends object, Row>(
  build: (query: Sql, values: Values) => kysely.Compilable<Row>,
): CompiledStatement<Values, Row> {
  const run = compilePerDialect(build);
  return (query, values) => run(query, dialectOf(query), values);
}

/** Compiles a statement on the rows of one workspace. */
export function compileInScope<Values extends object, Row>(
  build: (query: Scope, values: Values) => kysely.Compilable<Row>,
): (query: Scope, values: Values) => Promise<readonly Row[]> {
  const run = compilePerDialect((query, { workspace, ...values }: Values & Pick<Scope, 'workspace'>) =>
    build(scopeOf(query, workspace), values as unknown as Values),
  );
  return ({ whole, dialect, workspace }, values) => run(whole, dialect, { ...values, workspace });
}

/** Returns a function that runs the statement, compiled once for each dialect and set of value names. */
function compilePerDialect<Values extends object, Row>(build: (query: Sql, values: Values) => kysely.Compilable<Row>) {
  const compiled = new Map<string, kysely.CompiledQuery<Row>>();
  return async (query: Sql, dialect: Dialect, values: Values): Promise<readonly Row[]> => {
    const names = Object.keys(values);
    const key = `${dialect} ${names.join(' ')}`;
    const placeholders = () => Object.fromEntries(names.map((name) => [name, new Placeholder(name)])) as Values;
    const statement = compiled.get(key) ?? build(query, placeholders()).compile();
    compiled.set(key, statement);
    const parameters = statement.parameters.map((each) =>
      each instanceof Placeholder ? values[each.name as keyof Values] : each,
    );
    const { rows } = await query.executeQuery<Row>({ ...statement, parameters });
    return rows;
  };
}

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
type OfEach<Subquery> = (build: kysely.ExpressionBuilder<Schema, 'workspaces'>) => Subquery;

/** Reads the rows that a subquery returns for each workspace, so that each list is bounded and read in the order of an index. */
export async function rowsOfEach<Row extends OwnedRow>(
  query: Sql,
  workspaces: readonly number[],
  rows: OfEach<kysely.SelectQueryBuilder<never, never, Row>>,
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
  values: OfEach<readonly kysely.AliasedSelectQueryBuilder<object, string>[]>,
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

/**
 * Returns those of these workspaces for which one of the subqueries finds a row, by one index lookup per workspace. The row is compared
 * as a value, because PostgreSQL would turn `exists` into a join that may read the rows of all workspaces.
 */
export async function workspacesWith(
  query: Sql,
  workspaces: readonly number[],
  rows: OfEach<readonly kysely.SelectQueryBuilder<Schema, never, object>[]>,
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

/** Rows of one transaction. Changing them takes some milliseconds, including the triggers that count them. */
export const CHUNK_SIZE = 500;

/**
 * Repeats a change until it finds fewer rows than a chunk. Each repetition is a transaction of its own, and other work runs between
 * two of them. If the process ends before, the remaining rows stay unchanged.
 *
 * @param change changes at most `limit` rows, which it must not find again, and returns their number
 * @returns the number of changed rows
 */
export async function changeInChunks(
  { commit }: Pick<Store, 'commit'>,
  change: (query: Scope, limit: number) => Promise<number>,
): Promise<number> {
  let total = 0;
  for (;;) {
    const changed = await commit((query) => change(query, CHUNK_SIZE));
    total += changed;
    if (changed < CHUNK_SIZE) return total;
    await yieldForRequests();
  }
}

/** Changes the rows of these keys in chunks, each row once. @returns the number of changed rows */
export async function changeKeysInChunks<Key>(
  { commit }: Pick<Store, 'commit'>,
  keys: readonly Key[],
  change: (query: Scope, chunk: readonly Key[]) => Promise<number>,
): Promise<number> {
  let total = 0;
  for (const chunk of chunksOf([...new Set(keys)], CHUNK_SIZE)) {
    total += await commit((query) => change(query, chunk));
    await yieldForRequests();
  }
  return total;
}

/** Parses a JSON column; undefined if it is null. */
export function json<Value = Record<string, unknown>>(column: string | null): Value | undefined {
  return column === null ? undefined : (JSON.parse(column) as Value);
}
