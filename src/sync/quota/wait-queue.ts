import { LANES, type Lane } from '../../model/lane.ts';
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

/** Classes of requests, most urgent first: those that follow another one, people and commands, the live background lanes, backfills. */
type PriorityClass = 'follower' | 'interactive' | 'live' | 'backfill';

/** More milliseconds than any due time, but addable without loss of precision. */
const BEHIND_ALL = 1e15;

interface Waiter {
  readonly request: SlotRequest;
  readonly serve: () => Promise<void>;
  readonly reject: () => void;
  readonly cancel: () => void;
}

export type WaitQueue = ReturnType<typeof createWaitQueue>;

/** Requests that wait for a slot, and those that have one. @param onChange called after a request ended or was cancelled */
export function createWaitQueue(onChange: () => void) {
  /** In the order of their arrival. */
  const waiters: Waiter[] = [];
  const served = new Set<Promise<void>>();

  function leave(waiter: Waiter): void {
    waiter.request.signal?.removeEventListener('abort', waiter.cancel);
    waiters.splice(waiters.indexOf(waiter), 1);
  }

  return {
    /** Calls `serve` when the turn of the request comes, or `reject` if it is cancelled first. The request ends when `serve` settles. */
    enter(request: SlotRequest, serve: () => Promise<void>, reject: () => void) {
      const cancel = () => {
        leave(waiter);
        reject();
        onChange();
      };
      const waiter = { request, serve, reject, cancel };
      request.signal?.addEventListener('abort', cancel, { once: true });
      waiters.push(waiter);
    },

    /** Serves the most urgent request of these classes, at once. False if there is none. */
    serveOne(...classes: readonly PriorityClass[]): boolean {
      const allowed = waiters.filter(({ request }) => classes.includes(classOf(request)));
      const [first] = allowed.toSorted((a, b) => placeOf(a.request) - placeOf(b.request));
      if (first === undefined) return false;
      leave(first);
      const ended = first.serve().finally(() => {
        served.delete(ended);
        onChange();
      });
      served.add(ended);
      return true;
    },

    /** The number of requests that were served and have not ended. */
    running: () => served.size,
    waits: (of: PriorityClass) => waiters.some(({ request }) => classOf(request) === of),

    /** The number of waiting requests by lane, without those that follow another one. */
    waiting(): Record<Lane, number> {
      const counts = Object.fromEntries(LANES.map((lane) => [lane, 0])) as Record<Lane, number>;
      for (const { request } of waiters) if (!request.isFollower) counts[request.lane] += 1;
      return counts;
    },

    /** Rejects waiting requests. Resolves when all that were served have ended. */
    async close() {
      for (const waiter of [...waiters]) {
        leave(waiter);
        waiter.reject();
      }
      await Promise.all(served);
    },
  };
}

function classOf({ lane, isFollower }: SlotRequest): PriorityClass {
  if (isFollower) return 'follower';
  return lane === 'interactive' || lane === 'backfill' ? lane : 'live';
}

/** Following requests go in the order of their arrival. Backfills go last although their due times are the oldest. */
function placeOf(request: SlotRequest): number {
  if (request.isFollower) return 0;
  return classOf(request) === 'backfill' ? request.due + BEHIND_ALL : request.due;
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
