import { copyFileSync, existsSync, renameSync, rmSync } from 'node:fs';
import { sql } from 'kysely';
import { SyncError } from '../errors/sync-error.ts';
import type { CheckFile } from '../lib/integrity.ts';
import type { Random } from '../lib/random.ts';
import { ATTACHED, copyRows } from './copy-rows.ts';
import { deleteRows, findWorkspace } from './forget.ts';
import { type Installation, openInstallationFile } from './installation.ts';
import { endAllSessions } from './session-rows.ts';
import { type Sql, scopeOf } from './workspace-scope.ts';

interface Restore {
  /** The backup; it stays as it is. */
  readonly backup: string;
  /** The database. Nobody else has it open. */
  readonly file: string;
  readonly random: Random;
  readonly checkFile: CheckFile;
}

/** The new name of the previous database. */
export function keptBeforeRestore(file: string): string {
  return `${file}.before-restore`;
}

/**
 * Replaces the database with a backup, and keeps the old file beside it. Browsers have to log in again. Nobody knows what was
 * sent since the backup, so a full window of every workspace's quota counts as used. Throws `database_corrupt` where the backup
 * is damaged, and changes nothing then.
 */
export async function restoreAll(restore: Restore): Promise<void> {
  const { file } = restore;
  const draft = await draftOf(restore);
  const installation = await openInstallationFile({ file: draft, random: restore.random });
  try {
    await installation.commit(async (transaction) => {
      await endAllSessions(transaction);
      const workspaces = await transaction.selectFrom('workspaces').select('id').execute();
      for (const { id } of workspaces) await countWindow(transaction, id);
    });
  } finally {
    await installation.close();
  }
  if (existsSync(file)) renameSync(file, keptBeforeRestore(file));
  for (const log of LOGS) rmSync(file + log, { force: true });
  renameSync(draft, file);
}

/**
 * Restores the rows of one workspace, in place of its present rows; all others stay as they are.
 * Throws `not_found` where the backup holds none of it.
 *
 * @returns how many rows
 */
export async function restoreWorkspace(
  installation: Installation,
  workspace: string,
  restore: Omit<Restore, 'file'>,
): Promise<number> {
  const draft = await draftOf({ ...restore, file: installation.file });
  try {
    return await installation.query.connection().execute(async (connection) => {
      await sql`attach database ${draft} as ${sql.id(ATTACHED)}`.execute(connection);
      try {
        return await connection.transaction().execute(async (transaction) => {
          const from = await numberInBackup(transaction, workspace, restore);
          const to = await emptied(transaction, workspace);
          const rows = await copyRows(transaction, { from, to });
          await countWindow(transaction, to);
          return rows;
        });
      } finally {
        await sql`detach database ${sql.id(ATTACHED)}`.execute(connection);
      }
    });
  } finally {
    removeDatabase(draft);
  }
}

const LOGS = ['-wal', '-shm'] as const;

/** An intact copy of the backup in the layout of this version, beside the database. */
async function draftOf({ backup, file, random, checkFile }: Restore): Promise<string> {
  const [complaint] = await checkFile(backup);
  if (complaint !== undefined) throw new SyncError('database_corrupt', `${backup}: ${complaint}`);
  const draft = `${file}.restoring`;
  removeDatabase(draft);
  copyFileSync(backup, draft);
  await (await openInstallationFile({ file: draft, random })).close();
  return draft;
}

/** The number of the workspace, which has no rows any more. */
async function emptied(transaction: Sql, workspace: string): Promise<number> {
  const present = await findWorkspace(transaction, workspace);
  if (present !== undefined) {
    await deleteRows((piece) => piece(scopeOf(transaction, present)));
    return present;
  }
  const made = await transaction
    .insertInto('workspaces')
    .values({ name: workspace })
    .returning('id')
    .executeTakeFirstOrThrow();
  return made.id;
}

async function numberInBackup(
  transaction: Sql,
  workspace: string,
  { backup }: Pick<Restore, 'backup'>,
): Promise<number> {
  const table = sql.table(`${ATTACHED}.workspaces`);
  const { rows } = await sql<{ id: number }>`select id from ${table} where name = ${workspace}`.execute(transaction);
  if (rows[0]) return rows[0].id;
  throw new SyncError('not_found', `${backup} contains no workspace "${workspace}"`);
}

/** Requests of a full window, as the specification of the workspace has it. */
const WINDOW = 200;

/** A boot that never was: its times count from the moment at which the ledger is read. */
const BOOT = 'restored';

async function countWindow(transaction: Sql, workspace: number): Promise<void> {
  const scope = scopeOf(transaction, workspace);
  await scope.deleteFrom('ledger').execute();
  const sent = { boot: BOOT, lane: 'read', started: 0, completed: 0, status: 200 } as const;
  const rows = Array.from({ length: WINDOW }, (_, index) => ({ id: index + 1, ...sent }));
  await scope.insertInto('ledger').values(rows).execute();
}

function removeDatabase(file: string): void {
  for (const end of ['', ...LOGS]) rmSync(file + end, { force: true });
}
