import { type Kysely, sql } from 'kysely';
import { dialectOf } from '../../platform/database/dialect.ts';
import { addStatistics } from './statistics.ts';

/** In `waiting`, deliveries of first imports have no time, because nobody waits for them. */
const IMPORTED = sql`case
  when waiting like '%"at":null%' and replace(waiting, '"at":null', '') not like '%"at":%' then 1
  else 0 end`;

/** Adds a column that marks the changes of first imports, and an index that finds the oldest other change. */
export async function addImportedChanges(db: Kysely<unknown>): Promise<void> {
  const isSqlite = dialectOf(db) === 'sqlite';
  await db.schema
    .alterTable('outbox')
    .addColumn('imported', 'integer', (column) => {
      const generated = column.generatedAlwaysAs(IMPORTED);
      return isSqlite ? generated : generated.stored();
    })
    .execute();
  await db.schema.dropIndex('outbox_age').execute();
  const columns = ['workspace', 'state', 'lane', 'imported', 'since'];
  await db.schema.createIndex('outbox_age').on('outbox').columns(columns).execute();
  await addStatistics(db, { outbox: { outbox_age: [100_000, 10_000, 3_000, 1_000, 500, 2] } });
}
