import { asSyncError } from '../errors/sync-error.ts';
import type { Clock } from '../lib/clock.ts';
import type { Logger } from '../lib/logger.ts';
import { createPortion } from '../lib/portion.ts';
import type { Job } from '../lib/scheduler.ts';
import { letOthersIn } from '../lib/turn.ts';
import type { Store } from '../store/database.ts';
import { deleteDeliveries, purgeBodies } from '../store/retention.ts';
import type { Scope } from '../store/scope.ts';

export interface RetentionDeps {
  readonly store: Store;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Milliseconds that the bodies of settled deliveries are kept, and the deliveries themselves with their ids. */
  readonly retention: { readonly bodies: number; readonly deliveries: number };
}

const HOUR = 3_600_000;
/** Rows of one transaction. */
const ROWS = { least: 100, most: 1_000 };

/** Forgets what is old. */
export function retentionJob({ store, clock, retention, logger }: RetentionDeps): Job {
  return { name: 'retention', when: { everyMs: HOUR }, run: purge };

  /** Never rejects: what could not be purged now is purged in an hour. */
  async function purge(signal: AbortSignal): Promise<void> {
    try {
      const bodies = await drain(signal, (query, most) => purgeBodies(query, clock.now() - retention.bodies, most));
      const deliveries = await drain(signal, (query, most) =>
        deleteDeliveries(query, clock.now() - retention.deliveries, most),
      );
      if (bodies + deliveries > 0) logger.info({ bodies, deliveries }, 'old deliveries purged');
    } catch (error) {
      logger.error({ error: asSyncError(error) }, 'purge failed');
    }
  }
  /** Piece after piece until nothing is left; others get their turn in between. */
  async function drain(signal: AbortSignal, remove: (query: Scope, most: number) => Promise<number>): Promise<number> {
    const portion = createPortion(clock, ROWS);
    let total = 0;
    while (!signal.aborted) {
      const most = portion.size();
      const count = await store.commitRelaxed((query) => portion.work(most, () => remove(query, most)));
      if (count === 0) break;
      total += count;
      await letOthersIn();
    }
    return total;
  }
}
