import type { Selectable } from 'kysely';
import { compileStatement } from './compiled-statement.ts';
import type { Tables } from './schema/tables.ts';
import { type Scope, scopeOf } from './workspace-scope.ts';

export type LedgerRow = Selectable<Tables['ledger']>;

/** Returns all requests that may still count in a quota window, oldest first. At most a few hundred. */
export async function readLedger(query: Scope): Promise<LedgerRow[]> {
  return query.selectFrom('ledger').selectAll().orderBy('id').execute();
}

/**
 * Adds a request that is about to be sent. The caller supplies the id, so that the id of a rolled-back row is never reused.
 * Idempotent, because a commit without an acknowledgement is repeated and may have succeeded.
 */
export async function addLedgerRow(query: Scope, row: Omit<NewLedgerRow, 'workspace'>): Promise<void> {
  const { id, boot, lane, caller, started } = row;
  await insertRow(query.whole, { workspace: query.workspace, id, boot, lane, caller, started });
}

type NewLedgerRow = Pick<Scope, 'workspace'> & Pick<LedgerRow, 'id' | 'boot' | 'lane' | 'caller' | 'started'>;

const insertRow = compileStatement((query, { workspace, id, boot, lane, caller, started }: NewLedgerRow) =>
  scopeOf(query, workspace)
    .insertInto('ledger')
    .values({ id, boot, lane, caller, started })
    .onConflict((conflict) => conflict.columns(['workspace', 'id']).doNothing()),
);

/**
 * Stores the end of a request.
 *
 * @param completed monotonic milliseconds of the row's boot
 * @returns false if there is no such row or its end is already stored
 */
export async function endLedgerRow(
  query: Scope,
  id: number,
  completed: number,
  status: number | undefined,
): Promise<boolean> {
  const ended = await updateEnd(query.whole, { workspace: query.workspace, id, completed, status: status ?? null });
  return ended.length > 0;
}

type LedgerEnd = Pick<Scope, 'workspace'> & Pick<LedgerRow, 'id' | 'completed' | 'status'>;

const updateEnd = compileStatement((query, { workspace, id, completed, status }: LedgerEnd) =>
  scopeOf(query, workspace)
    .updateTable('ledger')
    .set({ completed, status })
    .where('id', '=', id)
    .where('completed', 'is', null)
    .returning('id'),
);

/** Replaces the times of a row: after a reboot, or for a request whose end was not observed. */
export async function updateLedgerTimes(query: Scope, row: LedgerRow): Promise<void> {
  const { id, boot, started, completed } = row;
  await query.updateTable('ledger').set({ boot, started, completed }).where('id', '=', id).execute();
}

/** Deletes the rows that were completed before `completedBefore`, and the rows of requests that were never sent. */
export async function forgetLedgerRows(
  query: Scope,
  completedBefore: number,
  neverSent: readonly number[],
): Promise<void> {
  await deleteCompleted(query.whole, { workspace: query.workspace, completedBefore });
  if (neverSent.length > 0) await query.deleteFrom('ledger').where('id', 'in', neverSent).execute();
}

const deleteCompleted = compileStatement(
  (query, { workspace, completedBefore }: { workspace: number; completedBefore: number }) =>
    scopeOf(query, workspace).deleteFrom('ledger').where('completed', '<', completedBefore),
);
