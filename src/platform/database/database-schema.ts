// Design: src/decisions/database.md

import {
  type ColumnDataType,
  type ColumnDefinitionBuilder,
  type Expression,
  type Generated,
  type GeneratedAlways,
  type Kysely,
  type QueryExecutorProvider,
  type RawBuilder,
  type SelectQueryBuilder,
  SqliteAdapter,
  sql,
} from 'kysely';
import { jsonArrayFrom as jsonOfPostgres } from 'kysely/helpers/postgres';
import { jsonArrayFrom as jsonOfSqlite } from 'kysely/helpers/sqlite';
import { type Migration, Migrator } from 'kysely/migration';
import { NewerDatabaseError, OlderDatabaseError } from './database-types.ts';

/** An expression, or a function of the dialect where the databases differ. */
type ByDialect = Expression<unknown> | ((dialect: Dialect) => Expression<unknown>);

interface ColumnProperties {
  readonly dataType: ColumnDataType;
  readonly isNullable?: boolean;
  readonly isKey?: boolean;
  readonly isNumbered?: boolean;
  readonly isUnique?: boolean;
  readonly default?: string | number;
  readonly reference?: string;
  readonly expression?: ByDialect;
  readonly isStored?: boolean;
  /** The migration that adds the column; absent: the first one, which creates the table. */
  readonly addedBy?: string;
}

/** A column. `Type` is its type in Kysely's rows. It is not null unless it is nullable, generated or a key. */
interface Column<Type> extends ColumnProperties {
  /** Exists as a type only. */
  readonly type: Type;
  nullable(): Column<Type | null>;
  unique(): Column<Type>;
  defaultTo(value: Type & (string | number)): Column<Generated<Type>>;
  /** The primary key of the table, if this is a single column. */
  primaryKey(): Column<Type>;
  /** @param column as `<table>.<column>` */
  references(column: string): Column<Type>;
  /** Computed by the database. SQLite can add no stored column to a table, and PostgreSQL stores each. */
  generated(expression: ByDialect, storage?: 'stored'): Column<GeneratedAlways<Type>>;
  /** Adds the column by a later migration. Once released, the name stays, because it says which databases have the column. */
  since(migration: string): Column<Type>;
}

/** Shared by all columns, because there are hundreds. */
const METHODS: Omit<Column<never>, 'type' | keyof ColumnProperties> & ThisType<ColumnProperties> = {
  nullable() {
    return column({ ...this, isNullable: true });
  },
  unique() {
    return column({ ...this, isUnique: true });
  },
  defaultTo(value) {
    return column({ ...this, default: value });
  },
  primaryKey() {
    return column({ ...this, isKey: true });
  },
  references(reference) {
    return column({ ...this, reference });
  },
  generated(expression, storage) {
    return column({ ...this, expression, isStored: storage === 'stored' });
  },
  since(migration) {
    return column({ ...this, addedBy: migration });
  },
};

function column<Type>(properties: ColumnProperties): Column<Type> {
  return Object.assign(Object.create(METHODS), properties);
}

export const text = <Type extends string = string>(): Column<Type> => column({ dataType: 'text' });
/** 64 bits in both databases. */
export const integer = <Type extends number = number>(): Column<Type> => column({ dataType: 'integer' });
export const bigint = (): Column<number> => column({ dataType: 'bigint' });
export const double = (): Column<number> => column({ dataType: 'double precision' });
export const real = (): Column<number> => column({ dataType: 'real' });
export const blob = (): Column<Buffer> => column({ dataType: 'blob' });
/** A primary key that the database counts up. It gives no number twice, even if the row was deleted. */
export const numbered = (): Column<Generated<number>> => column({ dataType: 'integer', isKey: true, isNumbered: true });

type Columns = Readonly<Record<string, Column<unknown>>>;

/** The type of the rows of a table for Kysely. */
export type RowOf<Each extends Columns> = { -readonly [Name in keyof Each]: Each[Name]['type'] };

/** The number of rows of an index, and how many of them share its first column, its first two columns, and so on. */
export type Shape = readonly number[];

interface Index {
  readonly columns: readonly (string | { readonly expression: ByDialect })[];
  /** The condition of a partial index. */
  readonly where?: ByDialect;
  readonly isUnique?: boolean;
  readonly shape?: Shape;
  /** The migration that creates the index, or replaces an earlier one of this name; absent: the first one. */
  readonly since?: string;
}

