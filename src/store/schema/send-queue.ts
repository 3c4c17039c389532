import { type Kysely, sql } from 'kysely';
import { dialectOf } from '../../platform/database/dialect.ts';
import { addStatistics } from './statistics.ts';

const SEND_QUEUE = sql`case
  when lane = 'backfill' then 'backfill'
  when kind = 'read' then 'read'
  when lane = 'status' then 'status'
  when lane = 'mirror' then case when weight > 1 then 'finished_mirror' else 'mirror' end
  when weight > 1 then 'finished_link'
  else 'link' end`;

/**
 * Adds the queue by which the next change is found. The column `queue`, which does not tell links and status changes apart, stays for
 * the previous version. SQLite can add no stored column, and PostgreSQL can index no virtual one.
 */
export async function addSendQueue(db: Kysely<unknown>): Promise<void> {
  const isSqlite = dialectOf(db) === 'sqlite';
  await db.schema
    .alterTable('outbox')
    .addColumn('send_queue', 'text', (column) => {
      const generated = column.generatedAlwaysAs(SEND_QUEUE);
      return isSqlite ? generated : generated.stored();
    })
    .execute();
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

async function replaceIndex(db: Kysely<unknown>, name: string, columns: string[]): Promise<void> {
  await db.schema.dropIndex(name).execute();
  await db.schema.createIndex(name).on('outbox').columns(columns).execute();
}
