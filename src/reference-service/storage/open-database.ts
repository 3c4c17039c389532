import { asSyncError } from '../../model/errors.ts';
import type { Database } from '../../platform/database/database-types.ts';
import { openDatabase } from '../../platform/database/open.ts';
import type { Steps } from '../../platform/lib/telemetry.ts';
import { MIGRATIONS, type ServiceTables } from './service-tables.ts';

/** Opens a service's database. Throws `database_newer`, and what a `DatabaseFault` says. */
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
    throw asSyncError(error);
  }
}
