import { piecesOf, yieldForRequests } from '../platform/lib/yield.ts';
import type { Store } from './database.ts';
import type { Scope } from './workspace-scope.ts';

/** Rows of one transaction. Changing them takes some milliseconds, including the triggers that count them. */
export const CHUNK_SIZE = 500;

/**
 * Repeats a change until it finds fewer rows than a chunk. Each repetition is a transaction of its own, and other work runs between
 * two of them. If the process ends before, the remaining rows stay unchanged.
 *
 * @param change changes at most `limit` rows, which it must not find again, and returns their number
 * @returns the number of changed rows
 */
export async function changeInChunks(
  { commit }: Pick<Store, 'commit'>,
  change: (query: Scope, limit: number) => Promise<number>,
): Promise<number> {
  let total = 0;
  for (;;) {
    const changed = await commit((query) => change(query, CHUNK_SIZE));
    total += changed;
    if (changed < CHUNK_SIZE) return total;
    await yieldForRequests();
  }
}

/** Changes the rows of these keys in chunks, each row once. @returns the number of changed rows */
export async function changeKeysInChunks<Key>(
  { commit }: Pick<Store, 'commit'>,
  keys: readonly Key[],
  change: (query: Scope, chunk: readonly Key[]) => Promise<number>,
): Promise<number> {
  let total = 0;
  for (const chunk of piecesOf([...new Set(keys)], CHUNK_SIZE)) {
    total += await commit((query) => change(query, chunk));
    await yieldForRequests();
  }
  return total;
}
