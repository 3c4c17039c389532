import PQueue from 'p-queue';
import { LANES, type Lane } from '../../model/change.ts';
import { asSyncError } from '../../model/errors.ts';
import { createDeadlineTimer } from '../../platform/lib/clock.ts';
import { createTransitionLogger } from '../../platform/lib/telemetry.ts';
import { forgetMeta, readMeta, writeMeta } from '../../store/meta.ts';
import type { StoreContext } from '../../store/store-context.ts';
import type { Scope, Store } from '../../store/workspace-scope.ts';
import {
  type CooldownControl,
  type ObservedUse,
  type QuotaMeasure,
  type SlotAnswer,
  writeCooldown,
} from './cooldown.ts';
import type { Entry, WindowLedger } from './window-ledger.ts';

/** The right to send one request. `release`, `complete` or `leave` must end it; `leave` may follow the others. */
export interface Slot {
  /** Writes the ledger row in the caller's transaction, which must be committed before the request is sent. */
  record(query: Scope): Promise<void>;
  /** Frees the slot at once: nothing was sent, or the transaction was rolled back. Idempotent. */
  release(): void;
  /**
   * Ends the request; `undefined` if no answer came. The slot is free one window later. Commits, or writes within the
   * given transaction; after a rollback, a repeated call only writes again.
   */
  complete(answer: SlotAnswer | undefined, query?: Scope): Promise<void>;
  /**
   * Gives up the slot without storing an end: the next process that opens the ledger counts the request as in flight.
   * Has no effect on an ended slot.
   */
  leave(): void;
}

/** Milliseconds without another write. */
const HEARTBEAT_INTERVAL = 5_000;

interface SlotEvents {
  /** The request is about to be sent. */
  readonly onRecorded: () => void;
  readonly onEnd: () => void;
}

/** Creates the slots that are given out, and writes their rows. */
export function createSlots(
  context: StoreContext,
  ledger: WindowLedger,
  control: CooldownControl,
  measure: (now: number) => QuotaMeasure,
  wasUnclean: boolean,
  isIdle: () => boolean,
) {
  const { store, logger, meter, clock } = context;
  const heartbeat = createHeartbeat(context, ledger, isIdle);
  /** The running marker may be stored; it is known to be committed. */
  let mayBeMarked = wasUnclean;
  let isMarked = wasUnclean;

  const reportUse = ({ lane }: Entry, now: number) => {
    const { long, burst, share } = measure(now);
    meter.count('quota_requests_total', { lane });
    meter.gauge('quota_used', long.used, { window: 'long' });
    meter.gauge('quota_used', burst.used, { window: 'burst' });
    meter.gauge('quota_share', share);
  };

  const create = (entry: Entry, { onRecorded, onEnd }: SlotEvents): Slot => {
    let cooldownChanged = false;
    let observed: ObservedUse | undefined;

    const applyAnswer = (answer: SlotAnswer | undefined) => {
      const before = control.cooldown.observed;
      const now = clock.monotonic();
      ledger.complete(entry, answer?.status, now);
      cooldownChanged = control.apply(entry, answer);
      reportUse(entry, now);
      if (control.cooldown.observed !== before) observed = control.cooldown.observed;
    };

    const write = async (query: Scope) => {
      heartbeat.postpone();
      await ledger.recordEnd(entry, query);
      if (observed) await ledger.uses.addOthers(query, observed);
      if (cooldownChanged) await writeCooldown(query, clock, control.cooldown);
    };

    return {
      async record(query) {
        heartbeat.postpone();
        mayBeMarked = true;
        if (!isMarked) await markRunning(query);
        await ledger.record(entry, query);
        onRecorded();
      },
      release() {
        if (entry.state !== 'open') return;
        ledger.release(entry);
        onEnd();
      },
      async complete(answer, query) {
        if (entry.state === 'released') return;
        // A request is sent only after its row, and with it the marker, was committed.
        isMarked ||= entry.recorded;
        if (entry.state === 'open') applyAnswer(answer);
        await (query === undefined ? durably(store, write) : write(query)).finally(onEnd);
      },
      leave: onEnd,
    };
  };

  return {
    create,
    stopHeartbeat: heartbeat.stop,
    /** Must be called after all slots have ended. `cautionMs`: how long the next process is cautious. */
    async recordShutdown(cautionMs: number): Promise<void> {
      if (!mayBeMarked) return;
      try {
        await durably(store, (query) => markShutdown(query, cautionMs));
      } catch (error) {
        logger.warn({ error }, 'the clean shutdown could not be recorded: the next process starts carefully');
      }
    },
  };
}

/** Stores the time while any window contains a request: after a reboot, only stored time is known to have passed. */
function createHeartbeat({ store, clock, logger }: StoreContext, ledger: WindowLedger, isIdle: () => boolean) {
  const failures = createTransitionLogger(logger, 'warn', {
    failed: 'the time of the ledger could not be stored',
    again: 'the time of the ledger is stored again',
  });
  let stopped = false;
  let writing = Promise.resolve();
  const timer = createDeadlineTimer(clock, () => {
    writing = write();
  });
  const postpone = () => timer.set(stopped ? Number.POSITIVE_INFINITY : clock.monotonic() + HEARTBEAT_INTERVAL);

  const write = async () => {
    if (stopped || isIdle()) return;
    postpone();
    try {
      await durably(store, (query) => ledger.heartbeat(query));
      failures.succeeded();
    } catch (error) {
      failures.failed(error);
    }
  };

  postpone();
  return {
    postpone,
    async stop() {
      stopped = true;
      timer.set(Number.POSITIVE_INFINITY);
      await writing;
    },
  };
}

export async function durably<Result>(store: Store, work: (query: Scope) => Promise<Result>): Promise<Result> {
  try {
    return await store.commit(work);
  } catch (error) {
    throw asSyncError(error);
  }
}

/** Key in `meta`: present while a process uses the quota, and after an unclean end. */
const MARKER_KEY = 'throttle.running';
const RUNNING = 'yes';

/** Whether the previous process ended uncleanly. */
export async function wasUncleanShutdown(query: Scope): Promise<boolean> {
  return (await readMeta(query, MARKER_KEY)) === RUNNING;
}

/** Caution that the previous process left at its clean shutdown, milliseconds. */
export async function remainingCaution(query: Scope): Promise<number> {
  const marker = await readMeta(query, MARKER_KEY);
  return marker === undefined || marker === RUNNING ? 0 : Number(marker);
}

export async function markRunning(query: Scope): Promise<void> {
  await writeMeta(query, MARKER_KEY, RUNNING);
}

async function markShutdown(query: Scope, cautionMs: number): Promise<void> {
  if (cautionMs > 0) await writeMeta(query, MARKER_KEY, String(Math.ceil(cautionMs)));
  else await forgetMeta(query, MARKER_KEY);
}

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
      const cancel = () => {
        // First, because p-queue reports the free place before it rejects.
        leave();
        cancellation.abort();
      };
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
      if (isFull()) return false;
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

    isEmpty: () => waiters.size === 0,

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
