import { oldestPending, type PendingDelivery, retryQuarantined } from '../../store/inbox.ts';
import { readMeta, writeMeta } from '../../store/meta.ts';
import type { ReconcileContext } from './context.ts';

/**
 * Names of stored facts: `yes` while a process works on the inbox, and the version that tried the quarantined
 * deliveries.
 */
const AT_WORK = 'reconcile.at_work';
const TRIED_BY = 'reconcile.tried_by';

/**
 * A delivery that is processed alone is quarantined after this many attempts that did not settle it. Ordinary failures
 * count too, but fewer of them quarantine a delivery.
 */
export const MAX_CRASHES = 5;

/**
 * If the process ended while it processed a delivery alone, the delivery waits this time for each attempt, and the others
 * are processed meanwhile. A kill cannot be told from a crash, so it counts as one. But kills do not depend on the
 * delivery, so after the pause the next one is unlikely to hit it again. A poison message crashes the process each time.
 */
const PAUSE_MS = 10_000;

/**
 * Finds deliveries that may have crashed the process: it died while it worked on the inbox, and they were in the batch
 * of that time. They are processed one by one, so that the one at fault can be identified.
 */
export interface PoisonMessages {
  /** Finds the suspected deliveries, once after each start. */
  detect(): Promise<void>;
  /** Records that the process works on the inbox. Must be called before the first delivery of a batch is read. */
  markBusy(): Promise<void>;
  isSuspected(delivery: Pick<PendingDelivery, 'id'>): boolean;
  /** Returns the milliseconds until each paused delivery may be processed, by its id. */
  paused(): ReadonlyMap<number, number>;
  /** Records a clean end. If suspected deliveries are still pending, the next start suspects the oldest batch again. */
  markIdle(): Promise<void>;
}

/** @param batch the largest number of deliveries in one batch */
export function createPoisonMessages({ store, clock, version }: ReconcileContext, batch: number): PoisonMessages {
  /** Deliveries up to this id are suspected. Undefined: not detected yet. */
  let suspectedUntil: number | undefined;
  /** When deliveries that were being processed alone when the process ended are retried, by id; monotonic milliseconds. */
  const retryAt = new Map<number, number>();
  /** Whether the stored fact `AT_WORK` is `yes`. */
  let isMarkedBusy = false;

  const mark = (value: 'yes' | 'no') => store.commit((transaction) => writeMeta(transaction, AT_WORK, value));

  /** Suspected deliveries that are still pending remain suspected: a stop during their pause proves nothing about them. */
  async function markCleanEnd(suspectedUntilId: number): Promise<void> {
    const [oldest] = await oldestPending(store.query, 1);
    if (!oldest || oldest.id > suspectedUntilId) await mark('no');
  }

  /**
   * After an unclean end the batch of that time is still pending, among the oldest deliveries. A different version may
   * need less time or memory for the quarantined ones, so they become pending again.
   */
  async function detect(): Promise<void> {
    if (suspectedUntil !== undefined) return;
    const wasBusy = (await readMeta(store.query, AT_WORK)) === 'yes';
    const suspected = wasBusy ? await oldestPending(store.query, batch) : [];
    const isOtherVersion = (await readMeta(store.query, TRIED_BY)) !== version;
    if (isOtherVersion) {
      await retryQuarantined(store, 'costly');
      // A process killed before this commit retries the rest at its next start.
      await store.commit((transaction) => writeMeta(transaction, TRIED_BY, version));
    }
    isMarkedBusy = wasBusy;
    suspectedUntil = suspected.at(-1)?.id ?? 0;
    for (const { id, attempts } of suspected)
      if (attempts > 0 && attempts < MAX_CRASHES) retryAt.set(id, clock.monotonic() + attempts * PAUSE_MS);
  }

  function paused(): ReadonlyMap<number, number> {
    const now = clock.monotonic();
    for (const [id, at] of retryAt) if (at <= now) retryAt.delete(id);
    return new Map([...retryAt].map(([id, at]) => [id, at - now]));
  }

  return {
    detect,
    async markBusy() {
      if (isMarkedBusy) return;
      await mark('yes');
      isMarkedBusy = true;
    },
    isSuspected: ({ id }) => id <= (suspectedUntil ?? 0),
    paused,
    async markIdle() {
      // If the database fails, the next start treats this as an unclean end, which only costs time.
      if (isMarkedBusy && suspectedUntil !== undefined) await markCleanEnd(suspectedUntil).catch(() => undefined);
      isMarkedBusy = false;
      suspectedUntil = undefined;
      retryAt.clear();
    },
  };
}
