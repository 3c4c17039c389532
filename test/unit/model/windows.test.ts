import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { addCompletion, forgetBefore, roomAt, type Use, usedAt, windowOf } from '../../../src/model/windows.ts';

const NOW = Number.NEGATIVE_INFINITY;
const AFTER_ANSWER = Number.POSITIVE_INFINITY;

describe('a window', () => {
  test.each([
    ['empty', { inFlight: 0, completed: [] }, 2, NOW],
    ['one slot left', { inFlight: 0, completed: [10] }, 2, NOW],
    ['full of completed: the oldest leaves first', { inFlight: 0, completed: [10, 20] }, 2, 110],
    ['over its limit, since that shrank: the newest but one must go', { inFlight: 0, completed: [10, 20, 30] }, 1, 130],
    ['one in flight, one completed', { inFlight: 1, completed: [20] }, 2, 120],
    ['full of requests in flight', { inFlight: 2, completed: [] }, 2, AFTER_ANSWER],
    ['in flight over the limit', { inFlight: 3, completed: [5] }, 2, AFTER_ANSWER],
  ])('%s', (_name, use: Use, limit, expected) => {
    expect(roomAt(use, limit, 100)).toBe(expected);
  });

  test('counts those in flight and those completed less than one hold ago', () => {
    const use: Use = { inFlight: 2, completed: [10, 20, 30] };
    expect([29, 110, 120, 129, 130].map((now) => usedAt(use, 100, now))).toEqual([5, 4, 3, 3, 2]);
  });

  test('has room exactly when fewer than the limit count', () => {
    const times = fc.array(fc.integer({ min: 0, max: 300 }), { maxLength: 20 });
    const law = fc.property(
      times,
      fc.nat(5),
      fc.integer({ min: 1, max: 8 }),
      fc.nat(500),
      (at, inFlight, limit, now) => {
        const use: Use = { inFlight, completed: at.toSorted((a, b) => a - b) };
        expect(roomAt(use, limit, 100) <= now).toBe(usedAt(use, 100, now) < limit);
      },
    );
    fc.assert(law);
  });

  test('is held a little longer than its length: clocks differ and servers round', () => {
    expect(windowOf(200, 900_000)).toEqual({ cap: 200, hold: 900_451 });
    expect(windowOf(40, 60_000).hold).toBeCloseTo(60_031, 6);
  });

  test('completions stay in order, whatever order they are told in', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(50)), fc.nat(50), (times, before) => {
        const completed: number[] = [];
        for (const at of times) addCompletion(completed, at);
        expect(completed).toEqual(times.toSorted((a, b) => a - b));
        forgetBefore(completed, before);
        expect(completed).toEqual(times.filter((at) => at >= before).toSorted((a, b) => a - b));
      }),
    );
  });
});
