import { asSyncError } from '../model/errors.ts';
import { backoff, sleep } from '../platform/lib/clock.ts';
import type { StoreContext } from './store-context.ts';

/**
 * Repeats work until the database commits it, or until `signal` aborts.
 * An answer, for example, must not be lost because the disk is full for a while. Each error counts as one of the
 * database, so work with a programming error is repeated too, and logged each time.
 */
export async function retryUntilCommitted(
  context: StoreContext,
  work: () => Promise<void>,
  signal: AbortSignal,
): Promise<void> {
  try {
    await work();
  } catch (error) {
    await backoffAfterDbError(context, error, signal);
    if (!signal.aborted) await retryUntilCommitted(context, work, signal);
  }
}

/** Logs an error, most likely one of the database, and waits up to 4 s, or until `signal` aborts. */
export async function backoffAfterDbError(
  { clock, random, logger }: StoreContext,
  error: unknown,
  signal: AbortSignal,
): Promise<void> {
  logger.error({ error: asSyncError(error) }, 'the database cannot store a result; it is tried again');
  // A fixed attempt, because the pause does not grow: 500 ms · 2³.
  await sleep(clock, backoff(random, 3, 500, 5_000), signal);
}
