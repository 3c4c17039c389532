import { existsSync, linkSync, renameSync, rmSync } from 'node:fs';
import { dirname } from 'node:path';
import { sql } from 'kysely';
import { SyncError } from '../model/errors/sync-error.ts';
import { foldLog, markAsCopy, syncNames } from '../platform/database/sqlite.ts';
import type { CheckFile } from '../platform/lib/integrity.ts';
import type { Random } from '../platform/lib/random.ts';
import { acceptBackup } from './accept-backup.ts';
import { ATTACHED, copyRows } from './copy-rows.ts';
import { deleteRows, findWorkspace } from './forget.ts';
import { type Installation, openInstallationFile } from './installation.ts';
import { markSentUnverified } from './mark-unverified.ts';
import { type Sql, scopeOf } from './workspace-scope.ts';

export interface Restore {
  /** The backup; it stays as it is. */
  readonly backup: string;
  /** The database. Nobody else has it open. */
  readonly file: string;
  readonly random: Random;
  readonly checkFile: CheckFile;
}

/** The suffix of a database that a restore replaced; the next ones also get `.2`, `.3` and so on. */
const KEPT = '.before-restore';

/** The name under which the present database would be kept: the first that is not taken. */
export function nextKeptName(file: string): string {
  for (let number = 1; ; number++) {
    const kept = `${file}${KEPT}${number === 1 ? '' : `.${number}`}`;
    if (!existsSync(kept)) return kept;
  }
}

/**
 * Replaces the database with a backup, and keeps the old file beside it. Items are unverified afterwards; see `mark-unverified.ts`.
 * Throws what `acceptBackup` throws, and changes nothing then.
 *
 * @returns the new name of the previous database; null if there was none
 */
export async function restoreAll(restore: Restore): Promise<string | null> {
  const draft = await draftOf(restore);
  return replace(restore.file, draft);
}

/**
 * At each moment the previous database is there or the new one, also after a power failure: without any, the next start would
 * begin with an empty one. A log of the previous one would be taken for one of the new one's, so it is gone for good before.
 */
function replace(file: string, draft: string): string | null {
  const folder = dirname(file);
  const isThere = existsSync(file);
  if (isThere) foldLog(file);
  for (const log of LOGS) rmSync(file + log, { force: true });
  const kept = isThere ? keep(file) : null;
  renameSync(draft, file);
  syncNames(folder);
  if (kept !== null) markKept(kept);
  return kept;
}

function keep(file: string): string {
  const kept = nextKeptName(file);
  try {
    // Fails if somebody has taken the name meanwhile.
    linkSync(file, kept);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return keep(file);
    // A file system without links.
    renameSync(file, kept);
  }
  syncNames(dirname(file));
  return kept;
}

/** It is as old as a backup if somebody restores it, or puts it back by hand. */
function markKept(kept: string): void {
  try {
    markAsCopy(kept);
  } catch {
    // It may be damaged: then it is kept for a person to look at.
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
          await markSentUnverified(transaction, to);
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

/**
 * An intact copy of the backup beside the database, in the layout of this version. As it is marked as a copy, opening it marks
 * what it knows as uncertain.
 */
export async function draftOf({ backup, file, random, checkFile }: Restore): Promise<string> {
  const draft = `${file}.restoring`;
  removeDatabase(draft);
  try {
    await acceptBackup(backup, draft, checkFile);
    await (await openInstallationFile({ file: draft, random })).close();
    return draft;
  } catch (error) {
    removeDatabase(draft);
    throw error;
  }
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

export function removeDatabase(file: string): void {
  for (const end of ['', ...LOGS]) rmSync(file + end, { force: true });
}
