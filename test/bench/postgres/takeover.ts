import { setTimeout as pause } from 'node:timers/promises';
import { type Bench, expectPremise, figure, type Measured } from '../bench.ts';
import { until } from '../daemon.ts';
import { pullRequestBodies, type SignedBody } from '../deliveries.ts';
import { type Fleet, withFleet } from '../fleet.ts';
import { deliver } from '../load.ts';
import { createChance } from '../quota/references/chance.ts';
import { quantile } from '../quota/references/lag.ts';
import {
  type BenchServer,
  killReplica,
  type Replica,
  startReplica,
  untilSpread,
  withPostgres,
  withReplicas,
} from './server.ts';

const WORKSPACES = 60;
const KILLS = 50;
const REPLICAS = 3;
const SCHEMA = 'takeover';
/** Leases are renewed so often, milliseconds: kills fall anywhere within. */
const RENEWED_EVERY = 500;
const LOOK = 10;

/**
 * Seconds from the `kill -9` of one of three daemons until each of its workspaces is worked on again: right after the kill a
 * survivor takes a webhook for each of them, and the last of these has been taken over by reconcile. Nothing is replaced: real
 * daemons, each kill at a moment of its own between two renewals.
 */
export const pgTakeover: Bench = {
  figures: ['pg.takeover', 'pg.takeover.max'],
  run: ({ split: { seeds } }) =>
    withPostgres((server) => {
      const given = { store: server.place(SCHEMA), mirror: 'off' } as const;
      return withFleet(WORKSPACES, (fleet) => measureTakeover(server, fleet, seeds[0] ?? 1), given);
    }),
};

async function measureTakeover(server: BenchServer, fleet: Fleet, seed: number): Promise<readonly Measured[]> {
  const chance = createChance(seed);
  const bodies = pullRequestBodies(WORKSPACES);
  const seconds: number[] = [];
  await withReplicas(fleet, REPLICAS, async (replicas) => {
    for (let kill = 0; kill < KILLS; kill++) {
      await untilSpread(server, SCHEMA, WORKSPACES / REPLICAS, REPLICAS);
      await pause(chance.between(0, RENEWED_EVERY));
      const survivor = replicas[1 + (kill % (REPLICAS - 1))] as Replica;
      seconds.push(await measureKill(server, replicas[0] as Replica, { survivor, bodies, run: `kill-${kill}` }));
      replicas.shift();
      replicas.push(await startReplica(fleet, `replica-${REPLICAS + kill}`));
    }
  });
  const note = `${KILLS} kills of a daemon with ${WORKSPACES / REPLICAS} of ${WORKSPACES} workspaces`;
  return [
    figure({ name: 'pg.takeover', unit: 's', aim: 4, note: `95 of 100 kills: ${note}` }, [quantile(seconds, 0.95)]),
    figure({ name: 'pg.takeover.max', unit: 's', aim: 5, note }, [Math.max(...seconds)]),
  ];
}

async function measureKill(
  server: BenchServer,
  victim: Replica,
  { survivor, bodies, run }: { survivor: Replica; bodies: readonly SignedBody[]; run: string },
): Promise<number> {
  const { names } = await server.ask<{ names: readonly string[] }>(
    `select coalesce(json_agg(name), '[]') as names from ${SCHEMA}.leases join ${SCHEMA}.replicas using (incarnation)
      join ${SCHEMA}.workspaces on workspaces.id = workspace where address like '%:${victim.port}'`,
  );
  expectPremise(names.length === WORKSPACES / REPLICAS, `the killed daemon owns ${names.length} workspaces`);
  const begin = performance.now();
  await killReplica(victim);
  await Promise.all(
    names.map((name, index) =>
      deliver({ port: survivor.port, path: `/webhooks/${name}/github` }, bodies[index] as SignedBody, `${run}-${name}`),
    ),
  );
  const applied = `${SCHEMA}.inbox where state = 'applied' and delivery_key like '${run}-%'`;
  await until(async () => (await server.count(applied)) === names.length, LOOK);
  return (performance.now() - begin) / 1_000;
}
