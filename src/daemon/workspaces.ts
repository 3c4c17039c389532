// Design: src/decisions/leases.md, src/decisions/daemon.md

import { isDeepStrictEqual } from 'node:util';
import type { Lease, LeaseHolder } from '../cluster/lease-holder.ts';
import { asSyncError, SyncError } from '../model/errors.ts';
import type { BrokenConfig, LoadedConfig } from '../platform/config/load.ts';
import type { WorkspaceConfig } from '../platform/config/schema.ts';
import { backoff, type Cancel } from '../platform/lib/clock.ts';
import { chunksOf, doAll, throwAll } from '../platform/lib/concurrency.ts';
import type { WakeSignals } from '../store/store-context.ts';
import { createWakeSignals } from '../store/store-context.ts';
import type { ConfigSource, DaemonContext } from './daemon-context.ts';
import type { Embedded } from './embedded.ts';
import type { Partition } from './partition.ts';

/**
 * The workspaces of this process, by name. They open, change and close while it runs, one operation at a time. A fault of one
 * workspace does not affect the others.
 *
 * States of a configured workspace in this process:
 *
 *   open      the process owns its lease, and its partition is open.
 *   rejected  open with its previous configuration, because the present one cannot be opened.
 *   broken    not open: another process owns it (`held_elsewhere`), or it failed. A failure that may pass is retried.
 */
export type Workspaces = ReturnType<typeof createWorkspaces>;

export interface AppliedConfig extends Pick<LoadedConfig, 'workspaces' | 'broken'> {
  /** Workspaces without a configuration that stay open for now, because their files may come back. */
  readonly spared?: ReadonlySet<string>;
}

/** The names of workspaces, by what a new configuration did to them. */
export interface ConfigChanges {
  readonly opened: readonly string[];
  readonly changed: readonly string[];
  readonly closed: readonly string[];
}

/** Workspaces that open at once after a takeover, because opening one takes dozens of queries to a remote database. */
const OPENED_AT_ONCE = 8;

/** First and longest pause before a workspace opens again whose failure may pass, milliseconds. */
const FIRST_RETRY = 1_000;
const LONGEST_RETRY = 60_000;

/** Opens a workspace. Throws the reason if it cannot be opened; nothing stays open then. */
type Open = (config: WorkspaceConfig, wakeSignals: WakeSignals, lease: Lease) => Promise<OpenedWorkspace>;

/** Called before a configuration is applied, also for workspaces that another process owns. */
export type OnConfigured = (workspaces: readonly WorkspaceConfig[]) => Promise<void>;

