import type { Store } from '../../store/database.ts';
import { lastPendingId, type PendingDelivery, retryQuarantined } from '../../store/inbox.ts';
import { readMeta, writeMeta } from '../../store/meta.ts';

/** Names of facts: `yes` while a process works on the inbox, and which version tried what is in quarantine. */
const AT_WORK = 'reconcile.at_work';
const TRIED_BY = 'reconcile.tried_by';

export interface PoisonMessagesDeps {
  readonly store: Store;
  /** The version of the program: another version tries again what took too much. */
  readonly version: string;
  /** Most deliveries of one batch. */
  readonly batch: number;
}

/** Deliveries over which the process may have ended before: they are taken over one by one. */
export interface PoisonMessages {
  /** Finds them, once after each start. */
  lookBack(): Promise<void>;
  /** Before the first delivery is touched; a process that finds none writes nothing. */
  noteWork(): Promise<void>;
  has(delivery: Pick<PendingDelivery, 'id'>): boolean;
  /** The stage ends in order: the next start has nobody to suspect. */
  noteEnd(): Promise<void>;
}

export function createPoisonMessages({ store, version, batch }: PoisonMessagesDeps): PoisonMessages {
  /** Up to this id deliveries may have ended the process before; undefined: not looked up yet. */
  let suspectsUntil: number | undefined;
  /** Whether it stands in the database that a process works on the inbox. */
  let isNoted = false;

  const note = (value: 'yes' | 'no') => store.commit((transaction) => writeMeta(transaction, AT_WORK, value));

  /**
   * After an unclean end the batch that was in flight is still pending: it is among the oldest. Another version may read
   * better what took this one too long.
   */
  async function lookBack(): Promise<void> {
    if (suspectsUntil !== undefined) return;
    const wasAtWork = (await readMeta(store.query, AT_WORK)) === 'yes';
    const last = wasAtWork ? await lastPendingId(store.query, batch) : undefined;
    const isOther = (await readMeta(store.query, TRIED_BY)) !== version;
    if (isOther) {
      await retryQuarantined(store, 'costly');
      // Killed before this, it tries the rest at the next start.
      await store.commit((transaction) => writeMeta(transaction, TRIED_BY, version));
    }
    isNoted = wasAtWork;
    suspectsUntil = last ?? 0;
  }

  return {
    lookBack,
    async noteWork() {
      if (isNoted) return;
      await note('yes');
      isNoted = true;
    },
    has: ({ id }) => id <= (suspectsUntil ?? 0),
    async noteEnd() {
      // A database that takes no writes now is taken for an unclean end: that costs time only.
      if (isNoted && suspectsUntil !== undefined) await note('no').catch(() => undefined);
      isNoted = false;
      suspectsUntil = undefined;
    },
  };
}
