import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Transaction } from 'kysely';
import { asSyncError, SyncError } from '../model/errors/sync-error.ts';
import type { Database, OpenOptions } from '../platform/database/database-types.ts';
import { openDatabase } from '../platform/database/open.ts';
import type { Random } from '../platform/lib/random.ts';
import type { Store } from './database.ts';
import { readId } from './installation-facts.ts';
import { INSTALLATION_MIGRATIONS, READABLE_SINCE } from './installation-migrations.ts';
import type { Fence } from './leases.ts';
import { markCopyUnverified } from './mark-unverified.ts';
import type { Schema } from './tables.ts';
import { numbersOf } from './workspace-numbers.ts';
import { type Scope, scopeOf } from './workspace-scope.ts';

/** The database of the data folder, `worksync.db`: one for all workspaces, and for what belongs to none of them. */
export interface Installation extends Database<Schema> {
  /** Made at the first start: tells this data folder from others that answer under the same host name. */
  readonly id: string;
  /**
   * The rows of the workspace of this name, which is given a number when it is asked for first. Each of its commits begins with
   * the fence, where there is one.
   */
  store(workspace: string, fence?: Fence): Promise<Store>;
}

export const INSTALLATION_FILE = 'worksync.db';

export interface InstallationOptions extends Omit<OpenOptions, 'migrations'> {
  readonly random: Random;
}

/** Opens the database in a data folder. Throws `database_newer`, `database_too_old`, `database_corrupt`, `disk_full`, `database_failed`. */
export async function openInstallation(
  folder: string,
  options: Omit<InstallationOptions, 'file'>,
): Promise<Installation> {
  const file = join(folder, INSTALLATION_FILE);
  if (!existsSync(file)) refuseOlderFiles(folder);
  try {
    return await openInstallationFile({ ...options, file });
  } catch (error) {
    throw withHint(asSyncError(error), file);
  }
}

/** Versions before the first release had a file for each workspace. */
const OLDER_FILE = /^[^.]+\.db$/;

function refuseOlderFiles(folder: string): void {
  const older = readdirSync(folder).find((name) => OLDER_FILE.test(name));
  if (older === undefined) return;
  throw new SyncError('database_too_old', `${join(folder, older)} was written by a version before the first release`);
}

/** Opens those of a PostgreSQL. Throws `database_newer`, `database_away`, `data_folder_unusable`, `database_failed`. */
export async function openSharedInstallation(
  address: string,
  options: Omit<InstallationOptions, 'file'>,
): Promise<Installation> {
  try {
    return await openInstallationFile({ ...options, file: address });
  } catch (error) {
    throw asSyncError(error);
  }
}

export async function openInstallationFile({ random, ...options }: InstallationOptions): Promise<Installation> {
  const database = await openTables(options);
  try {
    const id = await readId(database.query, random, database.file);
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

/** The tables alone, of whatever installation their rows are, also where only a part of them is there. */
export function openTables(options: Omit<OpenOptions, 'migrations' | 'readableSince'>): Promise<Database<Schema>> {
  const tables = { migrations: INSTALLATION_MIGRATIONS, readableSince: READABLE_SINCE };
  return openDatabase<Schema>({ ...tables, ...options });
}

function storeOf(database: Database<Schema>, workspace: number, fence: Fence | undefined): Store {
  const { query, commit, commitRelaxed, file, fault, look, keptLog } = database;
  const fenced =
    <Result>(work: (scope: Scope) => Promise<Result>) =>
    async (transaction: Transaction<Schema>): Promise<Result> => {
      await fence?.(transaction);
      return work(scopeOf(transaction, workspace));
    };
  return {
    file,
    fault,
    look,
    keptLog,
    query: scopeOf(query, workspace),
    commit: (work) => commit(fenced(work)),
    commitRelaxed: (work) => commitRelaxed(fenced(work)),
  };
}

/** The hints of the registry fit a workspace's database, so this one has its own. */
function withHint(error: SyncError, file: string): SyncError {
  const { code, message, cause } = error;
  if (code === 'database_newer') {
    const hint =
      `A newer version wrote it: run that version, or restore a backup. Where a workspace was named "worksync", ` +
      `${file} is its database: rename both the workspace and the file.`;
    return new SyncError(code, message, { cause, hint });
  }
  if (code !== 'database_corrupt') return error;
  const hint = `Restore ${file} from a backup, or move it away: then everybody has to log in again.`;
  return new SyncError(code, message, { cause, hint });
}
