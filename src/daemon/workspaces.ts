import { isDeepStrictEqual } from 'node:util';
import type { OpenWorkspaces } from '../admin/open-workspace.ts';
import { asSyncError, SyncError } from '../model/errors/sync-error.ts';
import type { LoadedConfig } from '../platform/config/load.ts';
import type { WorkspaceConfig } from '../platform/config/schema.ts';
import type { Cancel, Clock } from '../platform/lib/clock.ts';
import { piecesOf } from '../platform/lib/pieces.ts';
import { backoff, type Random } from '../platform/lib/random.ts';
import type { Embedded } from './embedded.ts';
import { createOwnedWorkspaces, type OwnedWorkspacesDeps } from './owned-workspaces.ts';
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
  /** The configuration that was applied last. */
  configured(): readonly WorkspaceConfig[];
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

/** To open one is dozens of questions to a database far away: those of a process that died must not wait for each other. */
const OPENED_AT_ONCE = 8;

/** What could not be opened for a reason that may pass, as a database that was away, is opened again after so long at most, milliseconds. */
const OPENED_AGAIN_WITHIN = 60_000;
/** The first time after so long at most, milliseconds. */
const OPENED_AGAIN_FIRST = 1_000;

interface WorkspacesDeps extends OwnedWorkspacesDeps {
  readonly clock: Pick<Clock, 'after'>;
  readonly random: Random;
  /** Before a configuration is applied, whether its workspaces open here or elsewhere. */
  readonly onConfigured?: (workspaces: readonly WorkspaceConfig[]) => Promise<void>;
}

export function createWorkspaces(deps: WorkspacesDeps): Workspaces {
  const { holder } = deps;
  const all = createOwnedWorkspaces(deps);
  const { owned, broken, rejected } = all;
  let last: Wanted | undefined;
  let queue: Promise<unknown> = Promise.resolve();
  let attempts = 0;
  let cancel: Cancel = () => undefined;

  async function apply(wanted: Wanted): Promise<Applied> {
    const applied: Record<keyof Applied, string[]> = { opened: [], changed: [], closed: [] };
    await deps.onConfigured?.(wanted.workspaces);
    last = wanted;
    const kept = all.rejectWrong(wanted.broken);
    const configured = new Set([...wanted.workspaces.map(({ name }) => name), ...(wanted.spared ?? []), ...kept]);
    await holder.want([...configured]);
    for (const [name, one] of owned) {
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
    const present = owned.get(name);
    if (!present) return attempt(name, opened, () => all.open(config));
    if (isDeepStrictEqual(present.partition.config, config)) rejected.delete(name);
    else await attempt(name, changed, () => all.change(present, config));
  }

  /** Closes workspaces that this process no longer owns, and those that it lost meanwhile and has again: these open anew. */
  async function followLeases(): Promise<void> {
    const lost = [...owned].filter(([name, one]) => one.lease !== holder.leaseOf(name));
    // At once: each waits for its requests, or for a database that does not answer.
    const closed = await Promise.allSettled(lost.map(([, one]) => all.close(one)));
    for (const [index, [name, one]] of lost.entries())
      await attempt(name, [], async () => {
        const end = closed[index] as PromiseSettledResult<void>;
        if (end.status === 'rejected') throw end.reason;
        await all.open(one.partition.config, one.wakeSignals);
      });
  }

  async function followHolder(): Promise<void> {
    await followLeases();
    const taken = last?.workspaces.filter(({ name }) => !owned.has(name) && holder.leaseOf(name)) ?? [];
    for (const some of piecesOf(taken, OPENED_AT_ONCE))
      await Promise.all(some.map((config) => attempt(config.name, [], () => all.open(config))));
  }

  /** Whether one that this process owns, so that nobody else opens it, did not open for a reason that may pass. */
  function isOneToTryAgain(): boolean {
    const mayPass = (name: string) => (broken.get(name)?.verdict ?? 'never') !== 'never';
    return last?.workspaces.some(({ name }) => !owned.has(name) && holder.leaseOf(name) && mayPass(name)) === true;
  }

  function openAgainLater(): void {
    cancel();
    attempts = isOneToTryAgain() ? attempts + 1 : 0;
    if (attempts === 0) return;
    const pause = backoff(deps.random, attempts - 1, OPENED_AGAIN_FIRST, OPENED_AGAIN_WITHIN);
    cancel = deps.clock.after(pause, () => void inTurn(followHolder).finally(openAgainLater));
  }

  /** One at a time. */
  function inTurn<Result>(work: () => Promise<Result>): Promise<Result> {
    const result = queue.then(work);
    queue = result.catch(() => undefined);
    return result;
  }

  return {
    partitions: () => [...owned.values()].map(({ partition }) => partition),
    find: (name) => owned.get(name)?.partition,
    service: (name) => owned.get(name)?.service,
    configured: () => last?.workspaces ?? [],
    broken: () => broken,
    rejected: () => rejected,
    apply: (wanted) => inTurn(() => apply(wanted)).finally(openAgainLater),
    followHolder: () => inTurn(followHolder).finally(openAgainLater),
    forget: (name) => void broken.delete(name),
    start: all.start,
    onOpen: all.onOpen,
    stop: () =>
      inTurn(async () => {
        last = undefined;
        cancel();
        await all.closeAll();
      }),
  };
}

function removed(name: string): SyncError {
  return new SyncError('workspace_removed', `${name} has no configuration any more; its rows stay`);
}
