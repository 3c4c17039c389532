import { createDataLoader } from '../platform/lib/data-loader.ts';
import { readRows } from './row-statements.ts';
import { type AnyRow, cell, nameOf, type RowView, type Value } from './row-view.ts';
import { KEPT, type UnitTable } from './unit-tables.ts';
import type { Scope } from './workspace-scope.ts';

/** The rows as the database holds them, read once, and those that several ask for at once in one statement. */
export class IdentityMap implements RowView {
  readonly #query: Scope;
  readonly #table: UnitTable;
  readonly #rows = new Map<string, AnyRow>();
  /** By column and value; a value that was looked for and not found has none. */
  readonly #found = new Map<string, Map<Value, readonly AnyRow[]>>();
  readonly #reads = new Map<string, (values: Iterable<Value>) => Promise<void>>();

  constructor(query: Scope, table: UnitTable) {
    this.#query = query;
    this.#table = table;
  }

  async where(column: string, values: readonly Value[]): Promise<readonly AnyRow[]> {
    const missing = values.filter((value) => this.#known(column, value) === undefined);
    if (missing.length > 0) await this.#read(column, missing);
    const [first] = values;
    if (values.length === 1) return this.#known(column, first as Value) ?? [];
    return [...new Set(values)].flatMap((value) => this.#known(column, value) ?? []);
  }

  /** Undefined: there is none, or nobody has looked. */
  get(name: string): AnyRow | undefined {
    return this.#rows.get(name);
  }

  /** Whether somebody has looked for this row, and there is none. */
  isAbsent(row: AnyRow): boolean {
    return KEPT[this.#table].key.some((column) => {
      const found = this.#found.get(column)?.get(row[column] as Value);
      return found !== undefined && !found.some((each) => nameOf(this.#table, each) === nameOf(this.#table, row));
    });
  }

  #known(column: string, value: Value): readonly AnyRow[] | undefined {
    const found = this.#found.get(column)?.get(value);
    if (found) return found;
    const { key } = KEPT[this.#table];
    const row = key.length === 1 && key[0] === column ? this.#rows.get(String(value)) : undefined;
    return row && [row];
  }

  #read(column: string, values: readonly Value[]): Promise<void> {
    const read = this.#reads.get(column) ?? createDataLoader<Value>((wanted) => this.#load(column, wanted));
    this.#reads.set(column, read);
    return read(values);
  }

  async #load(column: string, values: readonly Value[]): Promise<void> {
    const rows = await readRows(this.#query, this.#table, column, values);
    const found = this.#found.get(column) ?? new Map<Value, AnyRow[]>();
    this.#found.set(column, found);
    for (const row of rows) this.#rows.set(nameOf(this.#table, row), row);
    const byValue = Map.groupBy(rows, (row) => cell(row, column));
    for (const value of values) found.set(value, byValue.get(value) ?? []);
  }
}
