import type { SyncError } from '../../model/errors.ts';
import type { PreparedRequest } from './request.ts';

/**
 * Distinguishes an outage of the workspace from the failure of a single change.
 *
 * closed  requests are sent as the quota allows.
 * open    at least the last `THRESHOLD` requests failed to reach the workspace, and they belong to several changes.
 *         One request is sent every `PROBE_EVERY`, until one reaches it. Failures while open count against no change.
 *
 * A change that fails alone delays only itself. It is at fault if, since its previous failure, other writes succeeded and none of
 * them had failed before. Otherwise the workspace may be at fault: a server under maintenance may answer reads and refuse all
 * writes, and an overloaded one may refuse any request.
 */
export type Breaker = ReturnType<typeof createBreaker>;

/** Requests so far. */
interface Progress {
  /** Requests that the workspace received. */
  readonly passes: number;
  readonly writes: number;
  /** Requests that passed after they had failed. */
  readonly recoveries: number;
}

/** The progress at the first and at the last failure of a change, and whether the last one shows that the change is at fault. */
interface FailedChange {
  readonly first: Progress;
  readonly last: Progress;
  readonly isAtFault: boolean;
}

const THRESHOLD = 3;
/** Failed changes that are remembered; the oldest are dropped. */
const MAX_FAILED_CHANGES = 1_000;
/** Pause between two requests during an outage, milliseconds. */
export const PROBE_EVERY = 30_000;

export function createBreaker() {
  let failures = 0;
  let passes = 0;
  let writes = 0;
  let recoveries = 0;
  const failedEntities = new Set<string>();
  const failedChanges = new Map<string, FailedChange>();
  const isFailing = () => failures >= THRESHOLD;
  const isOpen = () => isFailing() && failedEntities.size > 1;
  return {
    get open() {
      return isOpen();
    },
    /** True if no request has succeeded lately, or none at all although one was tried, whether one change fails or many do. */
    get failing() {
      return isFailing() || (passes === 0 && failures > 0);
    },
    /** Milliseconds to wait before the next request; 0 while closed. */
    pause: () => (isOpen() ? PROBE_EVERY : 0),
    /** @param isWritten the workspace carried out a write */
    passed(entity: string, isWritten: boolean) {
      failures = 0;
      passes++;
      if (isWritten) writes++;
      failedEntities.clear();
      if (failedChanges.delete(entity)) recoveries++;
    },
    failed(entity: string) {
      failures++;
      failedEntities.add(entity);
      const last = { passes, writes, recoveries };
      const before = failedChanges.get(entity) ?? { first: last, last };
      const isAtFault = writes > before.last.writes && recoveries === before.last.recoveries;
      failedChanges.delete(entity);
      failedChanges.set(entity, { first: before.first, last, isAtFault });
      // A dropped or held change never passes, so its entry would stay for ever.
      if (failedChanges.size > MAX_FAILED_CHANGES) failedChanges.delete(failedChanges.keys().next().value as string);
    },
    /**
     * Whether the workspace answered other requests, and whether it carried out other writes, since this change first failed; and
     * whether its last failure shows that the change itself is at fault.
     */
    sinceFailure(entity: string) {
      const { first, isAtFault } = failedChanges.get(entity) ?? { first: { passes, writes }, isAtFault: false };
      return { othersAnswered: passes > first.passes, othersWritten: writes > first.writes, isAtFault };
    },
  };
}

/** Whether the workspace itself refused the request with its error object, and not a proxy in front of it. */
export function isWorkspaceRefusal(error: SyncError): boolean {
  return error.own && (error.status ?? 500) < 500;
}

/** Whether the workspace refuses our key as a whole. Then no other request can succeed either. */
export function isCredentialRefused({ action }: Pick<PreparedRequest, 'action'>, error: SyncError): boolean {
  if (error.code === 'unauthorized') return true;
  return error.code === 'forbidden' && (action === 'read-tasks' || error.errorCode === 'workspace_forbidden');
}
