import { sql } from 'kysely';
import type { Sql } from '../../src/store/workspace-scope.ts';

/** How many rows each table holds: by their state, where they have one; and in how many places of them anything stands. */
export async function countRows(query: Sql): Promise<ReadonlyMap<string, string>> {
  const { rows: tables } = await sql<{ name: string; state: number }>`
    select name, exists (select 1 from pragma_table_info(sqlite_schema.name) as info where info.name = 'state') as state
    from sqlite_schema where type = 'table' and name not like 'sqlite%' and name not like 'kysely%' order by name`.execute(
    query,
  );
  const counts = new Map<string, string>();
  for (const { name, state } of tables) counts.set(name, await countOf(query, name, state === 1));
  return counts;
}

async function countOf(query: Sql, table: string, hasState: boolean): Promise<string> {
  const state = sql.raw(hasState ? 'state' : `''`);
  const { rows: columns } = await sql<{ name: string }>`select name from pragma_table_info(${table})`.execute(query);
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
