import { createHmac } from 'node:crypto';
import { hostname } from 'node:os';
import { type ClockOffset, createClockOffset, ledgerClock, offsetClock } from '../cluster/clock-offset.ts';
import { type LeaseHolder, soleHolder } from '../cluster/holder.ts';
import { createPostgresLeaseHolder } from '../cluster/postgres-holder.ts';
import { SyncError } from '../model/errors/sync-error.ts';
import type { DaemonOptions } from '../platform/config/daemon-options.ts';
import type { WorkspaceConfig } from '../platform/config/schema.ts';
import type { OpenOptions } from '../platform/database/database-types.ts';
import type { Clock } from '../platform/lib/clock.ts';
import { doAll } from '../platform/lib/failures.ts';
import { sharedFileSystemOf } from '../platform/lib/network-file-system.ts';
import { createSuspendAwareClock } from '../platform/lib/suspend-aware-clock.ts';
import { bumpClockEra, readClockEra } from '../store/clock-changes.ts';
import { type Installation, openInstallation, openSharedInstallation } from '../store/installation.ts';
import { serverTime } from '../store/leases.ts';
import type { Schema } from '../store/schema/tables.ts';
import type { Parts, SharedDatabase } from './parts.ts';

/** Where the rows are, and which of the workspaces this process works on. */
export interface OpenStore {
  readonly installation: Installation;
  readonly holder: LeaseHolder;
  /** The time that all processes over it share. */
  readonly clock: Clock;
  /** By which the ledger of a workspace is kept that is opened now. */
  ledgerClock(): Promise<Clock>;
  /** Whether other processes may work on what this one does not. */
  readonly isShared: boolean;
  /**
   * Told when the servers listen: where the others reach this process, unless an option names its host.
   *
   * @param adminPort absent: the pages have no port of their own
   */
  listensAt(port: number, adminPort?: number): void;
  close(): Promise<void>;
}

export interface StoreInput {
  readonly options: Pick<DaemonOptions, 'store' | 'replicaAddress'>;
  readonly folder: string;
  readonly version: string;
  readonly secretKey?: Buffer;
  /** Those of now; a reload changes them. */
  readonly workspaces: () => readonly WorkspaceConfig[];
  readonly opening: Omit<OpenOptions, 'file' | 'migrations'>;
}

/** How long a renewal of leases waits for the database, milliseconds: less than they are trusted. */
const RENEWED_WITHIN = 2_000;

/**
 * Opens the file in the data folder, which one process has to itself; or the PostgreSQL that an option names, where several
 * share the workspaces.
 */
export async function openStore(input: StoreInput, parts: Parts): Promise<OpenStore> {
  const { store } = input.options;
  const { clock, random } = parts;
  if (store === undefined && !parts.shared) {
    const shared = sharedFileSystemOf(input.folder);
    if (shared !== undefined) parts.logger.warn({ folder: input.folder, fileSystem: shared }, ON_SHARED);
    const installation = await openInstallation(input.folder, { ...input.opening, random });
    const holder = parts.hold?.(installation) ?? soleHolder;
    return {
      ...{ installation, holder, clock, isShared: false, ledgerClock: async () => clock },
      listensAt: () => undefined,
      close: () => installation.close(),
    };
  }
  if (!input.secretKey) throw keyMissing();
  const open = parts.shared ?? (() => openServer({ ...input, store: store ?? '' }, parts));
  return openShared({ ...input, secretKey: input.secretKey }, await open(), parts);
}

const ON_SHARED =
  'the data folder lies on a file system that machines share: SQLite cannot rely on its locks; use a local disk or PostgreSQL';

async function openServer(input: StoreInput & { readonly store: string }, { random }: Parts): Promise<SharedDatabase> {
  const installation = await openSharedInstallation(input.store, { ...input.opening, random });
  // Whoever has no server loads nothing of it.
  const { openApart } = await import('../platform/database/postgres.ts');
  const apart = openApart<Schema>({ file: input.store, within: RENEWED_WITHIN });
  return { installation, apart, time: serverTime };
}

