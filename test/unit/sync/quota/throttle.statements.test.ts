import { expect, test } from 'vitest';
import { silentLogger } from '../../../../src/platform/lib/logger.ts';
import { silentMeter } from '../../../../src/platform/lib/meter.ts';
import { systemRandom } from '../../../../src/platform/lib/random.ts';
import type { Store } from '../../../../src/store/database.ts';
import { writeMeta } from '../../../../src/store/meta.ts';
import { createThrottle } from '../../../../src/sync/quota/throttle.ts';
import { type Promised, wrongWhereStatementsFail } from '../../../support/each-statement-fails.ts';
import { openTestStore } from '../../../support/intake.ts';
import { createTravellingClock } from '../../../support/travelling-clock.ts';

const MINUTE = 60_000;
const QUOTA = { requests: 10, window: 15 * MINUTE, burst: 4, burstWindow: MINUTE, share: 0.5, concurrency: 4 };

async function throttleOver(store: Store, clock = createTravellingClock()) {
  const parts = { clock, random: systemRandom(), meter: silentMeter, logger: silentLogger };
  const throttle = await createThrottle({ store, quota: QUOTA, ...parts });
  const sent = async () => {
    const slot = await throttle.acquire({ lane: 'link', due: 1 });
    await store.commit((query) => slot.record(query));
    return slot;
  };
  return { throttle, clock, sent };
}

const REFUSED_KEY = { status: 401, key: { code: 'unauthorized', reason: 'the key was refused' } } as const;

test.each<[what: string, ready: (store: Store) => Promise<() => Promise<unknown>>, promised?: Promised]>([
  [
    'a start after a process that died in another boot, with another share',
    async (store) => {
      const { sent, clock } = await throttleOver(store);
      await sent();
      await (await sent()).complete({ status: 429 });
      await writeMeta(store.query, 'throttle.share', '0.7');
      clock.reboot();
      return () => throttleOver(store, clock);
    },
  ],
  ['a first start', async (store) => () => throttleOver(store)],
  [
    'a request',
    async (store) => {
      const { throttle } = await throttleOver(store);
      const slot = await throttle.acquire({ lane: 'link', due: 1 });
      return () => store.commit((query) => slot.record(query));
    },
  ],
  [
    'a request after one that was not sent',
    async (store) => {
      const { throttle, sent } = await throttleOver(store);
      (await sent()).release();
      const slot = await throttle.acquire({ lane: 'link', due: 1 });
      return () => store.commit((query) => slot.record(query));
    },
  ],
  [
    'an answer',
    async (store) => {
      const slot = await (await throttleOver(store)).sent();
      return () => slot.complete({ status: 200 });
    },
  ],
  [
    'a refusal',
    async (store) => {
      const slot = await (await throttleOver(store)).sent();
      return () => slot.complete({ status: 429 });
    },
  ],
  [
    'another key',
    async (store) => {
      const { throttle, sent } = await throttleOver(store);
      await (await sent()).complete(REFUSED_KEY);
      return () => throttle.resume();
    },
  ],
  [
    'time that is written down',
    async (store) => {
      const { sent, clock } = await throttleOver(store);
      await (await sent()).complete({ status: 200 });
      return () => clock.advance(5_000);
    },
    { isQuiet: true },
  ],
  [
    'the end',
    async (store) => {
      const { throttle, sent } = await throttleOver(store);
      await (await sent()).complete({ status: 200 });
      return () => throttle.stop();
    },
    { isQuiet: true },
  ],
])(
  'whichever statement fails of %s, nothing of it is stored, and whoever waits for it is told',
  async (_what, ready, promised) => {
    expect(await wrongWhereStatementsFail(ready, promised)).toEqual([]);
  },
);

test('a process that has another key sends at once, and so does the next one', async () => {
  const store = await openTestStore();
  const clock = createTravellingClock();
  const { throttle, sent } = await throttleOver(store, clock);
  await throttle.resume();
  expect(throttle.isHalted()).toBe(false);
  await (await sent()).complete(REFUSED_KEY);
  const next = async () => (await throttleOver(store, clock)).throttle.isHalted();
  expect([throttle.isHalted(), await next()]).toEqual([true, true]);
  await throttle.resume();
  expect([throttle.isHalted(), await next()]).toEqual([false, false]);
});

test('whoever stops waits for time that is being written down, and no timer is left', async () => {
  const opened = await openTestStore();
  const disk = Promise.withResolvers<void>();
  let isSlow = false;
  const store: Store = {
    ...opened,
    async commit(work) {
      if (isSlow) await disk.promise;
      return opened.commit(work);
    },
  };
  const { throttle, sent, clock } = await throttleOver(store);
  await (await sent()).complete({ status: 200 });
  isSlow = true;
  await clock.advance(5_000);
  let isOver = false;
  const ended = throttle.abandon().then(() => {
    isOver = true;
  });
  await clock.advance(1);
  expect(isOver).toBe(false);
  disk.resolve();
  await ended;
  expect(clock.pending).toBe(0);
});
