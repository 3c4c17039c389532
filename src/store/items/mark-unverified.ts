// Design: src/decisions/restore.md

import { sql } from 'kysely';
import { CALLERS } from '../../model/caller.ts';
import { entity } from '../../model/change.ts';
import type { Database } from '../../platform/database/database-types.ts';
import { endAllSessions } from '../access/session-rows.ts';
import { forgetMeta, PULL_REQUESTS_READ, RESTORED_AFTER, TASKS_READ, writeMeta } from '../meta.ts';
import type { Schema } from '../schema/tables.ts';
import { type Scope, type Sql, scopeOf } from '../workspace-scope.ts';

/**
 * A restored database is older than the objects that it describes.
 *
 * Nothing is written about an item before it is fetched, polled or delivered again. Until then it is `unverified`: reconcile does
 * not evaluate it, and the outbox and the write-back skip its changes. This file serves databases in files only, because
 * PostgreSQL is restored with its own tools.
 */

/** Requests of a full quota window, as the contract of the workspace API defines it. */
const WINDOW = 200;

/** The id of a boot that never existed, so that the times of its ledger rows count from the moment at which they are read. */
const BOOT = 'restored';

/** Marks the stored state of a workspace as unverified, and counts a full quota window as used. */
export async function markWorkspaceUnverified(transaction: Sql, workspace: number): Promise<void> {
  const scope = scopeOf(transaction, workspace);
  await forgetCompleteReads(scope);
  await markItemsUnverified(scope);
  await revokeGatewayTokens(scope);
  await scope.deleteFrom('ledger').execute();
  const sent = { boot: BOOT, lane: 'read', caller: CALLERS.others, started: 0, completed: 0, status: 200 } as const;
  const rows = Array.from({ length: WINDOW }, (_, index) => ({ id: index + 1, ...sent }));
  await scope.insertInto('ledger').values(rows).execute();
}

/** Lets worksync read the lists again from their first page, and the links of a task before it adds one. */
async function forgetCompleteReads(scope: Scope): Promise<void> {
  for (const list of [TASKS_READ, PULL_REQUESTS_READ]) await forgetMeta(scope, list);
  await scope
    .deleteFrom('meta')
    .where('name', 'like', `${entity.readLinks('')}%`)
    .execute();
  await scope.deleteFrom('outbox').where('kind', '=', 'read').execute();
}

/**
 * Deletes unsent changes, which follow again from the items once these are verified. Changes with unknown outcome stay, because
 * only the workspace knows whether they were carried out. The validators of polls are removed, because a poll that reports no
 * change would verify no item.
 */
async function markItemsUnverified(scope: Scope): Promise<void> {
  const { rows } = await sql<{ seq: number }>`select seq from sqlite_sequence where name = 'inbox'`.execute(
    scope.whole,
  );
  await writeMeta(scope, RESTORED_AFTER, String(rows[0]?.seq ?? 0));
  await scope.updateTable('items').set({ unverified: 1 }).where('gone', '=', 0).execute();
  await scope.deleteFrom('outbox').where('sent', 'is', null).where('state', 'in', ['pending', 'held']).execute();
  await scope.updateTable('polls').set({ etag: null, digest: null }).execute();
}

/** Revokes all tokens: some may have been revoked since the backup, and the file may have been edited. */
async function revokeGatewayTokens(scope: Scope): Promise<void> {
  await scope
    .updateTable('gateway_tokens')
    .set({ revoked_at: sql<number>`cast(unixepoch() as integer) * 1000` })
    .where('revoked_at', 'is', null)
    .execute();
}

/** Marks all workspaces as unverified, and ends all browser sessions. */
async function markAllUnverified(transaction: Sql): Promise<void> {
  await endAllSessions(transaction);
  const workspaces = await transaction.selectFrom('workspaces').select('id').execute();
  for (const { id } of workspaces) await markWorkspaceUnverified(transaction, id);
}

/** Treats a database file that a person replaced by a backup like a restored database. */
export async function markCopyUnverified({
  asFile,
  commit,
}: Pick<Database<Schema>, 'asFile' | 'commit'>): Promise<void> {
  if (!asFile?.isCopy()) return;
  await commit(async (transaction) => {
    await markAllUnverified(transaction);
    await sql`pragma user_version = 0`.execute(transaction);
  });
}
