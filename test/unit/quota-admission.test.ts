import { afterEach, expect, test } from 'vitest';
import { admissionOf, drainedAt } from '../../src/daemon/quota.ts';
import { silentLogger } from '../../src/lib/logger.ts';
import { silentMeter } from '../../src/lib/meter.ts';
import type { Lane } from '../../src/model/lane.ts';
import { openStore, type Store } from '../../src/store/database.ts';
import { createThrottle } from '../../src/throttle/throttle.ts';
import { createTravellingClock } from '../support/travelling-clock.ts';

const WINDOW = 15 * 60_000;
const random = { float: () => 0.5, uuid: () => 'none', bytes: (length: number) => Buffer.alloc(length) };

let store: Store | undefined;
afterEach(async () => {
  await store?.close();
});

async function bench(requests = 200) {
  const opened = await openStore({ file: ':memory:' });
  store = opened;
  const clock = createTravellingClock();
  const quota = { requests, window: WINDOW, burst: 0, burstWindow: 60_000, share: 1, concurrency: 8 };
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
  expect(drainedAt(throttle, clock, 1_950, 1_940)).toBe(busy.drainedAt);
  // What backfills use is no live work.
  await send('backfill');
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

test('without limits it is done at once', async () => {
  const { clock, throttle } = await bench(0);
  expect(admissionOf(throttle, clock, 5_000)).toMatchObject({ drainedAt: clock.now(), objection: null });
});
