import { describe, expect, test } from 'vitest';
import { type LogFields, silentLogger } from '../../../../src/platform/lib/logger.ts';
import type { Store } from '../../../../src/store/database.ts';
import { readLedger } from '../../../../src/store/ledger.ts';
import { readMeta, writeMeta } from '../../../../src/store/meta.ts';
import { wasUncleanShutdown } from '../../../../src/sync/quota/slot.ts';
import { MINUTE, openQuotaBench } from '../../../support/cost/quota-bench.ts';
import { remainsOf } from '../../../support/faults/all-or-nothing.ts';
import { type Promised, wrongWhereStatementsFail } from '../../../support/faults/each-statement-fails.ts';
import { withoutTable } from '../../../support/faults/without-table.ts';
import { openTestStore } from '../../../support/harness/intake.ts';

describe('a slot', () => {
  test('is free at once after its release; a second release and a completion have no effect', async () => {
    const on = await openQuotaBench({ burst: 1 });
    const slot = await on.acquire('mirror');
    slot.release();
    slot.release();
    await slot.complete({ status: 200 });
    await on.send('mirror');
    expect(on.throttle.snapshot()).toMatchObject({ inFlight: 0, burst: { used: 1 } });
  });

  test('can be completed again after its transaction was rolled back', async () => {
    const on = await openQuotaBench();
    const slot = await on.acquire('mirror');
    const failing = on.store.commit(async (query) => {
      await slot.complete({ status: 429, retryAfter: 60_000 }, query);
      throw new Error('rolled back');
    });
    await expect(failing).rejects.toThrow('rolled back');
    expect(await readLedger(on.store.query)).toMatchObject([{ completed: null }]);
    await on.clock.advance(5_000);
    await slot.complete({ status: 429, retryAfter: 60_000 });
    expect(await readLedger(on.store.query)).toMatchObject([{ completed: 0, status: 429 }]);
    const again = await on.restart();
    expect(again.throttle.snapshot().paused?.until).toBe(on.clock.now() + 55_000);
  });

  test('that is left without a completion delays neither the next slot nor the stop, and its row stays open', async () => {
    const on = await openQuotaBench({ concurrency: 1 });
    const slot = await on.acquire('mirror');
    slot.leave();
    (await on.acquire('mirror')).leave();
    await on.throttle.stop();
    const rows = await readLedger(on.store.query);
    expect(rows.map(({ completed }) => completed)).toEqual([null, null]);
  });

  test('stores the answer and its effect on the quota in one transaction', async () => {
    const getReady = async (store: Store) => {
      const slot = await (await openQuotaBench({}, { store })).acquire('link');
      return () => slot.complete({ status: 429 });
    };
    expect(await remainsOf(getReady)).toEqual([]);
  });
});

test('the heartbeat stores the time every few seconds while a window contains a request', async () => {
  const on = await openQuotaBench({ burst: 0, requests: 100 });
  await on.spend(1);
  const stored = async () =>
    (JSON.parse((await readMeta(on.store.query, 'throttle.beat')) ?? '{}') as { at?: number }).at;
  await on.clock.advance(60_000);
  expect(on.clock.monotonic() - ((await stored()) ?? 0)).toBeLessThanOrEqual(5_000);
  await on.clock.advance(16 * MINUTE);
  const last = await stored();
  await on.clock.advance(60_000);
  expect(await stored()).toBe(last);
});

describe('the shutdown marker', () => {
  test('distinguishes a clean shutdown from an unclean end of a process that used the quota', async () => {
    const on = await openQuotaBench();
    expect(await wasUncleanShutdown(on.store.query)).toBe(false);
    await on.send('link');
    expect(await wasUncleanShutdown(on.store.query)).toBe(true);
    await on.throttle.stop();
    expect(await wasUncleanShutdown(on.store.query)).toBe(false);
  });

  test('that cannot be removed is logged, and makes the next process cautious', async () => {
    const store = await openTestStore();
    const warnings: string[] = [];
    const logger = { ...silentLogger, warn: (_fields: LogFields, message: string) => void warnings.push(message) };
    const on = await openQuotaBench({}, { store, logger });
    await on.send('link');
    await withoutTable(store.database, 'meta', () => on.throttle.stop());
    expect(warnings).toEqual(['the clean shutdown could not be recorded: the next process starts carefully']);
    expect(await wasUncleanShutdown(store.query)).toBe(true);
  });
});

