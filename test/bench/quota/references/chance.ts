import { hash } from 'node:crypto';
import type { Random } from '../../../../src/platform/lib/clock.ts';

export type Chance = ReturnType<typeof createChance>;

export function createChance(seed: number) {
  const float = mulberry32(seed);
  // 1 - float() lies in (0, 1]: its logarithm is finite.
  const normal = () => Math.sqrt(-2 * Math.log(1 - float())) * Math.cos(2 * Math.PI * float());
  return {
    float,
    between: (low: number, high: number) => low + (high - low) * float(),
    whole: (low: number, high: number) => low + Math.floor((high - low + 1) * float()),
    happens: (probability: number) => float() < probability,
    lognormal: (median: number, sigma: number) => median * Math.exp(sigma * normal()),
    exponential: (mean: number) => -mean * Math.log(1 - float()),
    /** Failures before the first success, with this mean. */
    geometric: (mean: number) => Math.floor(Math.log(1 - float()) / Math.log(mean / (mean + 1))),
  };
}

/** Small, and good enough for durations and choices. */
function mulberry32(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Seconds that a request takes: lognormal around 0.15 s, and one in 500 takes 10 s. */
export function randomDurations(seed: number): () => number {
  const chance = createChance(seed);
  return () => (chance.happens(0.002) ? 10 : chance.lognormal(0.15, 0.8));
}

/** A stream of chance of its own for each purpose: what one of them draws changes nothing for the others. */
export function chanceOf(seed: number, purpose: string): Chance {
  return createChance(Number.parseInt(hash('sha256', `${seed} ${purpose}`, 'hex').slice(0, 8), 16));
}

export function randomOf(chance: Chance): Random {
  const bytes = (length: number) => Buffer.from(Array.from({ length }, () => chance.whole(0, 255)));
  return {
    float: chance.float,
    bytes,
    uuid() {
      const digits = bytes(16).toString('hex');
      const [first, second, third, fourth, last] = [[0, 8], [8, 12], [13, 16], [17, 20], [20]].map((part) =>
        digits.slice(...part),
      );
      return `${first}-${second}-4${third}-a${fourth}-${last}`;
    },
  };
}

export function oneOf<Each>(chance: Chance, all: readonly Each[]): Each {
  return all[chance.whole(0, all.length - 1)] as Each;
}
