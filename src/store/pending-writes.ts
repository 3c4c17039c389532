import type { IdentityMap } from './identity-map.ts';
import { deleteRows, writeRows } from './row-statements.ts';
import { type AnyRow, cell, nameOf, type RowView, type Value } from './row-view.ts';
import { KEPT, type UnitTable } from './unit-tables.ts';
import type { Scope } from './workspace-scope.ts';

/** Writes that have not reached the database yet. */
export class PendingWrites implements RowView {
  readonly #table: UnitTable;
  readonly #below: RowView;
  /** Null: removed. */
  readonly #rows = new Map<string, AnyRow | null>();
  /** Names of rows that have, or had, a value in a column. */
  readonly #named = new Map<string, Map<Value, Set<string>>>();
  /** Removed, with the columns of their keys. */
  readonly #removed = new Map<string, AnyRow>();

  constructor(table: UnitTable, below: RowView) {
    this.#table = table;
    this.#below = below;
  }

  async where(column: string, values: readonly Value[]): Promise<readonly AnyRow[]> {
    const below = await this.#below.where(column, values);
    if (this.#rows.size === 0) return below;
    const kept = below.filter((row) => !this.#rows.has(nameOf(this.#table, row)));
    const wanted = new Set(values);
    const names = [...wanted].flatMap((value) => [...(this.#named.get(column)?.get(value) ?? [])]);
    const own = [...new Set(names)].map((name) => this.#rows.get(name));
    const rows = [...kept, ...own.filter((row) => row != null)] as AnyRow[];
    const byValue = Map.groupBy(rows, (row) => cell(row, column));
    return [...wanted].flatMap((value) => byValue.get(value) ?? []);
  }

  save(row: AnyRow): void {
    const name = nameOf(this.#table, row);
    this.#rows.set(name, row);
    this.#removed.delete(name);
    for (const column of KEPT[this.#table].by) this.#note(column, cell(row, column), name);
  }

  remove(key: AnyRow): void {
    const name = nameOf(this.#table, key);
    this.#rows.set(name, null);
    this.#removed.set(name, key);
  }

  get isEmpty(): boolean {
    return this.#rows.size === 0;
  }

  get removed(): readonly AnyRow[] {
    return [...this.#removed.values()];
  }

  /** The rows that would be others than those of the database, in the order in which they were written first. */
  changedFrom(stored: IdentityMap): ChangedRow[] {
    const { columns } = KEPT[this.#table];
    const isOther = ({ before, after }: ChangedRow) =>
      after === null
        ? before !== undefined
        : before === undefined || columns.some((column) => before[column] !== after[column]);
    const all = [...this.#rows].map(([name, after]): ChangedRow => ({ before: stored.get(name), after }));
    return all.filter(isOther);
  }

  #note(column: string, value: Value, name: string): void {
    const values = this.#named.get(column) ?? new Map<Value, Set<string>>();
    this.#named.set(column, values);
    const names = values.get(value) ?? new Set();
    values.set(value, names.add(name));
  }
}

/** A row that is to be another. */
export interface ChangedRow {
  /** Undefined: there is none, or nobody has looked. */
  readonly before: AnyRow | undefined;
  /** Null: removed. */
  readonly after: AnyRow | null;
}

/** Flushes the writes to the database. Skips rows that have not changed. */
export async function flush(
  query: Scope,
  table: UnitTable,
  written: PendingWrites,
  stored: IdentityMap,
): Promise<void> {
  // A row that nobody looked for is removed all the same: it may be there.
  const removed = written.removed.filter((key) => !stored.isAbsent(key));
  await deleteRows(query, table, removed);
  const saved = written.changedFrom(stored).flatMap(({ after }) => (after === null ? [] : [after]));
  await writeRows(query, table, saved);
}
