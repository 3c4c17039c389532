import type { Scope } from '../workspace-scope.ts';
import {
  type AnyRow,
  CACHED_TABLES,
  type CachedTable,
  type CellValue,
  lookupValue,
  type RowReader,
  rowId,
} from './cached-tables.ts';
import type { IdentityMap } from './identity-map.ts';
import { deleteRows, writeRows } from './row-statements.ts';

/** A row whose stored state and pending state differ. */
export interface ChangedRow {
  /** Undefined if the database has no such row or no lookup has read it. */
  readonly before: AnyRow | undefined;
  /** Null if the row is removed. */
  readonly after: AnyRow | null;
}

/** Writes to one table that have not reached the database yet, over the rows of `base`. */
export class PendingWrites implements RowReader {
  readonly #table: CachedTable;
  readonly #base: RowReader;
  /** Rows by id, in the order of their first write. Null: removed. */
  readonly #rows = new Map<string, AnyRow | null>();
  /** Ids of the rows that have, or had, a value in a column. */
  readonly #idsByValue = new Map<string, Map<CellValue, Set<string>>>();
  /** Keys of the removed rows by id. */
  readonly #removed = new Map<string, AnyRow>();

  constructor(table: CachedTable, base: RowReader) {
    this.#table = table;
    this.#base = base;
  }

  async where(column: string, values: readonly CellValue[]): Promise<readonly AnyRow[]> {
    const base = await this.#base.where(column, values);
    if (this.#rows.size === 0) return base;
    const unwritten = base.filter((row) => !this.#rows.has(rowId(this.#table, row)));
    const distinct = new Set(values);
    const ids = [...distinct].flatMap((value) => [...(this.#idsByValue.get(column)?.get(value) ?? [])]);
    const written = [...new Set(ids)].map((id) => this.#rows.get(id));
    const rows = [...unwritten, ...written.filter((row) => row != null)] as AnyRow[];
    const byValue = Map.groupBy(rows, (row) => lookupValue(row, column));
    return [...distinct].flatMap((value) => byValue.get(value) ?? []);
  }

  save(row: AnyRow): void {
    const id = rowId(this.#table, row);
    this.#rows.set(id, row);
    this.#removed.delete(id);
    for (const column of CACHED_TABLES[this.#table].by) this.#index(column, lookupValue(row, column), id);
  }

  remove(key: AnyRow): void {
    const id = rowId(this.#table, key);
    this.#rows.set(id, null);
    this.#removed.set(id, key);
  }

  get isEmpty(): boolean {
    return this.#rows.size === 0;
  }

  /** The keys of the removed rows. */
  get removed(): readonly AnyRow[] {
    return [...this.#removed.values()];
  }

  /** Returns the rows that differ from those of the database, in the order of their first write. */
  changedFrom(stored: IdentityMap): ChangedRow[] {
    const { columns } = CACHED_TABLES[this.#table];
    const differs = ({ before, after }: ChangedRow) =>
      after === null
        ? before !== undefined
        : before === undefined || columns.some((column) => before[column] !== after[column]);
    const all = [...this.#rows].map(([id, after]): ChangedRow => ({ before: stored.get(id), after }));
    return all.filter(differs);
  }

  #index(column: string, value: CellValue, id: string): void {
    const byValue = this.#idsByValue.get(column) ?? new Map<CellValue, Set<string>>();
    this.#idsByValue.set(column, byValue);
    const ids = byValue.get(value) ?? new Set();
    byValue.set(value, ids.add(id));
  }
}

/** Flushes the writes of one table to the database. Skips rows that have not changed. */
export async function flush(
  query: Scope,
  table: CachedTable,
  written: PendingWrites,
  stored: IdentityMap,
): Promise<void> {
  // A removed row that was never looked up may exist, so it is deleted too.
  const removed = written.removed.filter((key) => !stored.isAbsent(key));
  await deleteRows(query, table, removed);
  const saved = written.changedFrom(stored).flatMap(({ after }) => (after === null ? [] : [after]));
  await writeRows(query, table, saved);
}
