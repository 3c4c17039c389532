import { type CompiledQuery, sql } from 'kysely';
import type { Scope } from '../workspace-scope.ts';
import { type AnyRow, CACHED_TABLES, type CachedTable, type CellValue } from './cached-tables.ts';

/**
 * The numbers of rows for which statements are compiled. Only a few, so that few statements are compiled here and prepared by the
 * database. SQLite allows 32 766 parameters in a statement.
 */
const SIZES = [1, 4, 16, 64, 256] as const;
const MAX_ROWS = 256;
/** A written row has a dozen parameters: compiling an insert of 256 rows takes as long as running many. */
const MAX_WRITTEN_ROWS = 64;

/** Reads the rows whose column has one of these values, of which there may be any number. */
export async function readRows(
  query: Scope,
  table: CachedTable,
  column: string,
  values: readonly CellValue[],
): Promise<AnyRow[]> {
  const rows: AnyRow[] = [];
  const wanted = column === 'workspace' ? [query.workspace] : values;
  for (const chunk of paddedChunks(wanted)) {
    const size = chunk.length;
    const statement = compiled(query, `select ${table} ${column} ${size}`, () =>
      compileSelect(query, table, column, size),
    );
    const parameters = [query.workspace, ...chunk];
    const found = await query.whole.executeQuery<AnyRow>({ ...statement, parameters });
    rows.push(...found.rows);
  }
  return rows;
}

/** Inserts these rows, or replaces the rows with their keys. */
export async function writeRows(query: Scope, table: CachedTable, rows: readonly AnyRow[]): Promise<void> {
  const { columns } = CACHED_TABLES[table];
  const running: Promise<unknown>[] = [];
  for (let start = 0; start < rows.length; ) {
    // One insert must not name a row twice, so its size cannot be padded: the rows are split into powers of two instead.
    const size = powerOfTwoUpTo(Math.min(rows.length - start, MAX_WRITTEN_ROWS));
    const chunk = rows.slice(start, start + size);
    const parameters = chunk.flatMap((row) => [...columns.map((column) => row[column] as CellValue), query.workspace]);
    const statement = compiled(query, `insert ${table} ${size}`, () => compileUpsert(query, table, size));
    running.push(query.whole.executeQuery({ ...statement, parameters }));
    start += size;
  }
  await settleAll(running);
}

/**
 * Waits until all promises have settled, then returns their results or throws the first failure. Statements that were sent together
 * are thus all finished when the caller continues.
 */
export async function settleAll<Result>(running: readonly Promise<Result>[]): Promise<Result[]> {
  await Promise.allSettled(running);
  return Promise.all(running);
}

/** Deletes rows by their keys. @param keys rows; only the columns of the key are read */
export async function deleteRows(query: Scope, table: CachedTable, keys: readonly AnyRow[]): Promise<void> {
  const { key } = CACHED_TABLES[table];
  for (const chunk of paddedChunks(keys)) {
    const size = chunk.length;
    const statement = compiled(query, `delete ${table} ${size}`, () => compileDelete(query, table, size));
    const values = chunk.flatMap((row) => key.map((column) => row[column] as CellValue));
    await query.whole.executeQuery({ ...statement, parameters: [query.workspace, ...values] });
  }
}

/** Kysely cannot type a statement on a table that is a parameter, so every table is treated as this one. */
type AnyTable = 'outbox';

function compileSelect(query: Scope, table: CachedTable, column: string, size: number): CompiledQuery<AnyRow> {
  return query
    .selectFrom(table as AnyTable)
    .select(CACHED_TABLES[table].columns as 'entity'[])
    .where(column as 'entity', 'in', placeholders(size))
    .compile() as unknown as CompiledQuery<AnyRow>;
}

function compileUpsert(query: Scope, table: CachedTable, size: number): CompiledQuery<AnyRow> {
  const { columns, key } = CACHED_TABLES[table];
  const others = columns.filter((column) => !key.includes(column));
  const placeholder = Object.fromEntries(columns.map((column) => [column, '']));
  return query
    .insertInto(table as AnyTable)
    .values(Array.from({ length: size }, () => placeholder) as never)
    .onConflict((conflict) => {
      const sameKey = conflict.columns(['workspace', ...key] as 'entity'[]);
      if (others.length === 0) return sameKey.doNothing();
      return sameKey.doUpdateSet(({ ref }) =>
        Object.fromEntries(others.map((column) => [column, ref(`excluded.${column}` as 'excluded.entity')])),
      );
    })
    .compile() as unknown as CompiledQuery<AnyRow>;
}

function compileDelete(query: Scope, table: CachedTable, size: number): CompiledQuery<AnyRow> {
  const { key } = CACHED_TABLES[table];
  const rows = query.deleteFrom(table as AnyTable);
  const [only, ...more] = key;
  if (more.length === 0)
    return rows.where(only as 'entity', 'in', placeholders(size)).compile() as unknown as CompiledQuery<AnyRow>;
  const columns = sql.join(key.map((column) => sql.ref(column)));
  const tuples = sql.join(placeholders(size).map(() => sql`(${sql.join(key)})`));
  // SQLite accepts a list of tuples only after `values`, after which PostgreSQL could not infer the types.
  const list = query.dialect === 'sqlite' ? sql`values ${tuples}` : tuples;
  return rows.where(sql<boolean>`(${columns}) in (${list})`).compile() as unknown as CompiledQuery<AnyRow>;
}

function placeholders(size: number): string[] {
  return Array.from({ length: size }, () => '');
}

const statements = new Map<string, CompiledQuery<AnyRow>>();

function compiled({ dialect }: Scope, name: string, compile: () => CompiledQuery<AnyRow>): CompiledQuery<AnyRow> {
  const key = `${dialect} ${name}`;
  const known = statements.get(key);
  if (known) return known;
  const statement = compile();
  statements.set(key, statement);
  return statement;
}

/**
 * Splits values into chunks and fills each up to the size of a statement by repeating its last value. A repeated value does not change
 * the result of a read or a delete.
 */
function* paddedChunks<Each>(values: readonly Each[]): Generator<readonly Each[]> {
  for (let start = 0; start < values.length; start += MAX_ROWS) {
    const chunk = values.slice(start, start + MAX_ROWS);
    const size = SIZES.find((each) => each >= chunk.length) ?? MAX_ROWS;
    yield [...chunk, ...Array.from({ length: size - chunk.length }, () => chunk.at(-1) as Each)];
  }
}

function powerOfTwoUpTo(count: number): number {
  return 2 ** Math.floor(Math.log2(count));
}
