import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { CAN_MOUNT } from '../support/faults/small-volume.ts';
import { type Cluster, startCluster } from '../support/postgres/replicas/cluster.ts';
import {
  clockSetBack,
  describeFaults,
  diskFull,
  expectGoodEnd,
  killedWhileSending,
  ORDINARY,
  promoted,
  recovered,
  upgraded,
} from '../support/postgres/replicas/faults.ts';
import { createLoad } from '../support/postgres/replicas/load.ts';
import { until } from '../support/postgres/replicas/replica.ts';
import { startCrampedServer, startPair } from '../support/postgres/replicas/servers.ts';

/** The other faults of three replicas are played by `test/deep/replicas.test.ts`. */
describe('three replicas under load', () => {
  describeFaults([
    ['one is killed, and what it had sent never arrives', killedWhileSending],
    ['each in turn becomes the next version, with a migration', upgraded],
  ]);
});

describe('three replicas, of which one has a clock that is an hour ahead,', () => {
  const open = () => startCluster({ ...ORDINARY, preload: { 0: ['clock-ahead.ts'] } });
  describeFaults([['it is set right, and takes over', clockSetBack]], open);
});

describe('three replicas over a database with a synchronous standby', () => {
  let pair: Awaited<ReturnType<typeof startPair>>;
  const open = async () => {
    pair = await startPair();
    const cluster = await startCluster({ ...ORDINARY, postgres: pair.primary });
    const close = async () => {
      await cluster.close();
      await pair.primary.remove();
    };
    return { ...cluster, close };
  };
  const promote = async (cluster: Cluster) => {
    await pair.promote();
    cluster.follow(pair.standby);
  };
  describeFaults([['it dies', (cluster, load) => promoted(cluster, load, () => promote(cluster))]], open);
});

// Only root may mount a volume of its own.
describe.skipIf(!CAN_MOUNT)('three replicas over a database on a small disk', () => {
  let server: Awaited<ReturnType<typeof startCrampedServer>>;
  const open = async () => {
    server = await startCrampedServer();
    const cluster = await startCluster({ ...ORDINARY, postgres: server.postgres });
    const close = async () => {
      await cluster.close();
      server.close();
    };
    return { ...cluster, close };
  };
  describeFaults(
    [['it is full, and has space again', (cluster, load) => diskFull(cluster, load, server.volume)]],
    open,
  );
});

it('sends at most one late request if a process is suspended between its lease check and the write', async () => {
  const cluster = await startCluster({ ample: 9, specified: 0, preload: { 0: ['stop-before-write.ts'] } });
  try {
    const load = createLoad(cluster, { senders: 3, mostSpecified: 0 });
    load.start();
    const victim = cluster.replicas[0] as Cluster['replicas'][number];
    victim.running.child.kill('SIGUSR2');
    // As the kernel says it: `T` behind the name.
    const stat = `/proc/${victim.running.child.pid}/stat`;
    await until('it stands still', () => /\) T /.test(readFileSync(stat, 'utf8')));
    const holders = await cluster.holders();
    const own = cluster.workspaces.filter(({ name }) => holders?.get(name) === victim);
    await recovered(cluster, load, victim);
    await load.stop();
    // From now on nobody has anything to send but the one that stands still.
    await until('nothing is due', async () => (await cluster.ask(DUE)).length === 0);
    const count = () => own.reduce((sum, { arrivals }) => sum + arrivals().length, 0);
    const before = count();
    victim.running.child.kill('SIGCONT');
    await cluster.spread();
    // None where it had to connect first: it finds its leases over before it can write.
    expect(count() - before).toBeLessThanOrEqual(1);
    await expectGoodEnd(cluster, load);
  } finally {
    await cluster.close();
  }
});

const DUE = `select 1 from worksync.inbox where state = 'pending' union all select 1 from worksync.outbox
  where state = 'sending' or (state = 'pending' and not_before <= extract(epoch from clock_timestamp()) * 1000)`;
