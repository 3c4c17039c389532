import { join } from 'node:path';
import type { Kysely, Transaction } from 'kysely';
import { asSyncError, SyncError } from '../errors/sync-error.ts';
import type { Random } from '../lib/random.ts';
import { type Database, type OpenOptions, openDatabase } from '../lib/sqlite.ts';
import { INSTALLATION_MIGRATIONS } from './installation-migrations.ts';
import type { InstallationTables } from './installation-tables.ts';

/**
 * The database of the data folder, `worksync.db`: what belongs to the installation and to no workspace. Its name is
 * therefore no name for a workspace.
 */
export interface Installation extends Database<InstallationTables> {
  /** Made at the first start: tells this data folder from others that answer under the same host name. */
  readonly id: string;
}

/** What an operation runs on: a transaction, or the database's `query` where a single statement is enough. */
export type InstallationQuery = Kysely<InstallationTables> | Transaction<InstallationTables>;

export const INSTALLATION_FILE = 'worksync.db';

const ID = 'id';
const ID_BYTES = 6;

/** Throws `database_newer`, `database_corrupt`, `disk_full`, `database_failed`. */
export async function openInstallation(
  folder: string,
  { random, ...options }: Omit<OpenOptions, 'file' | 'migrations'> & { readonly random: Random },
): Promise<Installation> {
  const file = join(folder, INSTALLATION_FILE);
  try {
    const database = await openDatabase<InstallationTables>({ ...options, file, migrations: INSTALLATION_MIGRATIONS });
    try {
      return { ...database, id: await readId(database.query, random) };
    } catch (error) {
      await database.close();
      throw error;
    }
  } catch (error) {
    throw withHint(asSyncError(error), file);
  }
}

async function readId(query: InstallationQuery, random: Random): Promise<string> {
  const known = await query.selectFrom('installation').select('value').where('name', '=', ID).executeTakeFirst();
  if (known) return known.value;
  const value = random.bytes(ID_BYTES).toString('hex');
  await query.insertInto('installation').values({ name: ID, value }).execute();
  return value;
}

/** The registry's remedies are those of a workspace's database. */
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
