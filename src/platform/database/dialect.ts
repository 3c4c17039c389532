import {
  type Kysely,
  type QueryExecutorProvider,
  type RawBuilder,
  type SelectQueryBuilder,
  SqliteAdapter,
  sql,
} from 'kysely';
import { jsonArrayFrom as jsonOfPostgres } from 'kysely/helpers/postgres';
import { jsonArrayFrom as jsonOfSqlite } from 'kysely/helpers/sqlite';

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
