import { sql } from 'kysely';
import { dialectOf, keyOf } from '../../platform/database/database-schema.ts';
import { ALL_TABLES, type Schema } from '../schema/tables.ts';
import type { Sql } from '../workspace-scope.ts';

/**
 * The tables that are not copied as tables: facts are copied as a whole (`copy-store.ts`), leases are those of processes of one
 * database, none of which runs now, and triggers derive the counts.
 */
const LEFT = ['installation', 'replicas', 'leases', 'counts'] as const satisfies readonly (keyof Schema)[];

export type CopiedName = Exclude<keyof Schema, (typeof LEFT)[number]>;

/** A table whose rows go from one database to another. */
export interface CopiedTable {
  readonly name: CopiedName;
  /** The columns of its primary key, in their order. */
  readonly key: readonly string[];
}

/** The order in which tables are copied. */
export const COPIED_TABLES: readonly CopiedTable[] = Object.entries(ALL_TABLES)
  .filter(([name]) => !LEFT.some((left) => left === name))
  .map(([name, table]) => ({ name: name as CopiedName, key: keyOf(table) }));

/** Tables whose rows the database numbers. It never gives a number twice, even if the row was deleted. */
export const NUMBERED: readonly string[] = Object.entries(ALL_TABLES)
  .filter(([, { columns }]) => Object.values(columns).some(({ isNumbered }) => isNumbered))
  .map(([name]) => name);

/** A row without its generated columns. */
export type StoredRow = Readonly<Record<string, string | number | Buffer | null>>;

/** The values of the key of a row, in the order of its columns. */
export type RowKey = readonly (string | number)[];

export function keyOfRow({ key }: CopiedTable, row: StoredRow): RowKey {
  return key.map((column) => row[column] as string | number);
}

/** Limits of one portion: some tens of milliseconds, and little memory. */
const MOST_ROWS = 250;
const MOST_BYTES = 8 * 1024 * 1024;

/** Reads the rows of a table by portions, in the order of its key, which both databases sort alike. */
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

/** Returns how many of the next deliveries have bodies that fit into memory together. */
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
  // A larger one is read alone.
  return Math.max(1, fitting);
}

function following({ key }: CopiedTable, after: RowKey | undefined) {
  const columns = sql.join(key.map((column) => sql.ref(column)));
  return after === undefined
    ? sql`order by ${columns}`
    : sql`where (${columns}) > (${sql.join(after)}) order by ${columns}`;
}

/** Returns the columns of a table without generated ones, by name, because their order may differ between databases. */
async function columnsOf(query: Sql, { name }: CopiedTable): Promise<readonly string[]> {
  const found =
    dialectOf(query) === 'sqlite'
      ? sql<{ name: string }>`select name from pragma_table_info(${name})`
      : sql<{ name: string }>`select column_name as name from information_schema.columns
          where table_schema = current_schema() and table_name = ${name} and is_generated = 'NEVER'`;
  const { rows } = await found.execute(query);
  return rows.map((row) => row.name).sort();
}
