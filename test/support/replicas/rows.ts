import { CAN_MOUNT } from '../small-volume.ts';
import { SPECIFIED_QUOTA } from '../workspace-service.ts';
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
import { startCrampedServer } from './full-volume.ts';
import { startPair } from './standby.ts';

/** A row of the matrix: what happens to three replicas under load. */
export interface Row {
  readonly what: string;
  /** What it needs, and how that ends. */
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
