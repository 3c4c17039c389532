import { sql } from 'kysely';
import type { Database } from '../lib/database/database-types.ts';
import { CALLERS } from '../model/caller.ts';
import { PULL_REQUESTS_READ, TASKS_READ } from './list-reads.ts';
import { forgetMeta } from './meta.ts';
import { endAllSessions } from './session-rows.ts';
import type { Schema } from './tables.ts';
import { type Sql, scopeOf } from './workspace-scope.ts';

/** What an older state of the database cannot know. */

/** Requests of a full window, as the specification of the workspace has it. */
const WINDOW = 200;

/** A boot that never was: its times count from the moment at which the ledger is read. */
const BOOT = 'restored';

/** A full window of the quota counts as used, and nothing is written before it was read what the workspace holds. */
export async function doubtWhatWasSent(transaction: Sql, workspace: number): Promise<void> {
  const scope = scopeOf(transaction, workspace);
  for (const list of [TASKS_READ, PULL_REQUESTS_READ]) await forgetMeta(scope, list);
  await scope.deleteFrom('ledger').execute();
  const sent = { boot: BOOT, lane: 'read', caller: CALLERS.others, started: 0, completed: 0, status: 200 } as const;
  const rows = Array.from({ length: WINDOW }, (_, index) => ({ id: index + 1, ...sent }));
  await scope.insertInto('ledger').values(rows).execute();
}

/** The same of all workspaces; and browsers have to log in again. */
export async function doubtEverything(transaction: Sql): Promise<void> {
  await endAllSessions(transaction);
  const workspaces = await transaction.selectFrom('workspaces').select('id').execute();
  for (const { id } of workspaces) await doubtWhatWasSent(transaction, id);
}

/** A backup that somebody put in the place of the database by hand is one that was restored. */
export async function doubtCopy({ asFile, commit }: Pick<Database<Schema>, 'asFile' | 'commit'>): Promise<void> {
  if (!asFile?.isCopy()) return;
  await commit(async (transaction) => {
    await doubtEverything(transaction);
    await sql`pragma user_version = 0`.execute(transaction);
  });
}
