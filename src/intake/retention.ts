import type { Cancel, Clock } from '../lib/clock.ts';
import type { Logger } from '../lib/logger.ts';
import type { Meter } from '../lib/meter.ts';
import type { Stage } from '../lib/stage.ts';
import { nextTurn } from '../lib/turn.ts';
import { type Store, storeError } from '../store/database.ts';
import { deleteDeliveries, purgeBodies } from '../store/retention.ts';

export interface RetentionDeps {
  readonly store: Store;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly meter: Meter;
  /** Milliseconds that the bodies of settled deliveries are kept, and the deliveries themselves with their ids. */
  readonly retention: { readonly bodies: number; readonly deliveries: number };
}

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
/** Rows of one transaction: few, since each may free megabytes while everything else waits. */
const BATCH = 100;

/** Forgets what is old, once an hour, and reports the size of the database once a minute. */
export function createRetention(deps: RetentionDeps): Stage {
  let isStopping = false;
  let work: Promise<void> | undefined;
  let cancel: Cancel | undefined;
  let minutes = 0;

  function tick(): void {
    reportSize(deps);
    if (minutes % (HOUR / MINUTE) === 1) work ??= purge().finally(() => (work = undefined));
    minutes++;
    cancel = deps.clock.after(MINUTE, tick);
  }

  /** Never rejects: what could not be purged now is purged in an hour. */
  async function purge(): Promise<void> {
    const { store, clock, retention, logger } = deps;
    try {
      const bodies = await drain(() => purgeBodies(store.query, clock.now() - retention.bodies, BATCH));
      const deliveries = await drain(() => deleteDeliveries(store.query, clock.now() - retention.deliveries, BATCH));
      if (bodies + deliveries > 0) logger.info({ bodies, deliveries }, 'old deliveries purged');
    } catch (error) {
      logger.error({ error: storeError(error, store.file) }, 'purge failed');
    }
  }

  /** Batch after batch until one is not full; others get their turn in between. */
  async function drain(batch: () => Promise<number>): Promise<number> {
    let total = 0;
    while (!isStopping) {
      const count = await batch();
      total += count;
      if (count < BATCH) break;
      await nextTurn();
    }
    return total;
  }

  return {
    start() {
      if (!isStopping && cancel === undefined) tick();
    },
    async stop() {
      isStopping = true;
      cancel?.();
      await work;
    },
  };
}

function reportSize({ store, meter, logger }: RetentionDeps): void {
  try {
    meter.gauge('database_bytes', store.size());
  } catch (error) {
    logger.error({ error: storeError(error, store.file) }, 'database size not read');
  }
}