describe('after an unclean end', () => {
  test('requests go one at a time for one window, past slow ones', async () => {
    const crashed = await openQuotaBench();
    await crashed.acquire('mirror');
    const cautious = await crashed.restart();
    const { clock, granted } = cautious;
    const slots = [cautious.acquire('mirror'), cautious.acquire('mirror'), cautious.acquire('mirror')];
    await clock.advance(999);
    expect(granted).toHaveLength(1);
    await clock.advance(1);
    expect(granted).toHaveLength(2);
    for (const slot of slots) await (await slot).complete({ status: 200 });

    await clock.advance(16 * MINUTE);
    const later = await Promise.all([cautious.acquire('mirror'), cautious.acquire('mirror'), cautious.acquire('link')]);
    for (const slot of later) await slot.complete({ status: 200 });
    await cautious.throttle.stop();
    await clock.advance(2 * MINUTE);
    const next = await cautious.restart();
    await Promise.all([next.acquire('mirror'), next.acquire('link')]);
  });

  test('requests still go one at a time if the next process is restarted cleanly', async () => {
    const crashed = await openQuotaBench();
    await crashed.acquire('read');
    const cautious = await crashed.restart();
    await cautious.throttle.stop();
    const on = await cautious.restart();
    for (let request = 0; request < 3; request++) void on.acquire('link').catch(() => {});
    await on.clock.advance(10);
    expect(on.granted).toHaveLength(1);
  });
});

const KEY_REJECTED = { status: 401, key: { code: 'unauthorized', reason: 'the key was refused' } } as const;
const open = (store: Store) => openQuotaBench({ share: 0.5 }, { store });

test.each<[what: string, getReady: (store: Store) => Promise<() => Promise<unknown>>, promised?: Promised]>([
  [
    'a start after a crash in another boot, with another share',
    async (store) => {
      const on = await open(store);
      await on.acquire('link');
      await on.send('link', 1, 429);
      await writeMeta(store.query, 'throttle.share', '0.7');
      on.clock.reboot();
      return () => on.restart();
    },
  ],
  ['a first start', async (store) => () => open(store)],
  [
    'a request',
    async (store) => {
      const slot = await (await open(store)).throttle.acquire({ lane: 'link', due: 1 });
      return () => store.commit((query) => slot.record(query));
    },
  ],
  [
    'a request after a released one',
    async (store) => {
      const on = await open(store);
      (await on.acquire('link')).release();
      const slot = await on.throttle.acquire({ lane: 'link', due: 1 });
      return () => store.commit((query) => slot.record(query));
    },
  ],
  [
    'an answer',
    async (store) => {
      const slot = await (await open(store)).acquire('link');
      return () => slot.complete({ status: 200 });
    },
  ],
  [
    'a refusal',
    async (store) => {
      const slot = await (await open(store)).acquire('link');
      return () => slot.complete({ status: 429 });
    },
  ],
  [
    'a new key',
    async (store) => {
      const on = await open(store);
      await (await on.acquire('link')).complete(KEY_REJECTED);
      return () => on.throttle.resume();
    },
  ],
  [
    'a heartbeat',
    async (store) => {
      const on = await open(store);
      await on.send('link');
      return () => on.clock.advance(5_000);
    },
    { isQuiet: true },
  ],
  [
    'a clean shutdown',
    async (store) => {
      const on = await open(store);
      await on.send('link');
      return () => on.throttle.stop();
    },
    { isQuiet: true },
  ],
])('stores nothing of %s and reports the error if one of its statements fails', async (_what, getReady, promised) => {
  expect(await wrongWhereStatementsFail(getReady, promised)).toEqual([]);
});
