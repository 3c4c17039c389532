import type { Installation } from '../../../src/store/installation/installation.ts';
import type { Schema } from '../../../src/store/schema/tables.ts';

export async function withoutTable<Result>(
  query: Installation['query'],
  table: keyof Schema,
  work: () => Promise<Result>,
): Promise<Result> {
  await query.schema.alterTable(table).renameTo('away').execute();
  try {
    return await work();
  } finally {
    await query.schema.alterTable('away').renameTo(table).execute();
  }
}
