// Design: src/decisions/batches.md

import { IdentityMap } from './identity-map.ts';
import { type ChangedRow, flush, PendingWrites } from './pending-writes.ts';
import { allOf } from './row-statements.ts';
import type { AnyRow, UnitRows, Value } from './row-view.ts';
import { KEPT, type KeyOf, type LookedBy, type UnitRow, type UnitTable } from './unit-tables.ts';
import type { Scope } from './workspace-scope.ts';

/** The rows whose column is one of these values: any number. */
export async function rowsWhere<T extends UnitTable>(
  query: Scope,
  table: T,
  column: LookedBy<T>,
  values: readonly Value[],
): Promise<readonly UnitRow<T>[]> {
  if (values.length === 0) return [];
  const rows = await (query.kept?.of(table) ?? new IdentityMap(query, table)).where(column, values);
  return rows as unknown as readonly UnitRow<T>[];
}

/** Writes whole rows over those of their keys, or adds them. */
export async function saveRows<T extends UnitTable>(
  query: Scope,
  table: T,
  rows: readonly UnitRow<T>[],
): Promise<void> {
  await write(query, (kept) => {
    for (const row of rows as readonly unknown[] as readonly AnyRow[]) kept.of(table).save(row);
  });
}

export async function removeRows<T extends UnitTable>(
  query: Scope,
  table: T,
  keys: readonly KeyOf<T>[],
): Promise<void> {
  await write(query, (kept) => {
    for (const key of keys as readonly unknown[] as readonly AnyRow[]) kept.of(table).remove(key);
  });
}

async function write(query: Scope, change: (kept: UnitRows) => void): Promise<void> {
  const kept = query.kept ?? unitOfWorkOf(query);
  change(kept);
  if (!query.kept) await kept.flush();
}

/** What is written is in the database afterwards, where plain statements find it. */
export async function flushRows(query: Scope): Promise<void> {
  await query.kept?.flush();
}

/** A scope whose rows are kept until they are flushed. Only within one transaction. */
export function beginUnitOfWork(query: Scope): Scope {
  return scopeOver(query, unitOfWorkOf(query));
}

/** The rows of the scope are those of the unit. */
export function scopeOver(query: Scope, unit: UnitOfWork): Scope {
  return guarded(query, unit, (table) => {
    if (unit.holds(table)) throw new Error(`rows of ${table} are written that have not reached the database`);
  });
}

/**
 * Does these one after the other, each seeing what those before it wrote. Before that all of them run ahead at the same time,
 * to show what they read: that is read for all together. What they write there is discarded, and so is their result; one that
 * would run a statement of its own is not followed further.
 */
export async function runSequentially<Result>(
  query: Scope,
  works: readonly ((query: Scope) => Promise<Result>)[],
): Promise<Result[]> {
  if (query.kept?.isAhead) return allOf(works.map((work) => work(query)));
  // One alone reads as much together by itself.
  if (works.length > 1) await prefetch(query, works);
  const results: Result[] = [];
  for (const work of works) results.push(await work(query));
  return results;
}

/** Shows what these will read, as above. */
export async function prefetch(query: Scope, works: readonly ((query: Scope) => Promise<unknown>)[]): Promise<void> {
  const { kept } = query;
  if (kept === undefined || kept.isAhead || works.length === 0) return;
  await Promise.allSettled(works.map((work) => work(aheadOf(query, kept))));
}

export interface UnitOfWork extends UnitRows {
  /** Whether there are writes to this table that have not reached the database. */
  holds(table: string): boolean;
  /** The rows of a table that the writes make others. */
  changed(table: UnitTable): readonly ChangedRow[];
}

/** Over what the database has; nothing is read before it is asked for. */
export function unitOfWorkOf(query: Scope): UnitOfWork {
  let stored = new Map<UnitTable, IdentityMap>();
  let written = new Map<UnitTable, PendingWrites>();
  const storedOf = (table: UnitTable) => present(stored, table, () => new IdentityMap(query, table));
  return {
    of: (table) => present(written, table, () => new PendingWrites(table, storedOf(table))),
    holds: (table) => table in KEPT && written.get(table as UnitTable)?.isEmpty === false,
    changed: (table) => written.get(table)?.changedFrom(storedOf(table)) ?? [],
    async flush() {
      // Together: over a network each alone would be a journey.
      await allOf([...written].map(([table, rows]) => flush(query, table, rows, storedOf(table))));
      // What plain statements do now is not seen here: all is read anew.
      [stored, written] = [new Map(), new Map()];
    },
  };
}

function aheadOf(query: Scope, unit: UnitRows): Scope {
  const written = new Map<UnitTable, PendingWrites>();
  const of = (table: UnitTable) => present(written, table, () => new PendingWrites(table, unit.of(table)));
  const stop = () => {
    throw new Error('not followed further');
  };
  return guarded(query, { of, isAhead: true, flush: async () => stop() }, stop);
}

/** @param guard throws where a statement on this table may not run */
function guarded(query: Scope, kept: UnitRows, guard: (table: string) => void): Scope {
  return {
    workspace: query.workspace,
    kept,
    get whole() {
      for (const table of Object.keys(KEPT)) guard(table);
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

function present<Key, Each>(all: Map<Key, Each>, key: Key, make: () => Each): Each {
  const found = all.get(key);
  if (found) return found;
  const made = make();
  all.set(key, made);
  return made;
}
