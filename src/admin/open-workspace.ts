import type { Upstream } from '../gateway/upstream.ts';
import type { SyncError } from '../model/errors/sync-error.ts';
import type { Lane } from '../model/lane.ts';
import type { WorkspaceConfig } from '../platform/config/schema.ts';
import type { Random } from '../platform/lib/random.ts';
import type { Timetable } from '../platform/lib/scheduler.ts';
import type { Store } from '../store/database.ts';
import type { HealthSummary, StoredStatus } from '../store/stored-status.ts';
import type { ActiveConnection } from '../sync/intake/active-connection.ts';
import type { HookWatch } from '../sync/intake/hook-watch.ts';
import type { Polls } from '../sync/intake/polls.ts';
import type { Outbox } from '../sync/outbox/outbox.ts';
import type { Throttle } from '../sync/quota/throttle.ts';
import type { ReconcileConnections, Rules } from '../sync/reconcile/context.ts';
import type { Send } from '../workspace-api/exchange.ts';
import type { WorkspaceClient } from '../workspace-api/typed-client.ts';
import type { LagReport } from './lag.ts';
import type { Postponed } from './postponed.ts';
import type { WorkspaceStatus } from './status.ts';
import type { ListedWorkspace } from './workspace-list.ts';

/** How a request without a row in the outbox asks for its slot. */
export interface DirectContext {
  readonly lane: Lane;
  /** Whom it is counted for, as in `model/caller.ts`; a command where absent. */
  readonly caller?: string;
  readonly signal?: AbortSignal;
  /** How long it waits for a slot at most, milliseconds; without end where absent. */
  readonly patience?: number;
}

/** A configuration that is not in use, compiled. */
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
  /** Sends what no change of the outbox stands for; the client is the same with typed methods. */
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
  /** What runs on a schedule. */
  readonly timetable: Pick<Timetable, 'runNow'>;
  /** How long deliveries took until their writes were answered. */
  lag(): LagReport | null;
  /** What people asked for and can undo still. */
  readonly postponed: Postponed;
  /** The public address of the daemon, if configured. */
  readonly publicUrl?: string;
  /** Another configuration of this workspace from the text of a file. Throws `config_invalid`. */
  compile(config: string): Promise<TriedConfig>;
  /** Tells the outbox that changes became due without reconcile's doing. */
  wakeOutbox(): void;
  /** Tells reconcile that something came into the inbox. */
  wakeReconcile(): void;
  /** Tells that a backfill was asked for. */
  wakeBackfills(): void;
  /** @param rejected what is wrong with its present configuration, if it runs with an earlier one */
  status(rejected?: SyncError): Promise<WorkspaceStatus>;
  /** The same from what was read of its rows. */
  describe(stored: StoredStatus, rejected?: SyncError): WorkspaceStatus;
  /** What of it a list of many shows. */
  list(stored: HealthSummary, rejected?: SyncError): ListedWorkspace;
  /** Sends the writes that wait, and does nothing else. */
  startWrites(): void;
}

/** All workspaces of the process. */
export interface OpenWorkspaces {
  /** Those that are open. */
  partitions(): readonly OpenWorkspace[];
  find(name: string): OpenWorkspace | undefined;
  /** Those that are not open, and why: their senders are asked to repeat webhooks. */
  broken(): ReadonlyMap<string, SyncError>;
  /** Those that run with their last good configuration, and what is wrong with the present one. */
  rejected(): ReadonlyMap<string, SyncError>;
  /** The rows of a closed one were deleted. */
  forget(name: string): void;
}

/** Whether another process works on it. */
export function isElsewhere(workspaces: Pick<OpenWorkspaces, 'broken'>, name: string): boolean {
  return workspaces.broken().get(name)?.code === 'held_elsewhere';
}
