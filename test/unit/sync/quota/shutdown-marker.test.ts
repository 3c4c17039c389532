import { expect, test } from 'vitest';
import { type LogFields, silentLogger } from '../../../../src/platform/lib/logger.ts';
import { silentMeter } from '../../../../src/platform/lib/meter.ts';
import { systemRandom } from '../../../../src/platform/lib/random.ts';
import type { Store } from '../../../../src/store/database.ts';
import { markRunning, markShutdown, wasUncleanShutdown } from '../../../../src/sync/quota/shutdown-marker.ts';
import { createThrottle } from '../../../../src/sync/quota/throttle.ts';
import { remainsOf } from '../../../support/all-or-nothing.ts';
import { openTestStore } from '../../../support/intake.ts';
import { createTravellingClock } from '../../../support/travelling-clock.ts';
import { withoutTable } from '../../../support/without-table.ts';

const MINUTE = 60_000;
const QUOTA = { requests: 10, window: 15 * MINUTE, burst: 4, burstWindow: MINUTE, share: 1, concurrency: 4 };

async function throttleOver(store: Store) {
  const warnings: string[] = [];
  const logger = { ...silentLogger, warn: (_fields: LogFields, message: string) => void warnings.push(message) };
  const parts = { clock: createTravellingClock(), random: systemRandom(), meter: silentMeter };
  const throttle = await createThrottle({ store, logger, quota: QUOTA, ...parts });
  const send = async (status: number) => {
    const slot = await throttle.acquire({ lane: 'link', due: 1 });
    await store.commit((query) => slot.record(query));
    return () => slot.complete({ status });
  };
  return { throttle, warnings, send };
}

test('the next process knows whether this one, which used the quota, came to its end', async () => {
  const store = await openTestStore();
  const { throttle, send } = await throttleOver(store);
  expect(await wasUncleanShutdown(store.query)).toBe(false);
  await (await send(200))();
  expect(await wasUncleanShutdown(store.query)).toBe(true);
  await throttle.stop();
  expect(await wasUncleanShutdown(store.query)).toBe(false);
});

test('an end that the database does not take is told, and the next process starts carefully', async () => {
  const store = await openTestStore();
  const { throttle, warnings, send } = await throttleOver(store);
  await (await send(200))();
  await withoutTable(store.database, 'meta', () => throttle.stop());
  expect(warnings).toEqual(['the clean shutdown could not be recorded: the next process starts carefully']);
  expect(await wasUncleanShutdown(store.query)).toBe(true);
});

test.each([
  ['begin', markRunning],
  ['end', markShutdown],
])('the %s of a run is written when it has been waited for, or it fails', async (_what, write) => {
  const store = await openTestStore();
  await withoutTable(store.database, 'meta', () => expect(write(store.query)).rejects.toThrow());
});

test('the answer to a request and what the quota learns from it are stored together, or neither is', async () => {
  expect(await remainsOf(async (store) => (await throttleOver(store)).send(429))).toEqual([]);
});
