import { sql } from 'kysely';
import type { OpenedStore } from '../harness/store.ts';
import { ON_POSTGRES } from '../postgres/store-place.ts';

export interface Plan {
  readonly indexes: readonly string[];
  readonly scanned: readonly string[];
  readonly text: string;
}

/** @param statement as `onStatement` has it: with its values (SQLite), or with `$1` for the first of them (PostgreSQL) */
export async function planOf(database: OpenedStore['database'], statement: string): Promise<Plan> {
  const lines = ON_POSTGRES ? await linesOfPostgres(database, statement) : await linesOfSqlite(database, statement);
  const found = (pattern: RegExp) => lines.flatMap((line) => pattern.exec(line)?.[1] ?? []);
  return {
    indexes: found(/(?:USING (?:COVERING )?INDEX|Scan(?: Backward)? using|Bitmap Index Scan on) (\w+)/),
    scanned: found(/(?:^SCAN|Seq Scan on) (\w+)(?!.* INDEX)/),
    text: lines.join('\n'),
  };
}

async function linesOfSqlite(database: OpenedStore['database'], statement: string): Promise<string[]> {
  const { rows } = await sql<{ detail: string }>`explain query plan ${sql.raw(statement)}`.execute(database);
  return rows.map(({ detail }) => detail);
}

/** With few rows PostgreSQL would read them all. Sequential scans are off, so that a plan shows whether an index can be used. */
function linesOfPostgres(database: OpenedStore['database'], statement: string): Promise<string[]> {
  const values = new Set(statement.match(/\$\d+/g)).size;
  return database.transaction().execute(async (transaction) => {
    const run = <Row = unknown>(text: string) => sql.raw<Row>(text).execute(transaction);
    // Otherwise it would analyse the tables at some moment of the next minute.
    await run(`do $$ declare name text; begin
      for name in select tablename from pg_tables where schemaname = current_schema() loop
        execute format('analyze %I', name);
      end loop; end $$`);
    await run('set local enable_seqscan to off');
    await run('set local plan_cache_mode to force_generic_plan');
    await run(`prepare planned as ${statement}`);
    const given = values === 0 ? '' : `(${Array.from({ length: values }, () => 'null').join(', ')})`;
    const { rows } = await run<{ 'QUERY PLAN': string }>(`explain execute planned${given}`);
    await run('deallocate planned');
    return rows.map((row) => row['QUERY PLAN']);
  });
}
