import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { burstCeilingOf, ceilingOf } from '../../../../src/sync/quota/ceiling.ts';
import { effectiveShare, nextSlotAt, slotsOf } from '../../../../src/sync/quota/share.ts';

const MINUTE = 60_000;

describe('slots of a share', () => {
  test.each([
    [200, 0.8, 160],
    [40, 0.8, 32],
    [40, 0.7, 28],
    [100, 0.29, 29],
    [7, 0.5, 3],
    [3, 0.1, 1],
    [1, 0, 1],
    [200, 1, 200],
  ])('%d x %d = %d', (cap, share, slots) => {
    expect(slotsOf(cap, share)).toBe(slots);
  });
});

describe('a share that was cut', () => {
  const cut = { share: 0.2, refusedShare: 0.6, growsFrom: 10 * MINUTE };

  test.each([
    [0, 0.2],
    [10 * MINUTE, 0.2],
    [14 * MINUTE, 0.6 - 0.4 * 0.75 ** 3],
    [18 * MINUTE, 0.6 - 0.4 * 0.5 ** 3],
    [26 * MINUTE, 0.6],
    [34 * MINUTE, 0.716],
    [90 * MINUTE, 0.8],
  ])('at %d ms is %d of a configured 0.8', (now, share) => {
    expect(effectiveShare(cut, ceilingOf(0.8, 0), now)).toBeCloseTo(share, 9);
  });

  test('of which the refused share is not known grows in a straight line', () => {
    expect(effectiveShare({ share: 0.2, growsFrom: 0 }, ceilingOf(1, 0), 10 * MINUTE)).toBeCloseTo(
      0.2 + (10 * 4.3) / 200,
      9,
    );
  });

  test('is never above what is configured, also when that was lowered', () => {
    expect(effectiveShare(cut, ceilingOf(0.3, 0), 60 * MINUTE)).toBe(0.3);
    expect(effectiveShare(cut, ceilingOf(0.1, 0), 10 * MINUTE)).toBe(0.1);
  });

  test('gains its next slot at the moment foretold, and not before', () => {
    const caps = fc.constantFrom(1, 3, 40, 200, 999);
    const law = fc.property(
      caps,
      fc.double({ min: 0, max: 1, noNaN: true }),
      fc.double({ min: 0, max: 1, noNaN: true }),
      fc.nat(600 * MINUTE),
      fc.constantFrom(
        ceilingOf(0.8, 0),
        ceilingOf('auto', Number.NEGATIVE_INFINITY),
        ceilingOf('auto', 3 * MINUTE),
        burstCeilingOf('auto', 3 * MINUTE),
      ),
      (cap, share, lost, now, ceiling) => {
        const state = { share, refusedShare: share + lost, growsFrom: 5 * MINUTE };
        const slotsAt = (time: number) => slotsOf(cap, effectiveShare(state, ceiling, time));
        const next = nextSlotAt(state, ceiling, cap, now);
        const isGrown = slotsAt(now) === slotsAt(9_000 * MINUTE);
        const foretold =
          next > now && slotsAt(next) > slotsAt(now) && slotsAt(Math.max(now, next - 1)) === slotsAt(now);
        expect(next === Number.POSITIVE_INFINITY ? isGrown : foretold).toBe(true);
      },
    );
    fc.assert(law);
  });
});

describe('the ceiling of an automatic share', () => {
  const HOUR = 60 * MINUTE;
  const alone = Number.NEGATIVE_INFINITY;

  test.each([
    ['just noticed', 0, 0.85, 0.5],
    ['noticed an hour ago', HOUR, 0.85, 0.5],
    ['noticed hours ago', 3.5 * HOUR, 0.9175, 0.65],
    ['not noticed for long', 6 * HOUR, 0.985, 0.8],
    ['not noticed for a day', 24 * HOUR, 0.985, 0.8],
  ])('others %s', (_what, now, long, burst) => {
    expect(ceilingOf('auto', 0).at(now)).toBeCloseTo(long, 9);
    expect(burstCeilingOf('auto', 0).at(now)).toBeCloseTo(burst, 9);
  });

  test('always leaves something to people, and a number stands as it is', () => {
    expect(slotsOf(200, ceilingOf('auto', alone).at(0))).toBe(197);
    expect(slotsOf(40, burstCeilingOf('auto', alone).at(0))).toBe(32);
    expect([ceilingOf(1, 0).at(0), burstCeilingOf(0.3, 0).at(0)]).toEqual([1, 0.3]);
  });
});
