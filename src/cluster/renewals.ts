import type { Cancel, Clock } from '../platform/lib/clock.ts';
import type { Logger } from '../platform/lib/logger.ts';
import { createTransitionLogger } from '../platform/lib/transition-logger.ts';

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
  /** The same after one that failed: what is due by then stays due, and the database may be away for long. */
  readonly retry: number;
  readonly after: Clock['after'];
  readonly logger: Logger;
}

export function createRenewals({ renew, pause, retry, after, logger }: RenewalsDeps): Renewals {
  const teller = createTransitionLogger(logger, 'error', {
    failed: 'leases could not be renewed',
    again: 'leases are renewed again',
  });
  let isStopped = false;
  let cancel: Cancel = () => undefined;
  let queue: Promise<void> = Promise.resolve();

  async function once(): Promise<void> {
    if (isStopped) return;
    cancel();
    let wait = retry;
    try {
      await renew();
      wait = Math.max(1, pause());
      teller.succeeded();
    } catch (error) {
      teller.failed(error);
    }
    if (!isStopped) cancel = after(wait, () => void now());
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
