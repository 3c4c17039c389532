import { afterEach, expect, test } from 'vitest';
import { admissionOf } from '../../../../src/admin/quota.ts';
import type { Lane } from '../../../../src/model/lane.ts';
import { silentLogger } from '../../../../src/platform/lib/logger.ts';
import { silentMeter } from '../../../../src/platform/lib/meter.ts';
import { createThrottle } from '../../../../src/sync/quota/throttle.ts';
import { type OpenedStore, openStore } from '../../../support/store.ts';
import { createTravellingClock } from '../../../support/travelling-clock.ts';

const WINDOW = 15 * 60_000;
const random = { float: () => 0.5, uuid: () => 'none', bytes: (length: number) => Buffer.alloc(length) };

let store: OpenedStore | undefined;
afterEach(async () => {
  await store?.close();
});

async function bench(requests = 200, share: number | 'auto' = 1) {
  const opened = await openStore({ file: ':memory:' });
  store = opened;
  const clock = createTravellingClock();
  const quota = { requests, window: WINDOW, burst: 0, burstWindow: 60_000, share, concurrency: 8 };
  const throttle = await createThrottle({
    store: opened,
    clock,
    random,
    logger: silentLogger,
    meter: silentMeter,
    quota,
  });
  const send = async (lane: Lane, status = 200, retryAfter?: number) => {
    const slot = await throttle.acquire({ lane, due: 1 });
    await opened.commit((query) => slot.record(query));
    await slot.complete({ status, retryAfter });
  };
  return { clock, throttle, send };
}

test('a backfill takes as long as what live work leaves allows, and longer where live work grows', async () => {
  const { clock, throttle, send } = await bench();
  const idle = admissionOf(throttle, clock, 1_940);
  expect(idle).toEqual({
    requests: 1_940,
    drainedAt: clock.now() + 10 * WINDOW,
    perWindow: { live: 0, backfill: 194, free: 6 },
    objection: null,
  });
  for (let sent = 0; sent < 97; sent++) await send('mirror');
  const busy = admissionOf(throttle, clock, 1_940);
  expect(busy.perWindow).toEqual({ live: 97, backfill: 97, free: 6 });
  expect(busy.drainedAt).toBe(clock.now() + 20 * WINDOW);
  // What backfills use is no live work.
  const backfilled = send('backfill');
  await clock.until(() => throttle.snapshot().long.usedByBackfill === 1);
  await backfilled;
  expect(admissionOf(throttle, clock, 1_940).perWindow?.live).toBe(97);
});

test('it is advised against while others were noticed, and where live work needs the share itself', async () => {
  const refused = await bench();
  await refused.send('mirror', 429, 60_000);
  const paused = admissionOf(refused.throttle, refused.clock, 100);
  expect(paused.objection).toMatch(/refused/);
  expect(paused.drainedAt).toBeGreaterThan(refused.clock.now() + 60_000);
  await refused.clock.advance(61_000);
  expect(admissionOf(refused.throttle, refused.clock, 100).objection).toMatch(/others use the workspace/);
  await store?.close();

  const crowded = await bench();
  for (let sent = 0; sent < 180; sent++) await crowded.send('mirror');
  expect(admissionOf(crowded.throttle, crowded.clock, 100).objection).toMatch(/live work/);
});

test('the forecast of a backfill that waits does not take for granted that live work goes on', async () => {
  const { clock, throttle, send } = await bench();
  for (let sent = 0; sent < 193; sent++) await send('mirror');
  const now = clock.now();
  expect(admissionOf(throttle, clock, 2).drainedAt - now).toBe(2 * WINDOW);
  // Slots of live work are free again after one window; then two go, a two hundredth of a window apart.
  const forecast = throttle.drainedAt(2, 2) - now;
  expect(forecast).toBeGreaterThan(0);
  expect(forecast).toBeLessThan(1.01 * WINDOW);
  expect(throttle.drainedAt(4, 2) - now).toBeLessThan(1.01 * WINDOW);
  const both = [send('backfill'), send('backfill')];
  await clock.until(() => throttle.snapshot().long.usedByBackfill === 2);
  await Promise.all(both);
  expect(Math.abs(clock.now() - now - forecast)).toBeLessThan(10_000);
});

test('the forecast of backfills paces them over the window, and one that is alone is sent at once', async () => {
  const { clock, throttle } = await bench();
  expect(throttle.drainedAt(1, 1)).toBe(clock.now());
  expect((throttle.drainedAt(101, 101) - clock.now()) / WINDOW).toBeCloseTo(0.5, 2);
  expect((throttle.drainedAt(1_941, 1_941) - clock.now()) / WINDOW).toBeCloseTo(10, 0);
});

test('nothing speaks against it where an automatic share has not risen yet, but where it was cut', async () => {
  const { clock, throttle, send } = await bench(200, 'auto');
  expect(admissionOf(throttle, clock, 100).objection).toBe(null);
  await send('mirror', 429, 1_000);
  await clock.advance(5_000);
  expect(admissionOf(throttle, clock, 100).objection).toMatch(/was cut/);
});

test('without limits it is done at once', async () => {
  const { clock, throttle } = await bench(0);
  expect(admissionOf(throttle, clock, 5_000)).toMatchObject({ drainedAt: clock.now(), objection: null });
});
