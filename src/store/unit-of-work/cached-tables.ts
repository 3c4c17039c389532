import type { Insertable, Selectable } from 'kysely';
import { type Tables, WORKSPACE_TABLES } from '../schema/tables.ts';

/** The tables whose rows a unit of work caches, with the columns by which rows are read. */
const LOOKUP_COLUMNS = {
  meta: ['name'],
  items: ['key', 'reverts'],
  mentions: ['item_key', 'name'],
  item_names: ['item_key', 'name', 'place'],
  tasks: ['task_id', 'key', 'source'],
  entities: ['entity', 'item_key', 'task_id'],
  outbox: ['entity'],
  notices: ['item_key'],
  fetches: ['reference'],
  workspace_sweeps: ['workspace'],
  workspace_findings: [],
} as const satisfies { readonly [T in keyof Tables]?: readonly (keyof Tables[T] | 'workspace')[] };

export type CachedTable = keyof typeof LOOKUP_COLUMNS;

/** A row of one of these tables, without the columns that the database generates. */
export type CachedRow<T extends CachedTable> = Pick<
  Selectable<Tables[T]>,
  Extract<keyof Insertable<Tables[T]>, keyof Selectable<Tables[T]>>
>;

/** The columns that identify a row within its workspace. */
export type CachedKey<T extends CachedTable> = Pick<
  Selectable<Tables[T]>,
  NonNullable<(typeof WORKSPACE_TABLES)[T]['key']>[number] & keyof Selectable<Tables[T]>
>;

/** A column by which rows are read. */
export type LookupColumn<T extends CachedTable> = (typeof LOOKUP_COLUMNS)[T][number];

interface CachedColumns {
  /** The columns that are written. */
  readonly columns: readonly string[];
  readonly key: readonly string[];
  /** The columns by which rows are read. */
  readonly by: readonly string[];
  /** The values of the columns that a new row need not name. */
  readonly defaults: AnyRow;
}

export const CACHED_TABLES = Object.fromEntries(
  Object.entries(LOOKUP_COLUMNS).map(([name, by]) => {
    const { columns, key } = WORKSPACE_TABLES[name as CachedTable];
    const written = Object.entries(columns).filter(([, { expression }]) => !expression);
    const optional = written.filter(([, column]) => column.isNullable || column.default !== undefined);
    const defaults = Object.fromEntries(optional.map(([column, each]) => [column, each.default ?? null]));
    const cached: CachedColumns = { columns: written.map(([column]) => column), key: key ?? [], by, defaults };
    return [name, cached];
  }),
) as { readonly [T in CachedTable]: CachedColumns };

/** Returns a row with the defaults of the columns that are not given. */
export function newRow<T extends CachedTable>(table: T, given: Insertable<Tables[T]>): CachedRow<T> {
  return { ...CACHED_TABLES[table].defaults, ...given } as unknown as CachedRow<T>;
}

/** The lookup value for the column `workspace`, by which all rows of a small table are read. */
export const ALL_ROWS = 0;

/** A value of any column, and a row of any table. */
export type CellValue = string | number | null;
export type AnyRow = Readonly<Record<string, CellValue>>;

/** Rows of one table. */
export interface RowReader {
  /** Returns the rows whose column has one of the values: in the order of the values, each row once. */
  where(column: string, values: readonly CellValue[]): Promise<readonly AnyRow[]>;
}

/**
 * The rows that a batch works with. It reads and writes them in memory, and all writes reach the database together, so that the
 * number of statements does not grow with the batch.
 */
export interface CachedRows {
  of(table: CachedTable): RowReader & { save(row: AnyRow): void; remove(key: AnyRow): void };
  /** Writes all pending writes to the database. */
  flush(): Promise<void>;
  /** True in a prefetch, which only records the reads: its writes are discarded. */
  readonly isPrefetch?: boolean;
}

/** Returns a string that identifies the row within its table and workspace. */
export function rowId(table: CachedTable, row: AnyRow): string {
  const { key } = CACHED_TABLES[table];
  return key.length === 1 ? String(row[key[0] as string]) : JSON.stringify(key.map((column) => row[column]));
}

/** Returns the value by which a lookup on this column finds the row. */
export function lookupValue(row: AnyRow, column: string): CellValue {
  return column === 'workspace' ? ALL_ROWS : (row[column] as CellValue);
}
