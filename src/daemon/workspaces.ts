import { isDeepStrictEqual } from 'node:util';
import type { LoadedConfig } from '../config/load.ts';
import type { WorkspaceConfig } from '../config/schema.ts';
import { asSyncError, SyncError } from '../errors/sync-error.ts';
import type { Holder, Lease } from '../lease/holder.ts';
import { createBell } from '../lib/bell.ts';
import { throwAll } from '../lib/failures.ts';
import type { Logger } from '../lib/logger.ts';
import type { Embedded } from './embedded.ts';
import type { Partition, PartitionBells } from './partition.ts';

/**
 * The workspaces of this process, by name. They open, change and close while it runs, one after another, and a fault of one of
 * them does not affect the others.
 */
export interface Workspaces {
  /** Those that are open. */
  partitions(): readonly Partition[];
  find(name: string): Partition | undefined;
  /** The reference service that this process runs for a workspace. */
  service(name: string): Embedded | undefined;
  /** Those that are not open, and why: their senders are asked to repeat webhooks. */
  broken(): ReadonlyMap<string, SyncError>;
  /** Those that run with their last good configuration, and what is wrong with the present one. */
  rejected(): ReadonlyMap<string, SyncError>;
  /** Opens, changes and closes what differs from now on. Never throws; what failed is in `broken` or `rejected`. */
  apply(config: Wanted): Promise<Applied>;
  /** The same with the configuration that was applied last, after a change of the workspaces that this process owns. */
  followHolder(): Promise<void>;
  /** Starts those that are open, and each that opens from now on. */
  start(): void;
  /** Called for each that is open, and each that opens from now on. */
  onOpen(call: (partition: Partition) => void): void;
  /** The rows of a closed one were deleted. */
  forget(name: string): void;
  /** Closes all, in order. */
  stop(): Promise<void>;
}

export interface Wanted extends Pick<LoadedConfig, 'workspaces' | 'broken'> {
  /** Workspaces without a configuration that stay open for now: their files may come back. */
  readonly spared?: ReadonlySet<string>;
}

/** Names of workspaces. */
export interface Applied {
  readonly opened: readonly string[];
  readonly changed: readonly string[];
  readonly closed: readonly string[];
}

export interface Opened {
  readonly partition: Partition;
  readonly service?: Embedded;
}

interface WorkspacesDeps {
  /** Opens one. Throws what keeps it from being opened; nothing of it is open then. */
  open(config: WorkspaceConfig, bells: PartitionBells, lease: Lease): Promise<Opened>;
  /** Opens only workspaces that it owns, and closes those that it no longer owns. */
  readonly holder: Holder;
  readonly logger: Logger;
}

interface Held extends Opened {
  /** Of the workspace, not of one opening: what a closed partition still stores wakes the one after it. */
  readonly bells: PartitionBells;
  readonly lease: Lease;
}

