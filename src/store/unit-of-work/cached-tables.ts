import type { Selectable } from 'kysely';
import { type Tables, WORKSPACE_TABLES, type WorkspaceTable } from '../schema/tables.ts';

/** The tables whose rows a unit of work caches: the columns that are written, and the columns by which rows are read (`by`). */
export const CACHED_TABLES = {
  meta: table('meta', { columns: ['name', 'value'], by: ['name'] }),
  items: table('items', {
    columns: [
      'key',
      'kind',
      'connector',
      'connection',
      'provider_time',
      'hash',
      'finished',
      'gone',
      'fields',
      'seen_at',
      'standing',
      'deliveries',
      'unverified',
      'phase',
      'reverts',
      'number_sign',
    ],
    by: ['key', 'reverts'],
  }),
  mentions: table('mentions', {
    columns: ['item_key', 'name', 'reason'],
    by: ['item_key', 'name'],
  }),
  item_names: table('item_names', {
    columns: ['item_key', 'name', 'place', 'container', 'former_at'],
    by: ['item_key', 'name', 'place'],
  }),
  tasks: table('tasks', {
    columns: ['task_id', 'key', 'source', 'status', 'fields', 'seen_at'],
    by: ['task_id', 'key', 'source'],
  }),
  entities: table('entities', {
    columns: [
      'entity',
      'kind',
      'item_key',
      'task_id',
      'desired',
      'known',
      'known_at',
      'remote_id',
      'hand',
      'written',
      'revision',
    ],
    by: ['entity', 'item_key', 'task_id'],
  }),
  outbox: table('outbox', {
    columns: [
      'entity',
      'kind',
      'lane',
      'since',
      'due',
      'weight',
      'not_before',
      'awaits',
      'attempts',
      'state',
      'sent',
      'sent_at',
      'next_since',
      'error',
      'effect',
      'guard',
      'waiting',
    ],
    by: ['entity'],
  }),
  notices: table('notices', {
    columns: [
      'item_key',
      'kind',
      'connection',
      'wanted',
      'done',
      'state',
      'not_before',
      'attempts',
      'error',
      'standing',
    ],
    by: ['item_key'],
  }),
  fetches: table('fetches', {
    columns: ['reference', 'connection', 'since', 'not_before', 'attempts', 'error', 'delivery_id', 'asks'],
    by: ['reference'],
  }),
  workspace_sweeps: table('workspace_sweeps', {
    columns: ['id', 'started_at', 'tasks_at', 'tasks', 'list_began_at', 'records', 'records_at', 'finished_at'],
    by: ['workspace'],
  }),
  workspace_findings: table('workspace_findings', {
    columns: ['sweep', 'entity', 'what', 'found_at'],
    by: [],
  }),
} as const;

export type CachedTable = keyof typeof CACHED_TABLES;

/** A row of one of these tables, without the columns that the database generates. */
export type CachedRow<T extends CachedTable> = ColumnsOf<T, (typeof CACHED_TABLES)[T]['columns'][number]>;

/** The columns that identify a row within its workspace. */
export type CachedKey<T extends CachedTable> = ColumnsOf<T, (typeof CACHED_TABLES)[T]['key'][number]>;

/** A column by which rows are read. */
export type LookupColumn<T extends CachedTable> = (typeof CACHED_TABLES)[T]['by'][number];

type ColumnsOf<T extends CachedTable, Column> = Pick<
  Selectable<Tables[T]>,
  Extract<Column, keyof Selectable<Tables[T]>>
>;

type ColumnName<T extends WorkspaceTable> = keyof Selectable<Tables[T]> & string;

function table<
  T extends WorkspaceTable,
  const Column extends ColumnName<T>,
  const By extends ColumnName<T> | 'workspace' = never,
>(name: T, columns: { readonly columns: readonly Column[]; readonly by: readonly By[] }) {
  return { ...columns, key: WORKSPACE_TABLES[name] };
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
  const [only, ...more]: readonly string[] = CACHED_TABLES[table].key;
  if (only === undefined || more.length > 0)
    return JSON.stringify(CACHED_TABLES[table].key.map((column) => row[column]));
  return String(row[only]);
}

/** Returns the value by which a lookup on this column finds the row. */
export function lookupValue(row: AnyRow, column: string): CellValue {
  return column === 'workspace' ? ALL_ROWS : (row[column] as CellValue);
}
