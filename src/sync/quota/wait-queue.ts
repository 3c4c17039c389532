import PQueue from 'p-queue';
import { LANES, type Lane } from '../../model/lane.ts';

export interface SlotRequest {
  readonly lane: Lane;
  /** Whom the request is counted for, as in `model/caller.ts`; the lane where absent. Decides nothing. */
  readonly caller?: string;
  /** Epoch milliseconds; smaller is more urgent. */
  readonly due: number;
  /** Cancels the request for a slot while it waits. A slot that was given stays. */
  readonly signal?: AbortSignal;
}

/**
 * The line of waiting requests for a slot, most urgent first, and those being served: at most `concurrency` at once.
 *
 * p-queue holds both. It starts a job synchronously, so what a job reserves is reserved before anything else can look.
 * Its queue stays paused and is opened for one job at a time: an urgent request that comes late still goes first.
 */
export interface WaitQueue {
  /** Calls `serve` when it is this request's turn, or `turnAway` when it was cancelled; its place is taken until `serve` ends. */
  enter(wish: SlotRequest, serve: () => Promise<void>, turnAway: () => void): void;
  /** Serves the most urgent request of these. False where there is none or no place is free. */
  serveOne(who: PriorityClass): boolean;
  setConcurrency(concurrency: number): void;
  /** Whether a request of these waits and a place is free for it. */
  waits(who: 'people' | 'live' | 'backfill'): boolean;
  waiting(): Record<Lane, number>;
  /** Calls after a place became free, and after a request was cancelled. */
  onChange(call: () => void): void;
  /** Turns everybody away; resolves when nobody is being served. */
  close(): Promise<void>;
}

/** Who may be served: people only; these and the live lanes of the background; or backfills too. */
export type PriorityClass = 'people' | 'live' | 'anyone';

/** Before every due time: for the request that goes first because others may not. */
const FRONT = Number.MAX_VALUE;
/** Milliseconds that are more than any due time, and few enough to be added to one without loss. */
const BEHIND = 1e15;

interface Place {
  readonly id: string;
  readonly wish: SlotRequest;
}

export function createWaitQueue(concurrency: number): WaitQueue {
  const queue = new PQueue({ concurrency, autoStart: false });
  const places = new Map<string, Place>();
  let nextId = 1;

  const isFull = () => queue.pending >= queue.concurrency;
  const of = (who: 'people' | 'live' | 'backfill') => [...places.values()].filter(({ wish }) => classOf(wish) === who);

  return {
    enter(wish, serve, turnAway) {
      const id = String(nextId++);
      // p-queue's signal would also end the job of a request that is being served: this one is released before.
      const withdrawal = new AbortController();
      const withdraw = () => withdrawal.abort();
      const leave = () => {
        wish.signal?.removeEventListener('abort', withdraw);
        places.delete(id);
      };
      const job = () => {
        queue.pause();
        leave();
        return serve();
      };
      wish.signal?.addEventListener('abort', withdraw, { once: true });
      places.set(id, { id, wish });
      queue.add(job, { id, priority: priorityOf(wish), signal: withdrawal.signal }).catch(() => {
        leave();
        turnAway();
      });
    },

    serveOne(who) {
      if (places.size === 0 || isFull()) return false;
      if (who !== 'anyone') {
        const first = mostUrgent(who === 'people' ? of('people') : [...of('people'), ...of('live')]);
        if (first === undefined) return false;
        queue.setPriority(first.id, FRONT);
      }
      const before = queue.pending;
      queue.start();
      queue.pause();
      return queue.pending > before;
    },

    setConcurrency(next) {
      queue.concurrency = next;
    },

    waits(who) {
      return !isFull() && of(who).length > 0;
    },

    waiting() {
      const counts = Object.fromEntries(LANES.map((lane) => [lane, 0])) as Record<Lane, number>;
      for (const { wish } of places.values()) counts[wish.lane] += 1;
      return counts;
    },

    onChange: (call) => queue.addEventListener('next', call),

    async close() {
      queue.clear();
      await queue.onPendingZero();
    },
  };
}

/** Of equals the one that came first. */
function mostUrgent(places: readonly Place[]): Place | undefined {
  return places.toSorted((a, b) => a.wish.due - b.wish.due)[0];
}

function classOf({ lane }: SlotRequest): 'people' | 'live' | 'backfill' {
  if (lane === 'interactive') return 'people';
  return lane === 'backfill' ? 'backfill' : 'live';
}

/** A backfill is older than anything, and goes last nevertheless. */
function priorityOf(wish: SlotRequest): number {
  return classOf(wish) === 'backfill' ? -wish.due - BEHIND : -wish.due;
}
