import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import { startPostgres } from '../../support/postgres/postgres-server.ts';
import { announcedPort, familyCpu, type Setup, spawnDaemon, until } from '../daemon.ts';

/** A PostgreSQL as in production: each commit is on the disk before it is answered. */
export interface BenchServer {
  place(schema: string): string;
  readonly pid: number;
  cpu(): number;
  ask<Row extends object>(sql: string): Promise<Row>;
  count(from: string): Promise<number>;
}

const DURABLE = { fsync: 'on', synchronous_commit: 'on' };

export async function withPostgres<Result>(
  use: (server: BenchServer) => Promise<Result>,
  settings: Readonly<Record<string, string>> = {},
): Promise<Result> {
  const server = await startPostgres({ settings: { ...DURABLE, ...settings } });
  const client = new pg.Client({ connectionString: server.address, application_name: 'bench' });
  const ask = async <Row extends object>(sql: string) => (await client.query<Row>(sql)).rows[0] as Row;
  try {
    await client.connect();
    return await use({
      ask,
      place: (schema) => `${server.address}?schema=${schema}`,
      pid: server.pid(),
      cpu: () => familyCpu(server.pid()),
      count: async (from) => (await ask<{ count: number }>(`select count(*)::int as count from ${from}`)).count,
    });
  } finally {
    await client.end();
    await server.remove();
  }
}

/** One of several daemons over one database, each with a folder of its own; or the one whose database is a file. */
export interface Replica {
  readonly daemon: ChildProcess;
  readonly folder: string;
  readonly pid: number;
  readonly port: number;
}

export async function startReplica(setup: Setup, name: string): Promise<Replica> {
  const folder = setup.store ? join(setup.folder, name) : setup.folder;
  mkdirSync(folder, { recursive: true });
  const daemon = spawnDaemon({ ...setup, folder });
  try {
    const port = await announcedPort(daemon, folder);
    return { daemon, folder, port, pid: daemon.pid as number };
  } catch (error) {
    daemon.kill('SIGKILL');
    throw error;
  }
}

export async function withReplicas<Result>(
  setup: Setup,
  count: number,
  use: (replicas: Replica[]) => Promise<Result>,
): Promise<Result> {
  const replicas: Replica[] = [];
  try {
    while (replicas.length < count) replicas.push(await startReplica(setup, `replica-${replicas.length}`));
    return await use(replicas);
  } finally {
    await Promise.all(replicas.map(killReplica));
  }
}

export async function killReplica({ daemon }: Replica): Promise<void> {
  const ended = once(daemon, 'exit');
  if (daemon.kill('SIGKILL')) await ended;
}

export async function untilSpread(server: BenchServer, schema: string, share: number, replicas: number): Promise<void> {
  const least = Math.floor(share);
  const sharing = `(select incarnation from ${schema}.leases join ${schema}.replicas using (incarnation)
    group by incarnation having count(*) >= ${least}) as sharing`;
  await until(async () => (await server.count(sharing)) === replicas, 200);
}
