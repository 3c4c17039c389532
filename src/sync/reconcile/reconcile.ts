import { asSyncError } from '../../model/errors/sync-error.ts';
import { type Clock, sleep } from '../../platform/lib/clock.ts';
import type { Logger } from '../../platform/lib/logger.ts';
import type { Meter } from '../../platform/lib/meter.ts';
import { backoff, type Random } from '../../platform/lib/random.ts';
import type { Stage } from '../../platform/lib/stage.ts';
import type { Tracer } from '../../platform/lib/tracer.ts';
import type { WakeSignal } from '../../platform/lib/wake-signal.ts';
import { yieldForRequests } from '../../platform/lib/yield.ts';
import type { Store } from '../../store/database.ts';
import { pendingDeliveries } from '../../store/inbox.ts';
import { createBatchInputs } from './batch-inputs.ts';
import type { Sources } from './context.ts';
import type { Rules } from './item-rules.ts';
import type { GuardLimits } from './mass-change-guard.ts';
import { createPoisonMessages } from './poison-messages.ts';
import { createDeliveryProcessor } from './process-deliveries.ts';
import { createOpenReevaluation } from './reevaluate-open.ts';

export interface ReconcileOptions {
  /** The version of the program: another version tries again what took too much. */
  readonly version: string;
  readonly store: Store;
  readonly sources: Sources;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  readonly meter: Meter;
  readonly tracer?: Tracer;
  /** u of the long quota window, 0..1. */
  readonly usedShare: () => number;
  /** Within which every change is to be seen, milliseconds; absent: as soon as the quota makes sensible. */
  readonly visibility?: number;
  /** Whether deliveries come in faster than they can be stored one by one. */
  readonly isCrowded: () => boolean;
  /** Absent: those that hold where nothing is configured. */
  readonly rules?: Rules;
  /** Absent: nothing is held. */
  readonly guard?: GuardLimits;
  /** Notified after deliveries were appended. */
  readonly inbox: WakeSignal;
  /** Notified when the outbox may have a new change. */
  readonly outbox: WakeSignal;
  /** Notified when objects are to be fetched. */
  readonly fetches: WakeSignal;
  /** Notified when a notice may have to be written to a vendor. */
  readonly writeBack?: WakeSignal;
}

export interface Reconcile extends Stage {
  /** Processes everything that is pending now; resolves when nothing is. */
  drain(): Promise<void>;
}

/** Deliveries read at once, and bytes of them: what the main thread translates in some milliseconds. */
const BATCH = 100;
const BATCH_BYTES = 1024 * 1024;

/** How long a crowd of senders may keep reconcile from its work, and how often it looks up, milliseconds. */
const LONGEST_LAG = 5_000;
const LOOK = 10;

/**
 * The stage between inbox and outbox. It takes pending deliveries, oldest first, in batches; a batch is one
 * transaction. When one fails, its deliveries are tried one by one, so that only the one at fault waits.
 */
export function createReconcile(options: ReconcileOptions): Reconcile {
  const { store, clock, logger } = options;
  const inputs = createBatchInputs(options);
  const poisonMessages = createPoisonMessages({ store, version: options.version, batch: BATCH });
  const takeOver = createDeliveryProcessor({ ...options, inputs, poisonMessages });
  const lookAgain = createOpenReevaluation({ ...options, inputs });
  let stopping: AbortController | undefined;
  let running: Promise<void> | undefined;

  async function run(signal: AbortSignal): Promise<void> {
    for (let failures = 0; !signal.aborted; ) {
      try {
        await lookAgain(signal);
        await drain(signal);
        // A list of tasks may have shown ids of another form.
        await lookAgain(signal);
        failures = 0;
        await options.inbox.wait();
      } catch (error) {
        // The database does not take writes just now, for example because the disk is full.
        logger.error({ error: asSyncError(error) }, 'reconcile cannot write and waits');
        await sleep(clock, backoff(options.random, failures++, 500, 5_000), signal);
      }
    }
  }

  async function drain(signal?: AbortSignal): Promise<void> {
    await poisonMessages.lookBack();
    const patientUntil = clock.monotonic() + LONGEST_LAG;
    for (let isFirst = true; !signal?.aborted; isFirst = false) {
      const pending = await pendingDeliveries(store.query, BATCH, BATCH_BYTES);
      if (pending.length === 0) return;
      if (!isFirst) await yieldForRequests();
      await poisonMessages.noteWork();
      if (signal) await giveWay(patientUntil, signal);
      const suspected = pending.filter(poisonMessages.has);
      for (const delivery of suspected) await takeOver.suspect(delivery);
      const others = pending.slice(suspected.length);
      if (others.length > 0) await takeOver.all(others);
    }
  }

  /**
   * Senders wait for their 2xx, and nobody waits for reconcile: in a burst intake goes first. A burst that lasts is
   * shared: a batch, then whoever has come meanwhile.
   */
  async function giveWay(until: number, signal: AbortSignal): Promise<void> {
    while (!signal.aborted && options.isCrowded() && clock.monotonic() < until) await sleep(clock, LOOK, signal);
  }

  return {
    drain: () => drain(),
    start() {
      if (running) return;
      stopping = new AbortController();
      running = run(stopping.signal);
    },
    async stop() {
      stopping?.abort();
      options.inbox.notify();
      await running;
      running = undefined;
      await poisonMessages.noteEnd();
    },
  };
}
