import { copyFileSync, existsSync, linkSync, renameSync, rmSync } from 'node:fs';
import { dirname } from 'node:path';
import { sql } from 'kysely';
import { SyncError } from '../errors/sync-error.ts';
import { foldLog, syncNames } from '../lib/database/sqlite.ts';
import type { CheckFile } from '../lib/integrity.ts';
import type { Random } from '../lib/random.ts';
import { ATTACHED, copyRows } from './copy-rows.ts';
import { doubtEverything, doubtWhatWasSent } from './doubt.ts';
import { deleteRows, findWorkspace } from './forget.ts';
import { type Installation, openInstallationFile } from './installation.ts';
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
 * sent since the backup: so a full window of every workspace's quota counts as used, and the daemon writes nothing before it has
 * read what the workspace holds. Throws `database_corrupt` where the backup is damaged, and changes nothing then.
 */
export async function restoreAll(restore: Restore): Promise<void> {
  const { file } = restore;
  const draft = await draftOf(restore);
  const installation = await openInstallationFile({ file: draft, random: restore.random });
  try {
    await installation.commit((transaction) => doubtEverything(transaction));
  } finally {
    await installation.close();
  }
  replace(file, draft);
}

/**
 * At each moment the previous database is there or the new one, also after a power failure: without any, the next start would
 * begin with an empty one. A log of the previous one would be taken for one of the new one's, so it is gone for good before.
 */
function replace(file: string, draft: string): void {
  const folder = dirname(file);
  if (existsSync(file)) {
    foldLog(file);
    for (const log of LOGS) rmSync(file + log, { force: true });
    keepAs(file, keptBeforeRestore(file));
    syncNames(folder);
  }
  renameSync(draft, file);
  syncNames(folder);
}

function keepAs(file: string, kept: string): void {
  rmSync(kept, { force: true });
  try {
    linkSync(file, kept);
  } catch {
    // A file system without links.
    renameSync(file, kept);
  }
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
          await doubtWhatWasSent(transaction, to);
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

function removeDatabase(file: string): void {
  for (const end of ['', ...LOGS]) rmSync(file + end, { force: true });
}
