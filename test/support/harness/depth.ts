import fc from 'fast-check';

/**
 * How far a run goes. `npm test` draws a part of the cases, with one seed, so that it ends the same each time. `npm run test:deep`
 * draws all of them from a new seed, which a failure names; `TEST_SEED` repeats it.
 */
export const isDeep = process.env['TEST_DEPTH'] === 'deep';

const FIXED_SEED = 20_261_122;
/** A plain run plays one in so many cases of a deep run. */
const PART = 25;
/** Fewer show nothing. */
const FEWEST = 6;

/** How many cases of a law are drawn, of so many in a deep run. @param part of the cases of a deep run, for a plain one */
export function drawn(deep: number, part = PART): number {
  return isDeep ? deep : Math.min(deep, Math.max(FEWEST, Math.ceil(deep / part)));
}

/** Checks a claim about drawn values: about so many of them in a deep run. */
export function holds<Value>(values: fc.Arbitrary<Value>, deep: number, claim: (value: Value) => void): void {
  fc.assert(fc.property(values, claim), { numRuns: drawn(deep) });
}

export function holdsAsync<Value>(values: fc.Arbitrary<Value>, deep: number, claim: (value: Value) => Promise<void>) {
  return fc.assert(fc.asyncProperty(values, claim), { numRuns: drawn(deep) });
}

/** Broken texts are cheap to find by many cases, which the deep run has. */
export const fuzzed = (deep: number): number => drawn(deep, 60);

/** All of them in a deep run, otherwise one of so many. */
export function sampleOf<Each>(all: readonly Each[], every: number): readonly Each[] {
  return isDeep ? all : all.filter((_, index) => index % every === 0);
}

/** `npm run test:crash` kills at each step so many times. */
const KILLS = Number(process.env['TEST_KILLS'] ?? 0);
/** A deep run kills at one of so many steps, beginning at one that its seed says. Whatever fails names its step. */
const DEEP_EVERY = 3;
const SEED = Number(process.env['TEST_SEED'] ?? Math.floor(Math.random() * 1_000));

/** The tests among which kills at each step are divided: each ends in time, though others use the machine. */
export const PARTS_OF_KILLS = KILLS > 0 ? [1, 2, 3, 4, 5, 6] : [1];

/** At which steps a process is killed, of all that it takes. */
export function killsOf(all: readonly number[], every: number): number[] {
  if (KILLS > 0) return Array.from({ length: KILLS }, () => all).flat();
  const first = isDeep ? SEED % DEEP_EVERY : 0;
  return all.filter((_, index) => index % (isDeep ? DEEP_EVERY : every) === first);
}

export function fixSeed(): void {
  const given = process.env['TEST_SEED'];
  if (isDeep && given === undefined) return;
  fc.configureGlobal({ seed: given === undefined ? FIXED_SEED : Number(given) });
}
