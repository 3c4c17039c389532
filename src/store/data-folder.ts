import { lstatSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { asSyncError, SyncError } from '../model/errors/sync-error.ts';
import { type Lock, syncNames, takeLock } from '../platform/database/sqlite.ts';
import { isMemoryFolder } from '../platform/lib/memory-folder.ts';
import { type DaemonEndpoint, daemonFile } from './daemon-file.ts';

/** The data folder as its only owner holds it. */
export interface DataFolder {
  readonly path: string;
  /** Says where the daemon answers; readable by this user only. */
  announce(owner: DaemonEndpoint): void;
  release(): void;
}

/** Takes the folder for this process; one in memory begins empty and ends with it. Throws `locked` when another process holds it. */
export function acquireDataFolder(folder: string): DataFolder {
  const path = resolve(folder);
  const inMemory = isMemoryFolder(path);
  const lock = lockFolder(path);
  if (inMemory) removeLeftovers(path);
  const ownerFile = daemonFile(path);
  // A file that a killed daemon left would send commands to nobody.
  rmSync(ownerFile, { force: true });
  return {
    path,
    announce(owner) {
      // A file of its own, and never what somebody else put in its place.
      writeFileSync(ownerFile, JSON.stringify(owner), { mode: 0o600, flag: 'wx' });
    },
    release() {
      rmSync(ownerFile, { force: true });
      if (inMemory) rmSync(path, { recursive: true, force: true });
      lock.release();
    },
  };
}

const LOCK = 'worksync.lock';

/** What a process left that was killed. */
function removeLeftovers(path: string): void {
  for (const name of readdirSync(path)) if (name !== LOCK) rmSync(join(path, name), { recursive: true });
}

/** Everybody may make folders where this one lies: one that another user made, or may read, must not hold our data. */
function refuseForeign(path: string): void {
  const found = lstatSync(path);
  if (!found.isDirectory() || found.uid !== process.getuid?.() || (found.mode & 0o077) !== 0)
    throw new Error('it is not a folder of this user alone (mode 0700)');
}

/** Durable before anything is stored in it, with all folders around it that are new. */
function makeFolder(path: string): void {
  const first = mkdirSync(path, { recursive: true, mode: 0o700 });
  if (first === undefined) return;
  for (let made = path; made.length >= first.length; made = dirname(made)) syncNames(dirname(made));
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
