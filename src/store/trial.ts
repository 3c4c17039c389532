import { type KeptUnit, keptUnit, scopeOver } from './kept-rows.ts';
import type { KeptRow, KeptTable } from './kept-tables.ts';
import type { Scope } from './workspace-scope.ts';

/** What would become of one row. */
export interface TriedRow<T extends KeptTable> {
  /** Undefined: there is none. */
  readonly before: KeptRow<T> | undefined;
  /** Null: it would be removed. */
  readonly after: KeptRow<T> | null;
}

/** Rows that are worked on in memory and never reach the database. */
export interface Trial {
  /** Work on it sees what it wrote before. */
  readonly scope: Scope;
  /** The rows that would be others. */
  changed<T extends KeptTable>(table: T): readonly TriedRow<T>[];
}

/** @param query outside of a transaction: nothing is written, so nobody has to wait */
export function tryOut(query: Scope): Trial {
  const unit = keptUnit(query);
  const kept: KeptUnit = { ...unit, flush: async () => undefined };
  return {
    scope: scopeOver(query, kept),
    changed: <T extends KeptTable>(table: T) => unit.changed(table) as unknown as readonly TriedRow<T>[],
  };
}
