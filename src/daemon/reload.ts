// Design: src/decisions/daemon.md

import { asSyncError, type SyncError } from '../model/errors.ts';
import type { LoadedConfig } from '../platform/config/load.ts';
import type { Cancel } from '../platform/lib/clock.ts';
import type { ConfigSource, DaemonContext } from './daemon-context.ts';
import type { ConfigChanges, Workspaces } from './workspaces.ts';

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
      // A read that does not answer must not keep the process from its end.
      await applying?.catch(() => undefined);
    },
  };
}
