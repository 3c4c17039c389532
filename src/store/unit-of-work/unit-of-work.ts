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
} from './cached-tables.ts';
import { IdentityMap } from './identity-map.ts';
import { type ChangedRow, flush, PendingWrites } from './pending-writes.ts';
import { settleAll } from './row-statements.ts';

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
  // A single step already batches its own reads.
  if (steps.length > 1) await prefetch(query, steps);
  const results: Result[] = [];
  for (const step of steps) results.push(await step(query));
  return results;
}

/** Runs the steps ahead, as described above, to read their rows together. Does nothing outside of a unit of work. */
export async function prefetch(query: Scope, steps: readonly ((query: Scope) => Promise<unknown>)[]): Promise<void> {
  const unit = query.unitOfWork;
  if (unit === undefined || unit.isPrefetch || steps.length === 0) return;
  await Promise.allSettled(steps.map((step) => step(prefetchScope(query, unit))));
}

/** A row that a dry run would change. */
export interface DryRunRow<T extends CachedTable> {
  /** Undefined if there is no such row. */
  readonly before: CachedRow<T> | undefined;
  /** Null if it would be removed. */
  readonly after: CachedRow<T> | null;
}

/** A unit of work whose writes never reach the database. */
export interface DryRun {
  /** Reads on this scope see what was written on it before. */
  readonly scope: Scope;
  /** Returns the rows that would change. */
  changed<T extends CachedTable>(table: T): readonly DryRunRow<T>[];
}

/** Begins a dry run. @param query outside of a transaction, because nothing is written and no writer has to wait */
export function beginDryRun(query: Scope): DryRun {
  const unit = createUnit(query);
  return {
    scope: scopeWithUnit(query, { ...unit, flush: async () => undefined }),
    changed: <T extends CachedTable>(table: T) => unit.changed(table) as unknown as readonly DryRunRow<T>[],
  };
}

interface UnitOfWork extends CachedRows {
  /** Returns true if the table has writes that have not reached the database. */
  isDirty(table: string): boolean;
  /** Returns the rows of a table that the writes change. */
  changed(table: CachedTable): readonly ChangedRow[];
}

/** Creates an empty unit of work over the database. Rows are read on demand. */
function createUnit(query: Scope): UnitOfWork {
  let stored = new Map<CachedTable, IdentityMap>();
  let written = new Map<CachedTable, PendingWrites>();
  const storedOf = (table: CachedTable) => getOrCreate(stored, table, () => new IdentityMap(query, table));
  return {
    of: (table) => getOrCreate(written, table, () => new PendingWrites(table, storedOf(table))),
    isDirty: (table) => table in CACHED_TABLES && written.get(table as CachedTable)?.isEmpty === false,
    changed: (table) => written.get(table)?.changedFrom(storedOf(table)) ?? [],
    async flush() {
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
