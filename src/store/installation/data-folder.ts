import { lstatSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { asSyncError, SyncError } from '../../model/errors/sync-error.ts';
import { type Lock, syncNames, takeLock } from '../../platform/database/sqlite.ts';
import { isMemoryFolder } from '../../platform/lib/folders.ts';
import { type DaemonEndpoint, daemonFile } from './daemon-file.ts';

/** The data folder that this process has locked. */
export interface DataFolder {
  readonly path: string;
  /** Stores the endpoint of the daemon for commands, readable by this user only. */
  announce(endpoint: DaemonEndpoint): void;
  release(): void;
}

/**
 * Locks the folder for this process. A folder in memory is emptied now and deleted at the release.
 * Throws `locked` if another process uses it.
 */
export function acquireDataFolder(folder: string): DataFolder {
  const path = resolve(folder);
  const inMemory = isMemoryFolder(path);
  const lock = lockFolder(path);
  if (inMemory) removeLeftovers(path);
  const endpointFile = daemonFile(path);
  // A file of a killed daemon would send commands to an address without a daemon.
  rmSync(endpointFile, { force: true });
  return {
    path,
    announce(endpoint) {
      // Fails if the file exists, so that a file or link that another user put there is never written to.
      writeFileSync(endpointFile, JSON.stringify(endpoint), { mode: 0o600, flag: 'wx' });
    },
    release() {
      rmSync(endpointFile, { force: true });
      if (inMemory) rmSync(path, { recursive: true, force: true });
      lock.release();
    },
  };
}

/** The file that this process has locked. */
export const LOCK = 'worksync.lock';

/** Removes the files of a process that was killed. */
function removeLeftovers(path: string): void {
  for (const name of readdirSync(path)) if (name !== LOCK) rmSync(join(path, name), { recursive: true });
}

/** Refuses a folder that another user created or may read, because every user may create folders at this place. */
function refuseForeign(path: string): void {
  const found = lstatSync(path);
  if (!found.isDirectory() || found.uid !== process.getuid?.() || (found.mode & 0o077) !== 0)
    throw new Error('it is not a folder of this user alone (mode 0700)');
}

/** Creates the folder with its missing parents, and syncs all of them before anything is stored inside. */
function makeFolder(path: string): void {
  const first = mkdirSync(path, { recursive: true, mode: 0o700 });
  if (first === undefined) return;
  for (let created = path; created.length >= first.length; created = dirname(created)) syncNames(dirname(created));
}

function lockFolder(path: string): Lock {
  let lock: Lock | undefined;
  try {
    makeFolder(path);
    if (isMemoryFolder(path)) refuseForeign(path);
    lock = takeLock(join(path, LOCK));
  } catch (error) {
    const known = asSyncError(error);
    if (known.code !== 'internal') throw known;
    throw new SyncError('data_folder_unusable', `${path}: ${known.message}`, { cause: error });
  }
  if (!lock) throw new SyncError('locked', `the data folder ${path} is in use by another worksync process`);
  return lock;
}
