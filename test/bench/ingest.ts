import { startWorkspaceService } from '../support/fakes/workspace-service.ts';
import { type Bench, expectPremise, figuresOf, inFolder, type Measured, median, RUNS } from './bench.ts';
import { countDeliveries, expectNoRequests, runDaemon, until, usageOf, WEBHOOK_PATH } from './daemon.ts';
import { pullRequestBodies, type SignedBody } from './deliveries.ts';
import { type Fleet, withFleet } from './fleet.ts';
import { sendDeliveries, startPeer } from './load.ts';
import { type BenchServer, withPostgres, withReplicas } from './postgres/server.ts';

/** Milliseconds: until the code is compiled, and what is measured. */
const WARM_UP = 1_500;
const MEASURED = 2_500;

type Count = (condition: string) => number | Promise<number>;

/**
 * Waits until reconcile has taken all deliveries over. Throws unless each that was ever acknowledged is stored and applied.
 *
 * @returns how many were left, and how many seconds that took
 */
async function takenOver(count: Count, acknowledged: number): Promise<{ left: number; waited: number }> {
  const begin = performance.now();
  const left = await count("state = 'pending'");
  await until(async () => (await count("state = 'pending'")) === 0);
  const waited = (performance.now() - begin) / 1_000;
  const stored = await count("connection = 'github'");
  const applied = await count("connection = 'github' and state = 'applied'");
  const isSo = acknowledged > 0 && stored === acknowledged && applied === acknowledged;
  expectPremise(isSo, `${acknowledged} acknowledged, ${stored} stored, ${applied} applied`);
  return { left, waited };
}

/**
 * Durable signed deliveries of 21 KiB per second, against two peers that store nothing.
 *
 * Ours is the whole daemon as in production: `npm start` with its database on a real disk, each 202 after a commit
 * with `synchronous=FULL`, reconcile and outbox running, a workspace service with the specified quota in the process
 * of the load. What is measured is a burst, as after an outage of the provider: while deliveries come faster than the
 * disk writes, reconcile stands back for some seconds (see `LONGEST_LAG` there); the time it then takes to catch up is
 * in the note. The rows of the inbox are counted against the answers, and each must have reached its end.
 */
export const ingest: Bench = {
  figures: ['ingest.octokit', 'ingest.probot'],
  async run() {
    const bodies = pullRequestBodies(256);
    const service = await startWorkspaceService();
    const rounds: Round[] = [];
    try {
      while (rounds.length < RUNS) {
        const ours = await inFolder((folder) => measureDaemon(folder, bodies, service));
        const octokit = await measurePeer('octokit', bodies);
        rounds.push({ ...ours, octokit, probot: await measurePeer('probot', bodies) });
      }
    } finally {
      await service.close();
    }
    const takeOver = median(rounds.map((round) => round.takeOver));
    const note = `after the burst reconcile takes over ${Math.round(takeOver)} deliveries/s`;
    const row = { unit: 'deliveries/s', better: 'higher' } as const;
    const ours = { ...row, of: (round: Round) => round.ours };
    return figuresOf(
      rounds,
      { ...ours, name: 'ingest.octokit', aim: 0.9, note, against: ({ octokit }) => octokit },
      { ...ours, name: 'ingest.probot', aim: 1.2, against: ({ probot }) => probot },
      { ...row, name: 'ingest.octokit.peer', note: '@octokit/webhooks, no storage', of: ({ octokit }) => octokit },
      { ...row, name: 'ingest.probot.peer', note: 'probot, no storage', of: ({ probot }) => probot },
    );
  },
};

interface Round {
  readonly ours: number;
  readonly takeOver: number;
  readonly octokit: number;
  readonly probot: number;
}

async function measurePeer(peer: 'octokit' | 'probot', bodies: readonly SignedBody[]): Promise<number> {
  const { port, child } = await startPeer(peer);
  try {
    const target = { port, paths: ['/webhooks'] };
    await sendDeliveries(target, bodies, 'warm', WARM_UP);
    return (await sendDeliveries(target, bodies, 'timed', MEASURED)).perSecond;
  } finally {
    child.kill('SIGKILL');
  }
}

function measureDaemon(
  folder: string,
  bodies: readonly SignedBody[],
  { url, apiKey }: { url: string; apiKey: string },
) {
  const count = (condition: string) => countDeliveries(folder, condition);
  return runDaemon({ folder, url, apiKey }, async ({ port }) => {
    const target = { port, paths: [WEBHOOK_PATH] };
    const warm = await sendDeliveries(target, bodies, 'warm', WARM_UP);
    await takenOver(count, warm.answered);
    const timed = await sendDeliveries(target, bodies, 'timed', MEASURED);
    const { waited, left } = await takenOver(count, warm.answered + timed.answered);
    return { ours: timed.perSecond, takeOver: left / waited };
  });
}

/** Durable deliveries per second to 500 workspaces in turn, against those to one of them, by the same process. */
export const manyIngest: Bench = {
  figures: ['many.ingest'],
  run: () => withFleet(500, measureFleet, { mirror: 'off' }),
};

