import type { Transaction } from 'kysely';
import type { Database } from '../../platform/database/database-types.ts';
import { yieldToEventLoop } from '../../platform/lib/yield.ts';
import type { ServiceTables } from './service-tables.ts';

export type Write = Transaction<ServiceTables>;
type Work<Result> = (transaction: Write) => Promise<Result>;

/**
 * Group commit: all work that is waiting shares one durable transaction, so that many clients share one sync of the
 * disk. Work runs in the order it was given, and `run` resolves after the commit that holds it: an answer that waits
 * for it says the truth also after a power failure.
 *
 * Work must be repeatable: when one of a group throws, the whole group is rolled back and each runs again in a
 * transaction of its own, so that only the one at fault fails.
 */
export interface Commits {
  run<Result>(work: Work<Result>): Promise<Result>;
  /** Transactions that have been committed so far. Counted before anybody is told of them. */
  count(): number;
  /** Resolves when nothing waits any more. */
  idle(): Promise<void>;
}

interface Waiting {
  readonly work: Work<unknown>;
  resolve(result: unknown): void;
  reject(error: unknown): void;
}

/** Bounds how long one transaction blocks the event loop. */
const LARGEST_GROUP = 64;

export function createCommits(database: Database<ServiceTables>): Commits {
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
    run: <Result>(work: Work<Result>) =>
      new Promise<Result>((resolve, reject) => {
        waiting.push({ work, resolve: resolve as (result: unknown) => void, reject });
        draining ??= drain();
      }),
    count: () => committed,
    idle: async () => draining,
  };
}

async function commitGroup(
  database: Database<ServiceTables>,
  group: readonly Waiting[],
  noted: () => void,
): Promise<void> {
  try {
    const results = await database.commit((transaction) => runSequentially(group, transaction));
    noted();
    for (const [at, waiting] of group.entries()) waiting.resolve(results[at]);
  } catch (error) {
    if (group.length === 1) return group[0]!.reject(error);
    for (const waiting of group) await commitGroup(database, [waiting], noted);
  }
}

async function runSequentially(group: readonly Waiting[], transaction: Write): Promise<unknown[]> {
  const results: unknown[] = [];
  for (const { work } of group) results.push(await work(transaction));
  return results;
}
