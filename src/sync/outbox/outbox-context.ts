import type { ErrorCode } from '../../model/errors/codes.ts';
import type { SyncError } from '../../model/errors/sync-error.ts';
import type { Lane } from '../../model/lane.ts';
import type { TaskStatuses } from '../../model/task-status.ts';
import type { WakeSignal } from '../../platform/lib/wake-signal.ts';
import type { UpdateForm } from '../../store/task-update-facts.ts';
import type { WorkspaceContext } from '../../store/workspace-context.ts';
import type { Scope } from '../../store/workspace-scope.ts';
import type { WorkspaceClient } from '../../workspace-api/typed-client.ts';

/** The parts and the settings of the outbox of one workspace. */
export interface OutboxContext extends WorkspaceContext {
  readonly throttle: SlotSource;
  readonly client: OutboxClient;
  /** Promised time from an event to its write, milliseconds. Absent: as soon as the quota makes sensible. */
  readonly visibility?: number;
  /** Whether any connection records its pull requests in the workspace. */
  readonly recordsPullRequests: boolean;
  /** Base address of the workspace. Stored facts about the server are valid for this address only. */
  readonly baseUrl: string;
  /** Whether the configuration says that links are idempotent by address. */
  readonly linksAreIdempotent: boolean;
  readonly taskUpdates: TaskUpdateSettings;
  /** Whether the present rules have evaluated all changes. Until then nothing is written. Absent: they have. */
  readonly areChangesCurrent?: () => boolean;
  /**
   * How long no write about an entity is sent that the previous process was writing when it ended, milliseconds.
   * Absent: its requests cannot be in flight any more.
   */
  readonly untouched?: number;
  /** Notified when a change may have become due. */
  readonly outbox: WakeSignal;
  /** Notified when an answer was appended to the inbox. */
  readonly inbox: WakeSignal;
  /** Called with the reason when the workspace cannot be written to, and with undefined when it can again. */
  readonly onTrouble?: (trouble: SyncError | undefined) => void;
  /** Called when a write was sent: caches of the workspace may be stale. */
  readonly onWrite?: () => void;
  /** Called with each live delivery's lag: from its receipt to the answer of its write, milliseconds. */
  readonly onLag?: (milliseconds: number) => void;
}

/** How the configuration says that tasks are updated. */
export interface TaskUpdateSettings {
  /** The body of an update that the route takes. */
  readonly form: UpdateForm;
  readonly statuses: TaskStatuses;
  /** Whether webhooks of the workspace report edits by people. */
  readonly areEditsReported: boolean;
}

/** The part of the throttle that the outbox needs. */
export interface SlotSource {
  acquire(request: { lane: Lane; due: number; isFollower?: boolean; signal?: AbortSignal }): Promise<Slot>;
  /** The used share of the long quota window, 0..1. */
  usedShare(): number;
  /** The limits of background requests at present, one for each quota window. */
  paces(): readonly Pace[];
  /** Whether our key was refused, and no answer has shown since that it is accepted again. */
  isHalted(): boolean;
}

/** At most `slots` requests start within `hold` milliseconds. */
export interface Pace {
  readonly slots: number;
  readonly hold: number;
}

/** The right to send one request. `Slot` in `sync/quota/slot.ts` describes what each method guarantees. */
export interface Slot {
  record(query: Scope): Promise<void>;
  release(): void;
  /** Gives up a slot whose completion this process cannot store any more. */
  leave(): void;
  complete(answer: SlotAnswer | undefined, query?: Scope): Promise<void>;
}

interface SlotAnswer {
  readonly status: number;
  readonly retryAfter?: number;
  /** Whether the workspace accepted our key: null if it did, the reason if it did not; absent if the answer does not tell. */
  readonly key?: { readonly code: ErrorCode; readonly reason: string } | null;
}

/** A request of the outbox uses the slot that its own transaction recorded. */
export interface SendContext {
  readonly slot: Slot;
  /** Header of W3C Trace Context. Absent: none is sent. */
  readonly traceparent?: string;
}

export type OutboxClient = WorkspaceClient<SendContext>;
