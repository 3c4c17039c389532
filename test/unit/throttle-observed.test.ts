import { describe, expect, it } from 'vitest';
import { OPEN, othersUse, refused, restored } from '../../src/throttle/brake.ts';

/** @param cap null: the limit is lifted */
const window = (length: number, cap: number | null, used: number) => ({
  window: length,
  cap,
  used,
  usedByBackground: 0,
  backgroundLimit: null,
});

describe('what a refusal tells of the others', () => {
  it.each([
    ['a hint longer than the short window: the long one was full', 200, 51, 40, 11, 300_000, 'long', 150, 30],
    ['a hint that fits both: one of the two was', 200, 51, 40, 11, 30_000, 'either', 150, 30],
    ['a hint of the whole short window, rounded up', 200, 51, 40, 11, 61_000, 'either', 150, 30],
    ['no hint', 200, 51, 40, 11, undefined, 'either', 150, 30],
    ['no short window', 200, 51, null, 11, 5_000, 'long', 150, null],
    ['no long window', null, 51, 40, 11, 5_000, 'burst', null, 30],
    ['only the refused request was ours', 200, 1, 40, 0, undefined, 'either', 200, 40],
  ] as const)('%s', (_rule, longCap, longUsed, burstCap, burstUsed, hint, full, othersLong, othersBurst) => {
    const seen = { long: window(900_000, longCap, longUsed), burst: window(60_000, burstCap, burstUsed) };
    expect(othersUse(seen, hint)).toEqual({ window: full, othersLong, othersBurst });
  });

  it('is kept with the brake, in times of the present boot', () => {
    const observed = { at: 5_000, window: 'long', othersLong: 150, othersBurst: 30 } as const;
    const refusal = { started: 4_000, now: 5_000, wait: 1_000, configuredShare: 0.8, smallestShare: 0.005, observed };
    const brake = refused(OPEN, refusal);
    expect(brake.observed).toEqual(observed);
    const saved = { boot: 'a', at: 6_000, wall: 1_000_000, brake };
    expect(restored(saved, 'b', 100, 1_010_000).observed).toEqual({ ...observed, at: 100 - 10_000 - 1_000 });
  });
});
