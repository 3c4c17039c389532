import { setTimeout as pause } from 'node:timers/promises';
import { TTL } from '../../../../src/cluster/term.ts';
import type { Cluster } from './cluster.ts';
import { allMove, haveTasks, isSending, isUsedUp, takenOver } from './figures.ts';
import type { Load } from './load.ts';
import { type Replica, until } from './replica.ts';

/** Effect of a fault on the work, milliseconds. */
export interface Struck {
  /** When it struck, or ended where nobody can work meanwhile. */
  readonly since: number;
  /** From then on until replicas that live hold all workspaces. */
  readonly takeover: number;
  /** From then on until something that came later has left for each workspace. */
  readonly moving: number;
}

export type Fault = (cluster: Cluster, load: Load) => Promise<Struck>;

async function measured(cluster: Cluster, load: Load, since: number, from?: Replica): Promise<Struck> {
  const [takeover, moving] = await Promise.all([takenOver(cluster, since, from), allMove(cluster, load, since)]);
  return { since, takeover, moving };
}

function replicaOf({ replicas }: Cluster, number: number): Replica {
  return replicas[number] as Replica;
}

/** `kill -9`, while the record of a pull request is on its way. */
export const killed: Fault = async (cluster, load) => {
  const victim = replicaOf(cluster, 0);
  await isSending(cluster, victim);
  victim.running.child.kill('SIGKILL');
  return measured(cluster, load, performance.now(), victim);
};

/** Kills a replica when the quota of some workspaces is used up for a while. */
export const killedWhenUsedUp: Fault = async (cluster, load) => {
  await isUsedUp(cluster);
  return killed(cluster, load);
};

/**
 * Kills a replica whose requests in flight never reach the service. Each workspace has a task of worksync before: a list
 * without any shows nothing about a lost creation, and a person must decide.
 */
export const killedWhileSending: Fault = async (cluster, load) => {
  const victim = replicaOf(cluster, 0);
  await haveTasks(cluster);
  const doors = new Set(cluster.workspaces.map(({ door }) => door));
  for (const door of doors) door.swallow();
  await isSending(cluster, victim);
  victim.running.child.kill('SIGKILL');
  const since = performance.now();
  for (const door of doors) door.release();
  return measured(cluster, load, since, victim);
};

/** It stands still while it sends, wakes when others have its workspaces, and takes its share again. */
export const frozen: Fault = async (cluster, load) => {
  const victim = replicaOf(cluster, 1);
  await isSending(cluster, victim);
  victim.running.child.kill('SIGSTOP');
  const struck = await measured(cluster, load, performance.now(), victim);
  victim.running.child.kill('SIGCONT');
  await cluster.spread();
  return struck;
};

/** Its line to the database passes nothing; when it does again, it takes its share again. */
export const cutOff: Fault = async (cluster, load) => {
  const victim = replicaOf(cluster, 2);
  await isSending(cluster, victim);
  cluster.lines[2]?.cut();
  const struck = await measured(cluster, load, performance.now(), victim);
  cluster.lines[2]?.mend();
  await cluster.spread();
  return struck;
};

/** How long the database is away, milliseconds. */
const LONGER_THAN_LEASES = TTL + 1_000;

/** The database ends, and starts when all leases have expired: all workspaces close, and open again while it is barely there. */
export const databaseRestarted: Fault = async (cluster, load) => {
  await isSending(cluster, replicaOf(cluster, 0));
  await cluster.postgres().stop();
  await pause(LONGER_THAN_LEASES);
  await cluster.postgres().start();
  const struck = await measured(cluster, load, performance.now());
  await cluster.spread();
  return struck;
};

/** One replica gets another clock than the others, loses a neighbour, and takes its workspaces over. */
export const clockSetBack: Fault = async (cluster, load) => {
  const victim = replicaOf(cluster, 1);
  await isSending(cluster, victim);
  replicaOf(cluster, 0).running.child.kill('SIGUSR2');
  victim.running.child.kill('SIGKILL');
  return measured(cluster, load, performance.now(), victim);
};

/** Each replica in turn ends and starts as the next version; those of today work beside it. */
export const upgraded: Fault = async (cluster, load) => {
  let slowest: Struck = { since: performance.now(), takeover: 0, moving: 0 };
  for (const number of cluster.replicas.keys()) {
    const old = replicaOf(cluster, number);
    const since = performance.now();
    const ended = old.running.end('SIGTERM');
    const { takeover, moving } = await measured(cluster, load, since, old);
    await ended;
    await cluster.restart(number, ['next-version.ts']);
    await cluster.spread();
    // Both versions work on something that has come since.
    const both = await allMove(cluster, load, performance.now());
    slowest = {
      since: performance.now(),
      takeover: Math.max(slowest.takeover, takeover),
      moving: Math.max(slowest.moving, moving, both),
    };
  }
  return slowest;
};

/** @param fill takes the space for tables; @param free gives it back */
export function diskFull({ fill, free }: { fill: () => void; free: () => void }): Fault {
  return async (cluster, load) => {
    const { refused } = load.count();
    fill();
    await until('deliveries are refused', () => load.count().refused > refused + REFUSALS);
    free();
    return measured(cluster, load, performance.now());
  };
}

const REFUSALS = 10;

/** The server of the database dies, and its standby takes its place. */
export function promoted({ promote, follow }: { promote: () => Promise<void>; follow: () => void }): Fault {
  return async (cluster, load) => {
    await isSending(cluster, replicaOf(cluster, 0));
    await cluster.postgres().kill();
    await promote();
    follow();
    const struck = await measured(cluster, load, performance.now());
    await cluster.spread();
    return struck;
  };
}
