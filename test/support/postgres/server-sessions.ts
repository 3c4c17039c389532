import pg from 'pg';
import { nextTurnOfLoop } from '../harness/statements.ts';

/**
 * Resolves when the server has ended all sessions of which this is said: it does what it has heard before it finds out that a
 * process is no more. What was not committed is gone then, and no lock is held.
 */
export async function sessionsEnded(
  address: string,
  column: 'client_port' | 'application_name',
  values: readonly (string | number)[],
): Promise<void> {
  const client = new pg.Client({ connectionString: address, application_name: 'worksync tests' });
  await client.connect();
  const left = async () => {
    const asked = `select 1 from pg_stat_activity where ${column}::text = any ($1) and pid <> pg_backend_pid()`;
    return (await client.query(asked, [values.map(String)])).rows.length;
  };
  try {
    while ((await left()) > 0) await nextTurnOfLoop();
  } finally {
    await client.end();
  }
}
