import { asSyncError } from '../../model/errors/sync-error.ts';
import { createTransitionLogger } from '../../platform/lib/logger.ts';
import type { Store } from '../../store/database.ts';
import { forgetMeta, readMeta, writeMeta } from '../../store/meta.ts';
import type { StoreContext } from '../../store/store-context.ts';
import type { Scope } from '../../store/workspace-scope.ts';
import {
  type CooldownControl,
  type ObservedUse,
  type QuotaMeasure,
  type SlotAnswer,
  writeCooldown,
} from './cooldown.ts';
import { createDeadlineTimer } from './wait-queue.ts';
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
  measure: () => QuotaMeasure,
  wasUnclean: boolean,
  isIdle: () => boolean,
) {
  const { store, logger, meter, clock } = context;
  const heartbeat = createHeartbeat(context, ledger, isIdle);
  /** The running marker may be stored; it is known to be committed. */
  let mayBeMarked = wasUnclean;
  let isMarked = wasUnclean;

  const reportUse = ({ lane }: Entry) => {
    const { long, burst, share } = measure();
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
      ledger.complete(entry, answer?.status);
      cooldownChanged = control.apply(entry, answer);
      reportUse(entry);
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
