import fc from 'fast-check';

/**
 * How far a run goes. `npm test` draws a part of the cases, with one seed, so that it ends the same each time. `npm run test:deep`
 * draws all of them from a new seed, which a failure names; `TEST_SEED` repeats it.
 */
export const isDeep = process.env['TEST_DEPTH'] === 'deep';

const FIXED_SEED = 20_261_122;
/** Of the cases of a deep run, for a plain one. */
const PART = 10;
/** Fewer show nothing. */
const FEWEST = 10;

/** How many cases of a law are drawn, of so many in a deep run. */
export function drawn(deep: number): number {
  return isDeep ? deep : Math.min(deep, Math.max(FEWEST, Math.ceil(deep / PART)));
}

/** All of them in a deep run, otherwise one of so many. */
export function sampleOf<Each>(all: readonly Each[], every: number): readonly Each[] {
  return isDeep ? all : all.filter((_, index) => index % every === 0);
}

export function fixSeed(): void {
  const given = process.env['TEST_SEED'];
  if (isDeep && given === undefined) return;
  fc.configureGlobal({ seed: given === undefined ? FIXED_SEED : Number(given) });
}