interface Constraints<Key extends string = string> {
  /** The columns of the constraint `<table>_key`; absent: a column says that it is the key. */
  readonly key?: readonly Key[];
  /** Columns of unique constraints by name. */
  readonly unique?: Readonly<Record<string, readonly string[]>>;
  /** Indexes by name. */
  readonly indexes?: Readonly<Record<string, Index>>;
  /** Shapes of the indexes that SQLite creates for the key and the unique constraints, in their order. */
  readonly keyShapes?: readonly Shape[];
  /** The migration that creates the table; absent: the first one. */
  readonly since?: string;
}

export interface Table<Each extends Columns = Columns, Key extends string = string> extends Constraints<Key> {
  readonly columns: Each;
}

type TablesByName = Readonly<Record<string, Table>>;

/** Defines a table with all its columns, keys and indexes. Nothing else in the program repeats them. */
export function table<Each extends Columns, const Key extends keyof Each & string>(
  columns: Each,
  constraints: Constraints<Key> = {},
): Table<Each, Key> {
  return { columns, ...constraints };
}

/** Returns the columns of the primary key. */
export function keyOf({ key, columns }: Table): readonly string[] {
  return key ?? Object.keys(columns).filter((name) => columns[name]?.isKey);
}

/**
 * Returns the migrations by name. Each creates the tables, columns and indexes that name it; the first creates those without a name.
 *
 * @param more continues the first migration
 */
export function migrationsOf(
  tables: TablesByName,
  first: string,
  more: (db: Kysely<unknown>) => Promise<void> = async () => undefined,
): Readonly<Record<string, Migration>> {
  const later = Object.values(tables).flatMap(({ columns, indexes = {}, since }) => [
    since,
    ...Object.values(columns).map(({ addedBy }) => addedBy),
    ...Object.values(indexes).map((index) => index.since),
  ]);
  const names = [...new Set(later.filter((name) => name !== undefined))].sort();
  const create = async (db: Kysely<unknown>) => {
    await migrateTables(db, tables, undefined);
    await more(db);
  };
  return Object.fromEntries([
    [first, { up: create }],
    ...names.map((name) => [name, { up: (db: Kysely<unknown>) => migrateTables(db, tables, name) }] as const),
  ]);
}

/** @param migration undefined: the first one */
async function migrateTables(db: Kysely<unknown>, tables: TablesByName, migration: string | undefined): Promise<void> {
  for (const [name, each] of Object.entries(tables)) {
    if (each.since === migration) await createTable(db, name, each);
    else await addColumns(db, name, each, migration);
    await createIndexes(db, name, each, migration);
  }
  if (dialectOf(db) === 'sqlite') await addStatistics(db, tables, migration);
}

async function createTable(db: Kysely<unknown>, name: string, { columns, key, unique = {} }: Table): Promise<void> {
  let builder = db.schema.createTable(name);
  for (const [column, each] of Object.entries(columns))
    if (each.addedBy === undefined)
      builder = builder.addColumn(column, each.dataType, definitionOf(each, dialectOf(db)));
  if (key) builder = builder.addPrimaryKeyConstraint(`${name}_key`, key as never[]);
  for (const [constraint, of] of Object.entries(unique))
    builder = builder.addUniqueConstraint(constraint, of as never[]);
  await builder.execute();
}

async function addColumns(
  db: Kysely<unknown>,
  table: string,
  { columns }: Table,
  migration: string | undefined,
): Promise<void> {
  for (const [name, each] of Object.entries(columns))
    if (each.addedBy !== undefined && each.addedBy === migration)
      await db.schema
        .alterTable(table)
        .addColumn(name, each.dataType, definitionOf(each, dialectOf(db)))
        .execute();
}

function definitionOf(column: ColumnProperties, dialect: Dialect) {
  const { isNullable, isKey, isNumbered, isUnique, reference, expression, isStored } = column;
  return (definition: ColumnDefinitionBuilder): ColumnDefinitionBuilder => {
    let each = definition;
    if (isKey) each = each.primaryKey();
    else if (!isNullable && !expression) each = each.notNull();
    if (isNumbered) each = each.autoIncrement();
    if (isUnique) each = each.unique();
    if (column.default !== undefined) each = each.defaultTo(column.default);
    if (reference) each = each.references(reference);
    if (expression) each = each.generatedAlwaysAs(inDialect(expression, dialect));
    return isStored ? each.stored() : each;
  };
}

