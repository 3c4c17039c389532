import { expect, test } from 'vitest';
import { createAlarm } from '../../../../src/sync/quota/alarm.ts';
import { createTravellingClock } from '../../../support/travelling-clock.ts';

test('an alarm goes off once, at the moment that was set last, and never before it', async () => {
  const clock = createTravellingClock();
  const calls: number[] = [];
  const alarm = createAlarm(clock, () => void calls.push(clock.monotonic()));
  alarm.set(100);
  alarm.set(50);
  alarm.set(70.4);
  expect(clock.pending).toBe(1);
  await clock.advance(200);
  expect(calls).toEqual([71]);
  // The same moment again is another one, since that alarm is over: it is past, and goes off at once.
  alarm.set(70.4);
  await clock.advance(0);
  expect(calls).toEqual([71, 200]);
  alarm.set(300);
  alarm.set(Number.POSITIVE_INFINITY);
  expect(clock.pending).toBe(0);
  alarm.set(300);
  await clock.advance(100);
  expect(calls).toEqual([71, 200, 300]);
});
