import type { SyncError } from '../errors/sync-error.ts';
import type { Cancel, Clock } from '../lib/clock.ts';
import type { DatabaseFault } from '../lib/database-fault.ts';
import type { Logger } from '../lib/logger.ts';
import type { Meter } from '../lib/meter.ts';
import type { Database } from '../lib/sqlite.ts';
import type { Stage } from '../lib/stage.ts';
import type { Health } from '../observe/health.ts';

/** What is watched of a database. */
type Watched = Pick<Database<never>, 'fault' | 'look' | 'probe'>;

/**
 * Knows which workspaces can store webhooks: the process is ready while one of them can, and while the volume has space.
 * What is wrong with one of them is its own affair otherwise.
 */
export interface StoreWatch extends Stage {
  /** Of a store whose state was told to `tell`. */
  add(workspace: string, store: Watched, checkIntegrity: () => Promise<void>): void;
  /** A new fault of a workspace's store, or that it has passed. */
  tell(workspace: string, logger: Logger, fault: DatabaseFault | undefined): void;
  /** A workspace did not open. */
  lost(workspace: string, error: SyncError): void;
}

interface StoreWatchDeps {
  readonly clock: Clock;
  readonly health: Health;
  readonly meter: Meter;
}

/** How often each file is looked at while nothing comes in (else intake looks), milliseconds. */
const LOOK_EVERY = 60_000;
/** How often a fault that may have passed is tested, milliseconds. */
const PROBE_EVERY = 2_000;

export function createStoreWatch({ clock, health, meter }: StoreWatchDeps): StoreWatch {
  const stores = new Map<string, Watched>();
  const checks = new Map<string, () => Promise<void>>();
  /** Workspaces whose disk failed, and has not written again since. */
  const failing = new Set<string>();
  /** Workspace → code of what keeps it from storing; undefined where nothing does. */
  const faults = new Map<string, DatabaseFault['code'] | SyncError['code'] | undefined>();
  let cancel: Cancel | undefined;

  function report(): void {
    const codes = [...faults.values()];
    const isFull = codes.includes('disk_full');
    meter.gauge('disk_full', isFull ? 1 : 0);
    health.set('disk', !isFull, 'disk_full');
    const isUsable = codes.length === 0 || codes.includes(undefined);
    health.set('stores', isUsable, codes[0]);
  }

  function look(): void {
    for (const store of stores.values()) {
      store.look();
      store.probe();
    }
    lookLater();
  }

  function lookLater(): void {
    cancel?.();
    const isWaiting = [...stores.values()].some((store) => store.fault()?.mayPass);
    cancel = clock.after(isWaiting ? PROBE_EVERY : LOOK_EVERY, look);
  }

  return {
    add(workspace, store, checkIntegrity) {
      stores.set(workspace, store);
      checks.set(workspace, checkIntegrity);
      faults.set(workspace, store.fault()?.code);
      report();
    },
    tell(workspace, logger, fault) {
      faults.set(workspace, fault?.code);
      report();
      if (fault) logger.error({ error: fault }, 'the database cannot be used');
      else logger.info({}, 'the database can be used again');
      if (fault?.kind === 'failed') failing.add(workspace);
      else if (failing.delete(workspace) && !fault)
        checks
          .get(workspace)?.()
          .catch((error: unknown) => logger.error({ error }, 'the database could not be checked'));
      if (cancel) lookLater();
    },
    lost(workspace, { code }) {
      faults.set(workspace, code);
      report();
    },
    start: lookLater,
    async stop() {
      cancel?.();
      cancel = undefined;
    },
  };
}
