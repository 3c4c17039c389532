import type { Transaction } from 'kysely';
import { asSyncError } from '../../model/errors.ts';
import type { Database } from '../../platform/database/database-types.ts';
import { openDatabase } from '../../platform/database/open.ts';
import type { Clock, Random, WakeSignal } from '../../platform/lib/clock.ts';
import { yieldToEventLoop } from '../../platform/lib/concurrency.ts';
import type { Logger, Steps } from '../../platform/lib/telemetry.ts';
import type { Variant } from '../http/variant.ts';
import { MIGRATIONS, type ServiceTables } from './service-tables.ts';

/** Opens a service's database. Throws `database_newer`, and what a `DatabaseFault` says. */
export async function openServiceDatabase({
  file,
  steps,
}: {
  readonly file: string;
  readonly steps?: Steps;
}): Promise<Database<ServiceTables>> {
  try {
    return await openDatabase<ServiceTables>({ file, steps, migrations: MIGRATIONS });
  } catch (error) {
    throw asSyncError(error);
  }
}

/** The part of a service that all others are built on. */
export interface Foundation {
  readonly database: Database<ServiceTables>;
  readonly commits: Commits;
  readonly variant: Variant;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  /**
   * Wakes the delivery of webhooks. It is notified inside the transaction of an event: the one connection of the database lets the
   * delivery read only after the commit.
   */
  readonly wakeSignal: WakeSignal;
}

export type Write = Transaction<ServiceTables>;
/** The database for reads, or a transaction. */
export type Query = Database<ServiceTables>['query'] | Write;
type Commits = ReturnType<typeof createCommits>;

interface Waiting {
  readonly work: (transaction: Write) => Promise<unknown>;
  resolve(result: unknown): void;
  reject(error: unknown): void;
}

/** Bounds how long one transaction blocks the event loop. */
const LARGEST_GROUP = 64;

/**
 * Group commit: all work that is waiting shares one durable transaction, so that many clients share one sync of the
 * disk. Work runs in the order it was given, and `run` resolves after the commit that holds it: an answer that waits
 * for it says the truth also after a power failure.
 *
 * Work must be repeatable: when one of a group throws, the whole group is rolled back and each runs again in a
 * transaction of its own, so that only the one at fault fails.
 */
export function createCommits(database: Database<ServiceTables>) {
  const waiting: Waiting[] = [];
  let draining: Promise<void> | undefined;
  let committed = 0;
  const noted = () => {
    committed += 1;
  };

  const drain = async () => {
    // One turn of the loop lets every request that has already arrived join the group.
    await yieldToEventLoop();
    while (waiting.length > 0) await commitGroup(database, waiting.splice(0, LARGEST_GROUP), noted);
    draining = undefined;
  };

  return {
    run: <Result>(work: (transaction: Write) => Promise<Result>) =>
      new Promise<Result>((resolve, reject) => {
        waiting.push({ work, resolve: resolve as (result: unknown) => void, reject });
        draining ??= drain();
      }),
    /** The number of transactions that have been committed. Counted before any of their results is returned. */
    count: () => committed,
    /** Resolves when no work waits. */
    idle: async () => draining,
  };
}

async function commitGroup(
  database: Database<ServiceTables>,
  group: readonly Waiting[],
  noted: () => void,
): Promise<void> {
  try {
    const results = await database.commit(async (transaction) => {
      const done: unknown[] = [];
      for (const { work } of group) done.push(await work(transaction));
      return done;
    });
    noted();
    for (const [at, waiting] of group.entries()) waiting.resolve(results[at]);
  } catch (error) {
    if (group.length === 1) return group[0]!.reject(error);
    for (const waiting of group) await commitGroup(database, [waiting], noted);
  }
}
