// Design: src/decisions/batches.md

import type { Scope } from '../workspace-scope.ts';
import {
  type AnyRow,
  CACHED_TABLES,
  type CachedKey,
  type CachedRow,
  type CachedRows,
  type CachedTable,
  type CellValue,
  type LookupColumn,
  lookupValue,
  type RowReader,
  rowId,
} from './cached-tables.ts';
import { deleteRows, readRows, settleAll, writeRows } from './row-statements.ts';

/** Returns the rows whose column has one of these values, of which there may be any number. */
export async function rowsWhere<T extends CachedTable>(
  query: Scope,
  table: T,
  column: LookupColumn<T>,
  values: readonly CellValue[],
): Promise<readonly CachedRow<T>[]> {
  if (values.length === 0) return [];
  const rows = await (query.unitOfWork?.of(table) ?? new IdentityMap(query, table)).where(column, values);
  return rows as unknown as readonly CachedRow<T>[];
}

/** Inserts whole rows, or replaces the rows with their keys. */
export async function saveRows<T extends CachedTable>(
  query: Scope,
  table: T,
  rows: readonly CachedRow<T>[],
): Promise<void> {
  await write(query, (unit) => {
    for (const row of rows as readonly unknown[] as readonly AnyRow[]) unit.of(table).save(row);
  });
}

export async function removeRows<T extends CachedTable>(
  query: Scope,
  table: T,
  keys: readonly CachedKey<T>[],
): Promise<void> {
  await write(query, (unit) => {
    for (const key of keys as readonly unknown[] as readonly AnyRow[]) unit.of(table).remove(key);
  });
}

/** Outside of a unit of work the write goes to the database at once. */
async function write(query: Scope, change: (unit: CachedRows) => void): Promise<void> {
  const unit = query.unitOfWork ?? createUnit(query);
  change(unit);
  if (!query.unitOfWork) await unit.flush();
}

/** Writes the pending writes of the scope's unit of work to the database, so that plain statements see them. */
export async function flushRows(query: Scope): Promise<void> {
  await query.unitOfWork?.flush();
}

/** Returns a scope whose writes stay in memory until `flushRows`. Use it within one transaction only. */
export function beginUnitOfWork(query: Scope): Scope {
  return scopeWithUnit(query, createUnit(query));
}

/**
 * Runs the steps one after the other; each sees the writes of those before it. First all steps run ahead concurrently: this shows
 * which rows they read, and these are read together. The writes and results of that run are discarded, and a step that reaches a
 * plain statement is not followed further.
 */
export async function runSequentially<Result>(
  query: Scope,
  steps: readonly ((query: Scope) => Promise<Result>)[],
): Promise<Result[]> {
  if (query.unitOfWork?.isPrefetch) return settleAll(steps.map((step) => step(query)));
  await prefetch(query, steps);
  const results: Result[] = [];
  for (const step of steps) results.push(await step(query));
  return results;
}

/**
 * Runs the steps ahead, as described above, to read their rows together. Does nothing outside of a unit of work, or for a single
 * step, which reads its own rows together.
 */
export async function prefetch(query: Scope, steps: readonly ((query: Scope) => Promise<unknown>)[]): Promise<void> {
  const unit = query.unitOfWork;
  if (unit === undefined || unit.isPrefetch || steps.length < 2) return;
  await Promise.allSettled(steps.map((step) => step(prefetchScope(query, unit))));
}

/** A unit of work whose writes never reach the database. */
export type DryRun = ReturnType<typeof beginDryRun>;

/** Begins a dry run. @param query outside of a transaction, because nothing is written and no writer has to wait */
export function beginDryRun(query: Scope) {
  const unit = createUnit(query);
  return {
    /** Reads on this scope see what was written on it before. */
    scope: scopeWithUnit(query, { ...unit, flush: async () => undefined }),
    /** Returns the rows that would change. */
    changed: <T extends CachedTable>(table: T) => unit.changed(table) as unknown as readonly ChangedRow<CachedRow<T>>[],
  };
}

type UnitOfWork = ReturnType<typeof createUnit>;

