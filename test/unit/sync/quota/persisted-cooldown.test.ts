import { expect, test } from 'vitest';
import { readCooldown } from '../../../../src/sync/quota/persisted-cooldown.ts';
import { openTestStore } from '../../../support/intake.ts';
import { createTravellingClock } from '../../../support/travelling-clock.ts';

const HOUR = 3_600_000;

test('since when no other use was detected counts from the first start of all, over restarts of processes and machines', async () => {
  const { query } = await openTestStore();
  const clock = createTravellingClock();
  await clock.advance(1_000);
  expect((await readCooldown(query, clock)).quietSince).toBe(1_000);
  await clock.advance(HOUR);
  expect((await readCooldown(query, clock)).quietSince).toBe(1_000);
  clock.reboot();
  await clock.advance(500);
  const since = 500 - (HOUR + 500);
  expect((await readCooldown(query, clock)).quietSince).toBe(since);
  // It is dated anew once only: a wall clock that is set afterwards changes nothing.
  clock.jumpWall(5 * HOUR);
  expect((await readCooldown(query, clock)).quietSince).toBe(since);
});
