// Design: src/decisions/restore.md

import { sql } from 'kysely';
import { CALLERS } from '../model/caller.ts';
import { entity } from '../model/change.ts';
import type { Database } from '../platform/database/database-types.ts';
import { forgetMeta, readMeta, writeMeta } from './meta.ts';
import type { Schema } from './schema/tables.ts';
import { endAllSessions } from './session-rows.ts';
import { PULL_REQUESTS_READ, TASKS_READ } from './workspace-reads.ts';
import { type Scope, type Sql, scopeOf } from './workspace-scope.ts';

/**
 * A database that was restored is older than what it describes.
 *
 * Nothing is written about an item before it was fetched, polled or delivered again: until then it is `unverified`, reconcile does not
 * evaluate it, and the outbox and the write-back pass over what is left of it. All of that is only here for databases in files, since
 * PostgreSQL is restored by its own means.
 */

/** Requests of a full window, as the specification of the workspace has it. */
const WINDOW = 200;

/** A boot that never was: its times count from the moment at which the ledger is read. */
const BOOT = 'restored';

/** Name of a fact: the highest delivery number at the last restore. */
const RESTORED_AFTER = 'restored_after';

/**
 * The number of the last delivery that came before the last restore; 0 if there was none. Such a delivery says nothing about the
 * present, even if it is processed later.
 */
export async function lastBeforeRestore(query: Scope): Promise<number> {
  return Number((await readMeta(query, RESTORED_AFTER)) ?? 0);
}

/** Whether this list is read completely for the first time since a restore. */
export async function isReadAfterRestore(query: Scope, list: string): Promise<boolean> {
  const fact = list === entity.readTasks ? TASKS_READ : PULL_REQUESTS_READ;
  return (await readMeta(query, RESTORED_AFTER)) !== undefined && (await readMeta(query, fact)) === undefined;
}

/** Marks what the database knows of a workspace as uncertain, and counts a full window of the quota as used. */
export async function markWorkspaceUnverified(transaction: Sql, workspace: number): Promise<void> {
  const scope = scopeOf(transaction, workspace);
  await doubtWorkspace(scope);
  await doubtItems(scope);
  await revokeGatewayTokens(scope);
  await scope.deleteFrom('ledger').execute();
  const sent = { boot: BOOT, lane: 'read', caller: CALLERS.others, started: 0, completed: 0, status: 200 } as const;
  const rows = Array.from({ length: WINDOW }, (_, index) => ({ id: index + 1, ...sent }));
  await scope.insertInto('ledger').values(rows).execute();
}

/** The lists are read from their first page on, and the links of a task before one is added to it. */
async function doubtWorkspace(scope: Scope): Promise<void> {
  for (const list of [TASKS_READ, PULL_REQUESTS_READ]) await forgetMeta(scope, list);
  await scope
    .deleteFrom('meta')
    .where('name', 'like', `${entity.readLinks('')}%`)
    .execute();
  await scope.deleteFrom('outbox').where('kind', '=', 'read').execute();
}

/**
 * Changes follow again from the items once these are verified. Those with unknown outcome stay, because only the workspace can tell
 * whether they were carried out. A poll that reports no change would verify nothing, so its validators go.
 */
async function doubtItems(scope: Scope): Promise<void> {
  const { rows } = await sql<{ seq: number }>`select seq from sqlite_sequence where name = 'inbox'`.execute(
    scope.whole,
  );
  await writeMeta(scope, RESTORED_AFTER, String(rows[0]?.seq ?? 0));
  await scope.updateTable('items').set({ unverified: 1 }).where('gone', '=', 0).execute();
  await scope.deleteFrom('outbox').where('sent', 'is', null).where('state', 'in', ['pending', 'held']).execute();
  await scope.updateTable('polls').set({ etag: null, digest: null }).execute();
}

/** Some may have been revoked since, and anybody may have added one to the file. */
async function revokeGatewayTokens(scope: Scope): Promise<void> {
  await scope
    .updateTable('gateway_tokens')
    .set({ revoked_at: sql<number>`cast(unixepoch() as integer) * 1000` })
    .where('revoked_at', 'is', null)
    .execute();
}

/** Does the same for all workspaces; and browsers have to log in again. */
export async function markAllUnverified(transaction: Sql): Promise<void> {
  await endAllSessions(transaction);
  const workspaces = await transaction.selectFrom('workspaces').select('id').execute();
  for (const { id } of workspaces) await markWorkspaceUnverified(transaction, id);
}

/** A backup that somebody put in the place of the database by hand is one that was restored. */
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
