// Design: src/decisions/database.md, src/decisions/leases.md

import { createHmac } from 'node:crypto';
import { rm, statfs } from 'node:fs/promises';
import { hostname } from 'node:os';
import { dirname } from 'node:path';
import { type ClockOffset, createClockOffset, ledgerClock, offsetClock } from '../cluster/clock-offset.ts';
import { type LeaseHolder, soleHolder } from '../cluster/lease-holder.ts';
import { createPostgresLeaseHolder } from '../cluster/postgres-holder.ts';
import { SyncError } from '../model/errors.ts';
import type { WorkspaceConfig } from '../platform/config/schema.ts';
import type { DatabaseFault } from '../platform/database/database-fault.ts';
import type { Database, OpenOptions } from '../platform/database/database-types.ts';
import { type Cancel, type Clock, createSuspendAwareClock, type Random } from '../platform/lib/clock.ts';
import { doAll } from '../platform/lib/concurrency.ts';
import { sharedFileSystemOf } from '../platform/lib/folders.ts';
import { KeyFileError, makeKeyFile, readKeyFile } from '../platform/lib/key-file.ts';
import type { Job } from '../platform/lib/scheduler.ts';
import { createSecretBox, type SecretBox } from '../platform/lib/secret-box.ts';
import { bumpClockEra, readClockEra } from '../store/installation/clock-changes.ts';
import { type Installation, openInstallation, openSharedInstallation } from '../store/installation/installation.ts';
import { serverTime } from '../store/installation/leases.ts';
import type { Schema } from '../store/schema/tables.ts';
import type { DaemonContext, ProcessContext, ProcessSettings, SharedDatabase } from './daemon-context.ts';

/** The open database, and the holder of the leases of its workspaces. */
export interface OpenStore {
  readonly installation: Installation;
  readonly holder: LeaseHolder;
  /** The wall clock that all processes over the database share. */
  readonly clock: Clock;
  /** Returns the clock for the ledger of a workspace that opens now. */
  ledgerClock(): Promise<Clock>;
  /** Whether other processes may own workspaces of this database. */
  readonly isShared: boolean;
  /**
   * Sets the ports at which this process listens, so that other processes can reach it. An option may name another host.
   *
   * @param adminPort absent: the pages have no port of their own
   */
  listensAt(port: number, adminPort?: number): void;
  close(): Promise<void>;
}

/** Timeout of a lease renewal, milliseconds: shorter than the time for which leases are trusted. */
const RENEW_TIMEOUT = 2_000;

/**
 * Opens the file in the data folder, or the PostgreSQL database that several processes share.
 *
 * @param workspaces returns the configured workspaces, which change with each reload
 */
export async function openStore(
  context: ProcessContext & ProcessSettings,
  folder: string,
  workspaces: () => readonly WorkspaceConfig[],
  onFault: OpenOptions['onFault'],
): Promise<OpenStore> {
  const { options, secretKey, random, steps, checkFile, onStatement } = context;
  const { store } = options;
  const opening = { random, steps, checkFile, onFault, onStatement };
  if (store === undefined && !context.openShared) return openFile(context, folder, opening);
  if (!secretKey) throw keyMissing();
  const database = await (context.openShared?.() ?? openServer(store ?? '', opening));
  return openShared(context, database, createConfigDigest(secretKey, workspaces));
}

type Opening = Omit<OpenOptions, 'file' | 'migrations'> & Pick<ProcessContext, 'random'>;

const ON_SHARED =
  'the data folder lies on a file system that machines share: SQLite cannot rely on its locks; use a local disk or PostgreSQL';

async function openFile(context: ProcessContext, folder: string, opening: Opening): Promise<OpenStore> {
  const fileSystem = sharedFileSystemOf(folder);
  if (fileSystem !== undefined) context.logger.warn({ folder, fileSystem }, ON_SHARED);
  const installation = await openInstallation(folder, opening);
  return byLocalClock(context, installation, false, () => installation.close());
}

/** Returns a store whose only clock is that of this process. */
function byLocalClock(
  { clock, createLeaseHolder }: ProcessContext,
  installation: Installation,
  isShared: boolean,
  close: () => Promise<void>,
): OpenStore {
  const holder = createLeaseHolder?.(installation) ?? soleHolder;
  return { installation, holder, clock, isShared, ledgerClock: async () => clock, listensAt: () => undefined, close };
}

async function openServer(address: string, opening: Opening): Promise<SharedDatabase> {
  const installation = await openSharedInstallation(address, opening);
  // Imported here, so that a daemon over a file does not load the driver.
  const { openApart } = await import('../platform/database/postgres.ts');
  const leaseDatabase = await openApart<Schema>({ file: address, within: RENEW_TIMEOUT });
  return { installation, leaseDatabase, time: serverTime };
}

