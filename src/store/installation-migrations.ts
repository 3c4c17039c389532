import type { Migration } from 'kysely/migration';
import { createTables } from './create-tables.ts';

/**
 * A program that knows this migration can work with all tables of the present version, so that two versions run side by side while
 * replicas are upgraded one after the other. A migration that breaks that comes one version after the one that stops using what
 * it removes.
 */
export const READABLE_SINCE = '001_schema';

/** Names sort by age. A migration that has been released is never changed. */
export const INSTALLATION_MIGRATIONS: Readonly<Record<string, Migration>> = {
  '001_schema': { up: createTables },
};
