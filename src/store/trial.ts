import { scopeOver, type UnitOfWork, unitOfWorkOf } from './unit-of-work.ts';
import type { UnitRow, UnitTable } from './unit-tables.ts';
import type { Scope } from './workspace-scope.ts';

/** What would become of one row. */
export interface TriedRow<T extends UnitTable> {
  /** Undefined: there is none. */
  readonly before: UnitRow<T> | undefined;
  /** Null: it would be removed. */
  readonly after: UnitRow<T> | null;
}

/** Rows that are worked on in memory and never reach the database. */
export interface Trial {
  /** Work on it sees what it wrote before. */
  readonly scope: Scope;
  /** The rows that would be others. */
  changed<T extends UnitTable>(table: T): readonly TriedRow<T>[];
}

/** @param query outside of a transaction: nothing is written, so nobody has to wait */
export function tryOut(query: Scope): Trial {
  const unit = unitOfWorkOf(query);
  const kept: UnitOfWork = { ...unit, flush: async () => undefined };
  return {
    scope: scopeOver(query, kept),
    changed: <T extends UnitTable>(table: T) => unit.changed(table) as unknown as readonly TriedRow<T>[],
  };
}
