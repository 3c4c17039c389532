import type {
  AliasedSelectQueryBuilder,
  DeleteQueryBuilder,
  DeleteResult,
  Insertable,
  InsertQueryBuilder,
  InsertResult,
  Kysely,
  SelectQueryBuilder,
  Transaction,
  UpdateQueryBuilder,
  UpdateResult,
} from 'kysely';
import type { Schema, Tables } from './tables.ts';

/** What runs statements of the whole database: a transaction, or the database itself where a single one is enough. */
export type Sql = Kysely<Schema> | Transaction<Schema>;

/** A table whose rows belong to workspaces. */
type Table = keyof Tables;

/**
 * The rows of one workspace, in a transaction or outside of one. Each statement begins here and has its workspace
 * already, so that none can reach the rows of another workspace by forgetting it.
 */
export interface Scope {
  readonly workspace: number;
  /** For what concerns rows of several workspaces, which names the workspace of each itself. */
  readonly whole: Sql;
  selectFrom<T extends Table>(table: T): SelectQueryBuilder<Schema, T, object>;
  /** Over a query that this scope began. */
  selectOver<Alias extends string, Row>(
    rows: AliasedSelectQueryBuilder<Row, Alias>,
  ): SelectQueryBuilder<Schema & Record<Alias, Row>, Alias, object>;
  insertInto<T extends Table>(table: T): Insertion<T>;
  updateTable<T extends Table>(table: T): UpdateQueryBuilder<Schema, T, T, UpdateResult>;
  deleteFrom<T extends Table>(table: T): DeleteQueryBuilder<Schema, T, DeleteResult>;
}

export interface Insertion<T extends Table> {
  values(rows: NewRow<T> | readonly NewRow<T>[]): InsertQueryBuilder<Schema, T, InsertResult>;
}

/** The workspace is the scope's. */
export type NewRow<T extends Table> = Omit<Insertable<Schema[T]>, 'workspace'>;

/** @param workspace its number, from the table `workspaces` */
export function scopeOf(sql: Sql, workspace: number): Scope {
  return {
    workspace,
    whole: sql,
    selectFrom: <T extends Table>(table: T) =>
      sql.selectFrom(alike(table)).where(numberOf(table), '=', workspace) as unknown as SelectQueryBuilder<
        Schema,
        T,
        object
      >,
    selectOver: <Alias extends string, Row>(rows: AliasedSelectQueryBuilder<Row, Alias>) =>
      sql.selectFrom(rows) as unknown as SelectQueryBuilder<Schema & Record<Alias, Row>, Alias, object>,
    insertInto: <T extends Table>(table: T) => ({
      values(rows: NewRow<T> | readonly NewRow<T>[]) {
        const own = ([rows].flat() as object[]).map((row) => ({ ...row, workspace }));
        return sql.insertInto(alike(table)).values(own as Insertable<Schema[Alike]>[]) as unknown as InsertQueryBuilder<
          Schema,
          T,
          InsertResult
        >;
      },
    }),
    updateTable: <T extends Table>(table: T) =>
      sql.updateTable(alike(table)).where(numberOf(table), '=', workspace) as unknown as UpdateQueryBuilder<
        Schema,
        T,
        T,
        UpdateResult
      >,
    deleteFrom: <T extends Table>(table: T) =>
      sql.deleteFrom(alike(table)).where(numberOf(table), '=', workspace) as unknown as DeleteQueryBuilder<
        Schema,
        T,
        DeleteResult
      >,
  };
}

/** Kysely cannot type a statement on a table that is a parameter; in its column `workspace` every table is like this one. */
type Alike = 'meta';

function alike(table: Table): Alike {
  return table as Alike;
}

function numberOf(table: Table): `${Alike}.workspace` {
  return `${table}.workspace` as `${Alike}.workspace`;
}
