import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { entity, settlement } from '../../../src/model/change.ts';
import { debounceOf, dueAfter, LANES } from '../../../src/model/lane.ts';

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
