import { asSyncError } from '../../model/errors/sync-error.ts';
import { sleep } from '../../platform/lib/clock.ts';
import { backoff } from '../../platform/lib/random.ts';
import type { Stage } from '../../platform/lib/scheduler.ts';
import type { WakeSignal } from '../../platform/lib/wake-signal.ts';
import { yieldForRequests } from '../../platform/lib/yield.ts';
import { type PendingDelivery, pendingDeliveries } from '../../store/inbox.ts';
import type { WorkspaceContext } from '../../store/workspace-context.ts';
import { type BatchContextOptions, createBatchContexts } from './context.ts';
import { createPoisonMessages } from './poison-messages.ts';
import { createProcessor } from './process.ts';
import { createReevaluation } from './reevaluate.ts';

export interface ReconcileOptions extends WorkspaceContext, BatchContextOptions {
  /** The version of the program. Another version retries the deliveries that exceeded their budget. */
  readonly version: string;
  /** Whether deliveries arrive faster than intake can store them one by one. */
  readonly isCrowded: () => boolean;
  /** Notified after deliveries were appended. */
  readonly inbox: WakeSignal;
  /** Notified when the outbox may have a new change. */
  readonly outbox: WakeSignal;
  /** Notified when objects must be fetched. */
  readonly fetches: WakeSignal;
  /** Notified when a notice may have to be written to a vendor. */
  readonly writeBack?: WakeSignal;
}

export interface Reconcile extends Stage {
  /** Processes all pending deliveries and resolves when none is left. */
  drain(): Promise<void>;
  /** Whether the present rules have evaluated all changes in the outbox. Until then none may be sent. */
  areChangesCurrent(): boolean;
}

/** Deliveries read at once, and their bytes: the main thread translates so many in a few milliseconds. */
const BATCH = 100;
const BATCH_BYTES = 1024 * 1024;

/** The longest time that a burst of webhooks may delay reconcile, and the interval of the checks, milliseconds. */
const MAX_LAG_MS = 5_000;
const CROWD_CHECK_MS = 10;

/**
 * Creates the stage between inbox and outbox: process → evaluate → enqueue. Takes pending deliveries in batches, oldest
 * first.
 */
export function createReconcile(options: ReconcileOptions): Reconcile {
  const { store, clock, logger, random, version } = options;
  const contexts = createBatchContexts(options);
  const poisonMessages = createPoisonMessages({ store, clock, version, batch: BATCH });
  const processor = createProcessor({ ...options, contexts, poisonMessages });
  const reevaluation = createReevaluation({ ...options, contexts });
  let stopping: AbortController | undefined;
  let running: Promise<void> | undefined;

  async function run(signal: AbortSignal): Promise<void> {
    for (let failures = 0; !signal.aborted; ) {
      try {
        await reevaluation.reevaluate(signal);
        await drain(signal);
        // A list of tasks may have shown ids with a new prefix.
        await reevaluation.reevaluate(signal);
        failures = 0;
        await options.inbox.wait();
      } catch (error) {
        // Most likely the database does not accept writes now, for example because the disk is full. Faults of a single
        // delivery end in quarantine and do not get here.
        logger.error({ error: asSyncError(error) }, 'reconcile cannot write; it retries after a pause');
        await sleep(clock, backoff(random, failures++, 500, 5_000), signal);
      }
    }
  }

  async function drain(signal?: AbortSignal): Promise<void> {
    await poisonMessages.detect();
    const yieldUntil = clock.monotonic() + MAX_LAG_MS;
    for (let isFirst = true; !signal?.aborted; isFirst = false) {
      const paused = poisonMessages.paused();
      const pending = await pendingDeliveries(store.query, BATCH, BATCH_BYTES, new Set(paused.keys()));
      if (pending.length === 0) {
        if (paused.size === 0) return;
        await waitForInbox(Math.min(...paused.values()));
        continue;
      }
      if (!isFirst) await yieldForRequests();
      await poisonMessages.markBusy();
      if (signal) await yieldToIntake(yieldUntil, signal);
      // The suspected deliveries have the lowest ids, so they come first.
      const suspected = pending.filter(poisonMessages.isSuspected);
      await processEachAlone(suspected, signal);
      const others = pending.slice(suspected.length);
      if (others.length > 0) await processor.processDeliveries(others);
    }
  }

  async function processEachAlone(suspected: readonly PendingDelivery[], signal?: AbortSignal): Promise<void> {
    for (const delivery of suspected) if (!signal?.aborted) await processor.processAlone(delivery);
  }

  async function waitForInbox(timeoutMs: number): Promise<void> {
    const cancel = clock.after(timeoutMs, options.inbox.notify);
    await options.inbox.wait();
    cancel();
  }

  /**
   * Waits while intake is crowded, because senders wait for their 2xx and no caller waits for reconcile. After `until`,
   * monotonic milliseconds, a lasting burst no longer delays the batches.
   */
  async function yieldToIntake(until: number, signal: AbortSignal): Promise<void> {
    while (!signal.aborted && options.isCrowded() && clock.monotonic() < until)
      await sleep(clock, CROWD_CHECK_MS, signal);
  }

  return {
    drain: () => drain(),
    areChangesCurrent: reevaluation.areChangesCurrent,
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
      await poisonMessages.markIdle();
    },
  };
}
