import { expect, test } from 'vitest';
import { createAdaptiveBatchSize } from '../../../../src/platform/lib/adaptive-batch-size.ts';
import type { Clock } from '../../../../src/platform/lib/clock.ts';

/** Works through portions of which each thing takes so many milliseconds; tells their sizes. */
async function sizes(costs: readonly number[]): Promise<number[]> {
  let time = 0;
  const portion = createAdaptiveBatchSize({ monotonic: () => time } as Clock, { least: 20, most: 100 });
  const taken: number[] = [];
  for (const cost of costs) {
    const size = portion.size();
    taken.push(size);
    await portion.work(size, async () => {
      time += size * cost;
    });
  }
  return taken;
}

test('what is cheap is taken in larger portions, step by step, up to the most', async () => {
  expect(await sizes([0, 0, 0, 0, 0, 0])).toEqual([20, 30, 45, 68, 100, 100]);
});

test('what is dear is taken in portions of 20 ms, and no less than the least', async () => {
  expect(await sizes([0, 0, 0, 0, 0.5, 0.5, 2, 2])).toEqual([20, 30, 45, 68, 100, 40, 40, 20]);
});

test('a portion that was not full says nothing of larger ones', async () => {
  const portion = createAdaptiveBatchSize({ monotonic: () => 0 } as Clock, { least: 20, most: 100 });
  await portion.work(3, async () => undefined);
  expect(portion.size()).toBe(20);
});
