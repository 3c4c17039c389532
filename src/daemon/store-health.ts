import { rm, statfs } from 'node:fs/promises';
import { dirname } from 'node:path';
import { SyncError } from '../model/errors.ts';
import type { DatabaseFault } from '../platform/database/database-fault.ts';
import type { Database } from '../platform/database/database-types.ts';
import type { Cancel } from '../platform/lib/clock.ts';
import type { Job } from '../platform/lib/scheduler.ts';
import type { Installation } from '../store/installation/installation.ts';
import type { DaemonContext, ProcessContext } from './daemon-context.ts';

type MonitoredDatabase = Pick<Database<never>, 'fault' | 'checkFileReplaced' | 'probe' | 'keptLog' | 'asFile'>;

/** Monitors whether this process can store webhooks: whether the database works, and whether the volume has space. */
export type StoreHealth = ReturnType<typeof createStoreHealth>;

/** Time between two checks, milliseconds. While deliveries arrive, intake checks too. */
const CHECK_EVERY = 60_000;
/** Time between two checks while a fault may pass, or the log cannot be emptied, milliseconds. */
const PROBE_EVERY = 2_000;

export function createStoreHealth({ clock, health, metrics: { meter }, logger }: ProcessContext) {
  let database: MonitoredDatabase | undefined;
  let checkIntegrity: () => Promise<void> = async () => undefined;
  /** Whether the disk failed and has not worked again since. */
  let isFailing = false;
  let cancel: Cancel | undefined;

  function report(code: DatabaseFault['code'] | undefined): void {
    const isFull = code === 'disk_full';
    meter.gauge('disk_full', isFull ? 1 : 0);
    health.set('disk', !isFull, 'disk_full');
    health.set('database', code === undefined, code);
  }

  function check(): void {
    database?.checkFileReplaced();
    database?.probe();
    if (database) emptyLog(database);
    scheduleCheck();
  }

  function emptyLog({ asFile, keptLog }: MonitoredDatabase): void {
    const before = keptLog();
    try {
      asFile?.emptyLog();
    } catch {
      // The database has recorded the fault already.
    }
    const kept = keptLog();
    meter.gauge('database_log_kept_bytes', kept ?? 0);
    if ((kept === undefined) === (before === undefined)) return;
    if (kept === undefined) logger.info({}, 'the write-ahead log of the database is empty again');
    else
      logger.warn({ bytes: kept }, 'another program reads the database on and on: its write-ahead log grows meanwhile');
  }

  function scheduleCheck(): void {
    cancel?.();
    const isProbing = database?.fault()?.mayPass || database?.keptLog() !== undefined;
    cancel = clock.after(isProbing ? PROBE_EVERY : CHECK_EVERY, check);
  }

  return {
    /** Records a new fault of the database, or its end. */
    record(fault: DatabaseFault | undefined) {
      report(fault?.code);
      if (fault) logger.error({ error: fault }, 'the database cannot be used');
      else logger.info({}, 'the database can be used again');
      if (isFailing && !fault)
        checkIntegrity().catch((error: unknown) => logger.error({ error }, 'the database could not be checked'));
      isFailing = fault?.kind === 'failed';
      if (cancel) scheduleCheck();
    },
    /** Sets the database to monitor, which opens after this monitor is created. */
    watch(opened: MonitoredDatabase, check: () => Promise<void>) {
      database = opened;
      checkIntegrity = check;
      report(opened.fault()?.code);
    },
    start: scheduleCheck,
    async stop() {
      cancel?.();
      cancel = undefined;
    },
  };
}

/** Time between two integrity checks, milliseconds. */
const INTEGRITY_EVERY = 7 * 86_400_000;
/** Space that a copy must leave free on the volume, bytes. */
const LEFT_FREE = 64 * 1024 * 1024;

/**
 * Returns the weekly job that checks the whole database, because damage may stay undetected for months in pages that no query reads.
 * It checks a copy in a worker thread. The copy grows in small steps while other work goes on.
 */
export function integrityJob(daemon: DaemonContext): Job {
  return { name: 'integrity', when: { everyMs: INTEGRITY_EVERY }, run: () => checkIntegrity(daemon) };
}

/** Checks a copy of the file; damage becomes a fault of the database. Throws `disk_full` if there is no space for the copy. */
export async function checkIntegrity({ installation: database, checkFile, logger }: DaemonContext): Promise<void> {
  // A database server has checks of its own.
  if (!database.asFile) return;
  const copy = `${database.file}.check`;
  await removeDatabase(copy);
  await requireSpace(database);
  try {
    await database.asFile.backup(copy);
    const complaints = await checkFile(copy);
    for (const complaint of complaints) database.condemn(complaint);
    if (complaints.length === 0) logger.info({ bytes: database.size() }, 'the database is intact');
  } finally {
    await removeDatabase(copy);
  }
}

async function requireSpace({ file, size }: Installation): Promise<void> {
  const { bavail, bsize } = await statfs(dirname(file));
  const needed = size() + LEFT_FREE;
  if (bavail * bsize >= needed) return;
  const hint = `Leave ${Math.ceil(needed / 1e6)} MB free on the volume of the data folder: worksync checks a copy of the database.`;
  throw new SyncError('disk_full', `${file} could not be checked: there is no space for a copy`, { hint });
}

async function removeDatabase(file: string): Promise<void> {
  for (const suffix of ['', '-wal', '-shm', '-journal']) await rm(file + suffix, { force: true });
}
