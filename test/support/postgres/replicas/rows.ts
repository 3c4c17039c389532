import { execFileSync } from 'node:child_process';
import { chownSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { SPECIFIED_QUOTA } from '../../fakes/workspace-service.ts';
import { CAN_MOUNT, mountSmallVolume, type SmallVolume } from '../../faults/small-volume.ts';
import { embeddedPrograms, type PostgresServer, serverUser, startPostgres } from '../postgres-server.ts';
import { type Cluster, type ClusterOptions, startCluster } from './cluster.ts';
import {
  clockSetBack,
  cutOff,
  databaseRestarted,
  diskFull,
  type Fault,
  frozen,
  killed,
  killedWhenUsedUp,
  killedWhileSending,
  promoted,
  upgraded,
} from './faults.ts';

/** A server, and another one that has every commit before it is acknowledged. */
export interface Pair {
  readonly primary: PostgresServer;
  readonly standby: PostgresServer;
  /** The standby takes writes from now on. */
  promote(): Promise<void>;
}

async function startPair(): Promise<Pair> {
  const primary = await startPostgres({ settings: { synchronous_standby_names: '*', synchronous_commit: 'on' } });
  await primary.stop();
  const standby = startPostgres({
    settings: { primary_conninfo: `host=127.0.0.1 port=${primary.port} user=postgres` },
    fill(data, { uid, gid }) {
      execFileSync('cp', ['-a', `${primary.data}/.`, data]);
      const signal = join(data, 'standby.signal');
      writeFileSync(signal, '');
      if (uid !== undefined) chownSync(signal, uid, gid);
    },
  });
  await primary.start();
  const copy = await standby;
  return {
    primary,
    standby: copy,
    async promote() {
      const client = new pg.Client({ connectionString: copy.address });
      await client.connect();
      await client.query('select pg_promote()');
      await client.end();
    },
  };
}

/** A server whose tables are on a small volume, and whose log is elsewhere: so it goes on when the volume is full. */
export interface CrampedServer {
  readonly postgres: PostgresServer;
  readonly volume: SmallVolume;
  close(): void;
}

const BYTES = 200 * 1024 * 1024;

async function startCrampedServer(): Promise<CrampedServer> {
  const volume = mountSmallVolume(BYTES);
  const log = mkdtempSync(join(tmpdir(), 'worksync-postgres-log-'));
  const { uid, gid } = serverUser();
  if (uid !== undefined) chownSync(log, uid, gid as number);
  const close = () => {
    volume.remove();
    rmSync(log, { recursive: true, force: true });
  };
  try {
    const postgres = await startPostgres({
      data: join(volume.path, 'data'),
      fill(data, user) {
        const flags = [
          '-D',
          data,
          '-X',
          log,
          '-U',
          'postgres',
          '--auth=trust',
          '-E',
          'UTF8',
          '--locale=C',
          '--no-sync',
        ];
        execFileSync(join(embeddedPrograms(), 'initdb'), flags, { ...user, stdio: 'pipe' });
      },
    });
    return { postgres, volume, close };
  } catch (error) {
    close();
    throw error;
  }
}

/** A row of the matrix: what happens to three replicas under load. */
export interface Row {
  readonly what: string;
  /** Opens the cluster that the row needs, with the function that closes it. */
  open(): Promise<{ readonly cluster: Cluster; readonly fault: Fault; close(): Promise<void> }>;
}

const ORDINARY = { ample: 9, specified: 2 };

/** The specified one with a long window that a test can see the end of: 50 in two minutes. */
const BRIEF = { ...SPECIFIED_QUOTA, requests: 50, window: 120_000 };

function row(what: string, fault: Fault, options: ClusterOptions = ORDINARY): Row {
  return {
    what,
    async open() {
      const cluster = await startCluster(options);
      return { cluster, fault, close: cluster.close };
    },
  };
}

const PROMOTED: Row = {
  what: 'the database dies and its synchronous standby is promoted',
  async open() {
    const { primary, standby, promote } = await startPair();
    const cluster = await startCluster({ ...ORDINARY, postgres: primary });
    const fault = promoted({ promote, follow: () => cluster.follow(standby) });
    const close = async () => {
      await cluster.close();
      await primary.remove();
    };
    return { cluster, fault, close };
  },
};

const FULL: Row = {
  what: 'the disk of the database is full, and has space again',
  async open() {
    const { postgres, volume, close } = await startCrampedServer();
    const cluster = await startCluster({ ...ORDINARY, postgres });
    return {
      cluster,
      fault: diskFull({ fill: () => volume.fill(), free: volume.free }),
      async close() {
        await cluster.close();
        close();
      },
    };
  },
};

export const ROWS: readonly Row[] = [
  row('one is killed (`kill -9`) while it sends', killed),
  row('one is killed when both windows of some workspaces are used up', killedWhenUsedUp, {
    ...{ ample: 9, specified: 3, quota: BRIEF },
  }),
  row('one is killed, and what it had sent never arrives', killedWhileSending),
  row('one stands still (SIGSTOP), and wakes when its leases are over', frozen),
  row('one is cut from the database, and comes back', cutOff),
  row('the database restarts', databaseRestarted),
  PROMOTED,
  // Only root may mount a volume of its own.
  ...(CAN_MOUNT ? [FULL] : []),
  row('one with a clock an hour ahead, then set right, takes over', clockSetBack, {
    ...ORDINARY,
    preload: { 0: ['clock-ahead.ts'] },
  }),
  row('each in turn becomes the next version, with a migration', upgraded),
  row('40 leases move at once', killed, { ample: 118, specified: 2 }),
];
