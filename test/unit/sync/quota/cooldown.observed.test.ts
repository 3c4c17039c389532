import { describe, expect, it } from 'vitest';
import { isShared, keptAfter, OPEN, othersUse, refused, restored } from '../../../../src/sync/quota/cooldown.ts';

const REFUSAL = { started: 4_000, now: 5_000, wait: 1_000, refusedShare: 0.8, smallestShare: 0.005, kept: 0.5 };

/** @param cap null: the limit is lifted */
const window = (length: number, cap: number | null, used: number) => ({
  window: length,
  cap,
  used,
  usedByBackground: 0,
  usedByBackfill: 0,
  backfillLimit: null,
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
    const refusal = { ...REFUSAL, observed };
    const cooldown = refused(OPEN, refusal);
    expect(cooldown.observed).toEqual(observed);
    const saved = { boot: 'a', at: 6_000, wall: 1_000_000, cooldown };
    expect(restored(saved, 'b', 100, 1_010_000).observed).toEqual({ ...observed, at: 100 - 10_000 - 1_000 });
  });
});

describe('what a refusal leaves of the share', () => {
  it.each([
    ['the long window was full', 200, 40, 21, 300_000, 0.5],
    ['much was ours in the last minute, and there is long to wait: likely the burst window', 200, 40, 21, 30_000, 0.9],
    ['little was ours in the last minute', 200, 40, 5, 30_000, 0.5],
    ['a slot is free in a moment, as in a full long window', 200, 40, 21, 2_000, 0.5],
    ['there is as long to wait as in a full long window at most', 200, 40, 21, 4_000, 0.5],
    ['there is a moment more to wait', 200, 40, 21, 4_001, 0.9],
    ['a quarter was ours in the last minute', 200, 40, 11, 30_000, 0.5],
    ['one more than a quarter was ours', 200, 40, 12, 30_000, 0.9],
    ['no hint', 200, 40, 21, undefined, 0.5],
    ['no long window: the share is that of the burst window', null, 40, 21, 30_000, 0.5],
    ['no burst window', 200, null, 21, 30_000, 0.5],
  ] as const)('%s', (_rule, longCap, burstCap, burstUsed, hint, kept) => {
    const seen = { long: window(900_000, longCap, 51), burst: window(60_000, burstCap, burstUsed) };
    expect(keptAfter(seen, hint)).toBe(kept);
  });
});

it('remembers for a day that there are others', () => {
  const observed = { at: 5_000, window: 'long', othersLong: 150, othersBurst: 30 } as const;
  const cooldown = refused(OPEN, { ...REFUSAL, observed });
  expect(isShared(OPEN, 5_000)).toBe(false);
  expect(isShared(cooldown, 5_000)).toBe(true);
  expect(isShared(cooldown, 5_000 + 86_399_999)).toBe(true);
  expect(isShared(cooldown, 5_000 + 86_400_000)).toBe(false);
});
