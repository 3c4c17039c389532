import { AsyncLocalStorage } from 'node:async_hooks';

/**
 * A purpose that limits the number of requests. `restore`: to confirm the items of a restored database; `poll`: to read what no
 * webhook reports.
 */
export type Purpose = 'restore' | 'poll';

const current = new AsyncLocalStorage<Purpose>();

/** Runs the work, and all that it awaits, for this purpose. */
export function forPurpose<Result>(purpose: Purpose, work: () => Promise<Result>): Promise<Result> {
  return current.run(purpose, work);
}

/** Returns the purpose of the current work; undefined if it has none of these. */
export function purposeNow(): Purpose | undefined {
  return current.getStore();
}
