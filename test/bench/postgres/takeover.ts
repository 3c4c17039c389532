import { rmSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import type { Bench } from '../bench.ts';
import { pullRequestBodies, type SignedBody } from '../deliveries.ts';
import { deliver } from '../load.ts';
import { createFleet, NOWHERE } from '../many/workspaces.ts';
import { createChance } from '../quota/references/chance.ts';
import { figure, type Measured } from '../report.ts';
import { killReplica, type Replica, startReplica, stopReplicas } from './replicas.ts';
import { type BenchServer, withPostgres } from './server.ts';

/**
 * Seconds from the `kill -9` of one of three daemons until each of its workspaces is worked on again: right after the kill a
 * survivor takes a webhook for each of them, and the last of these has been taken over by reconcile. Nothing is replaced: real
 * daemons, each kill at a moment of its own between two renewals.
 */
export const pgTakeover: Bench = {
  figures: ['pg.takeover', 'pg.takeover.max'],
  run: ({ split: { seeds } }) =>
    withPostgres((server) => measureTakeover(server, { workspaces: 60, kills: 50, seed: seeds[0] ?? 1 })),
};

interface TakeoverPlan {
  readonly workspaces: number;
  readonly kills: number;
  readonly seed: number;
}

const REPLICAS = 3;
const SCHEMA = 'takeover';
/** Leases are renewed so often, milliseconds: kills fall anywhere within. */
const RENEWED_EVERY = 500;
const LOOK = 10;
/** Given up after this time, milliseconds. */
const LONGEST = 60_000;

async function measureTakeover(server: BenchServer, plan: TakeoverPlan): Promise<readonly Measured[]> {
  const store = server.place(SCHEMA);
  const fleet = await createFleet(plan.workspaces, store);
  const chance = createChance(plan.seed);
  const bodies = pullRequestBodies(plan.workspaces);
  const started = { count: 0 };
  const start = () =>
    startReplica(
      { folder: fleet.folder, config: fleet.config, store, url: NOWHERE, apiKey: '' },
      `replica-${started.count++}`,
    );
  const replicas: Replica[] = [];
  const seconds: number[] = [];
  try {
    while (replicas.length < REPLICAS) replicas.push(await start());
    for (let kill = 0; kill < plan.kills; kill++) {
      await untilSpread(server, plan.workspaces);
      await pause(chance.between(0, RENEWED_EVERY));
      const survivor = replicas[1 + (kill % (REPLICAS - 1))] as Replica;
      const victim = replicas[0] as Replica;
      seconds.push(await measureKill(server, victim, { survivor, bodies, run: `kill-${kill}` }));
      replicas.shift();
      replicas.push(await start());
    }
    await stopReplicas(replicas);
  } finally {
    for (const replica of replicas) await killReplica(replica);
    rmSync(fleet.folder, { recursive: true, force: true });
  }
  const sorted = seconds.toSorted((left, right) => left - right);
  const p95 = sorted[Math.ceil(sorted.length * 0.95) - 1] ?? Number.NaN;
  const meaning = { unit: 's', better: 'lower' } as const;
  const note = `${plan.kills} kills of a daemon with ${plan.workspaces / REPLICAS} of ${plan.workspaces} workspaces`;
  return [
    figure({ ...meaning, name: 'pg.takeover', aim: 4, note: `95 of 100 kills: ${note}` }, [p95]),
    figure({ ...meaning, name: 'pg.takeover.max', aim: 5, note }, [sorted.at(-1) ?? Number.NaN]),
  ];
}

async function measureKill(
  server: BenchServer,
  victim: Replica,
  { survivor, bodies, run }: { survivor: Replica; bodies: readonly SignedBody[]; run: string },
): Promise<number> {
  const names = await namesHeldBy(server, victim);
  const begin = performance.now();
  await killReplica(victim);
  await Promise.all(
    names.map((name, index) =>
      deliver({ port: survivor.port, path: `/webhooks/${name}/github` }, bodies[index] as SignedBody, `${run}-${name}`),
    ),
  );
  const waiting = `select count(*)::int as count from ${SCHEMA}.inbox where state = 'pending' and delivery_key like '${run}-%'`;
  await until(async () => (await server.ask<{ count: number }>(waiting)).count === 0, begin);
  return (performance.now() - begin) / 1_000;
}

const HELD = `${SCHEMA}.leases join ${SCHEMA}.replicas using (incarnation)`;

async function namesHeldBy(server: BenchServer, { port }: Replica): Promise<readonly string[]> {
  const { names } = await server.ask<{ names: readonly string[] }>(
    `select coalesce(json_agg(name), '[]') as names from ${HELD} join ${SCHEMA}.workspaces on workspaces.id = workspace
      where address like '%:${port}'`,
  );
  return names;
}

/** Until each of them has as many workspaces as the others. */
async function untilSpread(server: BenchServer, workspaces: number): Promise<void> {
  const share = workspaces / REPLICAS;
  const spread = `select count(*)::int as count from
    (select incarnation from ${HELD} group by incarnation having count(*) = ${share}) as full_ones`;
  await until(async () => (await server.ask<{ count: number }>(spread)).count === REPLICAS, performance.now());
}

async function until(isDone: () => Promise<boolean>, begin: number): Promise<void> {
  while (!(await isDone())) {
    if (performance.now() - begin > LONGEST)
      throw new Error('the workspaces of a daemon that was killed are not taken over');
    await pause(LOOK);
  }
}
