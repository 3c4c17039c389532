import { type Kysely, type QueryExecutorProvider, type RawBuilder, SqliteAdapter, sql } from 'kysely';

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
