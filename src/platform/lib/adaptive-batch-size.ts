import type { Clock } from './clock.ts';

/** How many of something are worked through in one go, so that nobody waits long for it. */
export interface AdaptiveBatchSize {
  size(): number;
  /** Does the work on so many; what it takes decides on the next size. */
  work<Result>(taken: number, work: () => Promise<Result>): Promise<Result>;
}

/** What one go may take, milliseconds of the wall clock: half of the longest wait of anybody else. */
const AIM = 20;
/** A go that took much less may be followed by one that is so much larger. */
const GROWTH = 1.5;

/** Begins with the least: the cost of each is not known yet. */
export function createAdaptiveBatchSize(
  clock: Clock,
  { least, most }: { readonly least: number; readonly most: number },
): AdaptiveBatchSize {
  let size = least;

  function adapt(taken: number, milliseconds: number): void {
    const fitting = (taken * AIM) / Math.max(milliseconds, 0.01);
    // A portion that was not full says little about the cost of more.
    if (fitting > size && taken < size / 2) return;
    size = Math.round(Math.min(Math.max(fitting, least), size * GROWTH, most));
  }

  return {
    size: () => size,
    async work(taken, work) {
      const begin = clock.monotonic();
      const result = await work();
      adapt(taken, clock.monotonic() - begin);
      return result;
    },
  };
}
