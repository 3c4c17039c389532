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

/** In what two databases differ, a statement or a migration asks here; all other differences are the compiler's. */
export type Dialect = 'sqlite' | 'postgres';

/** Of whatever statements are built with. */
export function dialectOf(query: QueryExecutorProvider | Pick<Kysely<unknown>, 'getExecutor'>): Dialect {
  return query.getExecutor().adapter instanceof SqliteAdapter ? 'sqlite' : 'postgres';
}

/**
 * The text at a path in a column that holds JSON as text: `textIn('fields', ['item', 'url'])`. Null where there is none.
 *
 * PostgreSQL decodes the whole document, and would refuse it for one `\u0000` or half a surrogate pair in any of its texts. What is
 * written now has none (`withStorableTexts`); older rows that were copied from SQLite are read with another letter.
 */
export function textIn(dialect: Dialect, column: string, path: readonly string[]): RawBuilder<string | null> {
  const place = sql.ref(column);
  if (dialect === 'sqlite') return sql`json_extract(${place}, ${sql.lit(`$.${path.join('.')}`)})`;
  const steps = sql.lit(`{${path.join(',')}}`);
  const readable = sql.raw(String.raw`'\\u(0000|d[89a-f][0-9a-f]{2})', '\\ufffd', 'g'`);
  return sql`((regexp_replace(${place}, ${readable})::json #> ${steps}) #>> '{}')`;
}

/** Rows as one value: a text of SQLite, and what `pg` has read of that of PostgreSQL. */
type RowsAsJson<Row> = string | readonly Row[];

/**
 * The rows of a correlated subquery as one value, to be read by `rowsIn`. Both databases run it once for each outer row, and use its
 * index. A join would be planned by guesses: PostgreSQL may run the subquery again for each pair of rows.
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
