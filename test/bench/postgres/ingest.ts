import { rmSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { type Bench, RUNS } from '../bench.ts';
import { announcedPort, countDeliveries, spawnDaemon, stopDaemon } from '../daemon.ts';
import { pullRequestBodies, type SignedBody } from '../deliveries.ts';
import { sendDeliveries } from '../load.ts';
import { createFleet, type Fleet, NOWHERE } from '../many/workspaces.ts';
import { compared, type Measured } from '../report.ts';
import { usageOf } from '../usage.ts';
import { type BenchServer, withPostgres } from './server.ts';

/**
 * Durable signed deliveries of 21 KiB, to several workspaces in turn, as in `ingest`: over PostgreSQL against a file, and to
 * three replicas against one. Seconds of CPU decide: on a machine of two cores three replicas, the server and the load share
 * them. What PostgreSQL itself uses stands in the notes, with the deliveries per second of the wall clock.
 */
export const pgIngest: Bench = {
  figures: ['pg.ingest', 'pg.ingest.three'],
  run: () => withPostgres((server) => measureIngest(server, { workspaces: 12, rounds: RUNS, size: 256 })),
};

interface IngestPlan {
  readonly workspaces: number;
  readonly rounds: number;
  /** How many different pull requests there are. */
  readonly size: number;
}

/** Deliveries that each daemon has taken before, so that its code is compiled however busy the machine is. */
const WARM = 2_000;
/** Milliseconds. */
const BURST = 2_500;

async function measureIngest(server: BenchServer, plan: IngestPlan): Promise<readonly Measured[]> {
  const bodies = pullRequestBodies(plan.size);
  const runs = { file: [] as Burst[], one: [] as Burst[], three: [] as Burst[] };
  for (let round = 0; round < plan.rounds; round++) {
    runs.file.push(await measure(await fileStore(plan.workspaces), 1, bodies));
    runs.one.push(await measure(await serverStore(server, `one_${round}`, plan.workspaces), 1, bodies));
    runs.three.push(await measure(await serverStore(server, `three_${round}`, plan.workspaces), 3, bodies));
  }
  const meaning = { unit: 'deliveries/s of CPU', better: 'higher' } as const;
  const { file, one, three } = runs;
  return [
    compared(
      { ...meaning, name: 'pg.ingest', aim: 0.6, note: noteOf({ 'a file': file, 'one replica': one }) },
      one.map(perCpu),
      file.map(perCpu),
    ),
    compared(
      { ...meaning, name: 'pg.ingest.three', aim: 1.5, note: noteOf({ 'three replicas': three }) },
      // What three give who have a core each.
      three.map((burst) => 3 * perCpu(burst)),
      one.map(perCpu),
    ),
  ];
}

/** What was accepted, and what that cost. */
interface Burst {
  readonly accepted: number;
  readonly seconds: number;
  /** Seconds of CPU of all daemons, and of PostgreSQL. */
  readonly cpu: number;
  readonly serverCpu: number;
}

function perCpu({ accepted, cpu }: Burst): number {
  return accepted / cpu;
}

function noteOf(contenders: Readonly<Record<string, readonly Burst[]>>): string {
  return Object.entries(contenders)
    .map(([name, bursts]) => {
      const sum = (read: (burst: Burst) => number) => bursts.reduce((total, burst) => total + read(burst), 0);
      const accepted = sum((burst) => burst.accepted);
      const each = (seconds: number) => `${Math.round((seconds / accepted) * 1e6)} µs`;
      const wall = Math.round(accepted / sum(({ seconds }) => seconds));
      const server = sum(({ serverCpu }) => serverCpu);
      return `${name}: ${wall} deliveries/s of the wall clock, ${each(sum(({ cpu }) => cpu))} of CPU each, ${each(server)} in PostgreSQL`;
    })
    .join('; ');
}

/** Where the daemons keep their rows, and how these are counted. */
interface Place {
  readonly fleet: Fleet;
  readonly store?: string;
  count(condition: string): Promise<number>;
  cpu(): number;
}

async function fileStore(workspaces: number): Promise<Place> {
  const fleet = await createFleet(workspaces);
  return {
    fleet,
    cpu: () => 0,
    count: async (condition) => countDeliveries(fleet.folder, condition),
  };
}

async function serverStore(server: BenchServer, schema: string, workspaces: number): Promise<Place> {
  const store = server.place(schema);
  const fleet = await createFleet(workspaces, store);
  return {
    ...{ fleet, store, cpu: server.cpu },
    async count(condition) {
      const sql = `select count(*)::int as count from ${schema}.inbox where ${condition}`;
      return (await server.ask<{ count: number }>(sql)).count;
    },
  };
}

async function measure(place: Place, replicas: number, bodies: readonly SignedBody[]): Promise<Burst> {
  const { folder, config, names } = place.fleet;
  const paths = names.map((name) => `/webhooks/${name}/github`);
  const folders = Array.from({ length: replicas }, (_, index) => (index === 0 ? folder : `${folder}-${index}`));
  const daemons = folders.map((own) =>
    spawnDaemon({ folder: own, config, store: place.store, url: NOWHERE, apiKey: '' }),
  );
  try {
    const ports = await Promise.all(daemons.map((daemon, index) => announcedPort(daemon, folders[index] as string)));
    const send = async (run: string, ms: number) => {
      const loads = await Promise.all(
        ports.map((port) => sendDeliveries({ port, paths }, bodies, `${run}-${port}`, ms)),
      );
      return loads.reduce((sum, { accepted }) => sum + accepted, 0);
    };
    const used = () => daemons.reduce((sum, { pid }) => sum + usageOf(pid as number).cpu, 0);
    let warm = 0;
    while (warm < WARM * replicas) warm += await send(`warm-${warm}`, BURST);
    await takenOver(place);
    const before = { wall: performance.now(), cpu: used(), serverCpu: place.cpu() };
    const accepted = await send('timed', BURST);
    const burst = {
      accepted,
      seconds: (performance.now() - before.wall) / 1_000,
      cpu: used() - before.cpu,
      serverCpu: place.cpu() - before.serverCpu,
    };
    await takenOver(place);
    await expectAllStored(place, warm + accepted);
    await Promise.all(daemons.map((daemon, index) => stopDaemon(daemon, folders[index] as string)));
    return burst;
  } finally {
    for (const daemon of daemons) if (daemon.exitCode === null) daemon.kill('SIGKILL');
    for (const own of folders) rmSync(own, { recursive: true, force: true });
  }
}

async function takenOver(place: Place): Promise<void> {
  while ((await place.count("state = 'pending'")) > 0) await pause(50);
}

async function expectAllStored(place: Place, acknowledged: number): Promise<void> {
  const stored = await place.count("connection = 'github'");
  const applied = await place.count("connection = 'github' and state = 'applied'");
  if (stored !== acknowledged || applied !== acknowledged)
    throw new Error(`${acknowledged} acknowledged, ${stored} stored, ${applied} applied`);
}
