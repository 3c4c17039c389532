import { sql } from 'kysely';
import { expect, it } from 'vitest';
import { saveRows } from '../../../src/store/unit-of-work/unit-of-work.ts';
import { openTestStore } from '../../support/intake.ts';
import { ON_POSTGRES } from '../../support/store-place.ts';

it.runIf(ON_POSTGRES)('tables that are being filled are counted before a minute has passed', async () => {
  const { query, commit } = await openTestStore();
  const counts = async () => {
    const { rows } = await sql<{ count: number }>`select analyze_count as count from pg_stat_user_tables
      where schemaname = current_schema() and relname = 'mentions'`.execute(query.whole);
    return rows[0]?.count ?? 0;
  };
  const before = await counts();
  for (let page = 0; page < 100 && (await counts()) === before; page++) {
    const rows = Array.from({ length: 200 }, (_, index) => ({ item_key: `${page}`, name: `${index}`, reason: '' }));
    await commit(async (transaction) => {
      await saveRows(transaction, 'mentions', rows);
      // It tells others once a second how many rows it has written.
      await sql`select pg_stat_force_next_flush()`.execute(transaction.whole);
    });
  }
  expect(await counts()).toBeGreaterThan(before);
});
