import { sql } from 'kysely';
import { dialectOf } from '../../platform/database/dialect.ts';
import type { Sql } from '../workspace-scope.ts';
import type { CopiedTable } from './copied-tables.ts';

/** A row as a database has it, without what it makes itself. */
export type StoredRow = Readonly<Record<string, string | number | Buffer | null>>;

/** The values of the key of a row, in the order of its columns. */
export type RowKey = readonly (string | number)[];

export function keyOfRow({ key }: CopiedTable, row: StoredRow): RowKey {
  return key.map((column) => row[column] as string | number);
}

/** Rows of one portion, and bytes of the bodies among them: some tens of milliseconds, and little memory. */
const MOST_ROWS = 250;
const MOST_BYTES = 8 * 1024 * 1024;

/** The rows of a table in the order of its key, which both databases sort alike, by portions. */
export async function* portionsOf(query: Sql, table: CopiedTable, from?: RowKey): AsyncGenerator<readonly StoredRow[]> {
  const columns = await columnsOf(query, table);
  let after = from;
  for (;;) {
    const rows = await readPortion(query, table, columns, after);
    const last = rows.at(-1);
    if (last === undefined) return;
    yield rows;
    after = keyOfRow(table, last);
  }
}

async function readPortion(
  query: Sql,
  table: CopiedTable,
  columns: readonly string[],
  after: RowKey | undefined,
): Promise<readonly StoredRow[]> {
  const limit = table.name === 'inbox' ? await fittingDeliveries(query, table, after) : MOST_ROWS;
  const { rows } = await sql<StoredRow>`select ${sql.join(columns.map((column) => sql.ref(column)))}
    from ${sql.table(table.name)} ${following(table, after)} limit ${sql.lit(limit)}`.execute(query);
  return rows;
}

/** How many of the next deliveries have bodies that fit into memory together. */
async function fittingDeliveries(query: Sql, table: CopiedTable, after: RowKey | undefined): Promise<number> {
  const { rows } = await sql<{ bytes: number }>`select coalesce(length(body), 0) as bytes
    from ${sql.table(table.name)} ${following(table, after)} limit ${sql.lit(MOST_ROWS)}`.execute(query);
  let bytes = 0;
  let fitting = 0;
  for (const row of rows) {
    bytes += row.bytes;
    if (bytes > MOST_BYTES) break;
    fitting += 1;
  }
  // One that is larger than that goes alone.
  return Math.max(1, fitting);
}

function following({ key }: CopiedTable, after: RowKey | undefined) {
  const columns = sql.join(key.map((column) => sql.ref(column)));
  return after === undefined
    ? sql`order by ${columns}`
    : sql`where (${columns}) > (${sql.join(after)}) order by ${columns}`;
}

/** The columns of a table without generated ones, by name, because their order may differ between databases. */
async function columnsOf(query: Sql, { name }: CopiedTable): Promise<readonly string[]> {
  const found =
    dialectOf(query) === 'sqlite'
      ? sql<{ name: string }>`select name from pragma_table_info(${name})`
      : sql<{ name: string }>`select column_name as name from information_schema.columns
          where table_schema = current_schema() and table_name = ${name} and is_generated = 'NEVER'`;
  const { rows } = await found.execute(query);
  return rows.map((row) => row.name).sort();
}
