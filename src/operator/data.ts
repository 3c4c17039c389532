import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { SyncError } from '../errors/sync-error.ts';
import { checkInWorker } from '../lib/integrity.ts';
import { systemRandom } from '../lib/random.ts';
import { copyDatabase } from '../lib/sqlite.ts';
import { ownDataFolder } from '../store/data-folder.ts';
import { findWorkspace, forgetWorkspace, workspacesWithRows } from '../store/forget.ts';
import { INSTALLATION_FILE, type Installation, openInstallation } from '../store/installation.ts';
import { keptBeforeRestore, restoreAll, restoreWorkspace } from '../store/restore.ts';
import { endAllSessions } from '../store/session-rows.ts';
import { unknownName } from './named.ts';

/**
 * What a person does with the database as a whole. Nothing here asks the workspace or a vendor.
 */

/**
 * An intact copy of the database, also while a daemon works on it. Throws `conflict` where the destination is there
 * already, `not_found` where there is no database.
 */
export async function backUp(data: string, destination: string): Promise<void> {
  const file = join(data, INSTALLATION_FILE);
  if (!existsSync(file)) throw new SyncError('not_found', `there is no database at ${file}`);
  if (existsSync(destination)) throw new SyncError('conflict', `${destination} is there already`);
  await copyDatabase(file, destination);
  const [complaint] = await checkInWorker(destination);
  if (complaint !== undefined) throw new SyncError('database_corrupt', `${destination}: ${complaint}`);
}

export interface Restored {
  /** The new name of the previous database; null if only one workspace was restored. */
  readonly kept: string | null;
  /** Rows of the one workspace; null where all came back. */
  readonly rows: number | null;
}

/** Restores everything, or one workspace. Throws `locked` while a daemon runs. */
export async function restore(data: string, backup: string, workspace?: string): Promise<Restored> {
  if (!existsSync(backup)) throw new SyncError('not_found', `there is no backup at ${backup}`);
  const random = systemRandom();
  const folder = ownDataFolder(data);
  try {
    const file = join(folder.path, INSTALLATION_FILE);
    if (workspace === undefined) {
      const isFirst = !existsSync(file);
      await restoreAll({ backup, file, random, checkFile: checkInWorker });
      return { kept: isFirst ? null : keptBeforeRestore(file), rows: null };
    }
    return await within(folder.path, async (installation) => {
      const rows = await restoreWorkspace(installation, workspace, { backup, random, checkFile: checkInWorker });
      return { kept: null, rows };
    });
  } finally {
    folder.release();
  }
}

/** Where no daemon runs. @returns how many rows there were */
export async function forgetAlone(data: string, workspace: string): Promise<number> {
  return alone(data, (installation) => forget(installation, workspace));
}

/** Where no daemon runs: logs all browsers out. @returns how many there were */
export async function endSessionsAlone(data: string): Promise<number> {
  return alone(data, (installation) => installation.commit((transaction) => endAllSessions(transaction)));
}

/** Deletes all rows of a workspace. Throws `usage` where there are none. @returns how many there were */
export async function forget(installation: Installation, workspace: string): Promise<number> {
  const number = await findWorkspace(installation.query, workspace);
  if (number !== undefined) return forgetWorkspace(installation, number);
  throw unknownName('workspace with rows', workspace, await workspacesWithRows(installation.query));
}

/** Takes the data folder for as long as the work takes. Throws `locked` while a daemon runs. */
async function alone<Result>(data: string, work: (installation: Installation) => Promise<Result>): Promise<Result> {
  const folder = ownDataFolder(data);
  try {
    return await within(folder.path, work);
  } finally {
    folder.release();
  }
}

async function within<Result>(path: string, work: (installation: Installation) => Promise<Result>): Promise<Result> {
  const installation = await openInstallation(path, { random: systemRandom() });
  try {
    return await work(installation);
  } finally {
    await installation.close();
  }
}
