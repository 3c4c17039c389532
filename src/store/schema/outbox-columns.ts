import { type Expression, type Kysely, sql } from 'kysely';
import { dialectOf } from '../../platform/database/dialect.ts';
import { addStatistics } from './statistics.ts';

const SEND_QUEUE = sql`case
  when lane = 'backfill' then 'backfill'
  when kind = 'read' then 'read'
  when lane = 'status' then 'status'
  when lane = 'mirror' then case when weight > 1 then 'finished_mirror' else 'mirror' end
  when weight > 1 then 'finished_link'
  else 'link' end`;

/** In `waiting`, deliveries of first imports have no time, because nobody waits for them. */
const IMPORTED = sql`case
  when waiting like '%"at":null%' and replace(waiting, '"at":null', '') not like '%"at":%' then 1
  else 0 end`;

/**
 * Adds the queue by which the next change is found. The column `queue`, which does not tell links and status changes apart, stays for
 * the previous version.
 */
export async function addSendQueue(db: Kysely<unknown>): Promise<void> {
  await addComputedColumn(db, 'send_queue', 'text', SEND_QUEUE);
  await replaceIndex(db, 'outbox_next', ['workspace', 'state', 'send_queue', 'due', 'entity', 'not_before']);
  await replaceIndex(db, 'outbox_turn', ['workspace', 'state', 'send_queue', 'not_before', 'due', 'entity']);
  // SQLite dropped the statistics together with the indexes.
  await addStatistics(db, {
    outbox: {
      outbox_next: [100_000, 10_000, 3_000, 1_000, 2, 1, 1],
      outbox_turn: [100_000, 10_000, 3_000, 1_000, 10, 2, 1],
    },
  });
}

/** Adds a column that marks the changes of first imports, and an index that finds the oldest other change. */
export async function addImportedChanges(db: Kysely<unknown>): Promise<void> {
  await addComputedColumn(db, 'imported', 'integer', IMPORTED);
  await replaceIndex(db, 'outbox_age', ['workspace', 'state', 'lane', 'imported', 'since']);
  await addStatistics(db, { outbox: { outbox_age: [100_000, 10_000, 3_000, 1_000, 500, 2] } });
}

/** SQLite can add no stored column, and PostgreSQL can index no virtual one. */
async function addComputedColumn(
  db: Kysely<unknown>,
  name: string,
  type: 'text' | 'integer',
  expression: Expression<unknown>,
): Promise<void> {
  await db.schema
    .alterTable('outbox')
    .addColumn(name, type, (column) => {
      const generated = column.generatedAlwaysAs(expression);
      return dialectOf(db) === 'sqlite' ? generated : generated.stored();
    })
    .execute();
}

async function replaceIndex(db: Kysely<unknown>, name: string, columns: string[]): Promise<void> {
  await db.schema.dropIndex(name).execute();
  await db.schema.createIndex(name).on('outbox').columns(columns).execute();
}
