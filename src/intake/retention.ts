import { asSyncError } from '../errors/sync-error.ts';
import type { Clock } from '../lib/clock.ts';
import type { Logger } from '../lib/logger.ts';
import type { Job } from '../lib/scheduler.ts';
import { nextTurn } from '../lib/turn.ts';
import type { Store } from '../store/database.ts';
import { deleteDeliveries, purgeBodies } from '../store/retention.ts';

export interface RetentionDeps {
  readonly store: Store;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Milliseconds that the bodies of settled deliveries are kept, and the deliveries themselves with their ids. */
  readonly retention: { readonly bodies: number; readonly deliveries: number };
}

const HOUR = 3_600_000;
/** Rows of one transaction: few, since each may free megabytes while everything else waits. */
const BATCH = 100;

/** Forgets what is old. */
export function retentionJob({ store, clock, retention, logger }: RetentionDeps): Job {
  return { name: 'retention', when: { everyMs: HOUR }, run: purge };

  /** Never rejects: what could not be purged now is purged in an hour. */
  async function purge(signal: AbortSignal): Promise<void> {
    try {
      const bodies = await drain(signal, () => purgeBodies(store.query, clock.now() - retention.bodies, BATCH));
      const deliveries = await drain(signal, () =>
        deleteDeliveries(store.query, clock.now() - retention.deliveries, BATCH),
      );
      if (bodies + deliveries > 0) logger.info({ bodies, deliveries }, 'old deliveries purged');
    } catch (error) {
      logger.error({ error: asSyncError(error) }, 'purge failed');
    }
  }
}

/** Batch after batch until one is not full; others get their turn in between. */
async function drain(signal: AbortSignal, batch: () => Promise<number>): Promise<number> {
  let total = 0;
  while (!signal.aborted) {
    const count = await batch();
    total += count;
    if (count < BATCH) break;
    await nextTurn();
  }
  return total;
}
