import { type CompiledQuery, sql } from 'kysely';
import { dialectOf } from '../platform/database/dialect.ts';
import { piecesOf } from '../platform/lib/pieces.ts';
import type { AnyRow, Value } from './row-view.ts';
import { KEPT, type UnitTable } from './unit-tables.ts';
import type { Scope } from './workspace-scope.ts';

/**
 * Statements over many rows of one table. They are built for some numbers of rows only, so that few are built, and few prepared
 * by the database. SQLite takes 32 766 parameters in one.
 */
const SIZES = [1, 4, 16, 64, 256] as const;
const MOST = 256;
/** Of a statement that writes, each row is a dozen parameters: to build one of 256 rows takes as long as to run many. */
const MOST_WRITTEN = 64;

/** The rows whose column is one of these values, of which there may be any number. */
export async function readRows(
  query: Scope,
  table: UnitTable,
  column: string,
  values: readonly Value[],
): Promise<AnyRow[]> {
  const rows: AnyRow[] = [];
  const wanted = column === 'workspace' ? [query.workspace] : values;
  for (const some of piecesOf(wanted, MOST)) {
    const statement = built(query, `select ${table} ${column} ${sizeOf(some)}`, () =>
      selectOf(query, table, column, sizeOf(some)),
    );
    const found = await run(query, statement, [query.workspace, ...filled(some)]);
    rows.push(...found);
  }
  return rows;
}

/** Adds these rows, or writes them over those with their keys. */
export async function writeRows(query: Scope, table: UnitTable, rows: readonly AnyRow[]): Promise<void> {
  const { columns } = KEPT[table];
  const running: Promise<unknown>[] = [];
  for (let at = 0; at < rows.length; ) {
    // Twice the same row is nothing that a statement could be filled with: it is split instead.
    const size = powerWithin(Math.min(rows.length - at, MOST_WRITTEN));
    const statement = built(query, `insert ${table} ${size}`, () => upsertOf(query, table, size));
    const some = rows.slice(at, at + size);
    const values = some.flatMap((row) => [...columns.map((column) => row[column] as Value), query.workspace]);
    running.push(run(query, statement, values));
    at += size;
  }
  await allOf(running);
}

/** Statements that go to the database together, in their order. Nothing goes on when it answers, also where one failed. */
export async function allOf<Result>(running: readonly Promise<Result>[]): Promise<Result[]> {
  await Promise.allSettled(running);
  return Promise.all(running);
}

/** @param keys rows, of which the columns of the key are read */
export async function deleteRows(query: Scope, table: UnitTable, keys: readonly AnyRow[]): Promise<void> {
  const { key } = KEPT[table];
  for (const some of piecesOf(keys, MOST)) {
    const statement = built(query, `delete ${table} ${sizeOf(some)}`, () => deleteOf(query, table, sizeOf(some)));
    const values = filled(some).flatMap((row) => key.map((column) => row[column] as Value));
    await run(query, statement, [query.workspace, ...values]);
  }
}

/** What is said of all tables is said of one of them, since no table can be a parameter of a type. */
type Alike = 'outbox';

function selectOf(query: Scope, table: UnitTable, column: string, size: number): CompiledQuery<AnyRow> {
  return query
    .selectFrom(table as Alike)
    .select(KEPT[table].columns as readonly 'entity'[])
    .where(column as 'entity', 'in', blanks(size))
    .compile() as unknown as CompiledQuery<AnyRow>;
}

function upsertOf(query: Scope, table: UnitTable, size: number): CompiledQuery<AnyRow> {
  const columns: readonly string[] = KEPT[table].columns;
  const key: readonly string[] = KEPT[table].key;
  const others = columns.filter((column) => !key.includes(column));
  const blank = Object.fromEntries(columns.map((column) => [column, '']));
  return query
    .insertInto(table as Alike)
    .values(Array.from({ length: size }, () => blank) as never)
    .onConflict((conflict) => {
      const known = conflict.columns(['workspace', ...key] as 'entity'[]);
      if (others.length === 0) return known.doNothing();
      return known.doUpdateSet(({ ref }) =>
        Object.fromEntries(others.map((column) => [column, ref(`excluded.${column}` as 'excluded.entity')])),
      );
    })
    .compile() as unknown as CompiledQuery<AnyRow>;
}

function deleteOf(query: Scope, table: UnitTable, size: number): CompiledQuery<AnyRow> {
  const key: readonly string[] = KEPT[table].key;
  const rows = query.deleteFrom(table as Alike);
  const [only, ...more] = key;
  if (more.length === 0)
    return rows.where(only as 'entity', 'in', blanks(size)).compile() as unknown as CompiledQuery<AnyRow>;
  const columns = sql.join(key.map((column) => sql.ref(column)));
  const values = sql.join(blanks(size).map(() => sql`(${sql.join(key)})`));
  // SQLite takes rows from `values` only, of which PostgreSQL could not tell the types.
  const rowsOf = dialectOf(query.whole) === 'sqlite' ? sql`values ${values}` : values;
  return rows.where(sql<boolean>`(${columns}) in (${rowsOf})`).compile() as unknown as CompiledQuery<AnyRow>;
}

function blanks(size: number): string[] {
  return Array.from({ length: size }, () => '');
}

const statements = new Map<string, CompiledQuery<AnyRow>>();

function built({ whole }: Scope, what: string, build: () => CompiledQuery<AnyRow>): CompiledQuery<AnyRow> {
  const name = `${dialectOf(whole)} ${what}`;
  const found = statements.get(name);
  if (found) return found;
  const statement = build();
  statements.set(name, statement);
  return statement;
}

async function run(
  { whole }: Scope,
  statement: CompiledQuery<AnyRow>,
  parameters: readonly Value[],
): Promise<readonly AnyRow[]> {
  const { rows } = await whole.executeQuery<AnyRow>({ ...statement, parameters });
  return rows;
}

function sizeOf(some: readonly unknown[]): number {
  return SIZES.find((size) => size >= some.length) ?? MOST;
}

/** To name a row twice changes nothing. */
function filled<Each>(some: readonly Each[]): Each[] {
  const more = Array.from({ length: sizeOf(some) - some.length }, () => some.at(-1) as Each);
  return [...some, ...more];
}

/** The highest power of two that is no more. */
function powerWithin(count: number): number {
  return 2 ** Math.floor(Math.log2(count));
}
