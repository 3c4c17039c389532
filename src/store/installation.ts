import { join } from 'node:path';
import type { Transaction } from 'kysely';
import { asSyncError, SyncError } from '../errors/sync-error.ts';
import type { Random } from '../lib/random.ts';
import { type Database, type OpenOptions, openDatabase } from '../lib/sqlite.ts';
import type { Store } from './database.ts';
import { INSTALLATION_MIGRATIONS } from './installation-migrations.ts';
import type { Fence } from './leases.ts';
import type { Schema } from './tables.ts';
import { numbersOf } from './workspace-numbers.ts';
import { type Scope, type Sql, scopeOf } from './workspace-scope.ts';

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

const ID = 'id';
const ID_BYTES = 6;

export interface InstallationOptions extends Omit<OpenOptions, 'migrations'> {
  readonly random: Random;
}

/** Opens the database in a data folder. Throws `database_newer`, `database_corrupt`, `disk_full`, `database_failed`. */
export async function openInstallation(
  folder: string,
  options: Omit<InstallationOptions, 'file'>,
): Promise<Installation> {
  const file = join(folder, INSTALLATION_FILE);
  try {
    return await openInstallationFile({ ...options, file });
  } catch (error) {
    throw withHint(asSyncError(error), file);
  }
}

export async function openInstallationFile({ random, ...options }: InstallationOptions): Promise<Installation> {
  const database = await openDatabase<Schema>({ ...options, migrations: INSTALLATION_MIGRATIONS });
  try {
    const id = await readId(database.query, random);
    return {
      ...database,
      id,
      async store(name, fence) {
        const [number] = await numbersOf(database.query, [name]);
        return storeOf(database, number as number, fence);
      },
    };
  } catch (error) {
    await database.close();
    throw error;
  }
}

function storeOf(database: Database<Schema>, workspace: number, fence: Fence | undefined): Store {
  const { query, commit, commitRelaxed, file, fault, look } = database;
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
    query: scopeOf(query, workspace),
    commit: (work) => commit(fenced(work)),
    commitRelaxed: (work) => commitRelaxed(fenced(work)),
  };
}

async function readId(query: Sql, random: Random): Promise<string> {
  const known = await query.selectFrom('installation').select('value').where('name', '=', ID).executeTakeFirst();
  if (known) return known.value;
  const value = random.bytes(ID_BYTES).toString('hex');
  await query.insertInto('installation').values({ name: ID, value }).execute();
  return value;
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
