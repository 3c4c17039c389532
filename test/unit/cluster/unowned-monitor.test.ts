import { expect, test } from 'vitest';
import { createUnownedMonitor } from '../../../src/cluster/unowned-monitor.ts';

test('what nobody held at two looks in a row is unheld, and what was taken meanwhile is not', () => {
  let now = 0;
  const watch = createUnownedMonitor(() => now);
  expect(watch.isDue()).toBe(false);
  now = 10_000;
  expect(watch.isDue()).toBe(true);
  watch.saw([1, 2]);
  now = 19_999;
  expect([watch.isDue(), watch.unheld().size]).toEqual([false, 0]);
  now = 20_000;
  watch.saw([2, 3]);
  now = 21_000;
  expect([...watch.unheld()]).toEqual([[2, 11_000]]);
  watch.saw([]);
  expect(watch.unheld().size).toBe(0);
});
