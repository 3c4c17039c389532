import { sql } from 'kysely';
import { expect, test } from 'vitest';
import { openTestStore } from '../../support/intake.ts';

test('SQLite is told of each index how many rows share its columns, as many numbers as it has columns and one', async () => {
  const store = await openTestStore();
  const { rows: indexes } = await sql<{ name: string; columns: number }>`
    select entry.name, (select count(*) from pragma_index_info(entry.name)) as columns
    from sqlite_schema as entry join pragma_table_info(entry.tbl_name) as field on field.name = 'workspace'
    where entry.type = 'index'`.execute(store.database);
  const { rows: told } = await sql<{ idx: string; stat: string }>`select idx, stat from sqlite_stat1`.execute(
    store.database,
  );
  expect(indexes.length).toBeGreaterThan(30);
  const numbers = new Map(told.map(({ idx, stat }) => [idx, stat.split(' ').length]));
  expect(numbers).toEqual(new Map(indexes.map(({ name, columns }) => [name, columns + 1])));
});
