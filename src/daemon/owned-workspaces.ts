import type { Lease, LeaseHolder } from '../cluster/holder.ts';
import { asSyncError, SyncError } from '../model/errors/sync-error.ts';
import type { BrokenConfig } from '../platform/config/load.ts';
import type { WorkspaceConfig } from '../platform/config/schema.ts';
import { doAll, throwAll } from '../platform/lib/failures.ts';
import type { Logger } from '../platform/lib/logger.ts';
import { createWakeSignal } from '../platform/lib/wake-signal.ts';
import type { Embedded } from './embedded.ts';
import type { Partition } from './partition.ts';
import type { PartitionBells } from './partition-parts.ts';

export interface Opened {
  readonly partition: Partition;
  readonly service?: Embedded;
}

export interface OwnedWorkspacesDeps {
  /** Opens one. Throws what keeps it from being opened; nothing of it is open then. */
  open(config: WorkspaceConfig, wakeSignals: PartitionBells, lease: Lease): Promise<Opened>;
  /** Opens only workspaces that it owns, and closes those that it no longer owns. */
  readonly holder: LeaseHolder;
  readonly logger: Logger;
}

export interface Owned extends Opened {
  /** Of the workspace, not of one opening: what a closed partition still stores wakes the one after it. */
  readonly wakeSignals: PartitionBells;
  readonly lease: Lease;
}

/** The workspaces that this process holds, what became of the others, and how one opens, changes and closes. */
export interface OwnedWorkspaces {
  readonly owned: ReadonlyMap<string, Owned>;
  readonly broken: Map<string, SyncError>;
  readonly rejected: Map<string, SyncError>;
  open(config: WorkspaceConfig, wakeSignals?: PartitionBells): Promise<void>;
  close(one: Owned): Promise<void>;
  closeAll(): Promise<void>;
  /** A configuration that cannot be opened leaves the previous one in use. */
  change(before: Owned, config: WorkspaceConfig): Promise<void>;
  /** It is not open any more, and why. */
  lose(name: string, error: SyncError): void;
  /** Those that run go on by the last good configuration. @returns their names */
  rejectWrong(wrong: readonly BrokenConfig[]): readonly string[];
  /** A file that cannot be read does not tell the name that it gave. */
  runs(file: Pick<BrokenConfig, 'name' | 'file'>): boolean;
  /** Starts those that are open, and each that opens from now on. */
  start(): void;
  /** Called for each that is open, and each that opens from now on. */
  onOpen(call: (partition: Partition) => void): void;
}

export function createOwnedWorkspaces({ open, holder, logger }: OwnedWorkspacesDeps): OwnedWorkspaces {
  const owned = new Map<string, Owned>();
  const broken = new Map<string, SyncError>();
  const rejected = new Map<string, SyncError>();
  const calls: ((partition: Partition) => void)[] = [];
  let isStarted = false;

  async function openOne(config: WorkspaceConfig, wakeSignals = newBells()): Promise<void> {
    const { name } = config;
    const lease = holder.leaseOf(name);
    if (!lease) throw elsewhere(name);
    const opened = await open(config, wakeSignals, lease);
    owned.set(name, { ...opened, wakeSignals, lease });
    const before = broken.get(name);
    if (before && before.code !== HELD_ELSEWHERE) logger.info({ workspace: name }, 'the workspace is open again');
    broken.delete(name);
    for (const call of calls) call(opened.partition);
    if (isStarted) opened.partition.start();
  }

  async function close({ partition, service }: Owned): Promise<void> {
    await doAll([() => partition.stop(), () => service?.close()]);
  }

  function lose(name: string, error: SyncError): void {
    owned.delete(name);
    rejected.delete(name);
    const before = broken.get(name);
    const isNews = before?.code !== error.code || before.message !== error.message;
    broken.set(name, error);
    // It is tried again and again: the same reason is told once.
    if (!isNews) return;
    if (error.code !== HELD_ELSEWHERE) logger.error({ workspace: name, error }, 'a workspace is not open');
    else logger.info({ workspace: name }, 'another process owns this workspace');
  }

  /** A configuration that cannot be opened leaves the previous one in use. */
  async function change(before: Owned, config: WorkspaceConfig): Promise<void> {
    const { name } = config;
    // Its webhooks are still stored while it is closed: the one after it reads them.
    await close(before);
    try {
      await openOne(config, before.wakeSignals);
      rejected.delete(name);
    } catch (error) {
      await openOne(before.partition.config, before.wakeSignals);
      reject(name, asSyncError(error));
    }
  }

  function reject(name: string, error: SyncError): void {
    if (rejected.get(name)?.message !== error.message)
      logger.error({ workspace: name, error }, 'a changed configuration was rejected: the last good one stays in use');
    rejected.set(name, error);
  }

  function rejectWrong(wrong: readonly BrokenConfig[]): readonly string[] {
    const names: string[] = [];
    for (const { partition } of owned.values()) {
      const { name, config } = partition;
      const reason = wrong.find((each) => each.name === name || each.file === config.file);
      if (!reason) continue;
      names.push(name);
      reject(name, reason.error);
    }
    return names;
  }

  function runs({ name, file }: Pick<BrokenConfig, 'name' | 'file'>): boolean {
    return owned.has(name) || [...owned.values()].some(({ partition: { config } }) => config.file === file);
  }

  return {
    ...{ owned, broken, rejected, open: openOne, close, change, lose, rejectWrong, runs },
    async closeAll() {
      const results = await Promise.allSettled([...owned.values()].map(close));
      owned.clear();
      throwAll(results.flatMap((result) => (result.status === 'rejected' ? [result.reason] : [])));
    },
    start() {
      isStarted = true;
      for (const { partition } of owned.values()) partition.start();
    },
    onOpen(call) {
      calls.push(call);
      for (const { partition } of owned.values()) call(partition);
    },
  };
}

const HELD_ELSEWHERE = 'held_elsewhere';

function newBells(): PartitionBells {
  return { inbox: createWakeSignal(), outbox: createWakeSignal() };
}

function elsewhere(name: string): SyncError {
  return new SyncError(HELD_ELSEWHERE, `another process works on ${name}`);
}
