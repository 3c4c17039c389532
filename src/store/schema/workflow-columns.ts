import { type Kysely, sql } from 'kysely';
import { createUnfinishedIndex } from '../unfinished-tasks.ts';
import { addStatistics } from './statistics.ts';

/** Adds the columns of items by which the rules for task states are evaluated. */
export async function addWorkflowColumns(db: Kysely<unknown>): Promise<void> {
  await db.schema.alterTable('items').addColumn('phase', 'text').execute();
  await db.schema.alterTable('items').addColumn('reverts', 'text').execute();
  await db.schema
    .createIndex('items_reverts')
    .on('items')
    .columns(['workspace', 'reverts'])
    .where(sql.ref('reverts'), 'is not', null)
    .execute();
  await createUnfinishedIndex(db);
  await addStatistics(db, {
    items: { items_reverts: [10_000, 1_000, 1] },
    entities: { entities_unfinished: [10_000, 1_000, 200] },
  });
}
