import { existsSync, lstatSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import type { Transaction } from 'kysely';
import { asSyncError, SyncError } from '../../model/errors.ts';
import type { Database, OpenOptions } from '../../platform/database/database-types.ts';
import { openDatabase } from '../../platform/database/open.ts';
import { type Lock, readHeader, syncNames, takeLock } from '../../platform/database/sqlite.ts';
import type { Random } from '../../platform/lib/clock.ts';
import { isMemoryFolder } from '../../platform/lib/folders.ts';
import { markCopyUnverified } from '../items/mark-unverified.ts';
import { INSTALLATION_MIGRATIONS, READABLE_SINCE, withReadable } from '../schema/installation-migrations.ts';
import type { Schema } from '../schema/tables.ts';
import { numbersOf, type Scope, type Sql, type Store, scopeOf } from '../workspace-scope.ts';
import { type DaemonEndpoint, daemonFile } from './daemon-file.ts';
import type { Fence } from './leases.ts';

/** The database of all workspaces: `worksync.db` in the data folder, or a schema of a PostgreSQL. */
export interface Installation extends Database<Schema> {
  /** Created at the first start. It distinguishes this database from others that answer under the same host name. */
  readonly id: string;
  /**
   * Returns the store of a workspace. A name that is new here gets a number first.
   *
   * @param fence runs at the start of each commit of the store
   */
  store(workspace: string, fence?: Fence): Promise<Store>;
}

export const INSTALLATION_FILE = 'worksync.db';

interface InstallationOptions extends Omit<OpenOptions, 'migrations'> {
  readonly random: Random;
}

/**
 * Opens the database in a data folder.
 * Throws `database_newer`, `database_too_old`, `database_corrupt`, `disk_full`, `database_failed`.
 */
export async function openInstallation(
  folder: string,
  options: Omit<InstallationOptions, 'file'>,
): Promise<Installation> {
  const file = join(folder, INSTALLATION_FILE);
  if (!existsSync(file)) refuseOlderFiles(folder);
  try {
    return await openInstallationFile({ ...options, file, lock: join(folder, LOCK) });
  } catch (error) {
    throw withHint(withBuild(asSyncError(error), `${file}: `), file);
  }
}

/** Matches database files of versions before the first release, which had one for each workspace. */
const OLDER_FILE = /^[^.]+\.db$/;

function refuseOlderFiles(folder: string): void {
  const older = readdirSync(folder).find((name) => OLDER_FILE.test(name) && !isBackup(join(folder, name)));
  if (older === undefined) return;
  throw new SyncError('database_too_old', withReadable(`${join(folder, older)} has an earlier layout`));
}

/** Whether `worksync backup` made the file, which may be kept in the data folder. */
function isBackup(file: string): boolean {
  return readHeader(file)?.isCopy ?? false;
}

/**
 * Opens the database in a PostgreSQL.
 * Throws `database_newer`, `database_away`, `data_folder_unusable`, `database_failed`.
 */
export async function openSharedInstallation(
  address: string,
  options: Omit<InstallationOptions, 'file'>,
): Promise<Installation> {
  try {
    return await openInstallationFile({ ...options, file: address });
  } catch (error) {
    throw withBuild(asSyncError(error));
  }
}

export async function openInstallationFile({ random, ...options }: InstallationOptions): Promise<Installation> {
  const database = await openTables(options);
  try {
    const id = await readInstallationId(database.query, random, database.file);
    await markCopyUnverified(database);
    return installationOver(database, id);
  } catch (error) {
    await database.close();
    throw error;
  }
}

export function installationOver(database: Database<Schema>, id: string): Installation {
  return {
    ...database,
    id,
    async store(name, fence) {
      const [number] = await numbersOf(database.query, [name]);
      return storeOf(database, number as number, fence);
    },
  };
}

/** Opens only the tables, without reading the id: also those of another installation, or of an unfinished copy. */
export function openTables(options: Omit<OpenOptions, 'migrations' | 'readableSince'>): Promise<Database<Schema>> {
  const tables = { migrations: INSTALLATION_MIGRATIONS, readableSince: READABLE_SINCE };
  return openDatabase<Schema>({ ...tables, ...options });
}

function storeOf(database: Database<Schema>, workspace: number, fence: Fence | undefined): Store {
  const { commit, commitRelaxed, file, fault, checkFileReplaced, keptLog } = database;
  const query = scopeOf(database.query, workspace);
  const fenced =
    <Result>(work: (scope: Scope) => Promise<Result>) =>
    async (transaction: Transaction<Schema>): Promise<Result> => {
      await fence?.(transaction);
      return work(scopeOf(transaction, workspace, query.dialect));
    };
  return {
    file,
    fault,
    checkFileReplaced,
    keptLog,
    query,
    commit: (work) => commit(fenced(work)),
    commitRelaxed: (work) => commitRelaxed(fenced(work)),
  };
}

/** Names this version if it cannot read a database, because the other version is known by its tables only. */
function withBuild(error: SyncError, place = ''): SyncError {
  const { code, message, hint, cause } = error;
  if (code !== 'database_newer' && code !== 'database_too_old') return error;
  return new SyncError(code, withReadable(place + message), { cause, hint });
}

/** Replaces the hint of the registry, because that is about a single workspace. */
function withHint(error: SyncError, file: string): SyncError {
  const { code, message, cause } = error;
  if (code !== 'database_newer') return error;
  const hint =
    `A newer version wrote it: run that version, or restore a backup. Where a workspace was named "worksync", ` +
    `${file} is its database: rename both the workspace and the file.`;
  return new SyncError(code, message, { cause, hint });
}

/** The names of two facts: the id of the installation, and the progress of an unfinished copy into this database. */
export const INSTALLATION_ID = 'id';
export const UNFINISHED_COPY = 'copy';

const ID_BYTES = 6;

/**
 * Reads the id of an installation, and creates it at the first start.
 * Throws `copy_unfinished` if the database holds only a part of the rows of a copy.
 */
export async function readInstallationId(query: Sql, random: Random, place: string): Promise<string> {
  const facts = await query
    .selectFrom('installation')
    .select(['name', 'value'])
    .where('name', 'in', [INSTALLATION_ID, UNFINISHED_COPY])
    .execute();
  if (facts.some(({ name }) => name === UNFINISHED_COPY))
    throw new SyncError('copy_unfinished', `${place}: "worksync store copy" has not copied all rows into it yet`);
  const [known] = facts;
  if (known) return known.value;
  const value = random.bytes(ID_BYTES).toString('hex');
  await query
    .insertInto('installation')
    .values({ name: INSTALLATION_ID, value })
    .onConflict((conflict) => conflict.column('name').doNothing())
    .execute();
  // Another process may have created it concurrently, so the stored id counts.
  const stored = query.selectFrom('installation').select('value').where('name', '=', INSTALLATION_ID);
  return (await stored.executeTakeFirstOrThrow()).value;
}

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
const LOCK = 'worksync.lock';

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