async function openShared(
  input: StoreInput & { readonly secretKey: Buffer },
  { installation, apart, time: storeTime }: SharedDatabase,
  parts: Parts,
): Promise<OpenStore> {
  const { random, logger } = parts;
  const { replicaAddress } = input.options;
  const close = () => doAll([() => apart.close(), () => installation.close()]);
  const time = createSuspendAwareClock(parts.clock);
  const passed = () => {
    time.look();
    return time.now();
  };
  const storeClock = createClockOffset();
  let address = replicaAddress ?? '';
  let adminAddress: string | undefined;
  const digestOf = createDigest(input.secretKey);
  const own = { version: input.version, startedAt: parts.clock.now(), host: hostname() };
  if (parts.hold) {
    const given = { holder: parts.hold(installation), clock: parts.clock, ledgerClock: async () => parts.clock };
    return { installation, isShared: true, listensAt: () => undefined, close, ...given };
  }
  try {
    await hear(installation, storeClock, passed);
  } catch (error) {
    await close();
    throw error;
  }
  const clock = offsetClock(parts.clock, storeClock, passed);
  const holder = createPostgresLeaseHolder({
    ...{ database: apart, storeTime, storeClock, random, logger, passed, after: clock.after },
    facts: () => ({ ...own, adminAddress, config: digestOf(input.workspaces()) }),
    address: () => address,
    async onClockSet() {
      logger.warn({}, 'the clock of PostgreSQL was set: what the quota ledgers hold counts for one more window');
      await bumpClockEra(installation);
    },
    onTakeover: (workspaces) => parts.metrics.meter.count('lease_takeovers_total', {}, workspaces),
  });
  return {
    ...{ installation, holder, clock, isShared: true, close },
    async ledgerClock() {
      const timeline = await hear(installation, storeClock, passed);
      return ledgerClock(clock, `${timeline}.${await readClockEra(installation.query)}`, { store: storeClock, passed });
    },
    listensAt(port, adminPort) {
      address = replicaAddress ?? `http://${hostname()}:${port}`;
      const { protocol, hostname: host } = new URL(address);
      adminAddress = adminPort === undefined ? undefined : `${protocol}//${host}:${adminPort}`;
    },
  };
}

/** Asks the server for its time. @returns the name of its clock */
async function hear(installation: Installation, storeClock: ClockOffset, passed: () => number): Promise<string> {
  const began = passed();
  const { now, clock } = await serverOf(installation).time();
  storeClock.heard(now, { began, ended: passed() });
  return clock;
}

export function serverOf({ asServer }: Installation): NonNullable<Installation['asServer']> {
  if (!asServer) throw new SyncError('internal', 'a file is no server');
  return asServer;
}

/**
 * The same for the same workspaces, whatever order their files are in. Without the key it tells nothing of the secrets in them.
 * Made once for each configuration.
 */
function createDigest(key: Buffer): (workspaces: readonly WorkspaceConfig[]) => string {
  let known: { readonly workspaces: readonly WorkspaceConfig[]; readonly digest: string } | undefined;
  return (workspaces) => {
    if (known?.workspaces !== workspaces) {
      const texts = workspaces.map((config) => JSON.stringify({ ...config, file: '' })).sort();
      const digest = createHmac('sha256', key).update(texts.join('\n')).digest('hex').slice(0, 16);
      known = { workspaces, digest };
    }
    return known.digest;
  };
}

function keyMissing(): SyncError {
  return new SyncError('secret_key_missing', 'a PostgreSQL is configured, and WORKSYNC_SECRET_KEY is not', {
    hint: 'Give all replicas the same key, by WORKSYNC_SECRET_KEY or WORKSYNC_SECRET_KEY_FILE: a key file beside a database would be another one on each machine. Make one with: openssl rand -base64 32',
  });
}
