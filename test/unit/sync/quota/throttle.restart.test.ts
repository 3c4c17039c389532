import { expect, test } from 'vitest';
import type { Lane } from '../../../../src/model/lane.ts';
import { silentLogger } from '../../../../src/platform/lib/logger.ts';
import { silentMeter } from '../../../../src/platform/lib/meter.ts';
import { systemRandom } from '../../../../src/platform/lib/random.ts';
import { createThrottle } from '../../../../src/sync/quota/throttle.ts';
import { openTestStore } from '../../../support/intake.ts';
import { createTravellingClock } from '../../../support/travelling-clock.ts';

const MINUTE = 60_000;
const QUOTA = { requests: 100, window: 15 * MINUTE, burst: 40, burstWindow: MINUTE, share: 1, concurrency: 4 } as const;
const EVEN = { ...systemRandom(), float: () => 0.5 };

/** A throttle that is used, and then restarted or not. */
async function played(isRestarted: boolean) {
  const store = await openTestStore();
  const clock = createTravellingClock();
  const start = () =>
    createThrottle({ store, clock, random: EVEN, logger: silentLogger, meter: silentMeter, quota: QUOTA });
  let throttle = await start();
  const take = async (lane: Lane) => {
    const slot = await throttle.acquire({ lane, due: clock.now() });
    await store.commit((query) => slot.record(query));
    return slot;
  };
  const send = async (lane: Lane, status = 200) => (await take(lane)).complete({ status });
  await clock.advance(10 * MINUTE);
  await send('backfill');
  await clock.advance(MINUTE);
  await send('interactive');
  await clock.advance(1_000);
  await send('link');
  await send('link', 429);
  await clock.advance(2 * MINUTE);
  await send('link');
  if (isRestarted) {
    await throttle.stop();
    throttle = await start();
  }
  await clock.advance(10);
  const backfill = throttle.acquire({ lane: 'backfill', due: clock.now() }).then(() => clock.monotonic());
  const seen = {
    snapshot: throttle.snapshot(),
    usedShare: throttle.usedShare(),
    paces: throttle.paces(),
    used: throttle.used(),
    drainedAt: throttle.drainedAt(150, 20),
    isHalted: throttle.isHalted(),
  };
  await clock.advance(20 * MINUTE);
  return { ...seen, backfillAt: await backfill, later: throttle.paces() };
}

test('a restarted throttle decides as one that was not restarted', async () => {
  const [went, restarted] = [await played(false), await played(true)];
  expect(restarted).toEqual(went);
  // The slots that are kept for people, after one of them has asked.
  expect(went.snapshot.long.backgroundLimit).toBeLessThan(QUOTA.requests);
});

test('a restarted throttle is as careful as before about an unclean end', async () => {
  const inFlight = async (isRestarted: boolean) => {
    const store = await openTestStore();
    const clock = createTravellingClock();
    const start = () =>
      createThrottle({ store, clock, random: EVEN, logger: silentLogger, meter: silentMeter, quota: QUOTA });
    const first = await start();
    const lost = await first.acquire({ lane: 'read', due: 1 });
    await store.commit((query) => lost.record(query));
    // Its request never ends: as if the process had been killed.
    let throttle = await start();
    if (isRestarted) {
      await throttle.stop();
      throttle = await start();
    }
    let count = 0;
    for (let each = 0; each < 3; each++) void throttle.acquire({ lane: 'link', due: 1 }).then(() => count++);
    await clock.advance(10);
    return count;
  };
  expect(await inFlight(true)).toBe(await inFlight(false));
  expect(await inFlight(true)).toBe(1);
});
