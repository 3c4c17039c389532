import { z } from 'zod';
import type { Upstream } from '../gateway/upstream.ts';
import type { SyncError } from '../model/errors.ts';
import type { WorkspaceConfig } from '../platform/config/schema.ts';
import type { Clock, Random } from '../platform/lib/clock.ts';
import type { Timetable } from '../platform/lib/scheduler.ts';
import type { StatusDepth, StoredStatus } from '../store/status/status-shape.ts';
import type { Store } from '../store/workspace-scope.ts';
import type { HookWatch } from '../sync/intake/hook-watch.ts';
import type { Polls } from '../sync/intake/polls.ts';
import type { Outbox } from '../sync/outbox/outbox.ts';
import type { DirectContext } from '../sync/outbox/sender.ts';
import type { Throttle } from '../sync/quota/throttle.ts';
import type { ReconcileConnections, Rules } from '../sync/reconcile/context.ts';
import type { ActiveConnection } from '../sync/workspace-context.ts';
import type { Send, WorkspaceClient } from '../workspace-api/typed-client.ts';
import type { Postponed } from './changes/postponed.ts';
import type { LagReport } from './status/describe-open-workspace.ts';
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

/**
 * The author of an action, as stored: `command <user of the system>`, as claimed by the command; `session <begin of its digest>
 * (<role>)`; `token <begin of its digest> (<role>)`; `worksync` if there is no author.
 */
export type Actor = string;

/** One request about a workspace, for commands and pages. Its body and its answer are plain JSON. */
export interface Operation<Body, Answer> {
  readonly body: z.ZodType<Body>;
  run(workspace: OpenWorkspace, body: NoInfer<Body>, clock: Clock, actor: Actor): Promise<Answer>;
  /** Present if it changes something and does not write its own audit rows. */
  readonly audit?: AuditWords<NoInfer<Body>, NoInfer<Answer>>;
  /** Returns how many things it would change now. Present if it can be postponed. */
  preview?(workspace: OpenWorkspace, body: NoInfer<Body>): Promise<number>;
  /** Milliseconds within which it answers; absent: `ANSWER_MS`. */
  readonly timeoutMs?: number;
  /** Method and path below the address of the workspace; absent: `POST questions/<name>`. */
  readonly route?: readonly [method: 'GET' | 'POST', path: string];
}

interface AuditWords<Body, Answer> {
  isPreview?(body: Body): boolean;
  /** The things that it changes; null or absent: everything that it can. */
  subject?(body: Body): string | null;
  /** How many things it changed; absent: unknown. */
  count?(answer: Answer): number;
  details?(answer: Answer): string;
}

export function operation<Body, Answer>(row: Operation<Body, Answer>): Operation<Body, Answer> {
  return row;
}

/** Milliseconds for an answer from the database. Operations that call vendors take longer. */
export const ANSWER_MS = 30_000;

export const textSchema = z.string().min(1).max(4_000);
export const countSchema = z.int().min(0).max(1_000_000);
export const emptySchema = z.strictObject({});
export const connectionSchema = z.strictObject({ connection: textSchema });
export const connectionOf = ({ connection }: { readonly connection: string }) => connection;