export function createWorkspaces(daemon: DaemonContext, holder: LeaseHolder, open: Open, onConfigured: OnConfigured) {
  const all = createOwnedWorkspaces(daemon, holder, open);
  const { owned, broken, rejected } = all;
  const serially = createSerialQueue();
  let current: AppliedConfig | undefined;
  let attempts = 0;
  let cancelRetry: Cancel = () => undefined;

  async function apply(config: AppliedConfig): Promise<ConfigChanges> {
    const changes: Record<keyof ConfigChanges, string[]> = { opened: [], changed: [], closed: [] };
    await onConfigured(config.workspaces);
    current = config;
    const kept = all.rejectBroken(config.broken);
    const configured = new Set([...config.workspaces.map(({ name }) => name), ...(config.spared ?? []), ...kept]);
    await holder.want([...configured]);
    for (const [name, one] of owned) {
      if (configured.has(name)) continue;
      await attempt(name, changes.closed, () => all.close(one));
      all.markBroken(name, removed(name));
    }
    for (const workspace of config.workspaces) await openOrChange(workspace, changes);
    await reopenLost();
    for (const failed of config.broken) if (!all.isOpen(failed)) all.markBroken(failed.name, failed.error);
    forgetRejected(config);
    return changes;
  }

  /** A file that was never right leaves nothing behind when it is removed. */
  function forgetRejected(config: AppliedConfig): void {
    const named = new Set([...config.workspaces, ...config.broken].map(({ name }) => name));
    for (const [name, { code }] of broken) if (!named.has(name) && code.startsWith('config_')) broken.delete(name);
  }

  async function attempt(name: string, done: string[], work: () => Promise<void>): Promise<void> {
    try {
      await work();
      done.push(name);
    } catch (error) {
      all.markBroken(name, asSyncError(error));
    }
  }

  async function openOrChange(
    config: WorkspaceConfig,
    { opened, changed }: Record<keyof ConfigChanges, string[]>,
  ): Promise<void> {
    const { name } = config;
    const existing = owned.get(name);
    if (!existing) return attempt(name, opened, () => all.open(config));
    if (isDeepStrictEqual(existing.partition.config, config)) rejected.delete(name);
    else await attempt(name, changed, () => all.change(existing, config));
  }

  /** Closes workspaces whose lease was lost, and opens those again that this process owns under a new lease. */
  async function reopenLost(): Promise<void> {
    const lost = [...owned].filter(([name, one]) => one.lease !== holder.leaseOf(name));
    // All at once, because each waits for its requests, or for a database that does not answer.
    const closed = await Promise.allSettled(lost.map(([, one]) => all.close(one)));
    for (const [index, [name, one]] of lost.entries())
      await attempt(name, [], async () => {
        const result = closed[index] as PromiseSettledResult<void>;
        if (result.status === 'rejected') throw result.reason;
        await all.open(one.partition.config, one.wakeSignals);
      });
  }

  async function followLeases(): Promise<void> {
    await reopenLost();
    const acquired = current?.workspaces.filter(isNotOpen) ?? [];
    for (const some of chunksOf(acquired, OPENED_AT_ONCE))
      await Promise.all(some.map((config) => attempt(config.name, [], () => all.open(config))));
  }

  /** Whether this process owns the lease of a workspace that is not open. */
  function isNotOpen({ name }: WorkspaceConfig): boolean {
    return !owned.has(name) && holder.leaseOf(name) !== undefined;
  }

  /** Retries workspaces that failed for a reason that may pass, because the lease keeps other processes from opening them. */
  function scheduleRetry(): void {
    cancelRetry();
    const mayPass = (name: string) => (broken.get(name)?.verdict ?? 'never') !== 'never';
    const isNeeded = current?.workspaces.some((each) => isNotOpen(each) && mayPass(each.name)) === true;
    attempts = isNeeded ? attempts + 1 : 0;
    if (attempts === 0) return;
    const pause = backoff(daemon.random, attempts - 1, FIRST_RETRY, LONGEST_RETRY);
    cancelRetry = daemon.clock.after(pause, () => void serially(followLeases).finally(scheduleRetry));
  }

  return {
    partitions: () => [...owned.values()].map(({ partition }) => partition),
    find: (name: string) => owned.get(name)?.partition,
    /** Returns the reference service that this process runs for a workspace. */
    service: (name: string) => owned.get(name)?.service,
    /** Returns the workspaces of the configuration that was applied last. */
    configured: () => current?.workspaces ?? [],
    broken: () => broken,
    rejected: () => rejected,
    /** Opens, changes and closes workspaces to match a configuration. Failures are recorded in `broken` and `rejected`. */
    apply: (config: AppliedConfig) => serially(() => apply(config)).finally(scheduleRetry),
    /** Opens and closes workspaces to match the leases, after a change of the leases. */
    followLeases: () => serially(followLeases).finally(scheduleRetry),
    /** Removes a closed workspace after its rows were deleted. */
    forget: (name: string) => void broken.delete(name),
    /** Starts the open partitions, and each partition that opens later. */
    start: all.start,
    /** Calls back with each open partition, and with each partition that opens later. */
    onOpen: all.onOpen,
    /** Closes all partitions. */
    stop: () =>
      serially(async () => {
        current = undefined;
        cancelRetry();
        await all.closeAll();
      }),
  };
}

/** Creates a queue that runs one operation at a time, also after one has failed. */
function createSerialQueue(): <Result>(work: () => Promise<Result>) => Promise<Result> {
  let last: Promise<unknown> = Promise.resolve();
  return (work) => {
    const result = last.then(work);
    last = result.catch(() => undefined);
    return result;
  };
}

function removed(name: string): SyncError {
  return new SyncError('workspace_removed', `${name} has no configuration any more; its rows stay`);
}

