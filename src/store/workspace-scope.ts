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
import type { UnitRows } from './row-view.ts';
import type { Schema, Tables } from './tables.ts';

/** What runs statements of the whole database: a transaction, or the database itself where a single one is enough. */
export type Sql = Kysely<Schema> | Transaction<Schema>;

/** A table whose rows belong to workspaces. */
type Table = keyof Tables;

/**
 * The rows of one workspace, in a transaction or outside of one. Each statement begins here, has its workspace already and
 * knows no other table, so that none can reach the rows of another workspace by forgetting it.
 */
export interface Scope {
  readonly workspace: number;
  /** The unit of work; see `unit-of-work.ts`. Absent: each statement goes to the database. */
  readonly kept?: UnitRows;
  /** For what concerns rows of several workspaces, which names the workspace of each itself. */
  readonly whole: Sql;
  selectFrom<T extends Table>(table: T): SelectQueryBuilder<Pick<Schema, T>, T, object>;
  /** The rows of two tables that have this in common. */
  selectJoined<A extends Table, B extends Table>(
    one: Column<A>,
    other: Column<B>,
  ): SelectQueryBuilder<Pick<Schema, A | B>, A | B, object>;
  /** Over a query that this scope began. */
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

/** The workspace is the scope's. */
export type NewRow<T extends Table> = Omit<Insertable<Schema[T]>, 'workspace'>;

/** @param workspace its number, from the table `workspaces` */
export function scopeOf(sql: Sql, workspace: number): Scope {
  return {
    workspace,
    whole: sql,
    selectFrom: <T extends Table>(table: T) =>
      sql.selectFrom(alike(table)).where(numberOf(table), '=', workspace) as unknown as SelectQueryBuilder<
        Pick<Schema, T>,
        T,
        object
      >,
    selectJoined: <A extends Table, B extends Table>([one, column]: Column<A>, [other, same]: Column<B>) =>
      sql
        .selectFrom(alike(one))
        .innerJoin(alike(other), (join) =>
          join.onRef(numberOf(other), '=', numberOf(one)).onRef(nameAt(other, same), '=', nameAt(one, column)),
        )
        .where(numberOf(one), '=', workspace) as unknown as SelectQueryBuilder<Pick<Schema, A | B>, A | B, object>,
    selectOver: <Alias extends string, Row>(rows: AliasedSelectQueryBuilder<Row, Alias>) =>
      sql.selectFrom(rows) as unknown as SelectQueryBuilder<Record<Alias, Row>, Alias, object>,
    insertInto: <T extends Table>(table: T) => ({
      values(rows: NewRow<T> | readonly NewRow<T>[]) {
        const own = ([rows].flat() as object[]).map((row) => ({ ...row, workspace }));
        return sql.insertInto(alike(table)).values(own as Insertable<Schema[Alike]>[]) as unknown as InsertQueryBuilder<
          Pick<Schema, T>,
          T,
          InsertResult
        >;
      },
    }),
    updateTable: <T extends Table>(table: T) =>
      sql.updateTable(alike(table)).where(numberOf(table), '=', workspace) as unknown as UpdateQueryBuilder<
        Pick<Schema, T>,
        T,
        T,
        UpdateResult
      >,
    deleteFrom: <T extends Table>(table: T) =>
      sql.deleteFrom(alike(table)).where(numberOf(table), '=', workspace) as unknown as DeleteQueryBuilder<
        Pick<Schema, T>,
        T,
        DeleteResult
      >,
  };
}

/** Kysely cannot type a statement on a table that is a parameter; in what is said of all tables each is like this one. */
type Alike = 'meta';

function alike(table: Table): Alike {
  return table as Alike;
}

function numberOf(table: Table): `${Alike}.workspace` {
  return `${table}.workspace` as `${Alike}.workspace`;
}

function nameAt(table: Table, column: string): `${Alike}.name` {
  return `${table}.${column}` as `${Alike}.name`;
}
