import { ALL, KEPT, type KeptTable } from './kept-tables.ts';
import type { AnyRow, Value } from './row-statements.ts';

/** Rows of one table, as they are seen from somewhere. */
export interface RowsSeen {
  /** Those of which the column is one of these values; in the order of the values, each once. */
  where(column: string, values: readonly Value[]): Promise<readonly AnyRow[]>;
}

/** What tells one row of a table from another. */
export function nameOf(table: KeptTable, row: AnyRow): string {
  const [only, ...more]: readonly string[] = KEPT[table].key;
  if (only === undefined || more.length > 0) return JSON.stringify(KEPT[table].key.map((column) => row[column]));
  return String(row[only]);
}

/** What a row has in a column by which it is looked for. */
export function cell(row: AnyRow, column: string): Value {
  return column === 'workspace' ? ALL : (row[column] as Value);
}
