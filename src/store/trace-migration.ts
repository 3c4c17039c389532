import { type Kysely, sql } from 'kysely';
import { describeIndexes } from './statistics.ts';

/**
 * What `009_trace` makes: the history of requests, and which deliveries changed an item. Part of a released migration, never
 * changed.
 */
export async function createTrace(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('requests')
    .addColumn('workspace', 'integer', (column) => column.notNull())
    .addColumn('id', 'integer', (column) => column.notNull())
    .addColumn('entity', 'text', (column) => column.notNull())
    .addColumn('kind', 'text', (column) => column.notNull())
    .addColumn('item_key', 'text')
    .addColumn('task_id', 'text')
    .addColumn('action', 'text', (column) => column.notNull())
    .addColumn('lane', 'text', (column) => column.notNull())
    .addColumn('since', 'bigint')
    .addColumn('due', 'bigint')
    .addColumn('asked_at', 'bigint')
    .addColumn('slot_at', 'bigint')
    .addColumn('sent_at', 'bigint', (column) => column.notNull())
    .addColumn('completed_at', 'bigint', (column) => column.notNull())
    .addColumn('status', 'integer')
    .addColumn('error', 'text')
    .addColumn('outcome', 'text', (column) => column.notNull())
    .addColumn('attempt', 'integer', (column) => column.notNull())
    .addColumn('deliveries', 'text', (column) => column.notNull())
    .addColumn('answer', 'text')
    .addPrimaryKeyConstraint('requests_key', ['workspace', 'id'])
    .execute();
  await db.schema
    .createIndex('requests_item')
    .on('requests')
    .columns(['workspace', 'item_key', 'id'])
    .where(sql.ref('item_key'), 'is not', null)
    .execute();
  await db.schema.createIndex('requests_completed').on('requests').columns(['workspace', 'completed_at']).execute();
  await db.schema.alterTable('items').addColumn('deliveries', 'text').execute();
  await describeIndexes(db, {
    requests: {
      sqlite_autoindex_requests_1: [100_000, 10_000, 1],
      requests_item: [100_000, 10_000, 5, 1],
      requests_completed: [100_000, 10_000, 1],
    },
  });
}
