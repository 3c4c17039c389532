import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { TTL } from '../../../../src/cluster/term.ts';
import { fullest } from '../../../bench/quota/references/windows.ts';
import { type Cluster, startCluster } from './cluster.ts';
import { isAmple, subjectOf } from './counted-service.ts';
import { createLoad, type Load } from './load.ts';
import { type Replica, until } from './replica.ts';

/** Strikes three replicas under load, and ends when all three work again. */
export type Fault = (cluster: Cluster, load: Load) => Promise<void>;

/** Nine workspaces whose quota is not what a test is about, and two with the specified one. */
export const ORDINARY = { ample: 9, specified: 2 };

export function describeFaults(
  faults: readonly (readonly [what: string, fault: Fault])[],
  open: () => Promise<Cluster> = () => startCluster(ORDINARY),
): void {
  let cluster: Cluster;
  let load: Load;
  beforeAll(async () => {
    // All at once, over an empty database.
    cluster = await open();
    load = createLoad(cluster, { senders: 3, mostSpecified: 60 });
    load.start();
  });
  afterAll(() => cluster.close());

  it.each(faults)('go on when %s', async (_, fault) => {
    await fault(cluster, load);
    expect(cluster.died()).toEqual([]);
  });

  it('have lost and doubled nothing then, and kept both windows', async () => {
    await load.stop();
    await expectGoodEnd(cluster, load);
    expect(load.count().acknowledged).toBeGreaterThan(50);
  });
}

/** Excuses changes that are not sent by now, or of which nobody knows the outcome: each has a row of its own. */
export async function expectGoodEnd(cluster: Cluster, load: Load): Promise<void> {
  await until('all deliveries are taken over', async () => (await cluster.ask(PENDING)).length === 0);
  const rows = await cluster.ask<{ name: string; entity: string }>(WAITING);
  const waiting = new Set(rows.map(({ name, entity }) => `${name} ${entity}`));
  for (const workspace of cluster.workspaces) {
    const { name, titles, arrivals, quota } = workspace;
    const found = await titles();
    const lost = [...(load.acknowledged.get(name) ?? [])].filter(([subject, title]) => {
      const [kind, number] = subject.split(' ');
      const entity = kind === 'Item' ? `task:generic:desk:issue:${number}` : `pull_request:github/5001/${number}`;
      return !found.get(subject)?.includes(title) && !waiting.has(`${name} ${entity}`);
    });
    const doubled = [...found.values()].filter((same) => same.length > 1);
    const made = arrivals().filter(({ method, status }) => method === 'POST' && status === 201);
    const twice = made.length - new Set(made.map(({ path, body }) => `${path} ${body}`)).size;
    const refused = arrivals().filter(({ status }) => status === 429).length;
    expect({ name, lost, doubled, twice, refused }).toEqual({ name, lost: [], doubled: [], twice: 0, refused: 0 });
    if (isAmple(workspace)) continue;
    const times = arrivals().map(({ at }) => at);
    expect(fullest(times, quota.burstWindow)).toBeLessThanOrEqual(quota.burst);
    expect(fullest(times, quota.window)).toBeLessThanOrEqual(quota.requests);
  }
}

const PENDING = `select id from worksync.inbox where state = 'pending' limit 1`;
const WAITING = 'select w.name, o.entity from worksync.outbox o join worksync.workspaces w on w.id = o.workspace';

/** Replicas that live, and are not this one, hold all workspaces; and something that came later has left for each. */
export async function recovered(cluster: Cluster, load: Load, from?: Replica): Promise<void> {
  await until('all workspaces are taken over', async () => {
    const holders = [...((await cluster.holders())?.values() ?? [])];
    return holders.length === cluster.workspaces.length && holders.every((one) => one !== from && one.isAlive());
  });
  const moves = cluster.workspaces.filter(isAmple).map(async (workspace) => {
    const subject = subjectOf(await load.post(workspace));
    const isAbout = ({ body }: { readonly body: string }) => body.includes(`"${subject},`);
    await until(`${workspace.name} moves`, () => workspace.arrivals().some(isAbout));
  });
  await Promise.all(moves);
}

