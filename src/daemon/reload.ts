import { asSyncError, type SyncError } from '../model/errors/sync-error.ts';
import type { LoadedConfig } from '../platform/config/load.ts';
import type { Cancel, Clock } from '../platform/lib/clock.ts';
import type { Logger } from '../platform/lib/logger.ts';
import type { Stage } from '../platform/lib/stage.ts';
import type { Scrubber } from '../platform/observe/scrubber.ts';
import type { Applied, Workspaces } from './workspaces.ts';

/** The configuration's files, which change while the daemon runs. */
export interface ConfigSource {
  /** Reads them, and the files that secrets come from, anew. Throws what is wrong with all of them. */
  load(): LoadedConfig | Promise<LoadedConfig>;
  /** Differs when one of them was changed, added or taken away. */
  stamp(): string;
  /** Calls soon after a change; may miss some. */
  watch(onChange: () => void): Cancel;
}

/** Applies changes of the configuration without a restart. */
export interface Reload extends Stage {
  /** Reads everything now; a workspace without a file closes at once. */
  now(): Promise<void>;
  /** Why the configuration as a whole could not be read the last time. */
  fault(): SyncError | undefined;
}

interface ReloadDeps {
  readonly source: ConfigSource;
  readonly workspaces: Pick<Workspaces, 'apply' | 'partitions'>;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly scrubber: Scrubber;
}

/** A file may be half written: it is taken when nothing changed for so long, milliseconds. */
const SETTLED = 2_000;
/** How often the files are checked when no event reports a change, milliseconds. */
const LOOK_EVERY = 60_000;
/** A file that is gone may come back, as in a volume that is mounted anew: its workspace closes after so long, milliseconds. */
const SPARED = 60_000;

export function createReload({ source, workspaces, clock, logger, scrubber }: ReloadDeps): Reload {
  let taken = source.stamp();
  let seen: string | undefined;
  let fault: SyncError | undefined;
  /** Workspaces whose file is gone, and since when by the monotonic clock. */
  const missing = new Map<string, number>();
  let running: Promise<void> | undefined;
  let cancel: Cancel = () => undefined;
  let unwatch: Cancel | undefined;

  function look(): void {
    const stamp = source.stamp();
    const isOverdue = [...missing.values()].some((since) => clock.monotonic() - since >= SPARED);
    if (stamp === seen || isOverdue) void take(stamp, SPARED).finally(() => later(pause()));
    else if (stamp === taken) {
      seen = undefined;
      later(pause());
    } else {
      seen = stamp;
      later(SETTLED);
    }
  }

  function pause(): number {
    return missing.size > 0 ? SETTLED : LOOK_EVERY;
  }

  function later(milliseconds: number): void {
    cancel();
    if (unwatch) cancel = clock.after(milliseconds, look);
  }

  /** Never rejects: one that failed keeps no later one from being taken. */
  function take(stamp: string, spared: number): Promise<void> {
    running = (running ?? Promise.resolve())
      .then(() => apply(stamp, spared))
      .catch((error: unknown) => logger.error({ error }, 'the changed configuration could not be applied'));
    return running;
  }

  async function apply(stamp: string, spared: number): Promise<void> {
    taken = stamp;
    seen = undefined;
    let config: LoadedConfig;
    try {
      config = await source.load();
    } catch (error) {
      fault = asSyncError(error);
      logger.error({ error: fault }, 'the configuration could not be reloaded: the last good one stays in use');
      return;
    }
    fault = undefined;
    for (const secret of config.secrets) scrubber.add(secret);
    for (const warning of config.warnings) logger.warn({ warning }, 'configuration warning');
    const applied = await workspaces.apply({ ...config, spared: sparedOf(config, spared) });
    tell(applied);
  }

  function sparedOf({ workspaces: wanted, broken }: LoadedConfig, spared: number): ReadonlySet<string> {
    const configured = new Set([...wanted, ...broken].map(({ name }) => name));
    const now = clock.monotonic();
    for (const { name } of workspaces.partitions())
      if (!configured.has(name)) missing.set(name, missing.get(name) ?? now);
    for (const [name, since] of missing) if (configured.has(name) || now - since >= spared) missing.delete(name);
    return new Set(missing.keys());
  }

  function tell({ opened, changed, closed }: Applied): void {
    const count = opened.length + changed.length + closed.length;
    if (count === 0) return;
    const note = 'Options of the command and of the environment (host, port, data folder) need a restart.';
    logger.info({ opened, changed, closed, note }, 'the configuration was reloaded');
  }

  return {
    now: () => take(source.stamp(), 0),
    fault: () => fault,
    start() {
      unwatch = source.watch(() => later(SETTLED));
      later(LOOK_EVERY);
    },
    async stop() {
      unwatch?.();
      unwatch = undefined;
      cancel();
      await running;
    },
  };
}
