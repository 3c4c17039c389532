import { describeBuild, OLDEST_COMMIT } from '../../model/build.ts';
import { migrationsOf } from '../../platform/database/database-schema.ts';
import { programVersion } from '../../platform/lib/own-program.ts';
import { createCounts } from '../status/counts.ts';
import { ALL_TABLES } from './tables.ts';

/**
 * The oldest migration whose program can still work with the present tables. Two versions run side by side while replicas are
 * upgraded one after the other, so a version must first stop using a column; only the next version may remove it.
 */
export const READABLE_SINCE = '001_schema';

/** The migrations in the order of their names. A released migration is never changed. */
export const INSTALLATION_MIGRATIONS = migrationsOf(ALL_TABLES, '001_schema', createCounts);

/** Adds to the refusal of a database which ones this program reads. */
export function withReadable(refusal: string): string {
  return `${refusal}; this is worksync ${describeBuild(programVersion())}, which reads data since commit ${OLDEST_COMMIT}`;
}
