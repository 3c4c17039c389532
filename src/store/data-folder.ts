import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { asSyncError, SyncError } from '../errors/sync-error.ts';
import { type Lock, takeLock } from '../lib/sqlite.ts';

/** How a command finds the daemon that owns a data folder. */
export interface Owner {
  /** Where pages and admin actions are served, for example `http://127.0.0.1:8080`. */
  readonly address: string;
  /** For the commands: works for as long as the process lives. */
  readonly token: string;
}

/** The data folder as its only owner holds it. */
export interface DataFolder {
  readonly path: string;
  /** Says where the daemon answers; readable by this user only. */
  announce(owner: Owner): void;
  release(): void;
}

const OWNER_FILE = 'daemon.json';

/** Takes the folder for this process. Throws `locked` when another process holds it. */
export function ownDataFolder(folder: string): DataFolder {
  const path = resolve(folder);
  const lock = lockFolder(path);
  const ownerFile = join(path, OWNER_FILE);
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
      lock.release();
    },
  };
}

function lockFolder(path: string): Lock {
  let lock: Lock | undefined;
  try {
    mkdirSync(path, { recursive: true, mode: 0o700 });
    lock = takeLock(join(path, 'worksync.lock'));
  } catch (error) {
    const known = asSyncError(error);
    if (known.code !== 'internal') throw known;
    throw new SyncError('data_folder_unusable', `${path}: ${known.message}`, { cause: error });
  }
  if (!lock) throw new SyncError('locked', `the data folder ${path} is in use by another worksync process`);
  return lock;
}

/**
 * The daemon that owns the folder; undefined when none has announced itself.
 * Throws `unauthorized` where one may have, and this user may not read what it left for commands.
 */
export function findOwner(folder: string): Owner | undefined {
  const file = join(resolve(folder), OWNER_FILE);
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as Owner;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code !== 'EACCES' && code !== 'EPERM') return undefined;
    const hint = 'Run the command as the user of the daemon.';
    throw new SyncError('unauthorized', `this user may not read ${file}`, { cause: error, hint });
  }
}
