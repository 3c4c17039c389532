import { asSyncError } from '../../model/errors/sync-error.ts';
import { sleep } from '../../platform/lib/clock.ts';
import type { Stage } from '../../platform/lib/scheduler.ts';
import { yieldToEventLoop } from '../../platform/lib/yield.ts';
import { backoffAfterDbError, retryUntilCommitted } from '../../store/retry-until-committed.ts';
import { createBreaker } from './breaker.ts';
import { createChangeScheduler } from './change-scheduler.ts';
import { acquireSlot, claimChange, waitForWork } from './claim.ts';
import type { OutboxContext, Slot } from './outbox-context.ts';
import { recoverAtStart, requeueUnsent } from './recovery.ts';
import type { PreparedRequest } from './request.ts';
import { createSender } from './send.ts';

export interface Outbox extends Stage {
  /** The number of requests that are in flight or being settled. */
  readonly inFlight: number;
  /** Like `start`, but sends only the pending writes, and reads nothing. */
  startWrites(): void;
}

/** How long a selected change stays selected unless a wake-up arrives, milliseconds. */
const SELECTION_LIFETIME = 50;

/**
 * The sending stage. For each change: wait until it is due and a slot is free; claim it in one transaction; send its
 * request; settle it in another transaction. The next change is claimed meanwhile, as far as the throttle allows.
 */
export function createOutbox(context: OutboxContext): Outbox {
  const { store, throttle, clock, logger } = context;
  const breaker = createBreaker();
  const scheduler = createChangeScheduler({ ...context, breaker });
  const claimContext = { store, throttle, clock, scheduler };
  const sendAndSettle = createSender({
    ...context,
    breaker,
    scheduler,
    retryUntilCommitted: (work) => retryUntilCommitted(context, work, stopping?.signal ?? AbortSignal.abort()),
    stopping: () => stopping?.signal,
  });
  /** Claimed requests, until their answers are stored. */
  const claimed = new Map<PreparedRequest, Promise<void>>();
  /** Claiming failed, perhaps in its commit, which the database may have stored in spite of the error. */
  let isClaimUncertain = false;
  let stopping: AbortController | undefined;
  let running: Promise<void> | undefined;

  async function run(signal: AbortSignal): Promise<void> {
    await retryUntilCommitted(context, () => recoverAtStart(context), signal);
    while (!signal.aborted) {
      try {
        if (isClaimUncertain) await requeueUncertain();
        await sendNext(signal);
      } catch (error) {
        if (signal.aborted) return;
        isClaimUncertain = true;
        await backoffAfterDbError(context, error, signal);
      }
    }
  }

  async function requeueUncertain(): Promise<void> {
    const isClaimed = (entity: string) => claimed.keys().some((prepared) => prepared.entity === entity);
    await store.commit((transaction) => requeueUnsent(transaction, isClaimed));
    isClaimUncertain = false;
  }

  /** Claims the next change when it is due, and starts to send it. Returns early if other work may be more urgent. */
  async function sendNext(signal: AbortSignal): Promise<void> {
    // Wait from before the query on: a later wake-up may concern a row that the query did not see.
    const wake = context.outbox.wait();
    let isWoken = false;
    void wake.then(() => {
      isWoken = true;
    });
    // With thousands of pending changes the selection takes milliseconds: let the stage that sent the wake-up finish.
    await yieldToEventLoop();
    const selectedAt = clock.monotonic();
    const next = await scheduler.nextChange();
    if (next === undefined) return wake;
    const waitMs = next.at - clock.now();
    if (waitMs > 0) return waitForWork(clock, waitMs, wake, signal);
    if (scheduler.isProbing()) await pauseBetweenProbes(signal);
    const askedAt = clock.now();
    const slot = await acquireSlot(claimContext, next, wake, signal);
    if (slot === undefined) return;
    // Probing began while this change waited for its slot: the requests in flight end first.
    if (scheduler.isProbing() && claimed.size > 0) return slot.release();
    const isCurrent = !isWoken && clock.monotonic() - selectedAt < SELECTION_LIFETIME;
    const selected = isCurrent ? next.entity : undefined;
    const prepared = await claimChange(claimContext, slot, { selected, askedAt });
    if (prepared) startSending(prepared, slot, askedAt);
  }

  async function pauseBetweenProbes(signal: AbortSignal): Promise<void> {
    await Promise.all(claimed.values());
    await sleep(clock, breaker.pause(), signal);
  }

  /** Logs an error of `deliver` here, because no caller awaits it: it must end neither the stage nor the process. */
  function startSending(prepared: PreparedRequest, slot: Slot, askedAt: number): void {
    const { action, entity, lane, trace } = prepared;
    const waited = Math.max(0, clock.now() - askedAt);
    logger.debug({ action, entity, lane, waited, deliveries: trace.deliveries }, 'request is sent');
    const delivered = deliver(prepared, slot)
      .catch((error: unknown) => logger.error({ error: asSyncError(error) }, 'the work after a request failed'))
      .finally(() => claimed.delete(prepared));
    claimed.set(prepared, delivered);
  }

  async function deliver(prepared: PreparedRequest, slot: Slot): Promise<void> {
    await sendAndSettle(prepared, slot);
    if (prepared.kind !== 'read') context.onWrite?.();
    context.inbox.notify();
    context.outbox.notify();
  }

  function start(): void {
    if (running) return;
    stopping = new AbortController();
    running = run(stopping.signal);
  }

  return {
    get inFlight() {
      return claimed.size;
    },
    start,
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