export function createWorkspaces({ open, holder, logger }: WorkspacesDeps): Workspaces {
  const held = new Map<string, Held>();
  const broken = new Map<string, SyncError>();
  const rejected = new Map<string, SyncError>();
  const calls: ((partition: Partition) => void)[] = [];
  let isStarted = false;
  let last: Wanted | undefined;
  let queue: Promise<unknown> = Promise.resolve();

  async function openOne(config: WorkspaceConfig, bells = newBells()): Promise<void> {
    const { name } = config;
    const lease = holder.leaseOf(name);
    if (!lease) throw elsewhere(name);
    const opened = await open(config, bells, lease);
    held.set(name, { ...opened, bells, lease });
    broken.delete(name);
    for (const call of calls) call(opened.partition);
    if (isStarted) opened.partition.start();
  }

  async function close({ partition, service }: Held): Promise<void> {
    await partition.stop();
    await service?.close();
  }

  function lose(name: string, error: SyncError): void {
    held.delete(name);
    rejected.delete(name);
    const isNews = broken.get(name)?.code !== error.code;
    broken.set(name, error);
    if (error.code !== 'held_elsewhere') logger.error({ workspace: name, error }, 'a workspace is not open');
    else if (isNews) logger.info({ workspace: name }, 'another process owns this workspace');
  }

  /** A configuration that cannot be opened leaves the previous one in use. */
  async function change(before: Held, config: WorkspaceConfig): Promise<void> {
    const { name } = config;
    // Its webhooks are still stored while it is closed: the one after it reads them.
    await close(before);
    try {
      await openOne(config, before.bells);
      rejected.delete(name);
    } catch (error) {
      await openOne(before.partition.config, before.bells);
      reject(name, asSyncError(error));
    }
  }

  function reject(name: string, error: SyncError): void {
    if (rejected.get(name)?.message !== error.message)
      logger.error({ workspace: name, error }, 'a changed configuration was rejected: the last good one stays in use');
    rejected.set(name, error);
  }

  async function apply(wanted: Wanted): Promise<Applied> {
    const applied: Record<keyof Applied, string[]> = { opened: [], changed: [], closed: [] };
    last = wanted;
    const kept = rejectWrong(wanted.broken);
    const configured = new Set([...wanted.workspaces.map(({ name }) => name), ...(wanted.spared ?? []), ...kept]);
    await holder.want([...configured]);
    for (const [name, one] of held) {
      if (configured.has(name)) continue;
      await attempt(name, applied.closed, () => close(one));
      lose(name, removed(name));
    }
    for (const config of wanted.workspaces) await take(config, applied);
    await followLeases();
    for (const { name, error, file } of wanted.broken) if (!runs({ name, file })) lose(name, error);
    return applied;
  }

  async function attempt(name: string, done: string[], work: () => Promise<void>): Promise<void> {
    try {
      await work();
      done.push(name);
    } catch (error) {
      lose(name, asSyncError(error));
    }
  }

  async function take(config: WorkspaceConfig, { opened, changed }: Record<keyof Applied, string[]>): Promise<void> {
    const { name } = config;
    const present = held.get(name);
    if (!present) return attempt(name, opened, () => openOne(config));
    if (isDeepStrictEqual(present.partition.config, config)) rejected.delete(name);
    else await attempt(name, changed, () => change(present, config));
  }

  /** Closes workspaces that this process no longer owns, and those that it lost meanwhile and has again: these open anew. */
  async function followLeases(): Promise<void> {
    for (const [name, one] of held) {
      if (one.lease === holder.leaseOf(name)) continue;
      await attempt(name, [], async () => {
        await close(one);
        await openOne(one.partition.config, one.bells);
      });
    }
  }

  async function followHolder(): Promise<void> {
    await followLeases();
    for (const config of last?.workspaces ?? [])
      if (!held.has(config.name) && holder.leaseOf(config.name)) await attempt(config.name, [], () => openOne(config));
  }

  /** Those that run go on by the last good configuration. @returns their names */
  function rejectWrong(wrong: Wanted['broken']): readonly string[] {
    const names: string[] = [];
    for (const { partition } of held.values()) {
      const { name, config } = partition;
      const reason = wrong.find((each) => each.name === name || each.file === config.file);
      if (!reason) continue;
      names.push(name);
      reject(name, reason.error);
    }
    return names;
  }

  /** A file that cannot be read does not tell the name that it gave. */
  function runs({ name, file }: { readonly name: string; readonly file: string }): boolean {
    return held.has(name) || [...held.values()].some(({ partition: { config } }) => config.file === file);
  }

  /** One at a time. */
  function inTurn<Result>(work: () => Promise<Result>): Promise<Result> {
    const result = queue.then(work);
    queue = result.catch(() => undefined);
    return result;
  }

  return {
    partitions: () => [...held.values()].map(({ partition }) => partition),
    find: (name) => held.get(name)?.partition,
    service: (name) => held.get(name)?.service,
    broken: () => broken,
    rejected: () => rejected,
    apply: (wanted) => inTurn(() => apply(wanted)),
    followHolder: () => inTurn(followHolder),
    forget: (name) => void broken.delete(name),
    start() {
      isStarted = true;
      for (const { partition } of held.values()) partition.start();
    },
    onOpen(call) {
      calls.push(call);
      for (const { partition } of held.values()) call(partition);
    },
    stop: () =>
      inTurn(async () => {
        last = undefined;
        const results = await Promise.allSettled([...held.values()].map(close));
        held.clear();
        throwAll(results.flatMap((result) => (result.status === 'rejected' ? [result.reason] : [])));
      }),
  };
}

function newBells(): PartitionBells {
  return { inbox: createBell(), outbox: createBell() };
}

function elsewhere(name: string): SyncError {
  return new SyncError('held_elsewhere', `another process works on ${name}`);
}

function removed(name: string): SyncError {
  return new SyncError('workspace_removed', `${name} has no configuration any more; its rows stay`);
}
