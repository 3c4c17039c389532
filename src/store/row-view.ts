import { ALL, KEPT, type UnitTable } from './unit-tables.ts';

/** A row of any table, and a value of any column. */
export type AnyRow = Readonly<Record<string, Value>>;
export type Value = string | number | null;

/** Rows of one table, as they are seen from somewhere. */
export interface RowView {
  /** Those of which the column is one of these values; in the order of the values, each once. */
  where(column: string, values: readonly Value[]): Promise<readonly AnyRow[]>;
}

/**
 * The rows that a batch works with. They are read and written in memory, and reach the database together, so that the number of
 * statements does not grow with the batch. Without a batch each call is a statement of its own.
 */
export interface UnitRows {
  of(table: UnitTable): RowView & { save(row: AnyRow): void; remove(key: AnyRow): void };
  /** Brings what was written to the database. */
  flush(): Promise<void>;
  /** Whether this is only to show what will be read. */
  readonly isAhead?: boolean;
}

/** What tells one row of a table from another. */
export function nameOf(table: UnitTable, row: AnyRow): string {
  const [only, ...more]: readonly string[] = KEPT[table].key;
  if (only === undefined || more.length > 0) return JSON.stringify(KEPT[table].key.map((column) => row[column]));
  return String(row[only]);
}

/** What a row has in a column by which it is looked for. */
export function cell(row: AnyRow, column: string): Value {
  return column === 'workspace' ? ALL : (row[column] as Value);
}
