import type { Upstream } from '../gateway/upstream.ts';
import type { SyncError } from '../model/errors/sync-error.ts';
import type { WorkspaceConfig } from '../platform/config/schema.ts';
import type { Random } from '../platform/lib/random.ts';
import type { Timetable } from '../platform/lib/scheduler.ts';
import type { Store } from '../store/database.ts';
import type { StatusDepth, StoredStatus } from '../store/status/status-shape.ts';
import type { HookWatch } from '../sync/intake/hook-watch.ts';
import type { Polls } from '../sync/intake/polls.ts';
import type { Outbox } from '../sync/outbox/outbox.ts';
import type { DirectContext } from '../sync/outbox/sender.ts';
import type { Throttle } from '../sync/quota/throttle.ts';
import type { ReconcileConnections, Rules } from '../sync/reconcile/context.ts';
import type { ActiveConnection } from '../sync/workspace-context.ts';
import type { Send } from '../workspace-api/exchange.ts';
import type { WorkspaceClient } from '../workspace-api/typed-client.ts';
import type { Postponed } from './changes/postponed.ts';
import type { LagReport } from './status/lag.ts';
import type { WorkspaceStatus } from './status/status.ts';

export interface TriedConfig {
  readonly config: WorkspaceConfig;
  readonly rules: Rules;
  readonly sources: ReconcileConnections;
}

/** A workspace as the use cases behind commands and pages see it, whether its stages run or not. */
export interface OpenWorkspace {
  readonly name: string;
  readonly config: WorkspaceConfig;
  readonly store: Store;
  readonly throttle: Throttle;
  readonly upstream: Pick<Upstream, 'tokens'>;
  /** Sends requests that are no change of the outbox; `client` does the same with typed methods. */
  readonly send: Send<DirectContext>;
  readonly client: WorkspaceClient<DirectContext>;
  readonly connections: readonly ActiveConnection[];
  /** The rules and connections of reconcile, to explain its decisions. */
  readonly sources: ReconcileConnections;
  readonly rules: Rules;
  readonly random: Random;
  readonly outbox: Pick<Outbox, 'inFlight'>;
  readonly polls: Pick<Polls, 'pollNow'>;
  readonly hooks: Pick<HookWatch, 'check'>;
  readonly timetable: Pick<Timetable, 'runNow'>;
  /** The time from deliveries to the answers of their writes. */
  lag(): LagReport | null;
  /** Requested actions that people can still undo. */
  readonly postponed: Postponed;
  readonly publicUrl?: string;
  /** Compiles another configuration of this workspace from the text of a file. Throws `config_invalid`. */
  compile(config: string): Promise<TriedConfig>;
  /** Wakes the outbox after changes became due without reconcile. */
  wakeOutbox(): void;
  /** Wakes reconcile after a delivery was added to the inbox. */
  wakeReconcile(): void;
  /** Wakes the backfills after one was requested. */
  wakeBackfills(): void;
  /** @param rejected the fault of its present configuration, if it runs with an earlier one */
  status(rejected?: SyncError): Promise<WorkspaceStatus>;
  /** Builds the status from rows that were already read, to this depth. */
  describe(stored: StoredStatus, rejected: SyncError | undefined, depth: StatusDepth): WorkspaceStatus;
  /** Sends the pending writes, and nothing else. */
  startWrites(): void;
}

export interface OpenWorkspaces {
  partitions(): readonly OpenWorkspace[];
  find(name: string): OpenWorkspace | undefined;
  /** Workspaces that are not open, with the reason. Senders of their webhooks are asked to repeat them. */
  broken(): ReadonlyMap<string, SyncError>;
  /** Workspaces that run with their last good configuration, with the fault of the present one. */
  rejected(): ReadonlyMap<string, SyncError>;
  /** Removes a closed workspace after its rows were deleted. */
  forget(name: string): void;
}

export function isElsewhere(workspaces: Pick<OpenWorkspaces, 'broken'>, name: string): boolean {
  return workspaces.broken().get(name)?.code === 'held_elsewhere';
}
