import { asSyncError } from '../../model/errors/sync-error.ts';
import { sleep } from '../../platform/lib/clock.ts';
import { backoff } from '../../platform/lib/random.ts';
import type { Stage } from '../../platform/lib/stage.ts';
import { yieldForRequests } from '../../platform/lib/yield.ts';
import { pendingDeliveries } from '../../store/inbox.ts';
import { createBatchContexts, type ReconcileContext } from './context.ts';
import { createPoisonMessages } from './poison-messages.ts';
import { createProcessor } from './process.ts';
import { createReevaluation } from './reevaluate.ts';

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
export function createReconcile(context: ReconcileContext): Reconcile {
  const { store, clock, logger, random, inbox } = context;
  const contexts = createBatchContexts(context);
  const poisonMessages = createPoisonMessages(context, BATCH);
  const processor = createProcessor(context, contexts, poisonMessages);
  const reevaluation = createReevaluation(context, contexts);
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
        await inbox.wait();
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
    for (let isFirst = true; !signal?.aborted && (await processNext(isFirst, yieldUntil, signal)); ) isFirst = false;
  }

  /**
   * One round: read the next pending deliveries, process those alone that may have crashed the process, and the others in
   * batches.
   *
   * @returns false if none is pending
   */
  async function processNext(isFirst: boolean, yieldUntil: number, signal?: AbortSignal): Promise<boolean> {
    const paused = poisonMessages.paused();
    const pending = await pendingDeliveries(store.query, BATCH, BATCH_BYTES, new Set(paused.keys()));
    if (pending.length === 0) {
      if (paused.size > 0) await waitForInbox(Math.min(...paused.values()));
      return paused.size > 0;
    }
    if (!isFirst) await yieldForRequests();
    await poisonMessages.markBusy();
    if (signal) await yieldToIntake(yieldUntil, signal);

    // The suspected deliveries have the lowest ids, so they come first.
    const suspected = pending.filter(poisonMessages.isSuspected);
    for (const delivery of suspected) if (!signal?.aborted) await processor.processAlone(delivery);
    const others = pending.slice(suspected.length);
    if (others.length > 0) await processor.processDeliveries(others);
    return true;
  }

  async function waitForInbox(timeoutMs: number): Promise<void> {
    const cancel = clock.after(timeoutMs, inbox.notify);
    await inbox.wait();
    cancel();
  }

  /**
   * Waits while intake is crowded, because senders wait for their 2xx and no caller waits for reconcile. After `until`,
   * monotonic milliseconds, a lasting burst no longer delays the batches.
   */
  async function yieldToIntake(until: number, signal: AbortSignal): Promise<void> {
    while (!signal.aborted && context.isCrowded() && clock.monotonic() < until)
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
      inbox.notify();
      await running;
      running = undefined;
      await poisonMessages.markIdle();
    },
  };
}
