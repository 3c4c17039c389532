import { setTimeout as pause } from 'node:timers/promises';
import { type Bench, expectPremise, figuresOf, median } from './bench.ts';
import {
  ask,
  costOf,
  expectNoRequests,
  longestOf,
  type Running,
  runDaemon,
  runWatched,
  usageOf,
  type Watched,
} from './daemon.ts';
import { type Fleet, withFleet } from './fleet.ts';
import { type BenchServer, type Replica, untilSpread, withPostgres, withReplicas } from './postgres/server.ts';

const WORKSPACES = 2_000;
const ROUNDS = 3;
/** How long it is at rest, milliseconds. */
const REST = 60_000;
/** More is written only by those that are not at rest, kB/s. */
const MOST_WRITTEN = 100;
/** After the start, until what the start left to do is done, milliseconds. */
const SETTLING = 10_000;

/**
 * Measures the cost of 2 000 workspaces at rest: start, memory, idle time and scrapes. CPU of the whole
 * process as the kernel counts it, so that a busy machine does not count; it has run once before, as after an update.
 */
export const manyAtRest: Bench = {
  figures: [
    ...['many.start', 'many.memory', 'many.idle.cpu', 'many.idle.written'],
    ...['many.scrape.metrics', 'many.scrape.status', 'many.scrape.loop'],
  ],
  async run() {
    const alone = await withFleet(1, async (one) => {
      await runDaemon(one, settle);
      return runDaemon(one, async ({ pid }) => {
        await settle();
        return usageOf(pid).resident;
      });
    });
    return withFleet(WORKSPACES, async (all) => {
      await runDaemon(all, settle);
      const rounds: (Awaited<ReturnType<typeof measure>> & { readonly loop: number })[] = [];
      for (let round = 0; round < ROUNDS; round++) {
        const costs = await runDaemon(all, (daemon) => measure(daemon, all));
        rounds.push({ ...costs, loop: await runWatched(all, (daemon) => longestAsked(daemon, all)) });
      }
      const each = (resident: number) => (resident - alone) / (WORKSPACES - 1) / 1e6;
      return figuresOf(
        rounds,
        { name: 'many.start', unit: 's CPU', aim: 10, of: ({ start }) => start },
        { name: 'many.memory', unit: 'MB each', aim: 0.25, of: ({ resident }) => each(resident) },
        { name: 'many.idle.cpu', unit: '% of a core', aim: 1, of: ({ idle }) => idle },
        { name: 'many.idle.written', unit: 'kB/s', aim: 10, of: ({ written }) => written },
        { name: 'many.scrape.metrics', unit: 's CPU', aim: 0.3, of: ({ metrics }) => metrics },
        { name: 'many.scrape.status', unit: 's CPU', aim: 0.3, of: ({ status }) => status },
        { name: 'many.scrape.loop', unit: 'ms', aim: 50, of: ({ loop }) => loop },
      );
    });
  },
};

const settle = () => pause(SETTLING);

async function measure(daemon: Running, { names }: Fleet) {
  const { pid, started } = daemon;
  await settle();
  const before = usageOf(pid);
  await pause(REST);
  const after = usageOf(pid);
  const written = (after.written - before.written) / (REST / 1_000) / 1e3;
  expectPremise(written <= MOST_WRITTEN, `a daemon at rest wrote ${written} kB/s`);
  await expectNoRequests(daemon);
  const metrics = await costOf(daemon, '/metrics', names);
  const status = await costOf(daemon, '/status.json', names);
  return {
    ...{ start: started.cpu, resident: before.resident, metrics, status, written },
    idle: ((after.cpu - before.cpu) / (REST / 1_000)) * 100,
  };
}

/** Milliseconds of CPU of the longest turn while it is asked, but for the first time, when the code is compiled. */
async function longestAsked(daemon: Watched, { names }: Fleet): Promise<number> {
  await settle();
  const paths = ['/metrics', '/status.json'];
  for (const path of paths) await ask(daemon, path, names);
  const begin = Date.now();
  for (const path of [...paths, ...paths]) await ask(daemon, path, names);
  return longestOf(daemon.turnsSince(begin));
}

/**
 * Measures the load of three replicas with 2 000 workspaces at rest on PostgreSQL: statements by its own count, and bytes of its
 * log.
 */
export const pgAtRest: Bench = {
  figures: ['pg.rest.statements', 'pg.rest.written'],
  run: () =>
    withPostgres(
      (server) => withFleet(WORKSPACES, (fleet) => measureRest(server, fleet), { store: server.place(SCHEMA) }),
      {
        shared_preload_libraries: 'pg_stat_statements',
      },
    ),
};

const REPLICAS = 3;
const SCHEMA = 'rest';
/** After the start, until each of them has its share and has done what the start left to do: nothing changes for so long, milliseconds. */
const SETTLING_TOGETHER = 60_000;

async function measureRest(server: BenchServer, fleet: Fleet) {
  await server.ask('create extension pg_stat_statements');
  const rounds = await withReplicas(fleet, REPLICAS, async (replicas) => {
    await untilSpread(server, SCHEMA, WORKSPACES / REPLICAS, REPLICAS);
    await pause(SETTLING_TOGETHER);
    const rounds: Rest[] = [];
    while (rounds.length < ROUNDS) rounds.push(await measureTogether(server, replicas));
    await Promise.all(replicas.map(expectNoRequests));
    return rounds;
  });
  const mid = (read: (rest: Rest) => number) => median(rounds.map(read)).toFixed(2);
  const note = `CPU in % of a core: ${mid(({ cpu }) => cpu)} of all three together, ${mid((rest) => rest.serverCpu)} of PostgreSQL`;
  return figuresOf(
    rounds,
    { name: 'pg.rest.statements', unit: 'statements/s', aim: 10, note, of: ({ statements }) => statements },
    { name: 'pg.rest.written', unit: 'kB/s', aim: 10, of: ({ written }) => written },
  );
}

type Rest = Awaited<ReturnType<typeof measureTogether>>;

/** Each second: statements, kilobytes of the server's log, and percents of a core. */
async function measureTogether(server: BenchServer, replicas: readonly Replica[]) {
  const usage = async () => ({
    ...(await countsOf(server)),
    wall: performance.now() / 1_000,
    cpu: replicas.reduce((sum, { pid }) => sum + usageOf(pid).cpu, 0),
    serverCpu: server.cpu(),
  });
  const before = await usage();
  await pause(REST);
  const after = await usage();
  const perSecond = (key: keyof typeof after) => (after[key] - before[key]) / (after.wall - before.wall);
  const written = perSecond('written') / 1e3;
  expectPremise(after.epochs === before.epochs, 'workspaces changed their owner');
  expectPremise(written <= MOST_WRITTEN, `PostgreSQL wrote ${written} kB/s for replicas at rest`);
  return {
    ...{ statements: perSecond('statements'), written },
    ...{ cpu: perSecond('cpu') * 100, serverCpu: perSecond('serverCpu') * 100 },
  };
}

/** Statements that it ran for others than this bench, `begin` and `commit` too; bytes of its log; and the terms of all leases. */
function countsOf(server: BenchServer): Promise<{ statements: number; written: number; epochs: number }> {
  return server.ask(`select
    (select coalesce(sum(calls), 0)::float8 from pg_stat_statements where query not like '%pg_stat_statements%') as statements,
    (pg_current_wal_insert_lsn() - '0/0')::float8 as written, (select sum(epoch) from ${SCHEMA}.leases)::float8 as epochs`);
}
