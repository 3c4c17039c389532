import { sql } from 'kysely';
import type { Sql } from '../../src/store/workspace-scope.ts';

/** How many rows each table holds: by their state, where they have one; and in how many places of them anything stands. */
export async function countRows(query: Sql): Promise<ReadonlyMap<string, string>> {
  const { rows: tables } = await sql<{ name: string }>`
    select name from sqlite_schema
    where type = 'table' and name not like 'sqlite%' and name not like 'kysely%' order by name`.execute(query);
  const counts = new Map<string, string>();
  for (const { name } of tables) counts.set(name, await countOf(query, name));
  return counts;
}

async function countOf(query: Sql, table: string): Promise<string> {
  const { rows: columns } = await sql<{ name: string }>`select name from pragma_table_info(${table})`.execute(query);
  const state = sql.raw(columns.some(({ name }) => name === 'state') ? 'state' : `''`);
  const filled = columns.map(({ name }) => sql`count(${sql.ref(name)})`);
  const { rows } = await sql<{ state: string; count: number; filled: number }>`
    select ${state} as state, count(*) as count, ${sql.join(filled, sql` + `)} as filled
    from ${sql.table(table)} group by 1 order by 1`.execute(query);
  return (
    rows
      .map(({ state: name, count, filled: places }) => `${count} ${name} (${places})`.replace('  ', ' '))
      .join(', ') || '0'
  );
}
