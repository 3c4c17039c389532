import { isDeepStrictEqual } from 'node:util';
import type { LoadedConfig } from '../config/load.ts';
import type { WorkspaceConfig } from '../config/schema.ts';
import { asSyncError, SyncError } from '../errors/sync-error.ts';
import type { OpenWorkspaces } from '../operator/open-workspace.ts';
import type { Embedded } from './embedded.ts';
import { createHeldWorkspaces, type HeldWorkspacesDeps } from './held-workspaces.ts';
import type { Partition } from './partition.ts';

/**
 * The workspaces of this process, by name. They open, change and close while it runs, one after another, and a fault of one of
 * them does not affect the others.
 */
export interface Workspaces extends OpenWorkspaces {
  partitions(): readonly Partition[];
  find(name: string): Partition | undefined;
  /** The reference service that this process runs for a workspace. */
  service(name: string): Embedded | undefined;
  /** Opens, changes and closes what differs from now on. Never throws; what failed is in `broken` or `rejected`. */
  apply(config: Wanted): Promise<Applied>;
  /** The same with the configuration that was applied last, after a change of the workspaces that this process owns. */
  followHolder(): Promise<void>;
  /** Starts those that are open, and each that opens from now on. */
  start(): void;
  /** Called for each that is open, and each that opens from now on. */
  onOpen(call: (partition: Partition) => void): void;
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

export function createWorkspaces(deps: HeldWorkspacesDeps): Workspaces {
  const { holder } = deps;
  const all = createHeldWorkspaces(deps);
  const { held, broken, rejected } = all;
  let last: Wanted | undefined;
  let queue: Promise<unknown> = Promise.resolve();

  async function apply(wanted: Wanted): Promise<Applied> {
    const applied: Record<keyof Applied, string[]> = { opened: [], changed: [], closed: [] };
    last = wanted;
    const kept = all.rejectWrong(wanted.broken);
    const configured = new Set([...wanted.workspaces.map(({ name }) => name), ...(wanted.spared ?? []), ...kept]);
    await holder.want([...configured]);
    for (const [name, one] of held) {
      if (configured.has(name)) continue;
      await attempt(name, applied.closed, () => all.close(one));
      all.lose(name, removed(name));
    }
    for (const config of wanted.workspaces) await take(config, applied);
    await followLeases();
    for (const { name, error, file } of wanted.broken) if (!all.runs({ name, file })) all.lose(name, error);
    return applied;
  }

  async function attempt(name: string, done: string[], work: () => Promise<void>): Promise<void> {
    try {
      await work();
      done.push(name);
    } catch (error) {
      all.lose(name, asSyncError(error));
    }
  }

  async function take(config: WorkspaceConfig, { opened, changed }: Record<keyof Applied, string[]>): Promise<void> {
    const { name } = config;
    const present = held.get(name);
    if (!present) return attempt(name, opened, () => all.open(config));
    if (isDeepStrictEqual(present.partition.config, config)) rejected.delete(name);
    else await attempt(name, changed, () => all.change(present, config));
  }

  /** Closes workspaces that this process no longer owns, and those that it lost meanwhile and has again: these open anew. */
  async function followLeases(): Promise<void> {
    for (const [name, one] of held) {
      if (one.lease === holder.leaseOf(name)) continue;
      await attempt(name, [], async () => {
        await all.close(one);
        await all.open(one.partition.config, one.bells);
      });
    }
  }

  async function followHolder(): Promise<void> {
    await followLeases();
    for (const config of last?.workspaces ?? [])
      if (!held.has(config.name) && holder.leaseOf(config.name)) await attempt(config.name, [], () => all.open(config));
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
    start: all.start,
    onOpen: all.onOpen,
    stop: () =>
      inTurn(async () => {
        last = undefined;
        await all.closeAll();
      }),
  };
}

function removed(name: string): SyncError {
  return new SyncError('workspace_removed', `${name} has no configuration any more; its rows stay`);
}
