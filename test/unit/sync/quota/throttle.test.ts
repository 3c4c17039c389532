import { describe, expect, test } from 'vitest';
import { CALLERS } from '../../../../src/model/caller.ts';
import { type LogFields, silentLogger } from '../../../../src/platform/lib/logger.ts';
import type { Store } from '../../../../src/store/database.ts';
import { readLedger } from '../../../../src/store/ledger.ts';
import { readMeta, writeMeta } from '../../../../src/store/meta.ts';
import { quotaUseSince } from '../../../../src/store/quota-use.ts';
import { wasUncleanShutdown } from '../../../../src/sync/quota/slot.ts';
import { createDeadlineTimer } from '../../../../src/sync/quota/wait-queue.ts';
import { MINUTE, openQuotaBench } from '../../../support/cost/quota-bench.ts';
import { createTravellingClock } from '../../../support/fakes/travelling-clock.ts';
import { remainsOf } from '../../../support/faults/all-or-nothing.ts';
import { wrongWhereStatementsFail } from '../../../support/faults/each-statement-fails.ts';
import { withoutTable } from '../../../support/faults/without-table.ts';
import { openTestStore } from '../../../support/harness/intake.ts';

test('serves the most urgent request first, equals in order of arrival, and backfills last', async () => {
  const on = await openQuotaBench({ concurrency: 1 });
  const first = await on.acquire('mirror', 50);
  const rest = [on.send('mirror', 30), on.send('link', 20), on.send('backfill', 20), on.send('triage', 10)];
  await on.clock.advance(1);
  expect(on.granted).toEqual(['mirror 50']);
  await first.complete({ status: 200 });
  await on.clock.until(() => on.granted.length === 5);
  await Promise.all(rest);
  expect(on.granted).toEqual(['mirror 50', 'triage 10', 'link 20', 'mirror 30', 'backfill 20']);
});

test('serves an urgent request that arrives while no slot is free before requests that wait longer', async () => {
  const on = await openQuotaBench();
  await on.spend(4);
  const late = on.send('mirror', 99);
  await on.clock.advance(30_000);
  const urgent = on.send('mirror', 5);
  await on.clock.advance(31_000);
  await Promise.all([late, urgent]);
  expect(on.granted.slice(4)).toEqual(['mirror 5', 'mirror 99']);
});

test('never has more requests in flight than the concurrency', async () => {
  const on = await openQuotaBench({ concurrency: 2 });
  const requests = [on.acquire('mirror'), on.acquire('mirror'), on.acquire('mirror')];
  await on.clock.advance(10 * MINUTE);
  expect(on.throttle.snapshot()).toMatchObject({ inFlight: 2, nextSlotAt: expect.any(Number) });
  expect(on.granted).toHaveLength(2);
  await (await requests[0])?.complete({ status: 200 });
  await Promise.all(requests);
});

test('serves a request that follows another one of its turn, and no others until it has ended', async () => {
  const on = await openQuotaBench({ concurrency: 1 });
  const first = await on.acquire('status');
  const other = on.acquire('link', 1);
  const second = await on.throttle.acquire({ lane: 'status', due: 99, isFollower: true });
  await first.complete({ status: 200 });
  await on.clock.advance(100);
  expect(on.throttle.snapshot()).toMatchObject({ inFlight: 1, waiting: { link: 1 } });
  await second.complete({ status: 200 });
  await (await other).complete({ status: 200 });
  await on.throttle.stop();
});

test('serves a following request before waiting ones when the window has room again, unless it is cancelled', async () => {
  const on = await openQuotaBench({ burst: 2 });
  await on.spend(2);
  const control = new AbortController();
  const order: string[] = [];
  const urgent = on.throttle.acquire({ lane: 'link', due: 1 });
  void urgent.then(() => order.push('urgent'));
  const follow = (signal?: AbortSignal) => on.throttle.acquire({ lane: 'status', due: 99, isFollower: true, signal });
  const cancelled = follow(control.signal);
  const following = follow();
  void following.then(() => order.push('following'));
  control.abort();
  await expect(cancelled).rejects.toMatchObject({ code: 'aborted' });
  await on.clock.advance(MINUTE + 1_000);
  for (const slot of await Promise.all([following, urgent])) await slot.complete({ status: 200 });
  expect(order).toEqual(['following', 'urgent']);
  const late = follow();
  const stopping = on.throttle.stop();
  await expect(late).rejects.toMatchObject({ code: 'aborted' });
  await stopping;
});

test('cancels a waiting request by its signal, but not a slot that was given out', async () => {
  const on = await openQuotaBench({ burst: 1 });
  const control = new AbortController();
  const slot = await on.acquire('mirror', 1, control.signal);
  const second = on.acquire('mirror', 1, control.signal);
  const third = on.acquire('mirror', 2);
  control.abort();
  await expect(second).rejects.toMatchObject({ code: 'aborted' });
  await expect(on.acquire('mirror', 1, control.signal)).rejects.toMatchObject({ code: 'aborted' });
  expect(on.throttle.snapshot()).toMatchObject({ inFlight: 1, waiting: { mirror: 1 } });
  await slot.complete({ status: 200 });
  await on.clock.advance(MINUTE + 32);
  await third;
});

