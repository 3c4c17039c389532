import { existsSync, readdirSync, renameSync, rmSync, statSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import type { Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { asSyncError, SyncError } from '../../model/errors.ts';
import type { DaemonOptions } from '../../platform/config/daemon-options.ts';
import { copyDatabase, syncNames } from '../../platform/database/sqlite.ts';
import { type Clock, systemClock, systemRandom } from '../../platform/lib/clock.ts';
import { isMemoryFolder } from '../../platform/lib/folders.ts';
import { checkInWorker } from '../../platform/lib/integrity.ts';
import { endAllSessions } from '../../store/access/session-rows.ts';
import { findWorkspace, forgetWorkspace, workspacesWithRows } from '../../store/installation/deletions.ts';
import {
  acquireDataFolder,
  type DataFolder,
  INSTALLATION_FILE,
  type Installation,
  openInstallation,
  openSharedInstallation,
} from '../../store/installation/installation.ts';
import { ownerOf } from '../../store/installation/leases.ts';
import {
  planRestore,
  type Restore,
  type RestorePlan,
  restoreAll,
  restoreWorkspace,
} from '../../store/restore/restore.ts';
import { audited } from '../access/audit.ts';
import { unknownName } from '../named.ts';
import type { Actor } from '../open-workspace.ts';

/** The operations on the whole database. None of them sends a request to the workspace or to a vendor. */

/** The place of the rows: a data folder, or the address of a PostgreSQL. */
export type StorePlace = Pick<DaemonOptions, 'data' | 'store'>;

function folderOnly({ data, store }: StorePlace): string {
  if (store === undefined) return data;
  throw new SyncError('usage', 'the rows are in PostgreSQL, and this command is for the file in the data folder', {
    hint: 'Back PostgreSQL up and restore it by its own means, such as pg_dump --schema and pg_restore.',
  });
}

/** Returns the file of the database. Throws `not_found` if there is none. */
function databaseOf(place: StorePlace): string {
  const file = join(folderOnly(place), INSTALLATION_FILE);
  if (existsSync(file)) return file;
  throw new SyncError('not_found', `there is no database at ${file}`, {
    hint: 'Name the data folder of the daemon with --data.',
  });
}

/**
 * Writes an intact copy of the database to a file, also while a daemon uses the database. Throws `conflict` if the file exists,
 * `not_found` if there is no database or no folder for the file, `data_folder_unusable` and `disk_full` if it cannot be written.
 */
export async function backUp(place: StorePlace, destination: string): Promise<void> {
  const file = databaseOf(place);
  if (existsSync(destination))
    throw new SyncError('conflict', `${destination} is there already`, {
      hint: 'Choose another name, or move the file.',
    });
  const folder = dirname(destination);
  if (!existsSync(folder))
    throw new SyncError('not_found', `there is no folder ${folder}`, {
      hint: 'Create the folder, or choose another one.',
    });
  try {
    await withIntactCopy(file, `${destination}${UNFINISHED}`, (copy) => renameSync(copy, destination));
    syncNames(folder);
  } catch (error) {
    throw withRemedy(error, destination);
  }
}

/** Writes an intact copy of the database to a stream. The copy is made in the data folder first, so that it can be checked. */
export async function backUpTo(place: StorePlace, output: Writable): Promise<void> {
  const file = databaseOf(place);
  removeLeftCopies(file);
  // Each backup has a copy of its own, because several may run at once.
  const copy = `${file}.${systemRandom().uuid()}${UNFINISHED}`;
  // The name is removed before the stream begins: an interrupted command leaves no file behind.
  const handle = await withIntactCopy(file, copy, open);
  await pipeline(handle.createReadStream(), output, { end: false });
}

/**
 * Uses a copy of the database, which gets the name of a backup only when it is whole: a partial one looks like an empty
 * database. Afterwards the name of the copy is free.
 */
async function withIntactCopy<Result>(
  file: string,
  copy: string,
  use: (copy: string) => Result | Promise<Result>,
): Promise<Result> {
  removeCopy(copy);
  try {
    await copyDatabase(file, copy);
    const [complaint] = await checkInWorker(copy);
    if (complaint !== undefined) throw new SyncError('database_corrupt', `the copy of ${file}: ${complaint}`);
    return await use(copy);
  } finally {
    removeCopy(copy);
  }
}

/** Milliseconds after which a copy belongs to a backup that was killed. */
const MAX_COPY_MS = 3_600_000;

function removeLeftCopies(file: string): void {
  const folder = dirname(file);
  const killedBefore = systemClock().now() - MAX_COPY_MS;
  for (const name of readdirSync(folder)) {
    const copy = join(folder, name);
    if (!name.startsWith(`${basename(file)}.`) || !name.endsWith(UNFINISHED)) continue;
    const changedAt = statSync(copy, { throwIfNoEntry: false })?.mtimeMs;
    if (changedAt !== undefined && changedAt < killedBefore) removeCopy(copy);
  }
}

function removeCopy(copy: string): void {
  for (const left of [copy, `${copy}-journal`]) rmSync(left, { force: true });
}

/** Adds the remedy for a place that cannot be written. The registry's remedies are about the data folder. */
function withRemedy(error: unknown, destination: string): unknown {
  const { code, message } = asSyncError(error);
  const isFull = code === 'disk_full';
  if (!isFull && code !== 'data_folder_unusable' && !isOfFiles(error)) return error;
  const remedy = isFull ? 'Free space on the volume, or name' : 'Let this user write the folder, or name';
  return new SyncError(isFull ? code : 'data_folder_unusable', `${destination} cannot be written: ${message}`, {
    cause: error,
    hint: `${remedy} another place: a path, the folder of WORKSYNC_BACKUP, or - for standard output.`,
  });
}

function isOfFiles(error: unknown): boolean {
  const { code, syscall } = error as NodeJS.ErrnoException;
  return syscall !== undefined || code === 'ERR_ACCESS_DENIED';
}

const UNFINISHED = '.unfinished';

export interface Restored {
  /** The new name of the previous database; null if only one workspace was restored. */
  readonly kept: string | null;
  /** Rows of the one workspace; null where all came back. */
  readonly rows: number | null;
}

/**
 * Restores everything, or one workspace. Throws `locked` while a daemon runs, `backup_refused`, `database_newer`,
 * `database_corrupt` and `disk_full` where the backup cannot be used: nothing is changed then.
 */
export async function restore(place: StorePlace, backup: string, workspace?: string): Promise<Restored> {
  return withBackup(place, backup, acquireDataFolder, async (folder, given) => {
    if (workspace === undefined) return { kept: await restoreAll(given), rows: null };
    const { random } = given;
    const open = () => openInstallation(folder, { random });
    const rows = await within(open, (installation) => restoreWorkspace(installation, workspace, given));
    return { kept: null, rows };
  });
}

/**
 * Describes what `restore` would change, and changes nothing. Works while a daemon runs, too. Throws the errors of `restore`
 * except `locked`.
 */
export async function tryRestore(place: StorePlace, backup: string, workspace?: string): Promise<RestorePlan> {
  return withBackup(place, backup, acquireOrShare, (_folder, given) => planRestore(given, workspace));
}

/** Locks the data folder, unless a daemon uses it. */
function acquireOrShare(data: string): Pick<DataFolder, 'path' | 'release'> {
  try {
    return acquireDataFolder(data);
  } catch (error) {
    if (asSyncError(error).code !== 'locked') throw error;
    return { path: resolve(data), release: () => undefined };
  }
}

async function withBackup<Result>(
  place: StorePlace,
  backup: string,
  acquire: (data: string) => Pick<DataFolder, 'path' | 'release'>,
  work: (folder: string, given: Restore) => Promise<Result>,
): Promise<Result> {
  const data = folderOnly(place);
  if (!existsSync(backup))
    throw new SyncError('not_found', `there is no backup at ${backup}`, {
      hint: 'Give the path of a file that "worksync backup" wrote.',
    });
  if (isMemoryFolder(data))
    throw new SyncError('usage', 'data in memory begin empty: restore into a folder, and start with that');
  const folder = acquire(data);
  try {
    const file = join(folder.path, INSTALLATION_FILE);
    return await work(folder.path, { backup, file, random: systemRandom(), checkFile: checkInWorker });
  } finally {
    folder.release();
  }
}

/**
 * Deletes all rows of a workspace. Throws `usage` if it has none, `conflict` while another process serves it.
 *
 * @returns the number of deleted rows
 */
export async function forget(installation: Installation, workspace: string, { actor, clock }: Who): Promise<number> {
  const { query } = installation;
  const number = await findWorkspace(query, workspace);
  if (number === undefined) throw unknownName('workspace with rows', workspace, await workspacesWithRows(query));
  await refuseServed(installation, workspace);
  const act = { actor, action: 'forget', workspace, subject: null };
  return audited({ query, clock }, act, () => forgetWorkspace(installation, number), countOf);
}

/** Another process may have the workspace in its configuration, and would miss the rows. */
async function refuseServed(installation: Installation, workspace: string): Promise<void> {
  const time = await installation.asServer?.time();
  const owner = time && (await ownerOf(installation.query, workspace, Math.floor(time.now)));
  if (owner === undefined) return;
  throw new SyncError('conflict', `the worksync at ${owner.address} serves ${workspace}`, {
    hint: 'Remove the workspace from the configuration of every process, and repeat the command.',
  });
}

/** Logs all browsers out. @returns the number of ended sessions */
export function endSessions({ query, commit }: Installation, { actor, clock }: Who): Promise<number> {
  const act = { actor, action: 'sessions-end', workspace: null, subject: null };
  return audited({ query, clock }, act, () => commit((transaction) => endAllSessions(transaction)), countOf);
}

/** The author of an action, for the audit. */
export interface Who {
  readonly actor: Actor;
  readonly clock: Clock;
}

function countOf(count: number) {
  return { count };
}

/**
 * Locks the data folder while the work runs; with a database server, other processes may work beside it. Throws `locked` while a
 * daemon runs with this data folder.
 */
export async function alone<Result>(
  { data, store }: StorePlace,
  work: (installation: Installation) => Promise<Result>,
): Promise<Result> {
  const folder = acquireDataFolder(data);
  const random = systemRandom();
  try {
    return await within(
      () =>
        store === undefined ? openInstallation(folder.path, { random }) : openSharedInstallation(store, { random }),
      work,
    );
  } finally {
    folder.release();
  }
}

async function within<Result>(
  open: () => Promise<Installation>,
  work: (installation: Installation) => Promise<Result>,
): Promise<Result> {
  const installation = await open();
  try {
    return await work(installation);
  } finally {
    await installation.close();
  }
}
