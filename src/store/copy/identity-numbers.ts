import { sql } from 'kysely';
import { dialectOf } from '../../platform/database/dialect.ts';
import type { Sql } from '../workspace-scope.ts';
import { NUMBERED } from './copied-tables.ts';

/** The highest number that each of these tables ever gave a row; zero: none. */
export type LastNumbers = Readonly<Record<string, number>>;

export async function lastNumbers(query: Sql): Promise<LastNumbers> {
  const found = await Promise.all(NUMBERED.map(async (table) => [table, await lastNumber(query, table)] as const));
  return Object.fromEntries(found);
}

async function lastNumber(query: Sql, table: string): Promise<number> {
  const given =
    dialectOf(query) === 'sqlite'
      ? sql`coalesce((select seq from sqlite_sequence where name = ${table}), 0)`
      : sql`coalesce(pg_sequence_last_value(pg_get_serial_sequence(${table}, 'id')::regclass), 0)`;
  const { rows } = await sql<{ given: number; highest: number }>`
    select ${given} as given, coalesce((select max(id) from ${sql.table(table)}), 0) as highest`.execute(query);
  return Math.max(rows[0]?.given ?? 0, rows[0]?.highest ?? 0);
}

/** The next rows are numbered from there. */
export async function continueNumbers(query: Sql, last: LastNumbers): Promise<void> {
  for (const table of NUMBERED) {
    const number = last[table];
    // Nothing was ever numbered.
    if (!number) continue;
    if (dialectOf(query) === 'postgres') {
      await sql`select setval(pg_get_serial_sequence(${table}, 'id'), ${number})`.execute(query);
      continue;
    }
    await sql`delete from sqlite_sequence where name = ${table}`.execute(query);
    await sql`insert into sqlite_sequence (name, seq) values (${table}, ${number})`.execute(query);
  }
}