/** Creates an empty unit of work over the database. Rows are read on demand. */
function createUnit(query: Scope) {
  let stored = new Map<CachedTable, IdentityMap>();
  let written = new Map<CachedTable, PendingWrites>();
  const storedOf = (table: CachedTable) => getOrCreate(stored, table, () => new IdentityMap(query, table));
  return {
    of: (table: CachedTable) => getOrCreate(written, table, () => new PendingWrites(table, storedOf(table))),
    /** Returns true if the table has writes that have not reached the database. */
    isDirty: (table: string) => table in CACHED_TABLES && written.get(table as CachedTable)?.isEmpty === false,
    /** Returns the rows of a table that the writes change. */
    changed: (table: CachedTable) => written.get(table)?.changedFrom(storedOf(table)) ?? [],
    async flush(): Promise<void> {
      // Concurrently, because over a network each table would cost a round trip.
      await settleAll([...written].map(([table, rows]) => flush(query, table, rows, storedOf(table))));
      // The caches do not see what plain statements change from now on, so all rows are read again.
      [stored, written] = [new Map(), new Map()];
    },
  };
}

function scopeWithUnit(query: Scope, unit: UnitOfWork): Scope {
  return guarded(query, unit, (table) => {
    if (unit.isDirty(table)) throw new Error(`rows of ${table} are written that have not reached the database`);
  });
}

function prefetchScope(query: Scope, unit: CachedRows): Scope {
  const written = new Map<CachedTable, PendingWrites>();
  const of = (table: CachedTable) => getOrCreate(written, table, () => new PendingWrites(table, unit.of(table)));
  const stop = () => {
    throw new Error('not followed further');
  };
  return guarded(query, { of, isPrefetch: true, flush: async () => stop() }, stop);
}

/** Returns a scope with this unit of work. @param guard throws if a plain statement must not run on this table now */
function guarded(query: Scope, unit: CachedRows, guard: (table: string) => void): Scope {
  return {
    workspace: query.workspace,
    dialect: query.dialect,
    unitOfWork: unit,
    get whole() {
      for (const table of Object.keys(CACHED_TABLES)) guard(table);
      return query.whole;
    },
    selectFrom(table) {
      guard(table);
      return query.selectFrom(table);
    },
    selectJoined(one, other) {
      guard(one[0]);
      guard(other[0]);
      return query.selectJoined(one, other);
    },
    selectOver: (rows) => query.selectOver(rows),
    insertInto(table) {
      guard(table);
      return query.insertInto(table);
    },
    updateTable(table) {
      guard(table);
      return query.updateTable(table);
    },
    deleteFrom(table) {
      guard(table);
      return query.deleteFrom(table);
    },
  };
}

function getOrCreate<Key, Value>(map: Map<Key, Value>, key: Key, create: () => Value): Value {
  const known = map.get(key);
  if (known) return known;
  const created = create();
  map.set(key, created);
  return created;
}

/** A row whose stored state and pending state differ. */
interface ChangedRow<Row = AnyRow> {
  /** Undefined if the database has no such row or no lookup has read it. */
  readonly before: Row | undefined;
  /** Null if the row is removed. */
  readonly after: Row | null;
}

/** Writes to one table that have not reached the database yet, over the rows of `base`. */
class PendingWrites implements RowReader {
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
async function flush(query: Scope, table: CachedTable, written: PendingWrites, stored: IdentityMap): Promise<void> {
  // A removed row that was never looked up may exist, so it is deleted too.
  const removed = written.removed.filter((key) => !stored.isAbsent(key));
  await deleteRows(query, table, removed);
  const saved = written.changedFrom(stored).flatMap(({ after }) => (after === null ? [] : [after]));
  await writeRows(query, table, saved);
}

/** The rows of one table as they are in the database. Each is read once; lookups that run concurrently share a statement. */
class IdentityMap implements RowReader {
  readonly #query: Scope;
  readonly #table: CachedTable;
  readonly #rows = new Map<string, AnyRow>();
  /** Results by column and value. A value without rows has an empty list. */
  readonly #lookups = new Map<string, Map<CellValue, readonly AnyRow[]>>();
  /** The next read of each column, once all callers wait: its values so far. */
  readonly #wanted = new Map<string, { readonly values: Set<CellValue>; readonly read: Promise<void> }>();

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

  /** If the statement fails, rejects for every caller that shares it. */
  #load(column: string, values: readonly CellValue[]): Promise<void> {
    const wanted = getOrCreate(this.#wanted, column, () => this.#beginRead(column));
    for (const value of values) wanted.values.add(value);
    return wanted.read;
  }

  #beginRead(column: string) {
    const values = new Set<CellValue>();
    const read = promisesSettled().then(() => {
      this.#wanted.delete(column);
      return this.#read(column, [...values]);
    });
    return { values, read };
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

/** Waits until all settled promises have run their continuations: ticks come after promises. */
function promisesSettled(): Promise<void> {
  return new Promise((resolve) => process.nextTick(resolve));
}
