import { rmSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import type { Bench } from '../bench.ts';
import { createFleet, NOWHERE } from '../many/workspaces.ts';
import { figure, type Measured } from '../report.ts';
import { usageOf } from '../usage.ts';
import { killReplica, type Replica, startReplica, stopReplicas } from './replicas.ts';
import { type BenchServer, withPostgres } from './server.ts';

/**
 * What three replicas ask of PostgreSQL for 2 000 workspaces that have nothing to do: statements as it counts them itself, and
 * what it writes to its log for them.
 */
export const pgAtRest: Bench = {
  figures: ['pg.rest.statements', 'pg.rest.written'],
  run: () => withPostgres((server) => measureRest(server, { workspaces: 2_000, rounds: 3, rest: 60_000 }), COUNTING),
};

/** Lines of `postgresql.conf`. */
const COUNTING = { shared_preload_libraries: 'pg_stat_statements' };

interface RestPlan {
  readonly workspaces: number;
  readonly rounds: number;
  /** How long it is at rest, milliseconds. */
  readonly rest: number;
}

const REPLICAS = 3;
const SCHEMA = 'rest';
/** After the start, until each of them has its share and has done what the start left to do: nothing changes for so long, milliseconds. */
const SETTLING = 20_000;

async function measureRest(server: BenchServer, plan: RestPlan): Promise<readonly Measured[]> {
  const store = server.place(SCHEMA);
  const fleet = await createFleet(plan.workspaces, store);
  await server.ask('create extension pg_stat_statements');
  const replicas: Replica[] = [];
  try {
    const setup = { folder: fleet.folder, config: fleet.config, store, url: NOWHERE, apiKey: '' };
    for (let index = 0; index < REPLICAS; index++) replicas.push(await startReplica(setup, `replica-${index}`));
    await untilSpread(server, plan.workspaces);
    await pause(SETTLING);
    const rounds: Rest[] = [];
    for (let round = 0; round < plan.rounds; round++) rounds.push(await measure(server, replicas, plan.rest));
    await stopReplicas(replicas);
    const cpu = (read: (rest: Rest) => number) =>
      (rounds.reduce((sum, rest) => sum + read(rest), 0) / rounds.length).toFixed(2);
    const note = `CPU in % of a core: ${cpu((rest) => rest.cpu)} of all three together, ${cpu((rest) => rest.serverCpu)} of PostgreSQL`;
    const meaning = { better: 'lower', aim: 10 } as const;
    return [
      figure(
        { ...meaning, name: 'pg.rest.statements', unit: 'statements/s', note },
        rounds.map(({ statements }) => statements),
      ),
      figure(
        { ...meaning, name: 'pg.rest.written', unit: 'kB/s' },
        rounds.map(({ written }) => written),
      ),
    ];
  } finally {
    for (const replica of replicas) await killReplica(replica);
    rmSync(fleet.folder, { recursive: true, force: true });
  }
}

/** Each second. */
interface Rest {
  readonly statements: number;
  /** Kilobytes of the server's log. */
  readonly written: number;
  /** Percents of a core. */
  readonly cpu: number;
  readonly serverCpu: number;
}

async function measure(server: BenchServer, replicas: readonly Replica[], rest: number): Promise<Rest> {
  const used = () => replicas.reduce((sum, { pid }) => sum + usageOf(pid).cpu, 0);
  const before = { wall: performance.now(), cpu: used(), serverCpu: server.cpu(), ...(await countsOf(server)) };
  await pause(rest);
  const after = { cpu: used(), serverCpu: server.cpu(), ...(await countsOf(server)) };
  const seconds = (performance.now() - before.wall) / 1_000;
  return {
    statements: (after.statements - before.statements) / seconds,
    written: (after.written - before.written) / seconds / 1e3,
    cpu: ((after.cpu - before.cpu) / seconds) * 100,
    serverCpu: ((after.serverCpu - before.serverCpu) / seconds) * 100,
  };
}

/** Statements that it ran for others than this bench, `begin` and `commit` too; and bytes of its log. */
function countsOf(server: BenchServer): Promise<{ statements: number; written: number }> {
  return server.ask(`select
    (select coalesce(sum(calls), 0)::float8 from pg_stat_statements where query not like '%pg_stat_statements%') as statements,
    (pg_current_wal_insert_lsn() - '0/0')::float8 as written`);
}

async function untilSpread(server: BenchServer, workspaces: number): Promise<void> {
  const least = Math.floor(workspaces / REPLICAS);
  const spread = `select count(*)::int as count from (select incarnation from ${SCHEMA}.leases
    join ${SCHEMA}.replicas using (incarnation) group by incarnation having count(*) >= ${least}) as full_ones`;
  while ((await server.ask<{ count: number }>(spread)).count < REPLICAS) await pause(200);
}
