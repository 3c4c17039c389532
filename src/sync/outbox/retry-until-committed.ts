import { asSyncError } from '../../model/errors/sync-error.ts';
import { type Clock, sleep } from '../../platform/lib/clock.ts';
import type { Logger } from '../../platform/lib/logger.ts';
import { backoff, type Random } from '../../platform/lib/random.ts';

interface RetryDeps {
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
}

/** The database did not take something: a pause, until the signal or some seconds later. */
export async function backoffAfterDbError(
  { clock, random, logger }: RetryDeps,
  error: unknown,
  signal: AbortSignal,
): Promise<void> {
  logger.error({ error: asSyncError(error) }, 'outbox cannot write and waits');
  await sleep(clock, backoff(random, 3, 500, 5_000), signal);
}

/** The answer came and must not be lost because the disk is full: it is settled when the database can write again. */
export async function retryUntilCommitted(
  deps: RetryDeps,
  work: () => Promise<void>,
  signal: AbortSignal,
): Promise<void> {
  try {
    await work();
  } catch (error) {
    await backoffAfterDbError(deps, error, signal);
    if (!signal.aborted) await retryUntilCommitted(deps, work, signal);
  }
}
