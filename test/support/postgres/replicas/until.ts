import { setTimeout as pause } from 'node:timers/promises';

/** Between two looks, milliseconds. */
const LOOK_EVERY = 20;

/** Less than a test may take, milliseconds: who waits in vain is to say what for. */
const LIMIT = 240_000;

/** Looks until it holds. Throws what is missing after so many milliseconds. @returns how long it took */
export async function until(
  what: string | (() => string),
  holds: () => boolean | Promise<boolean>,
  limit = LIMIT,
): Promise<number> {
  const began = performance.now();
  while (!(await holds())) {
    const took = performance.now() - began;
    if (took > limit) throw new Error(`not within ${limit / 1_000} s: ${typeof what === 'string' ? what : what()}`);
    await pause(LOOK_EVERY);
  }
  return performance.now() - began;
}
