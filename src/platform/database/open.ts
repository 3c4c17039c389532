import type { Database, OpenOptions } from './database-types.ts';
import { isPostgres } from './postgres-address.ts';
import { openSqlite } from './sqlite.ts';

/**
 * Opens a database and brings its tables up to date. Throws `DatabaseFault` for one that cannot be used, `NewerDatabaseError`
 * for one that is newer than this program.
 */
export async function openDatabase<Tables>(options: OpenOptions): Promise<Database<Tables>> {
  if (!isPostgres(options.file)) return openSqlite(options);
  // A process without a server loads no client for it.
  const { openPostgres } = await import('./postgres.ts');
  return openPostgres(options);
}
