import { AsyncLocalStorage } from 'node:async_hooks';

/**
 * Why requests are made, where that limits how many there may be. `restore`: to confirm what a restored database knows; `poll`: to
 * read what no webhook reports.
 */
export type Purpose = 'restore' | 'poll';

const current = new AsyncLocalStorage<Purpose>();

/** Runs the work, and all that it awaits, for this purpose. */
export function forPurpose<Result>(purpose: Purpose, work: () => Promise<Result>): Promise<Result> {
  return current.run(purpose, work);
}

/** The purpose of the work that is running; undefined where it has none of these. */
export function purposeNow(): Purpose | undefined {
  return current.getStore();
}
