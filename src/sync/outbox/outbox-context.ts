import type { SyncError } from '../../model/errors.ts';
import type { TaskStatuses } from '../../model/task-status.ts';
import type { UpdateForm } from '../../store/tasks/stored-tasks.ts';
import type { WakeSignals, WorkspaceContext } from '../../store/workspace-context.ts';
import type { SendContext, WorkspaceClient } from '../../workspace-api/typed-client.ts';
import type { Throttle } from '../quota/throttle.ts';
import type { Breaker } from './breaker.ts';

/** The parts and the settings of the outbox of one workspace. */
export interface OutboxContext extends WorkspaceContext, WakeSignals {
  readonly throttle: Throttle;
  readonly client: OutboxClient;
  readonly breaker: Breaker;
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

export type OutboxClient = WorkspaceClient<SendContext>;
