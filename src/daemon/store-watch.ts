import type { DatabaseFault } from '../platform/database/database-fault.ts';
import type { Database } from '../platform/database/database-types.ts';
import type { Cancel, Clock } from '../platform/lib/clock.ts';
import type { Logger } from '../platform/lib/logger.ts';
import type { Meter } from '../platform/lib/meter.ts';
import type { Stage } from '../platform/lib/stage.ts';
import type { Health } from '../platform/observe/health.ts';

/** The parts of a database that are watched. */
type Watched = Pick<Database<never>, 'fault' | 'look' | 'probe' | 'keptLog' | 'asFile'>;

/** Knows whether this process can store webhooks: whether the database can be used, and whether the volume has space. */
export interface StoreWatch extends Stage {
  /** A new fault of the database, or that it has passed. */
  tell(fault: DatabaseFault | undefined): void;
  /** It is open; from the start on it is looked at. */
  watch(database: Watched, checkIntegrity: () => Promise<void>): void;
}

interface StoreWatchDeps {
  readonly clock: Clock;
  readonly health: Health;
  readonly meter: Meter;
  readonly logger: Logger;
}

/** How often the file is looked at while nothing comes in (else intake looks), milliseconds. */
const LOOK_EVERY = 60_000;
/** How often a fault that may have passed is tested, and a log that could not be emptied, milliseconds. */
const PROBE_EVERY = 2_000;

export function createStoreWatch({ clock, health, meter, logger }: StoreWatchDeps): StoreWatch {
  let database: Watched | undefined;
  let checkIntegrity: () => Promise<void> = async () => undefined;
  /** Whether the disk failed, and has not written again since. */
  let isFailing = false;
  let cancel: Cancel | undefined;

  function report(code: DatabaseFault['code'] | undefined): void {
    const isFull = code === 'disk_full';
    meter.gauge('disk_full', isFull ? 1 : 0);
    health.set('disk', !isFull, 'disk_full');
    health.set('database', code === undefined, code);
  }

  function look(): void {
    database?.look();
    database?.probe();
    if (database) emptyLog(database);
    lookLater();
  }

  function emptyLog({ asFile, keptLog }: Watched): void {
    const before = keptLog();
    try {
      asFile?.emptyLog();
    } catch {
      // The fault is known, and was reported.
    }
    const kept = keptLog();
    meter.gauge('database_log_kept_bytes', kept ?? 0);
    if ((kept === undefined) === (before === undefined)) return;
    if (kept === undefined) logger.info({}, 'the write-ahead log of the database is empty again');
    else
      logger.warn({ bytes: kept }, 'another program reads the database on and on: its write-ahead log grows meanwhile');
  }

  function lookLater(): void {
    cancel?.();
    const isTrying = database?.fault()?.mayPass || database?.keptLog() !== undefined;
    cancel = clock.after(isTrying ? PROBE_EVERY : LOOK_EVERY, look);
  }

  return {
    tell(fault) {
      report(fault?.code);
      if (fault) logger.error({ error: fault }, 'the database cannot be used');
      else logger.info({}, 'the database can be used again');
      if (isFailing && !fault)
        checkIntegrity().catch((error: unknown) => logger.error({ error }, 'the database could not be checked'));
      isFailing = fault?.kind === 'failed';
      if (cancel) lookLater();
    },
    watch(opened, check) {
      database = opened;
      checkIntegrity = check;
      report(opened.fault()?.code);
    },
    start: lookLater,
    async stop() {
      cancel?.();
      cancel = undefined;
    },
  };
}