function inDialect(expression: ByDialect, dialect: Dialect): Expression<unknown> {
  return typeof expression === 'function' ? expression(dialect) : expression;
}

async function createIndexes(
  db: Kysely<unknown>,
  name: string,
  from: Table,
  migration: string | undefined,
): Promise<void> {
  const dialect = dialectOf(db);
  for (const [index, { columns, where, isUnique, since = from.since }] of Object.entries(from.indexes ?? {})) {
    if (since !== migration) continue;
    if (since !== undefined) await db.schema.dropIndex(index).ifExists().execute();
    const listed = columns.map((each) =>
      typeof each === 'string' ? sql.ref(each) : sql`(${inDialect(each.expression, dialect)})`,
    );
    const kind = isUnique ? sql`unique index` : sql`index`;
    const condition = where === undefined ? sql`` : sql` where ${inDialect(where, dialect)}`;
    await sql`create ${kind} ${sql.id(index)} on ${sql.table(name)} (${sql.join(listed)})${condition}`.execute(db);
  }
}

/**
 * Gives SQLite's planner the shapes of the indexes, in place of those that `ANALYZE` would count. They apply to statements that are
 * prepared afterwards. PostgreSQL counts by itself.
 *
 * Without statistics SQLite assumes that ten rows share the first column of an index, which is the workspace in most tables. It would
 * then read all rows of a workspace to find a hundred by their ids. Counted statistics would make plans depend on when they were
 * counted; these make plans the same everywhere, from the first row on.
 */
async function addStatistics(db: Kysely<unknown>, tables: TablesByName, migration: string | undefined): Promise<void> {
  const shapes = Object.entries(tables).flatMap(([tbl, { indexes = {}, keyShapes = [], since: created }]) => [
    ...keyShapes.map((shape, at) => ({ tbl, idx: `sqlite_autoindex_${tbl}_${at + 1}`, shape, since: created })),
    ...Object.entries(indexes).map(([idx, { shape, since = created }]) => ({ tbl, idx, shape, since })),
  ]);
  const rows = shapes.flatMap(({ tbl, idx, shape, since }) =>
    shape && since === migration ? [{ tbl, idx, stat: shape.join(' ') }] : [],
  );
  const [one] = rows;
  if (one === undefined) return;
  // The first analysis creates the planner's tables. Nothing is read, because the table is empty.
  if (migration === undefined) await sql`analyze ${sql.table(one.tbl)}`.execute(db);
  await db
    .withTables<{ sqlite_stat1: { tbl: string; idx: string; stat: string } }>()
    .insertInto('sqlite_stat1')
    .values(rows)
    .execute();
  await sql`analyze sqlite_schema`.execute(db);
}

/** The dialect, for statements and migrations in which the databases differ; the compiler handles all other differences. */
export type Dialect = 'sqlite' | 'postgres';

/** Returns the dialect of a query, a transaction or an executor. */
export function dialectOf(query: QueryExecutorProvider | Pick<Kysely<unknown>, 'getExecutor'>): Dialect {
  return query.getExecutor().adapter instanceof SqliteAdapter ? 'sqlite' : 'postgres';
}

/**
 * Selects the text at a path in a column that stores JSON as text: `textIn('fields', ['item', 'url'])`. Null if there is none.
 *
 * PostgreSQL decodes the whole document, and would refuse it for one `\u0000` or half a surrogate pair in any of its texts.
 * Present writes have none (`withStorableTexts`); older rows that were copied from SQLite are read with another letter.
 */
export function textIn(dialect: Dialect, column: string, path: readonly string[]): RawBuilder<string | null> {
  const place = sql.ref(column);
  if (dialect === 'sqlite') return sql`json_extract(${place}, ${sql.lit(`$.${path.join('.')}`)})`;
  const steps = sql.lit(`{${path.join(',')}}`);
  const readable = sql.raw(String.raw`'\\u(0000|d[89a-f][0-9a-f]{2})', '\\ufffd', 'g'`);
  return sql`((regexp_replace(${place}, ${readable})::json #> ${steps}) #>> '{}')`;
}

/** Rows as one value: a text in SQLite, and a parsed value from `pg`. */
type RowsAsJson<Row> = string | readonly Row[];

/**
 * Selects the rows of a correlated subquery as one value, which `rowsIn` reads. Both databases run it once for each outer row,
 * and use its index. A join would depend on estimates: PostgreSQL may run the subquery again for each pair of rows.
 */
