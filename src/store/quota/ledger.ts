import type { Selectable } from 'kysely';
import type { Tables } from '../schema/tables.ts';
import { changedRows, compileInScope, type Scope, type Sql, workspacesWith } from '../workspace-scope.ts';

export type LedgerRow = Selectable<Tables['ledger']>;

/** Returns all requests that may still count in a quota window, oldest first. At most a few hundred. */
export async function readLedger(query: Scope): Promise<LedgerRow[]> {
  return query.selectFrom('ledger').selectAll().orderBy('id').execute();
}

/**
 * Adds a request that is about to be sent. The caller supplies the id, so that the id of a rolled-back row is never reused.
 * Idempotent, because a commit without an acknowledgement is repeated and may have succeeded.
 */
export const addLedgerRow = compileInScope((query, row: Omit<LedgerRow, 'completed' | 'status'>) =>
  query
    .insertInto('ledger')
    .values(row)
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
  const ended = await updateEnd(query, { id, completed, status: status ?? null });
  return ended.length > 0;
}

const updateEnd = compileInScope((query, { id, ...end }: Pick<LedgerRow, 'id' | 'completed' | 'status'>) =>
  query.updateTable('ledger').set(end).where('id', '=', id).where('completed', 'is', null).returning('id'),
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
  await deleteCompleted(query, { completedBefore });
  if (neverSent.length > 0) await query.deleteFrom('ledger').where('id', 'in', neverSent).execute();
}

const deleteCompleted = compileInScope((query, { completedBefore }: { readonly completedBefore: number }) =>
  query.deleteFrom('ledger').where('completed', '<', completedBefore),
);

/** The numbers of requests of one caller in one quarter of an hour. */
export type QuotaUse = Selectable<Tables['quota_use']>;

/** Counts one request. */
export async function addQuotaUse(query: Scope, since: number, caller: string, refused: 0 | 1): Promise<void> {
  await countRequest(query, { since, caller, refused });
}

const countRequest = compileInScope((query, used: Omit<QuotaUse, 'requests'>) =>
  query
    .insertInto('quota_use')
    .values({ ...used, requests: 1 })
    .onConflict((conflict) =>
      conflict.columns(['workspace', 'since', 'caller']).doUpdateSet((update) => ({
        requests: update('quota_use.requests', '+', 1),
        refused: update('quota_use.refused', '+', used.refused),
      })),
    ),
);

/** Raises the number of requests of a caller to `requests`. A larger stored number stays. */
export async function raiseQuotaUse(query: Scope, since: number, caller: string, requests: number): Promise<void> {
  await query
    .insertInto('quota_use')
    .values({ since, caller, requests, refused: 0 })
    .onConflict((conflict) =>
      conflict
        .columns(['workspace', 'since', 'caller'])
        .doUpdateSet({ requests })
        .where('quota_use.requests', '<', requests),
    )
    .execute();
}

/** Returns the callers that have a row in this quarter. */
export async function quotaCallersIn(query: Scope, since: number): Promise<readonly string[]> {
  const rows = await query.selectFrom('quota_use').select('caller').where('since', '=', since).execute();
  return rows.map(({ caller }) => caller);
}

/** Returns the use from this quarter on, oldest first. */
export async function quotaUseSince(query: Scope, since: number): Promise<readonly QuotaUse[]> {
  return query
    .selectFrom('quota_use')
    .select(['since', 'caller', 'requests', 'refused'])
    .where('since', '>=', since)
    .orderBy('since')
    .orderBy('caller')
    .execute();
}

/** Returns the sum of each caller from this quarter on. */
export async function quotaUseByCaller(query: Scope, since: number): Promise<readonly Omit<QuotaUse, 'since'>[]> {
  const rows = await query
    .selectFrom('quota_use')
    .select(({ fn }) => ['caller', fn.sum<number>('requests').as('requests'), fn.sum<number>('refused').as('refused')])
    .where('since', '>=', since)
    .groupBy('caller')
    .execute();
  return rows.map(({ requests, refused, ...row }) => ({
    ...row,
    requests: Number(requests),
    refused: Number(refused),
  }));
}

/** Returns those of these workspaces that have rows from before the given time. */
export function withOldQuotaUse(query: Sql, workspaces: readonly number[], before: number): Promise<readonly number[]> {
  return workspacesWith(query, workspaces, ({ selectFrom }) => [
    selectFrom('quota_use').whereRef('quota_use.workspace', '=', 'workspaces.id').where('quota_use.since', '<', before),
  ]);
}

/**
 * Deletes whole quarters from before the given time: about `limit` rows, because the last quarter is deleted completely.
 *
 * @returns the number of deleted rows; 0 if there is nothing left to delete
 */
export async function deleteQuotaUse(query: Scope, before: number, limit: number): Promise<number> {
  const old = query.selectFrom('quota_use').select('since').where('since', '<', before).orderBy('since');
  const last = await old
    .offset(limit - 1)
    .limit(1)
    .executeTakeFirst();
  return changedRows(query.deleteFrom('quota_use').where('since', last ? '<=' : '<', last?.since ?? before));
}