function measureFleet(fleet: Fleet): Promise<Measured[]> {
  return runDaemon(fleet, async ({ port, folder }) => {
    const bodies = pullRequestBodies(256);
    const count = (condition: string) => countDeliveries(folder, condition);
    let acknowledged = 0;
    const measure = async (paths: readonly string[], run: string, ms: number) => {
      const { perSecond, answered } = await sendDeliveries({ port, paths }, bodies, run, ms);
      acknowledged += answered;
      await takenOver(count, acknowledged);
      return perSecond;
    };
    await measure(fleet.paths, 'warm', WARM_UP);
    const rounds: { one: number; spread: number }[] = [];
    for (let round = 0; round < RUNS; round++) {
      const one = await measure(fleet.paths.slice(0, 1), `one-${round}`, MEASURED);
      rounds.push({ one, spread: await measure(fleet.paths, `spread-${round}`, MEASURED) });
    }
    await expectNoRequests({ folder });
    const row = { name: 'many.ingest', unit: 'deliveries/s', better: 'higher', aim: 0.8 } as const;
    return figuresOf(rounds, { ...row, of: ({ spread }) => spread, against: ({ one }) => one });
  });
}

/**
 * Durable signed deliveries of 21 KiB, to several workspaces in turn, as in `ingest`: over PostgreSQL against a file, and to
 * three replicas against one. Seconds of CPU decide: on a machine of two cores three replicas, the server and the load share
 * them. What PostgreSQL itself uses stands in the notes, with the deliveries per second of the wall clock.
 */
export const pgIngest: Bench = {
  figures: ['pg.ingest', 'pg.ingest.three'],
  run: () => withPostgres(measureIngest),
};

const WORKSPACES = 12;
/** Deliveries that each daemon has taken before, so that its code is compiled however busy the machine is. */
const WARM = 2_000;

async function measureIngest(server: BenchServer): Promise<readonly Measured[]> {
  const bodies = pullRequestBodies(256);
  const rounds: { file: Burst; one: Burst; three: Burst }[] = [];
  for (let round = 0; round < RUNS; round++) {
    const file = await measureBurst(bodies, 1);
    const one = await measureBurst(bodies, 1, { server, schema: `one_${round}` });
    rounds.push({ file, one, three: await measureBurst(bodies, 3, { server, schema: `three_${round}` }) });
  }
  const noteOf = (which: 'file' | 'one' | 'three') => costsOf(rounds.map((round) => round[which]));
  const row = { unit: 'deliveries/s of CPU', better: 'higher' } as const;
  return figuresOf(
    rounds,
    {
      ...{ ...row, name: 'pg.ingest', aim: 0.6, of: ({ one }) => perCpu(one), against: ({ file }) => perCpu(file) },
      note: `a file: ${noteOf('file')}; one replica: ${noteOf('one')}`,
    },
    {
      // The rate of three replicas with a core each.
      ...{ ...row, name: 'pg.ingest.three', aim: 1.5, of: ({ three }) => 3 * perCpu(three) },
      ...{ against: ({ one }) => perCpu(one), note: `three replicas: ${noteOf('three')}` },
    },
  );
}

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

function costsOf(bursts: readonly Burst[]): string {
  const sum = (read: (burst: Burst) => number) => bursts.reduce((total, burst) => total + read(burst), 0);
  const accepted = sum((burst) => burst.accepted);
  const each = (seconds: number) => `${Math.round((seconds / accepted) * 1e6)} µs`;
  const wall = Math.round(accepted / sum(({ seconds }) => seconds));
  const server = each(sum(({ serverCpu }) => serverCpu));
  return `${wall} deliveries/s of the wall clock, ${each(sum(({ cpu }) => cpu))} of CPU each, ${server} in PostgreSQL`;
}

/** @param place of the rows, where they are in no file */
function measureBurst(
  bodies: readonly SignedBody[],
  size: number,
  place?: { readonly server: BenchServer; readonly schema: string },
): Promise<Burst> {
  const measure = (fleet: Fleet) => {
    const count: Count = (condition) =>
      place ? place.server.count(`${place.schema}.inbox where ${condition}`) : countDeliveries(fleet.folder, condition);
    return withReplicas(fleet, size, async (replicas) => {
      const send = async (run: string) => {
        const { paths } = fleet;
        const loads = await Promise.all(
          replicas.map(({ port }) => sendDeliveries({ port, paths }, bodies, `${run}-${port}`, MEASURED)),
        );
        return loads.reduce((sum, { answered }) => sum + answered, 0);
      };
      const used = () => ({
        seconds: performance.now() / 1_000,
        cpu: replicas.reduce((sum, { pid }) => sum + usageOf(pid).cpu, 0),
        serverCpu: place?.server.cpu() ?? 0,
      });
      let warm = 0;
      while (warm < WARM * size) warm += await send(`warm-${warm}`);
      await takenOver(count, warm);
      const before = used();
      const accepted = await send('timed');
      const { seconds, cpu, serverCpu } = used();
      await takenOver(count, warm + accepted);
      return {
        ...{ accepted, seconds: seconds - before.seconds },
        ...{ cpu: cpu - before.cpu, serverCpu: serverCpu - before.serverCpu },
      };
    });
  };
  return withFleet(WORKSPACES, measure, { store: place?.server.place(place.schema) });
}
