import {
  type AliasedSelectQueryBuilder,
  type DeleteQueryBuilder,
  type DeleteResult,
  type Insertable,
  type InsertQueryBuilder,
  type InsertResult,
  type Kysely,
  type SelectQueryBuilder,
  sql,
  type Transaction,
  type UpdateQueryBuilder,
  type UpdateResult,
} from 'kysely';
import type { Schema, Tables } from './schema/tables.ts';
import type { CachedRows } from './unit-of-work/cached-tables.ts';

/** Runs statements on the whole database: a transaction, or the database itself for single statements. */
export type Sql = Kysely<Schema> | Transaction<Schema>;

/** A table whose rows belong to workspaces. */
type Table = keyof Tables;

/**
 * The rows of one workspace, inside or outside of a transaction. Each statement begins here. It already has the condition on the
 * workspace and knows no other table, so that it cannot reach the rows of another workspace by mistake.
 */
export interface Scope {
  readonly workspace: number;
  /** The unit of work; see `unit-of-work.ts`. Absent: each statement goes to the database. */
  readonly unitOfWork?: CachedRows;
  /** The whole database, for statements on rows of several workspaces. Such a statement names the workspaces itself. */
  readonly whole: Sql;
  selectFrom<T extends Table>(table: T): SelectQueryBuilder<Pick<Schema, T>, T, object>;
  /** Begins an inner join of two tables on these columns. */
  selectJoined<A extends Table, B extends Table>(
    one: Column<A>,
    other: Column<B>,
  ): SelectQueryBuilder<Pick<Schema, A | B>, A | B, object>;
  /** Begins a query over the result of another query of this scope. */
  selectOver<Alias extends string, Row>(
    rows: AliasedSelectQueryBuilder<Row, Alias>,
  ): SelectQueryBuilder<Record<Alias, Row>, Alias, object>;
  insertInto<T extends Table>(table: T): Insertion<T>;
  updateTable<T extends Table>(table: T): UpdateQueryBuilder<Pick<Schema, T>, T, T, UpdateResult>;
  deleteFrom<T extends Table>(table: T): DeleteQueryBuilder<Pick<Schema, T>, T, DeleteResult>;
}

/** A table, and one of its columns. */
export type Column<T extends Table> = readonly [table: T, column: keyof Schema[T] & string];

export interface Insertion<T extends Table> {
  values(rows: NewRow<T> | readonly NewRow<T>[]): InsertQueryBuilder<Pick<Schema, T>, T, InsertResult>;
}

/** A row to insert. The scope adds the workspace. */
export type NewRow<T extends Table> = Omit<Insertable<Schema[T]>, 'workspace'>;

/** Returns the scope of a workspace. @param workspace its number in the table `workspaces` */
export function scopeOf(whole: Sql, workspace: number): Scope {
  const scope = {
    workspace,
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
    selectOver: (rows: AliasedSelectQueryBuilder<object, string>) => whole.selectFrom(rows),
    insertInto: (table: Table) => ({
      values(rows: object | readonly object[]) {
        const own = [rows].flat().map((row) => ({ ...row, workspace }));
        return whole.insertInto(anyTable(table)).values(own as Insertable<Schema[AnyTable]>[]);
      },
    }),
    updateTable: (table: Table) => whole.updateTable(anyTable(table)).where(workspaceRef(table), '=', workspace),
    deleteFrom: (table: Table) => whole.deleteFrom(anyTable(table)).where(workspaceRef(table), '=', workspace),
  };
  return scope as unknown as Scope;
}

/** Returns the number of rows that a statement changed or deleted. */
export async function changedRows(statement: {
  executeTakeFirstOrThrow(): Promise<UpdateResult | DeleteResult>;
}): Promise<number> {
  const result = await statement.executeTakeFirstOrThrow();
  return Number('numUpdatedRows' in result ? result.numUpdatedRows : result.numDeletedRows);
}

/** Returns the number of rows that a query finds. */
export async function countRows<DB, TB extends keyof DB>(rows: SelectQueryBuilder<DB, TB, object>): Promise<number> {
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
