import { SyncError } from '../errors/sync-error.ts';
import { CorruptDatabaseError, type Database, NewerDatabaseError, openDatabase } from '../lib/sqlite.ts';
import type { Steps } from '../lib/steps.ts';
import { MIGRATIONS } from './migrations.ts';
import type { ServiceTables } from './tables.ts';

/** Opens a service's database. Throws `database_newer`, `database_corrupt`. */
export async function openServiceDatabase({
  file,
  steps,
}: {
  readonly file: string;
  readonly steps?: Steps;
}): Promise<Database<ServiceTables>> {
  try {
    return await openDatabase<ServiceTables>({ file, steps, migrations: MIGRATIONS });
  } catch (error) {
    if (error instanceof NewerDatabaseError) throw new SyncError('database_newer', error.message, { cause: error });
    if (error instanceof CorruptDatabaseError) throw new SyncError('database_corrupt', error.message, { cause: error });
    throw error;
  }
}
