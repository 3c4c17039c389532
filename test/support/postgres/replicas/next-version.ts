/**
 * Loaded before the program: makes it the version of tomorrow, whose tables have more columns than that of today knows. A
 * migration of the kind that expands: what is there stays as it is.
 */

import { INSTALLATION_MIGRATIONS } from '../../../../src/store/schema/installation-migrations.ts';

Object.assign(INSTALLATION_MIGRATIONS, {
  '999_expand': {
    async up(db: import('kysely').Kysely<unknown>) {
      for (const table of ['inbox', 'outbox', 'items', 'leases', 'replicas', 'requests'])
        await db.schema.alterTable(table).addColumn('of_tomorrow', 'text').execute();
    },
  },
});
