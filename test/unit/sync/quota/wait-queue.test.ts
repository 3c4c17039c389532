import { expect, test } from 'vitest';
import { createDeadlineTimer } from '../../../../src/sync/quota/wait-queue.ts';
import { createTravellingClock } from '../../../support/clocks/travelling-clock.ts';

test('a deadline timer fires once, at the deadline that was set last, and never before it', async () => {
  const clock = createTravellingClock();
  const calls: number[] = [];
  const timer = createDeadlineTimer(clock, () => void calls.push(clock.monotonic()));
  timer.set(100);
  timer.set(50);
  timer.set(70.4);
  expect(clock.pending).toBe(1);
  await clock.advance(200);
  expect(calls).toEqual([71]);
  // The deadline has fired, so setting it again makes it a new one. It is past, and fires at once.
  timer.set(70.4);
  await clock.advance(0);
  expect(calls).toEqual([71, 200]);
  timer.set(300);
  timer.set(Number.POSITIVE_INFINITY);
  expect(clock.pending).toBe(0);
  timer.set(300);
  await clock.advance(100);
  expect(calls).toEqual([71, 200, 300]);
});
