import { createDataLoader } from '../../platform/lib/yield.ts';
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
import { readRows } from './row-statements.ts';

/** The rows of one table as they are in the database. Each is read once; lookups that run concurrently share a statement. */
export class IdentityMap implements RowReader {
  readonly #query: Scope;
  readonly #table: CachedTable;
  readonly #rows = new Map<string, AnyRow>();
  /** Results by column and value. A value without rows has an empty list. */
  readonly #lookups = new Map<string, Map<CellValue, readonly AnyRow[]>>();
  readonly #loaders = new Map<string, (values: Iterable<CellValue>) => Promise<void>>();

  constructor(query: Scope, table: CachedTable) {
    this.#query = query;
    this.#table = table;
  }

  async where(column: string, values: readonly CellValue[]): Promise<readonly AnyRow[]> {
    const missing = values.filter((value) => this.#cached(column, value) === undefined);
    if (missing.length > 0) await this.#load(column, missing);
    const [first] = values;
    if (values.length === 1) return this.#cached(column, first as CellValue) ?? [];
    return [...new Set(values)].flatMap((value) => this.#cached(column, value) ?? []);
  }

  /** Returns undefined if there is no such row or no lookup has read it. */
  get(id: string): AnyRow | undefined {
    return this.#rows.get(id);
  }

  /** Returns true if a lookup has shown that the database has no such row. */
  isAbsent(row: AnyRow): boolean {
    return CACHED_TABLES[this.#table].key.some((column) => {
      const found = this.#lookups.get(column)?.get(row[column] as CellValue);
      return found !== undefined && !found.some((each) => rowId(this.#table, each) === rowId(this.#table, row));
    });
  }

  #cached(column: string, value: CellValue): readonly AnyRow[] | undefined {
    const found = this.#lookups.get(column)?.get(value);
    if (found) return found;
    const { key } = CACHED_TABLES[this.#table];
    const row = key.length === 1 && key[0] === column ? this.#rows.get(String(value)) : undefined;
    return row && [row];
  }

  #load(column: string, values: readonly CellValue[]): Promise<void> {
    const load = this.#loaders.get(column) ?? createDataLoader<CellValue>((wanted) => this.#read(column, wanted));
    this.#loaders.set(column, load);
    return load(values);
  }

  async #read(column: string, values: readonly CellValue[]): Promise<void> {
    const rows = await readRows(this.#query, this.#table, column, values);
    const lookups = this.#lookups.get(column) ?? new Map<CellValue, AnyRow[]>();
    this.#lookups.set(column, lookups);
    for (const row of rows) this.#rows.set(rowId(this.#table, row), row);
    const byValue = Map.groupBy(rows, (row) => lookupValue(row, column));
    for (const value of values) lookups.set(value, byValue.get(value) ?? []);
  }
}