export function rowsOfSubquery<Row extends object>(
  dialect: Dialect,
  rows: SelectQueryBuilder<never, never, Row>,
): RawBuilder<RowsAsJson<Row>> {
  const list = dialect === 'sqlite' ? jsonOfSqlite(rows) : jsonOfPostgres(rows);
  return list.$castTo<RowsAsJson<Row>>();
}

export function rowsIn<Row>(list: RowsAsJson<Row>): readonly Row[] {
  return typeof list === 'string' ? JSON.parse(list) : list;
}

/** The table in which Kysely stores the applied migrations. */
export const APPLIED = 'kysely_migration';

export interface MigrateOptions {
  readonly migrations: Readonly<Record<string, Migration>>;
  readonly readableSince?: string;
  /** The schema of the tables; absent: there is only one. */
  readonly schema?: string;
  /** Thrown if there are no tables yet; absent: they are created. */
  readonly missing?: Error | undefined;
  /** Runs the work on a connection without a statement timeout; absent: there is no timeout. */
  readonly patient?: (work: (query: Kysely<unknown>) => Promise<void>) => Promise<void>;
  readonly hasTable: (name: string) => Promise<boolean>;
  /** Keeps other processes from changing tables until the end of the transaction; absent: there are none. */
  readonly lock?: (transaction: Kysely<unknown>) => Promise<void>;
  /** Runs before the tables of a database that is in use are changed. */
  readonly before?: () => Promise<void>;
}

/** The table with one row: the migration that a program needs at least to work with the present tables. */
const READABLE = 'readable_since';

type Names = {
  readonly [APPLIED]: { readonly name: string };
  readonly [READABLE]: { migration: string };
};

/**
 * Brings the tables up to date, in one transaction. Tables of a newer program stay unchanged: they can be used if that program
 * allows it. Throws `NewerDatabaseError` if it does not, and `OlderDatabaseError` for a layout that no migration continues.
 */
export async function migrate(query: Kysely<unknown>, options: MigrateOptions): Promise<void> {
  const { migrations, before, patient = (work) => work(query) } = options;
  const names = query.withTables<Names>();
  const applied = await appliedMigrations(names, options);
  if (options.missing && applied.length === 0) throw options.missing;
  const [first] = Object.keys(migrations).sort();
  if (applied.length > 0 && first !== undefined && !applied.includes(first))
    throw new OlderDatabaseError('the tables have an earlier layout');
  const newer = applied.filter((name) => !(name in migrations));
  const missing = Object.keys(migrations).filter((name) => !applied.includes(name));
  if (newer.length > 0) {
    const since = await readableSince(names, options);
    if (since !== undefined && since in migrations && missing.length === 0) return;
    throw new NewerDatabaseError(`the database has migrations that this version does not know: ${newer.join(', ')}`);
  }
  if (missing.length === 0) return;
  if (applied.length > 0) await before?.();
  await patient((changing) => changing.transaction().execute((transaction) => applyAll(transaction, options)));
}

async function applyAll(transaction: Kysely<unknown>, options: MigrateOptions): Promise<void> {
  const { migrations, schema } = options;
  await options.lock?.(transaction);
  const provider = { getMigrations: async () => ({ ...migrations }) };
  const { error } = await new Migrator({
    db: transaction,
    provider,
    ...(schema && { migrationTableSchema: schema }),
  }).migrateToLatest();
  if (error) throw error;
  if (options.readableSince !== undefined) await writeReadableSince(transaction, options.readableSince);
}

async function appliedMigrations(names: Kysely<Names>, { hasTable }: MigrateOptions): Promise<readonly string[]> {
  if (!(await hasTable(APPLIED))) return [];
  const rows = await names.selectFrom(APPLIED).select('name').execute();
  return rows.map(({ name }) => name);
}

async function readableSince(names: Kysely<Names>, { hasTable }: MigrateOptions): Promise<string | undefined> {
  if (!(await hasTable(READABLE))) return undefined;
  return (await names.selectFrom(READABLE).select('migration').executeTakeFirst())?.migration;
}

async function writeReadableSince(transaction: Kysely<unknown>, migration: string): Promise<void> {
  await transaction.schema
    .createTable(READABLE)
    .ifNotExists()
    .addColumn('migration', 'text', (column) => column.notNull())
    .execute();
  const names = transaction.withTables<Names>();
  await names.deleteFrom(READABLE).execute();
  await names.insertInto(READABLE).values({ migration }).execute();
}
