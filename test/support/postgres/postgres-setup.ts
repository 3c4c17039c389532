import { randomBytes } from 'node:crypto';
import pg from 'pg';
import type { TestProject } from 'vitest/node';
import { startPostgres } from './postgres-server.ts';

declare module 'vitest' {
  interface ProvidedContext {
    postgres: string;
    /** How the names of the schemas of this run begin. */
    schemas: string;
  }
}

/** One PostgreSQL for all files of a run: that of the named programs, that of `WORKSYNC_TEST_POSTGRES`, or else one of its own. Nothing of the run stays. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const programs = project.config.env['TEST_POSTGRES_PROGRAMS'] as string | undefined;
  const given = programs ? undefined : process.env['WORKSYNC_TEST_POSTGRES'];
  const own = given ? undefined : await startPostgres(programs ? { programs } : {});
  const address = given ?? (own?.address as string);
  const schemas = `t_${randomBytes(4).toString('hex')}_`;
  project.provide('postgres', address);
  project.provide('schemas', schemas);
  return () => (own ? own.remove() : dropSchemas(address, schemas));
}

/** One by one: all at once would need more locks than a server has. */
async function dropSchemas(address: string, begin: string): Promise<void> {
  const client = new pg.Client({ connectionString: address });
  await client.connect();
  try {
    const { rows } = await client.query<{ nspname: string }>(
      'select nspname from pg_namespace where starts_with(nspname, $1)',
      [begin],
    );
    for (const { nspname } of rows) await client.query(`drop schema ${pg.escapeIdentifier(nspname)} cascade`);
  } finally {
    await client.end();
  }
}
