import type { Cancel, Clock } from '../lib/clock.ts';
import type { Logger } from '../lib/logger.ts';

/** Renewals, one after the other: at their times, and whenever one is asked for. */
export interface Renewals {
  /** Never rejects. The next renewal repeats a failed one, while the lease is trusted. */
  now(): Promise<void>;
  stop(): Promise<void>;
}

interface RenewalsDeps {
  readonly renew: () => Promise<void>;
  /** Until the next one, milliseconds. */
  readonly pause: () => number;
  readonly after: Clock['after'];
  readonly logger: Logger;
}

export function createRenewals({ renew, pause, after, logger }: RenewalsDeps): Renewals {
  let isStopped = false;
  let cancel: Cancel = () => undefined;
  let queue: Promise<void> = Promise.resolve();

  async function once(): Promise<void> {
    if (isStopped) return;
    cancel();
    try {
      await renew();
    } catch (error) {
      logger.error({ error }, 'leases could not be renewed');
    }
    if (!isStopped) cancel = after(Math.max(1, pause()), () => void now());
  }

  function now(): Promise<void> {
    queue = queue.then(once);
    return queue;
  }

  return {
    now,
    async stop() {
      isStopped = true;
      cancel();
      await queue;
    },
  };
}
