import { lastPendingId, type PendingDelivery, retryQuarantined } from '../../store/inbox.ts';
import { readMeta, writeMeta } from '../../store/meta.ts';
import type { WorkspaceContext } from '../../store/workspace-context.ts';

/**
 * Names of stored facts: `yes` while a process works on the inbox, and the version that tried the quarantined
 * deliveries.
 */
const AT_WORK = 'reconcile.at_work';
const TRIED_BY = 'reconcile.tried_by';

export interface PoisonMessagesOptions extends Pick<WorkspaceContext, 'store'> {
  /** The version of the program. Another version retries the deliveries that exceeded their budget. */
  readonly version: string;
  /** The largest number of deliveries in one batch. */
  readonly batch: number;
}

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
  /** Records a clean end, so that the next start suspects no delivery. */
  markIdle(): Promise<void>;
}

export function createPoisonMessages({ store, version, batch }: PoisonMessagesOptions): PoisonMessages {
  /** Deliveries up to this id are suspected. Undefined: not detected yet. */
  let suspectedUntil: number | undefined;
  /** Whether the stored fact `AT_WORK` is `yes`. */
  let isMarkedBusy = false;

  const mark = (value: 'yes' | 'no') => store.commit((transaction) => writeMeta(transaction, AT_WORK, value));

  /**
   * After an unclean end the batch of that time is still pending, among the oldest deliveries. A different version may
   * need less time or memory for the quarantined ones, so they become pending again.
   */
  async function detect(): Promise<void> {
    if (suspectedUntil !== undefined) return;
    const wasBusy = (await readMeta(store.query, AT_WORK)) === 'yes';
    const last = wasBusy ? await lastPendingId(store.query, batch) : undefined;
    const isOtherVersion = (await readMeta(store.query, TRIED_BY)) !== version;
    if (isOtherVersion) {
      await retryQuarantined(store, 'costly');
      // A process killed before this commit retries the rest at its next start.
      await store.commit((transaction) => writeMeta(transaction, TRIED_BY, version));
    }
    isMarkedBusy = wasBusy;
    suspectedUntil = last ?? 0;
  }

  return {
    detect,
    async markBusy() {
      if (isMarkedBusy) return;
      await mark('yes');
      isMarkedBusy = true;
    },
    isSuspected: ({ id }) => id <= (suspectedUntil ?? 0),
    async markIdle() {
      // If the write fails, the next start treats this as an unclean end, which only costs time.
      if (isMarkedBusy && suspectedUntil !== undefined) await mark('no').catch(() => undefined);
      isMarkedBusy = false;
      suspectedUntil = undefined;
    },
  };
}
