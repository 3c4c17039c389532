import fc from 'fast-check';
import { describe, expect, it, test } from 'vitest';
import { entity, settlement } from '../../../src/model/change.ts';
import { mayBeCut } from '../../../src/model/delivery.ts';
import { debounceOf, dueAfter, LANES } from '../../../src/model/lane.ts';
import {
  addCompletion,
  forgetBefore,
  leavesRoom,
  roomAt,
  usedAt,
  type WindowUse,
  windowOf,
} from '../../../src/model/windows.ts';
import { drawn } from '../../support/harness/depth.ts';

describe('the debounce of a change', () => {
  it('is 0 in the interactive lane, and one minute for reads', () => {
    for (const used of [-1, 0, 0.5, 1, 2]) {
      expect(debounceOf('interactive', used)).toEqual({ wait: 0, maxWait: 0 });
      expect(debounceOf('read', used)).toEqual({ wait: 60_000, maxWait: 60_000 });
    }
  });

  it.each(['triage', 'link', 'mirror'] as const)(
    'is some seconds in the lane %s, and grows with the used share',
    (lane) => {
      const all = [-1, 0, 0.5, 1, 7].map((used) => debounceOf(lane, used));
      expect(all.map(({ wait }) => wait)).toEqual([2_400, 2_400, 3_900, 8_400, 8_400]);
      expect(all.map(({ maxWait }) => maxWait)).toEqual([6_000, 6_000, 8_250, 15_000, 15_000]);
    },
  );

  it('never shrinks when the used share grows', () => {
    const share = fc.double({ min: 0, max: 1, noNaN: true });
    fc.assert(
      fc.property(fc.constantFrom(...LANES), share, share, (lane, one, other) => {
        const [less, more] = [debounceOf(lane, Math.min(one, other)), debounceOf(lane, Math.max(one, other))];
        expect(more.wait).toBeGreaterThanOrEqual(less.wait);
        expect(more.maxWait).toBeGreaterThanOrEqual(less.maxWait);
      }),
    );
  });

  it('ends after `wait` or `maxWait`, and with a promised visibility counts from the first event', () => {
    const usual = { wait: 2_000, maxWait: 6_000 };
    expect([0, 1_000, 3_999, 5_000, 60_000].map((last) => dueAfter(0, last, usual))).toEqual([
      2_000, 3_000, 5_999, 6_000, 6_000,
    ]);
    expect([0, 5_000, 59_000].map((last) => dueAfter(0, last, debounceOf('mirror', 1, 60_000)))).toEqual([
      59_500, 59_500, 59_500,
    ]);
  });
});

it('names entities by kind and natural key', () => {
  expect(entity.pullRequest('github', '1', '2')).toBe('pull_request:github/1/2');
  expect(entity.link('item', 'task')).toBe('link:item>task');
  expect(entity.readLinks('task')).toBe('read:links:task');
});

it('settles only creations of tasks by a list', () => {
  expect((['pull_request', 'link', 'task', 'read'] as const).map(settlement)).toEqual([
    'repeat',
    'repeat',
    'list',
    'repeat',
  ]);
});

describe('a window', () => {
  test('counts requests in flight and requests completed less than one hold ago', () => {
    const use: WindowUse = { inFlight: 2, completed: [10, 20, 30] };
    expect([29, 110, 120, 129, 130].map((now) => usedAt(use, 100, now))).toEqual([5, 4, 3, 3, 2]);
  });

  test('has room exactly if fewer requests than the limit count', () => {
    const times = fc.array(fc.integer({ min: 0, max: 300 }), { maxLength: 20 });
    const law = fc.property(
      times,
      fc.nat(5),
      fc.integer({ min: 1, max: 8 }),
      fc.nat(500),
      (at, inFlight, limit, now) => {
        const use: WindowUse = { inFlight, completed: at.toSorted((a, b) => a - b) };
        expect(roomAt(use, limit, 100) <= now).toBe(usedAt(use, 100, now) < limit);
      },
    );
    fc.assert(law);
  });

  test('is a little longer than at the server, because clocks differ and servers round', () => {
    expect(windowOf(200, 900_000)).toEqual({ cap: 200, hold: 900_451 });
    expect(windowOf(40, 60_000).hold).toBeCloseTo(60_031, 6);
  });

  test('completions stay sorted, in whatever order they are added', () => {
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

const HOLD = 900;
const useOf = (completed: number[], inFlight = 0): WindowUse => ({ completed, inFlight });
const filled = (completed: number[], slots = 10, inFlight = 0) => ({
  ...{ use: useOf(completed, inFlight), slots, hold: HOLD, now: 1_000 },
});
const upTo = (count: number) => Array.from({ length: count }, (_, at) => at + 1);

describe('leavesRoom', () => {
  test.each<[what: string, leaves: boolean, state: ReturnType<typeof filled>, expected: number, spare: number]>([
    ['no request is expected', true, filled([]), 0, 0],
    ['only the spare slot is free', false, filled(upTo(9).map(() => 900)), 0, 1],
    ['nearly all slots are expected to be used while one is taken', false, filled([950]), 10, 0],
    ['many requests are expected in an empty window', true, filled([]), 50, 3],
    ['the window is empty and has one slot', true, filled([], 1), 3, 0],
    ['one slot is left', true, filled([]), 9, 0],
    ['slots become free before they are needed', true, filled([110, 200, 300, 400], 10, 4), 4, 0],
    ['slots become free too late', false, filled([950, 960, 970, 980], 10, 4), 4, 0],
    ['requests in flight take their slots for a whole window', false, filled([], 5, 4), 1, 0],
    ['expired requests take no slots', true, filled(upTo(10)), 9, 0],
  ])('if %s: %s', (_what, leaves, state, expected, spare) => {
    expect(leavesRoom(state, { rate: expected / HOLD, spare })).toBe(leaves);
  });

  test('guarantees a slot for each request at the expected rate', () => {
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
          const taken = ends.filter((end) => end > at - HOLD / count).length;
          // Earlier requests of this rate take their slots for the whole window.
          expect(taken + sent - 1).toBeLessThan(slots);
        }
      },
    );
    fc.assert(law, { numRuns: drawn(300) });
  });
});

it.each([
  [50, null, true],
  [1_000, null, true],
  [0, null, false],
  [49, null, false],
  [50, true, false],
  [50, false, false],
])('a list of %i with isLast %s may be cut: %s', (length, isLast, expected) => {
  expect(mayBeCut(length, isLast)).toBe(expected);
});
