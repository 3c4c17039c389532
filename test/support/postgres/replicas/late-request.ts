import { readFileSync } from 'node:fs';
import { type Cluster, startCluster } from './cluster.ts';
import { allDone, allMove, allRecorded, nothingDue, type Outcome, outcomeOf, takenOver } from './figures.ts';
import { createLoad } from './load.ts';
import { until } from './until.ts';

/** Actions of a process that was paused between its last check of the lease and the write of the bytes. */
export interface Late extends Outcome {
  /** Requests that it sent though others owned the workspace. */
  readonly late: number;
}

/** The one case that no fence reaches: the process wakes when others have its workspaces, and the request leaves. */
export async function lateRequest(): Promise<Late> {
  const cluster = await startCluster({ ample: 9, specified: 0, preload: { 0: ['stop-before-write.ts'] } });
  try {
    const load = createLoad(cluster, { senders: 3, mostSpecified: 0 });
    load.start();
    const victim = cluster.replicas[0] as Cluster['replicas'][number];
    victim.running.child.kill('SIGUSR2');
    await until('it stands still', () => isStopped(victim.running.child.pid as number));
    const own = [...((await cluster.holders()) ?? [])].filter(([, one]) => one === victim).map(([name]) => name);
    const since = performance.now();
    await takenOver(cluster, since, victim);
    await allMove(cluster, load, since);
    await load.stop();
    // From now on nobody has anything to send but the one that stands still.
    await nothingDue(cluster);
    const keys = new Set(cluster.workspaces.filter(({ name }) => own.includes(name)).map(({ key }) => key));
    const count = () =>
      new Set(cluster.workspaces.map(({ door }) => door))
        .values()
        .toArray()
        .flatMap(({ arrivals }) => arrivals)
        .filter(({ key }) => keys.has(key)).length;
    const before = count();
    victim.running.child.kill('SIGCONT');
    await cluster.spread();
    const late = count() - before;
    await allRecorded(cluster.workspaces, load, since);
    await allDone(cluster);
    return { late, ...(await outcomeOf(cluster, load)) };
  } finally {
    await cluster.close();
  }
}

/** As the kernel says it: `T` behind the name. */
function isStopped(pid: number): boolean {
  return /\) T /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
}
