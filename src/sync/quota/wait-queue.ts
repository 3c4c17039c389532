import PQueue from 'p-queue';
import { LANES, type Lane } from '../../model/change.ts';
import type { Cancel, Clock } from '../../platform/lib/clock.ts';

export interface SlotRequest {
  readonly lane: Lane;
  /** See `model/caller.ts`; the lane if absent. Has no effect on order. */
  readonly caller?: string;
  /** Epoch milliseconds; smaller is more urgent. */
  readonly due: number;
  /**
   * The request belongs to a turn that has a slot already, and follows that request. It goes before all other background
   * work and takes no place of its own, so that a turn of two requests never waits for itself.
   */
  readonly isFollower?: boolean;
  /** Cancels the request while it waits. */
  readonly signal?: AbortSignal;
}

/** Classes of lanes, most urgent first: people and commands, the live background lanes, backfills. */
type PriorityClass = 'interactive' | 'live' | 'backfill';

/**
 * Requests that wait for a slot, most urgent first, and at most `concurrency` that have one.
 *
 * p-queue starts a job synchronously, so its reservation is visible before any other code runs. It stays paused and
 * opens for one job at a time, so that a late urgent request still goes first.
 */
export type WaitQueue = ReturnType<typeof createWaitQueue>;

/** A priority above that of every due time. */
const FRONT = Number.MAX_VALUE;
/** More milliseconds than any due time, but addable without loss of precision. */
const BEHIND_ALL = 1e15;

interface Waiter {
  readonly id: string;
  readonly request: SlotRequest;
}

export function createWaitQueue(concurrency: number) {
  const queue = new PQueue({ concurrency, autoStart: false });
  const waiters = new Map<string, Waiter>();
  let nextId = 1;

  const isFull = () => queue.pending >= queue.concurrency;
  const waitersOf = (priority: PriorityClass) =>
    [...waiters.values()].filter(({ request }) => priorityClassOf(request) === priority);

  return {
    /**
     * Calls `serve` when the turn of the request comes, or `reject` if it is cancelled first. The request occupies its
     * place until `serve` settles.
     */
    enter(request: SlotRequest, serve: () => Promise<void>, reject: () => void) {
      const id = String(nextId++);
      // p-queue applies its signal to a running job too, so the caller's is detached before the job starts.
      const cancellation = new AbortController();
      const cancel = () => cancellation.abort();
      const leave = () => {
        request.signal?.removeEventListener('abort', cancel);
        waiters.delete(id);
      };
      const job = () => {
        queue.pause();
        leave();
        return serve();
      };
      request.signal?.addEventListener('abort', cancel, { once: true });
      waiters.set(id, { id, request });
      queue.add(job, { id, priority: priorityOf(request), signal: cancellation.signal }).catch(() => {
        leave();
        reject();
      });
    },

    /** Serves the most urgent request, of this class at the lowest. False if there is none or no place is free. */
    serveOne(lowest: PriorityClass) {
      if (waiters.size === 0 || isFull()) return false;
      if (lowest !== 'backfill') {
        const interactive = waitersOf('interactive');
        const first = mostUrgent(lowest === 'interactive' ? interactive : [...interactive, ...waitersOf('live')]);
        if (first === undefined) return false;
        queue.setPriority(first.id, FRONT);
      }
      const before = queue.pending;
      queue.start();
      queue.pause();
      return queue.pending > before;
    },

    setConcurrency(next: number) {
      queue.concurrency = next;
    },

    /** Whether a request of this class waits and a place is free for it. */
    waits(of: PriorityClass) {
      return !isFull() && waitersOf(of).length > 0;
    },

    waiting() {
      const counts = Object.fromEntries(LANES.map((lane) => [lane, 0])) as Record<Lane, number>;
      for (const { request } of waiters.values()) counts[request.lane] += 1;
      return counts;
    },

    /** Calls back after a place became free or a request was cancelled. */
    onChange: (listener: () => void) => queue.addEventListener('next', listener),

    /** Rejects waiting requests. Resolves when all places are free. */
    async close() {
      queue.clear();
      await queue.onPendingZero();
    },
  };
}

function mostUrgent(waiters: readonly Waiter[]): Waiter | undefined {
  return waiters.toSorted((a, b) => a.request.due - b.request.due)[0];
}

function priorityClassOf({ lane }: SlotRequest): PriorityClass {
  return lane === 'interactive' || lane === 'backfill' ? lane : 'live';
}

/** Backfills go last although their due times are the oldest. */
function priorityOf(request: SlotRequest): number {
  return priorityClassOf(request) === 'backfill' ? -request.due - BEHIND_ALL : -request.due;
}

/** One timer for one deadline. Setting the same deadline again has no effect. */
export function createDeadlineTimer(clock: Clock, callback: () => void) {
  let deadline = Number.POSITIVE_INFINITY;
  let cancel: Cancel | undefined;
  return {
    /** Replaces the deadline, monotonic milliseconds. Infinity clears it. */
    set(at: number) {
      if (at === deadline) return;
      cancel?.();
      cancel = undefined;
      deadline = at;
      if (at === Number.POSITIVE_INFINITY) return;
      cancel = clock.after(Math.max(0, Math.ceil(at - clock.monotonic())), () => {
        deadline = Number.POSITIVE_INFINITY;
        callback();
      });
    },
  };
}
