import { piecesOf } from '../platform/lib/pieces.ts';
import { yieldForRequests } from '../platform/lib/yield.ts';
import type { Store } from './database.ts';
import type { Scope } from './workspace-scope.ts';

/** Rows of one statement: some milliseconds, with what counts them. */
export const CHUNK_SIZE = 500;

/**
 * Repeats a change of at most so many rows, each time in a transaction of its own, until it finds fewer. Others have their turn
 * in between. Where the process ends before, the rest stays as it was.
 *
 * @param change answers how many rows it changed, which it does not find again
 * @returns how many there were
 */
export async function changeInChunks(
  { commit }: Pick<Store, 'commit'>,
  change: (query: Scope, most: number) => Promise<number>,
): Promise<number> {
  let changed = 0;
  for (;;) {
    const some = await commit((query) => change(query, CHUNK_SIZE));
    changed += some;
    if (some < CHUNK_SIZE) return changed;
    await yieldForRequests();
  }
}

/** The same for rows that are named, each once. */
export async function changeKeysInChunks<Name>(
  { commit }: Pick<Store, 'commit'>,
  names: readonly Name[],
  change: (query: Scope, some: readonly Name[]) => Promise<number>,
): Promise<number> {
  let changed = 0;
  for (const some of piecesOf([...new Set(names)], CHUNK_SIZE)) {
    changed += await commit((query) => change(query, some));
    await yieldForRequests();
  }
  return changed;
}
