import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { leavesRoom, type Use } from '../../../src/model/windows.ts';
import { drawn } from '../../support/depth.ts';

const HOLD = 900;
const use = (completed: number[], inFlight = 0): Use => ({ completed, inFlight });
const filled = (completed: number[], slots = 10, inFlight = 0) => ({
  use: use(completed, inFlight),
  slots,
  hold: HOLD,
  now: 1_000,
});

describe('whether a request leaves room for others that are expected', () => {
  test.each([
    ['nothing is expected', filled([]), { rate: 0, spare: 0 }, true],
    [
      'the last free slot is spare',
      filled([900, 900, 900, 900, 900, 900, 900, 900, 900]),
      { rate: 0, spare: 1 },
      false,
    ],
    ['nearly all slots are wanted while one is taken', filled([950]), { rate: 10 / HOLD, spare: 0 }, false],
    ['more is wanted than there is, and nothing is taken', filled([]), { rate: 50 / HOLD, spare: 3 }, true],
    ['there is one slot only', filled([], 1), { rate: 3 / HOLD, spare: 0 }, true],
    ['one slot is left over', filled([]), { rate: 9 / HOLD, spare: 0 }, true],
    [
      'slots are free again before they are wanted',
      filled([110, 200, 300, 400], 10, 4),
      { rate: 4 / HOLD, spare: 0 },
      true,
    ],
    ['slots are free again too late', filled([950, 960, 970, 980], 10, 4), { rate: 4 / HOLD, spare: 0 }, false],
    ['those in flight hold a slot for a whole window', filled([], 5, 4), { rate: 1 / HOLD, spare: 0 }, false],
    ['those that count no more hold none', filled([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]), { rate: 9 / HOLD, spare: 0 }, true],
  ])('%s', (_what, state, need, leaves) => {
    expect(leavesRoom(state, need)).toBe(leaves);
  });

  test('where it does, requests that come at this rate all find a slot at once', () => {
    const law = fc.property(
      fc.array(fc.integer({ min: 1, max: 1_000 }), { maxLength: 20 }),
      fc.integer({ min: 2, max: 25 }),
      fc.integer({ min: 1, max: 20 }),
      (completed, slots, count) => {
        const state = filled(
          completed.toSorted((a, b) => a - b),
          slots,
        );
        fc.pre(count < slots && leavesRoom(state, { rate: count / HOLD, spare: 0 }));
        const ends = [...completed.map((at) => at + HOLD - state.now), HOLD];
        for (let sent = 1; sent <= count; sent += 1) {
          const at = (sent * HOLD) / count;
          const held = ends.filter((end) => end > at - HOLD / count).length;
          // Those that came before are there for the whole window.
          expect(held + sent - 1).toBeLessThan(slots);
        }
      },
    );
    fc.assert(law, { numRuns: drawn(300) });
  });
});