test('stop rejects waiting requests and waits for the slots that were given out', async () => {
  const on = await openQuotaBench({ burst: 1 });
  const slot = await on.acquire('mirror');
  const waiting = on.acquire('mirror');
  const steps: string[] = [];
  const stopping = on.throttle.stop().then(() => steps.push('over'));
  await expect(waiting).rejects.toMatchObject({ code: 'aborted' });
  await on.clock.advance(MINUTE);
  expect(steps).toEqual([]);
  await slot.complete({ status: 200 });
  await stopping;
  await expect(on.acquire('mirror')).rejects.toMatchObject({ code: 'aborted' });
  expect(on.clock.pending).toBe(0);
});

test('abandon waits for a heartbeat that is being stored, and leaves no timer', async () => {
  const opened = await openTestStore();
  const disk = Promise.withResolvers<void>();
  let isSlow = false;
  const commit: Store['commit'] = async (work) => {
    if (isSlow) await disk.promise;
    return opened.commit(work);
  };
  const store: Store = { ...opened, commit };
  const on = await openQuotaBench({}, { store });
  await on.send('link');
  isSlow = true;
  await on.clock.advance(5_000);
  const steps: string[] = [];
  const ended = on.throttle.abandon().then(() => steps.push('over'));
  await on.clock.advance(1);
  expect(steps).toEqual([]);
  disk.resolve();
  await ended;
  expect(on.clock.pending).toBe(0);
});

test('uses one timer for all waiting requests, and two commits per request', async () => {
  let commits = 0;
  const steps = { reached: (kind: string, edge: string) => void (kind === 'commit' && edge === 'after' && commits++) };
  const on = await openQuotaBench({}, { store: await openTestStore({ steps }) });
  commits = 0;
  await on.spend(4);
  expect(commits).toBe(8);
  const waiting = Array.from({ length: 100 }, (_each, due) => on.acquire('mirror', due));
  const outcomes = Promise.allSettled(waiting);
  await on.clock.advance(1);
  // The second timer is the heartbeat.
  expect(on.clock.pending).toBe(2);
  await on.throttle.stop();
  expect((await outcomes).every(({ status }) => status === 'rejected')).toBe(true);
});

/** Uses a throttle, restarts it or not, and returns what it then decides. */
async function decisions(isRestarted: boolean) {
  let on = await openQuotaBench({ requests: 100, burst: 40 });
  const { clock } = on;
  await clock.advance(10 * MINUTE);
  await on.send('backfill');
  await clock.advance(MINUTE);
  await on.send('interactive');
  await clock.advance(1_000);
  await on.send('link');
  await on.send('link', 1, 429);
  await clock.advance(2 * MINUTE);
  await on.send('link');
  if (isRestarted) {
    await on.throttle.stop();
    on = await on.restart();
  }
  const { throttle } = on;
  await clock.advance(10);
  const backfill = throttle.acquire({ lane: 'backfill', due: clock.now() }).then(() => clock.monotonic());
  const decided = {
    snapshot: throttle.snapshot(),
    usedShare: throttle.usedShare(),
    paces: throttle.paces(),
    used: throttle.used(),
    drainedAt: throttle.drainedAt(150, 20),
    isHalted: throttle.isHalted(),
  };
  await clock.advance(20 * MINUTE);
  return { ...decided, backfillAt: await backfill, later: throttle.paces() };
}

test('makes the same decisions after a restart as without one', async () => {
  const [without, restarted] = [await decisions(false), await decisions(true)];
  expect(restarted).toEqual(without);
  // The reserve for people is part of the restored state.
  expect(without.snapshot.long.backgroundLimit).toBeLessThan(100);
});

describe('a slot', () => {
  test('is free at once after its release; a second release and a completion have no effect', async () => {
    const on = await openQuotaBench({ burst: 1, concurrency: 1 });
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

  test('that is refused stores the use by others that the refusal proves', async () => {
    const on = await openQuotaBench({ requests: 10 });
    await on.send('mirror', 1, 429, 300_000);
    const used = await quotaUseSince(on.store.query, 0);
    expect(used.map(({ caller, requests }) => [caller, requests])).toEqual([
      ['mirror', 1],
      [CALLERS.others, 10],
    ]);
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

test.each<[string, isQuiet: boolean, getReady: (store: Store) => Promise<() => Promise<unknown>>]>([
  [
    'stores nothing of a start after a crash in another boot, with another share, and reports the error',
    false,
    async (store) => {
      const on = await openQuotaBench({ share: 0.5 }, { store });
      await on.acquire('link');
      await on.send('link', 1, 429);
      await writeMeta(store.query, 'throttle.share', '0.7');
      on.clock.reboot();
      return () => on.restart();
    },
  ],
  [
    'goes on after a heartbeat and a shutdown that cannot be stored',
    true,
    async (store) => {
      const on = await openQuotaBench({}, { store });
      await on.send('link');
      return async () => {
        await on.clock.advance(5_000);
        await on.throttle.stop();
      };
    },
  ],
])('%s, whichever statement fails', async (_what, isQuiet, getReady) => {
  expect(await wrongWhereStatementsFail(getReady, { isQuiet, inParts: isQuiet })).toEqual([]);
});
