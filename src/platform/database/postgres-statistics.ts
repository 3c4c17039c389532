import pg from 'pg';

/**
 * PostgreSQL counts what its tables hold once a minute, and plans by guesses until then: in a database that is being filled it
 * would read all rows of a workspace to find a dozen by their keys, and keep that plan. So it is told to count as soon as many
 * rows have come: a table of which more has changed than there was when it was counted last.
 */
export interface Statistics {
  /** So many rows were inserted. */
  inserted(rows: number): void;
}

/** Looked at first after so many rows, and then after twice as many as the time before. */
const FIRST_LOOK = 256;

const OUTDATED = `select stats.relname as name from pg_stat_user_tables as stats join pg_class on pg_class.oid = stats.relid
  where schemaname = current_schema() and n_mod_since_analyze > greatest(reltuples, 100)`;

export function createStatistics(pool: Pick<pg.Pool, 'query'>): Statistics {
  let rows = 0;
  let nextLook = FIRST_LOOK;

  async function count(): Promise<void> {
    const { rows: outdated } = await pool.query<{ name: string }>(OUTDATED);
    for (const { name } of outdated) await pool.query(`analyze ${pg.escapeIdentifier(name)}`);
  }

  return {
    inserted(more) {
      rows += more;
      if (rows < nextLook) return;
      nextLook = rows * 2;
      // The server does it by itself later.
      void count().catch(() => undefined);
    },
  };
}