export interface OpenedWorkspace {
  readonly partition: Partition;
  readonly service?: Embedded;
}

interface OwnedWorkspace extends OpenedWorkspace {
  readonly wakeSignals: WakeSignals;
  readonly lease: Lease;
}

/** Creates the operations on single workspaces, which `createWorkspaces` runs one at a time, and their results. */
function createOwnedWorkspaces({ logger }: DaemonContext, holder: LeaseHolder, open: Open) {
  const owned = new Map<string, OwnedWorkspace>();
  const broken = new Map<string, SyncError>();
  const rejected = new Map<string, SyncError>();
  const calls: ((partition: Partition) => void)[] = [];
  let isStarted = false;

  /** @param wakeSignals those of the previous partition of the workspace; absent: new ones */
  async function openOne(config: WorkspaceConfig, wakeSignals = createWakeSignals()): Promise<void> {
    const { name } = config;
    const lease = holder.leaseOf(name);
    if (!lease) throw new SyncError(HELD_ELSEWHERE, `another process works on ${name}`);
    const opened = await open(config, wakeSignals, lease);
    owned.set(name, { ...opened, wakeSignals, lease });
    const previous = broken.get(name);
    if (previous && previous.code !== HELD_ELSEWHERE) logger.info({ workspace: name }, 'the workspace is open again');
    broken.delete(name);
    for (const call of calls) call(opened.partition);
    if (isStarted) opened.partition.start();
  }

  async function close({ partition, service }: OwnedWorkspace): Promise<void> {
    await doAll([() => partition.stop(), () => service?.close()]);
  }

  /** Records that the workspace is not open, and the reason. */
  function markBroken(name: string, error: SyncError): void {
    owned.delete(name);
    rejected.delete(name);
    const previous = broken.get(name);
    broken.set(name, error);
    // A retry that fails for the same reason is not logged again.
    if (previous?.code === error.code && previous.message === error.message) return;
    if (error.code !== HELD_ELSEWHERE) logger.error({ workspace: name, error }, 'a workspace is not open');
    else logger.info({ workspace: name }, 'another process owns this workspace');
  }

  /** Opens the workspace with another configuration. If that fails, the previous configuration stays in use. */
  async function change(previous: OwnedWorkspace, config: WorkspaceConfig): Promise<void> {
    const { name } = config;
    // Its webhooks are stored while it is closed, and wake the next partition.
    await close(previous);
    try {
      await openOne(config, previous.wakeSignals);
      rejected.delete(name);
    } catch (error) {
      await openOne(previous.partition.config, previous.wakeSignals);
      reject(name, asSyncError(error));
    }
  }

  function reject(name: string, error: SyncError): void {
    if (rejected.get(name)?.message !== error.message)
      logger.error({ workspace: name, error }, 'a changed configuration was rejected: the last good one stays in use');
    rejected.set(name, error);
  }

  /** Rejects configurations that are wrong; their open workspaces stay open. @returns the names of these workspaces */
  function rejectBroken(wrong: readonly BrokenConfig[]): readonly string[] {
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

  /** Compares the file too, because the name is unknown if the file cannot be read. */
  function isOpen({ name, file }: Pick<BrokenConfig, 'name' | 'file'>): boolean {
    return owned.has(name) || [...owned.values()].some(({ partition: { config } }) => config.file === file);
  }

  return {
    owned,
    broken,
    rejected,
    open: openOne,
    close,
    change,
    markBroken,
    rejectBroken,
    isOpen,
    async closeAll() {
      const results = await Promise.allSettled([...owned.values()].map(close));
      owned.clear();
      throwAll(results.flatMap((result) => (result.status === 'rejected' ? [result.reason] : [])));
    },
    start() {
      isStarted = true;
      for (const { partition } of owned.values()) partition.start();
    },
    onOpen(call: (partition: Partition) => void) {
      calls.push(call);
      for (const { partition } of owned.values()) call(partition);
    },
  };
}

const HELD_ELSEWHERE = 'held_elsewhere';

/** Applies changes of the configuration without a restart. */
export type Reload = ReturnType<typeof createReload>;

/** Time without another change before the files are read, milliseconds, because a file may be half written. */
const DEBOUNCE = 2_000;
/** Time before a workspace without a file closes, milliseconds, because the file may come back when a volume is remounted. */
const SPARED = 60_000;

export function createReload(
  { clock, logger, scrubber }: DaemonContext,
  source: ConfigSource,
  workspaces: Pick<Workspaces, 'apply' | 'partitions'>,
) {
  /** The stamp of the applied files, a promise until it was read. */
  let appliedStamp = source.stamp();
  /** The stamp of files that changed; they are applied if it is still the same after the debounce. */
  let changedStamp: string | undefined;
  let fault: SyncError | undefined;
  /** Workspaces whose file is missing, and since when by the monotonic clock. */
  const missing = new Map<string, number>();
  let running: Promise<void> | undefined;
  let isStopped = false;
  let applying: Promise<unknown> | undefined;
  /** Number of schedules so far: a check does nothing if another one was scheduled meanwhile. */
  let scheduled = 0;
  let cancel: Cancel = () => undefined;
  let isStarted = false;

  async function check(): Promise<void> {
    const own = scheduled;
    const [stamp, applied] = await Promise.all([source.stamp(), appliedStamp]);
    if (own !== scheduled) return;
    const isOverdue = [...missing.values()].some((since) => clock.monotonic() - since >= SPARED);
    if (stamp === changedStamp || isOverdue) void applyNext(stamp, SPARED).finally(() => schedule(pause()));
    else if (stamp === applied) {
      changedStamp = undefined;
      schedule(pause());
    } else {
      changedStamp = stamp;
      schedule(DEBOUNCE);
    }
  }

  function pause(): number {
    return missing.size > 0 ? DEBOUNCE : source.checkEvery;
  }

  function schedule(milliseconds: number): void {
    scheduled++;
    cancel();
    if (isStarted) cancel = clock.after(milliseconds, () => void check());
  }

  /** Applies the files after the application that is running. Never rejects, so that the next one still runs. */
  function applyNext(stamp: string, spared: number): Promise<void> {
    running = (running ?? Promise.resolve())
      .then(() => apply(stamp, spared))
      .catch((error: unknown) => logger.error({ error }, 'the changed configuration could not be applied'));
    return running;
  }

  async function apply(stamp: string, spared: number): Promise<void> {
    appliedStamp = stamp;
    changedStamp = undefined;
    let config: LoadedConfig;
    try {
      config = await source.load();
    } catch (error) {
      fault = asSyncError(error);
      logger.error({ error: fault }, 'the configuration could not be reloaded: the last good one stays in use');
      return;
    }
    if (isStopped) return;
    fault = undefined;
    for (const secret of config.secrets) scrubber.add(secret);
    for (const warning of config.warnings) logger.warn({ warning }, 'configuration warning');
    applying = workspaces.apply({ ...config, spared: sparedOf(config, spared) }).then(logChanges);
    await applying;
  }

  /** Updates `missing`, and returns the workspaces that stay open although their file is missing. */
  function sparedOf({ workspaces: wanted, broken }: LoadedConfig, spared: number): ReadonlySet<string> {
    const configured = new Set([...wanted, ...broken].map(({ name }) => name));
    const now = clock.monotonic();
    for (const { name } of workspaces.partitions())
      if (!configured.has(name)) missing.set(name, missing.get(name) ?? now);
    for (const [name, since] of missing) if (configured.has(name) || now - since >= spared) missing.delete(name);
    return new Set(missing.keys());
  }

  function logChanges({ opened, changed, closed }: ConfigChanges): void {
    const count = opened.length + changed.length + closed.length;
    if (count === 0) return;
    const note = 'Options of the command and of the environment (host, port, data folder) need a restart.';
    logger.info({ opened, changed, closed, note }, 'the configuration was reloaded');
  }

  return {
    /** Applies the files now; a workspace without a file closes at once. */
    now: async () => applyNext(await source.stamp(), 0),
    /** Returns the reason why the configuration as a whole could not be read the last time. */
    fault: () => fault,
    start() {
      isStarted = true;
      schedule(source.checkEvery);
    },
    async stop() {
      isStopped = true;
      isStarted = false;
      schedule(0);
      // A read that never completes must not prevent the process from exiting.
      await applying?.catch(() => undefined);
    },
  };
}
