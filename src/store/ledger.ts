import type { Selectable } from 'kysely';
import type { Tables } from './tables.ts';
import type { Scope } from './workspace-scope.ts';

export type LedgerRow = Selectable<Tables['ledger']>;

/** All requests that may still count in a quota window, oldest first. A few hundred at most. */
export async function readLedger(query: Scope): Promise<LedgerRow[]> {
  return query.selectFrom('ledger').selectAll().orderBy('id').execute();
}

/** Adds a request that is about to be sent. The caller gives the id, so that a rolled-back one is never used again. */
export async function addLedgerRow(
  query: Scope,
  row: Pick<LedgerRow, 'id' | 'boot' | 'lane' | 'caller' | 'started'>,
): Promise<void> {
  await query.insertInto('ledger').values(row).execute();
}

/** Says how a request ended. `completed` is in monotonic milliseconds of the row's boot. False where the row says it already. */
export async function endLedgerRow(
  query: Scope,
  id: number,
  completed: number,
  status: number | undefined,
): Promise<boolean> {
  const { numUpdatedRows } = await query
    .updateTable('ledger')
    .set({ completed, status: status ?? null })
    .where('id', '=', id)
    .where('completed', 'is', null)
    .executeTakeFirst();
  return numUpdatedRows > 0n;
}

/** Gives a row other times: of a new boot, or of a request whose end nobody saw. */
export async function redateLedgerRow(query: Scope, row: LedgerRow): Promise<void> {
  const { id, boot, started, completed } = row;
  await query.updateTable('ledger').set({ boot, started, completed }).where('id', '=', id).execute();
}

/** Removes the rows that ended before `completedBefore`, and those named: they were never sent. */
export async function forgetLedgerRows(
  query: Scope,
  completedBefore: number,
  neverSent: readonly number[],
): Promise<void> {
  await query.deleteFrom('ledger').where('completed', '<', completedBefore).execute();
  if (neverSent.length > 0) await query.deleteFrom('ledger').where('id', 'in', neverSent).execute();
}
