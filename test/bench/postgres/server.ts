import pg from 'pg';
import { startPostgres } from '../../support/postgres/postgres-server.ts';
import { familyCpu } from '../usage.ts';

/** A PostgreSQL as in production: each commit is on the disk before it is answered. */
export interface BenchServer {
  /** Of a schema of its own. */
  place(schema: string): string;
  readonly pid: number;
  /** Seconds of CPU that all its processes have used. */
  cpu(): number;
  /** One row. */
  ask<Row extends object>(sql: string): Promise<Row>;
}

const DURABLE = { fsync: 'on', synchronous_commit: 'on' };

/** Runs one for as long as it is used. @param settings lines of `postgresql.conf`, by their names */
export async function withPostgres<Result>(
  use: (server: BenchServer) => Promise<Result>,
  settings: Readonly<Record<string, string>> = {},
): Promise<Result> {
  const server = await startPostgres({ settings: { ...DURABLE, ...settings } });
  const client = new pg.Client({ connectionString: server.address, application_name: 'bench' });
  try {
    await client.connect();
    return await use({
      place: (schema) => `${server.address}?schema=${schema}`,
      pid: server.pid(),
      cpu: () => familyCpu(server.pid()),
      ask: async <Row extends object>(sql: string) => (await client.query<Row>(sql)).rows[0] as Row,
    });
  } finally {
    await client.end();
    await server.remove();
  }
}
