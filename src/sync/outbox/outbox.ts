import { asSyncError } from '../../model/errors/sync-error.ts';
import { sleep } from '../../platform/lib/clock.ts';
import { waitForWork } from '../../platform/lib/wake-signal.ts';
import { yieldToEventLoop } from '../../platform/lib/yield.ts';
import { backoffAfterDbError, retryUntilCommitted } from '../../store/retry-until-committed.ts';
import type { Slot } from '../quota/slot.ts';
import type { WorkspaceContext } from '../workspace-context.ts';
import { createChangeScheduler } from './change-scheduler.ts';
import { claimChange } from './claim.ts';
import { recoverAtStart, requeueUnsent } from './recovery.ts';
import type { PreparedRequest } from './request.ts';
import { acquireSlot, createSender, type SendAndSettle } from './sender.ts';

export type Outbox = ReturnType<typeof createOutbox>;

/**
 * The sending stage. For each change: wait until it is due and a slot is free; claim it in one transaction; send its
 * request; settle it in another transaction. The next change is claimed meanwhile, as far as the throttle allows.
 */
export function createOutbox(context: WorkspaceContext, areChangesCurrent?: () => boolean) {
  const { store, clock, logger } = context;
  const scheduler = createChangeScheduler(context, areChangesCurrent);
  /** Claimed requests, until their answers are stored. */
  const claimed = new Map<PreparedRequest, Promise<void>>();
  /** Claiming failed, perhaps in its commit, which the database may have stored in spite of the error. */
  let isClaimUncertain = false;
  let stopping: AbortController | undefined;
  let running: Promise<void> | undefined;

  async function run(signal: AbortSignal): Promise<void> {
    const sendAndSettle = createSender(context, scheduler, signal);
    await retryUntilCommitted(context, () => recoverAtStart(context), signal);
    while (!signal.aborted) {
      try {
        if (isClaimUncertain) await requeueUncertain();
        await sendNext(sendAndSettle, signal);
      } catch (error) {
        if (signal.aborted) return;
        isClaimUncertain = true;
        await backoffAfterDbError(context, error, signal);
      }
    }
  }

  /**
   * One round: select the next change, wait until it is due, acquire a slot, claim the change, send and settle it. The next
   * round does not wait for the answer. Returns early if other work may be more urgent.
   */
  async function sendNext(sendAndSettle: SendAndSettle, signal: AbortSignal): Promise<void> {
    // Wait from before the query on: a later wake-up may concern a row that the query did not see.
    const wake = context.outbox.wait();
    // With thousands of pending changes the selection takes milliseconds: let the stage that sent the wake-up finish.
    await yieldToEventLoop();
    const next = await scheduler.nextChange(wake);
    if (next === undefined) return wake;
    const waitMs = next.at - clock.now();
    if (waitMs > 0) return waitForWork(clock, waitMs, wake, signal);
    if (scheduler.sendsOneByOne()) await pauseBetweenProbes(signal);

    const askedAt = clock.now();
    const slot = await acquireSlot(context, scheduler, next, wake, signal);
    if (slot === undefined) return;
    // Probing began while this change waited for its slot: the requests in flight end first.
    if (scheduler.sendsOneByOne() && claimed.size > 0) return slot.release();

    const prepared = await claimChange(context, scheduler, slot, next, askedAt);
    if (prepared) claimed.set(prepared, sendClaimed(sendAndSettle, prepared, slot));
  }

  /** Logs errors, because no caller awaits it: they must end neither the stage nor the process. */
  async function sendClaimed(sendAndSettle: SendAndSettle, prepared: PreparedRequest, slot: Slot): Promise<void> {
    const { action, entity, lane, kind, trace } = prepared;
    const waited = Math.max(0, clock.now() - trace.askedAt);
    logger.debug({ action, entity, lane, waited, deliveries: trace.deliveries }, 'request is sent');
    try {
      await sendAndSettle(prepared, slot);
      if (kind !== 'read') context.onWrite();
      context.inbox.notify();
      context.outbox.notify();
    } catch (error) {
      logger.error({ error: asSyncError(error) }, 'the work after a request failed');
    } finally {
      claimed.delete(prepared);
    }
  }

  async function requeueUncertain(): Promise<void> {
    const isClaimed = (entity: string) => claimed.keys().some((prepared) => prepared.entity === entity);
    await store.commit((transaction) => requeueUnsent(transaction, isClaimed));
    isClaimUncertain = false;
  }

  async function pauseBetweenProbes(signal: AbortSignal): Promise<void> {
    await Promise.all(claimed.values());
    await sleep(clock, context.breaker.pause(), signal);
  }

  function start(): void {
    if (running) return;
    stopping = new AbortController();
    running = run(stopping.signal);
  }

  return {
    /** The number of requests that are in flight or being settled. */
    get inFlight() {
      return claimed.size;
    },
    start,
    /** Like `start`, but sends only the pending writes, and reads nothing. */
    startWrites() {
      scheduler.selectWritesOnly();
      start();
    },
    async stop() {
      stopping?.abort();
      context.outbox.notify();
      await running;
      await Promise.all(claimed.values());
      running = undefined;
    },
  };
}
