import type { Selectable } from 'kysely';
import { compileStatement } from './compiled-statement.ts';
import type { Tables } from './schema/tables.ts';
import { type Scope, scopeOf } from './workspace-scope.ts';

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
  const { id, boot, lane, caller, started } = row;
  await adding(query.whole, { workspace: query.workspace, id, boot, lane, caller, started });
}

type Added = Pick<Scope, 'workspace'> & Pick<LedgerRow, 'id' | 'boot' | 'lane' | 'caller' | 'started'>;

const adding = compileStatement((query, { workspace, id, boot, lane, caller, started }: Added) =>
  scopeOf(query, workspace).insertInto('ledger').values({ id, boot, lane, caller, started }),
);

/** Says how a request ended. `completed` is in monotonic milliseconds of the row's boot. False where the row says it already. */
export async function endLedgerRow(
  query: Scope,
  id: number,
  completed: number,
  status: number | undefined,
): Promise<boolean> {
  const ended = await ending(query.whole, { workspace: query.workspace, id, completed, status: status ?? null });
  return ended.length > 0;
}

const ending = compileStatement(
  (query, { workspace, id, completed, status }: Omit<LedgerRow, keyof Added> & Pick<Added, 'workspace' | 'id'>) =>
    scopeOf(query, workspace)
      .updateTable('ledger')
      .set({ completed, status })
      .where('id', '=', id)
      .where('completed', 'is', null)
      .returning('id'),
);

/** Gives a row other times: of a new boot, or of a request whose end nobody saw. */
export async function updateLedgerTimes(query: Scope, row: LedgerRow): Promise<void> {
  const { id, boot, started, completed } = row;
  await query.updateTable('ledger').set({ boot, started, completed }).where('id', '=', id).execute();
}

/** Removes the rows that ended before `completedBefore`, and those named: they were never sent. */
export async function forgetLedgerRows(
  query: Scope,
  completedBefore: number,
  neverSent: readonly number[],
): Promise<void> {
  await forgetting(query.whole, { workspace: query.workspace, completedBefore });
  if (neverSent.length > 0) await query.deleteFrom('ledger').where('id', 'in', neverSent).execute();
}

const forgetting = compileStatement(
  (query, { workspace, completedBefore }: { workspace: number; completedBefore: number }) =>
    scopeOf(query, workspace).deleteFrom('ledger').where('completed', '<', completedBefore),
);
