import type { Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';
import { createTables } from './create-tables.ts';
import { addImportedChanges, addSendQueue } from './outbox-columns.ts';
import { addWorkflowColumns } from './workflow-columns.ts';

/**
 * The oldest migration whose program can still work with the present tables. Two versions run side by side while replicas are
 * upgraded one after the other, so a version must first stop using a column; only the next version may remove it.
 */
export const READABLE_SINCE = '001_schema';

/** The migrations in the order of their names. A released migration is never changed. */
export const INSTALLATION_MIGRATIONS: Readonly<Record<string, Migration>> = {
  '001_schema': { up: createTables },
  '002_workflow': { up: addWorkflowColumns },
  '003_awaited_read': { up: addAwaitedRead },
  '004_send_queue': { up: addSendQueue },
  '005_number_sign': { up: addNumberSign },
  '006_imported_changes': { up: addImportedChanges },
};

/** Adds the column for the number sign of vendors that write `!12`. */
async function addNumberSign(db: Kysely<unknown>): Promise<void> {
  await db.schema.alterTable('items').addColumn('number_sign', 'text').execute();
}

/** Adds the column of the outbox that says which read ends the wait of a change. */
async function addAwaitedRead(db: Kysely<unknown>): Promise<void> {
  await db.schema.alterTable('outbox').addColumn('awaits', 'text').execute();
}
