import { expect, test } from 'vitest';
import { onClockSetBack } from '../../../../src/platform/lib/clock-set-back.ts';
import { createTravellingClock } from '../../../support/clocks/travelling-clock.ts';

test('a clock that is set back is seen once, whatever time passes; a little correction and one ahead are not', async () => {
  const clock = createTravellingClock();
  let redated = 0;
  const mind = onClockSetBack(clock, async () => void redated++);
  const seen = [await mind()];
  for (const jump of [-1_000, 7_200_000, -1_001, 0]) {
    clock.jumpWall(jump);
    await clock.advance(500);
    seen.push(await mind());
  }
  expect([seen, redated]).toEqual([[false, false, false, true, false], 1]);
});

test('what could not be dated anew is tried again at the next look', async () => {
  const clock = createTravellingClock();
  const outcomes = [Promise.reject(new Error('no')), Promise.resolve(), Promise.resolve()];
  const mind = onClockSetBack(clock, () => outcomes.shift() as Promise<void>, true);
  await expect(mind()).rejects.toThrow('no');
  expect([await mind(), await mind(), outcomes.length]).toEqual([true, false, 1]);
});