async function openShared(
  context: ProcessContext & ProcessSettings,
  { installation, leaseDatabase, time: storeTime }: SharedDatabase,
  configDigest: () => string,
): Promise<OpenStore> {
  const { random, logger, options, version } = context;
  const { replicaAddress } = options;
  const close = () => doAll([() => leaseDatabase.close(), () => installation.close()]);
  if (context.createLeaseHolder) return byLocalClock(context, installation, true, close);
  const suspendAwareClock = createSuspendAwareClock(context.clock);
  const elapsed = () => {
    suspendAwareClock.update();
    return suspendAwareClock.now();
  };
  const storeClock = createClockOffset();
  let address = replicaAddress ?? '';
  let adminAddress: string | undefined;
  const facts = { version, startedAt: context.clock.now(), host: hostname() };
  try {
    await sampleClock(installation, storeClock, elapsed);
  } catch (error) {
    await close();
    throw error;
  }
  const clock = offsetClock(context.clock, storeClock, elapsed);
  const holder = createPostgresLeaseHolder({
    database: leaseDatabase,
    storeTime,
    storeClock,
    random,
    logger,
    elapsed,
    after: clock.after,
    facts: () => ({ ...facts, adminAddress, config: configDigest() }),
    address: () => address,
    async onClockSet() {
      logger.warn({}, 'the clock of PostgreSQL was set: what the quota ledgers hold counts for one more window');
      await bumpClockEra(installation);
    },
    onTakeover: (workspaces) => context.metrics.meter.count('lease_takeovers_total', {}, workspaces),
  });
  return {
    installation,
    holder,
    clock,
    isShared: true,
    close,
    async ledgerClock() {
      const timeline = await sampleClock(installation, storeClock, elapsed);
      return ledgerClock(clock, `${timeline}.${await readClockEra(installation.query)}`, {
        store: storeClock,
        elapsed,
      });
    },
    listensAt(port, adminPort) {
      address = replicaAddress ?? `http://${hostname()}:${port}`;
      const { protocol, hostname: host } = new URL(address);
      adminAddress = adminPort === undefined ? undefined : `${protocol}//${host}:${adminPort}`;
    },
  };
}

/** Reads the time of the database server and adds it to the samples. @returns the name of the server's clock */
async function sampleClock(
  installation: Installation,
  storeClock: ClockOffset,
  elapsed: () => number,
): Promise<string> {
  const began = elapsed();
  const { now, clock } = await serverOf(installation).time();
  storeClock.addSample(now, { began, ended: elapsed() });
  return clock;
}

export function serverOf({ asServer }: Installation): NonNullable<Installation['asServer']> {
  if (!asServer) throw new SyncError('internal', 'a file is no server');
  return asServer;
}

/**
 * Creates a function that hashes the configuration of all workspaces, in any order of their files. It is keyed, so that a hash
 * reveals nothing about secrets in the configuration. The last hash is cached.
 */
function createConfigDigest(key: Buffer, configured: () => readonly WorkspaceConfig[]): () => string {
  let cached: { readonly workspaces: readonly WorkspaceConfig[]; readonly digest: string } | undefined;
  return () => {
    const workspaces = configured();
    if (cached?.workspaces !== workspaces) {
      const texts = workspaces.map((config) => JSON.stringify({ ...config, file: '' })).sort();
      const digest = createHmac('sha256', key).update(texts.join('\n')).digest('hex').slice(0, 16);
      cached = { workspaces, digest };
    }
    return cached.digest;
  };
}

function keyMissing(): SyncError {
  return new SyncError('secret_key_missing', 'a PostgreSQL is configured, and WORKSYNC_SECRET_KEY is not', {
    hint: 'Give all replicas the same key, by WORKSYNC_SECRET_KEY or WORKSYNC_SECRET_KEY_FILE: a key file beside a database would be another one on each machine. Make one with: openssl rand -base64 32',
  });
}

/**
 * Returns the box for values that the database stores encrypted. Its key comes from the environment, or from a file beside the
 * database that is created at the first use. The box throws `secret_key_missing` or `secret_key_wrong` if that file is unusable.
 *
 * @param file the database
 */
export function secretBoxBeside(file: string, given: Buffer | undefined, random: Random): () => SecretBox {
  let box: SecretBox | undefined;
  return () => (box ??= createSecretBox(given ?? keyBeside(`${file}.key`, random), random));
}

function keyBeside(file: string, random: Random): Buffer {
  try {
    return readKeyFile(file) ?? makeKeyFile(file, random);
  } catch (error) {
    if (!(error instanceof KeyFileError)) throw error;
    const code = error.why === 'unreadable' ? 'secret_key_missing' : 'secret_key_wrong';
    throw new SyncError(code, error.message, { cause: error.cause });
  }
}

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
