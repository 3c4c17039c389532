import type { Kysely } from 'kysely';
import { describeIndexes, USAGE_SHAPES } from './statistics.ts';

/** What the installation tells of its use. Part of a released migration: never changed. */
export async function createUsage(db: Kysely<unknown>): Promise<void> {
  await db.schema.alterTable('ledger').addColumn('caller', 'text').execute();
  await db.schema
    .createTable('quota_use')
    .addColumn('workspace', 'integer', (column) => column.notNull())
    .addColumn('since', 'bigint', (column) => column.notNull())
    .addColumn('caller', 'text', (column) => column.notNull())
    .addColumn('requests', 'integer', (column) => column.notNull())
    .addColumn('refused', 'integer', (column) => column.notNull())
    .addPrimaryKeyConstraint('quota_use_key', ['workspace', 'since', 'caller'])
    .execute();
  // Of no workspace: by names, which outlive the rows of a workspace that was deleted.
  await db.schema
    .createTable('refused_requests')
    .addColumn('key', 'text', (column) => column.primaryKey())
    .addColumn('workspace', 'text')
    .addColumn('connection', 'text')
    .addColumn('method', 'text', (column) => column.notNull())
    .addColumn('path', 'text', (column) => column.notNull())
    .addColumn('status', 'integer', (column) => column.notNull())
    .addColumn('code', 'text', (column) => column.notNull())
    .addColumn('address', 'text', (column) => column.notNull())
    .addColumn('headers', 'text', (column) => column.notNull())
    .addColumn('count', 'integer', (column) => column.notNull())
    .addColumn('first_at', 'bigint', (column) => column.notNull())
    .addColumn('last_at', 'bigint', (column) => column.notNull())
    .execute();
  await db.schema.createIndex('refused_last').on('refused_requests').columns(['last_at']).execute();
  await db.schema.createIndex('refused_workspace').on('refused_requests').columns(['workspace', 'last_at']).execute();
  await db.schema
    .createTable('audit')
    .addColumn('id', 'integer', (column) => column.primaryKey().autoIncrement())
    .addColumn('at', 'bigint', (column) => column.notNull())
    .addColumn('workspace', 'text')
    .addColumn('actor', 'text', (column) => column.notNull())
    .addColumn('action', 'text', (column) => column.notNull())
    .addColumn('subject', 'text')
    .addColumn('count', 'integer')
    .addColumn('outcome', 'text', (column) => column.notNull())
    .addColumn('details', 'text')
    .execute();
  await db.schema.createIndex('audit_at').on('audit').columns(['at']).execute();
  await db.schema.createIndex('audit_workspace').on('audit').columns(['workspace', 'id']).execute();
  await describeIndexes(db, USAGE_SHAPES);
}