/** Resolves as soon as the record of a pull request is on its way from this replica: it has come, and no answer has left. */
async function isSending({ holders, workspaces }: Cluster, replica: Replica): Promise<void> {
  const held = await holders();
  const own = workspaces.filter(({ name }) => held?.get(name) === replica);
  await until(`${replica.name} sends`, () =>
    own.some(({ arrivals }) =>
      arrivals().some(
        ({ method, path, body, isOver }) =>
          method !== 'GET' && path.includes('/pull-request-records') && body !== '' && !isOver,
      ),
    ),
  );
}

/** The replica of this number, while it sends. */
async function sender(cluster: Cluster, number: number): Promise<Replica> {
  const replica = cluster.replicas[number] as Replica;
  await isSending(cluster, replica);
  return replica;
}

async function replaced(cluster: Cluster, load: Load, victim: Replica, preload?: readonly string[]): Promise<void> {
  await recovered(cluster, load, victim);
  await cluster.restart(cluster.replicas.indexOf(victim), preload);
  await cluster.spread();
}

/** `kill -9`, while the record of a pull request is on its way. */
export const killed: Fault = async (cluster, load) => {
  const victim = await sender(cluster, 0);
  victim.running.child.kill('SIGKILL');
  await replaced(cluster, load, victim);
};

/** Kills a replica whose requests in flight never reach the service. */
export const killedWhileSending: Fault = async (cluster, load) => {
  const doors = new Set(cluster.workspaces.map(({ door }) => door));
  for (const door of doors) door.swallow();
  const victim = await sender(cluster, 0);
  victim.running.child.kill('SIGKILL');
  for (const door of doors) door.release();
  await replaced(cluster, load, victim);
};

/** It stands still while it sends, wakes when others have its workspaces, and takes its share again. */
export const frozen: Fault = async (cluster, load) => {
  const victim = await sender(cluster, 1);
  victim.running.child.kill('SIGSTOP');
  await recovered(cluster, load, victim);
  victim.running.child.kill('SIGCONT');
  await cluster.spread();
};

/** Its line to the database passes nothing; when it does again, it takes its share again. */
export const cutOff: Fault = async (cluster, load) => {
  const victim = await sender(cluster, 2);
  cluster.lines[2]?.cut();
  await recovered(cluster, load, victim);
  cluster.lines[2]?.mend();
  await cluster.spread();
};

/** The database ends, and starts when all leases have expired: all workspaces close, and open again while it is barely there. */
export const databaseRestarted: Fault = async (cluster, load) => {
  await sender(cluster, 0);
  await cluster.postgres().stop();
  await pause(TTL + 1_000);
  await cluster.postgres().start();
  await recovered(cluster, load);
  await cluster.spread();
};

/** The first replica, whose clock was ahead, gets the right one, loses a neighbour, and takes its workspaces over. */
export const clockSetBack: Fault = async (cluster, load) => {
  const victim = await sender(cluster, 1);
  cluster.replicas[0]?.running.child.kill('SIGUSR2');
  victim.running.child.kill('SIGKILL');
  await replaced(cluster, load, victim);
};

/** Each replica in turn ends and starts as the next version; those of today work beside it. */
export const upgraded: Fault = async (cluster, load) => {
  for (const old of [...cluster.replicas]) {
    const ended = old.running.end('SIGTERM');
    await recovered(cluster, load, old);
    await ended;
    await replaced(cluster, load, old, ['next-version.ts']);
    // Both versions work on something that has come since.
    await recovered(cluster, load);
  }
};

/** Takes the space for tables until deliveries are refused, and gives it back. */
export async function diskFull(cluster: Cluster, load: Load, volume: { fill(): void; free(): void }): Promise<void> {
  const { refused } = load.count();
  volume.fill();
  await until('deliveries are refused', () => load.count().refused > refused + 10);
  volume.free();
  await recovered(cluster, load);
}

/** The server of the database dies, and its standby takes its place. */
export async function promoted(cluster: Cluster, load: Load, promote: () => Promise<void>): Promise<void> {
  await sender(cluster, 0);
  await cluster.postgres().kill();
  await promote();
  await recovered(cluster, load);
  await cluster.spread();
}
