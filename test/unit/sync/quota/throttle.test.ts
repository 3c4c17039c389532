import { expect, test } from 'vitest';
import type { Store } from '../../../../src/store/database.ts';
import { MINUTE, openQuotaBench } from '../../../support/cost/quota-bench.ts';
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
  let stopped = false;
  const stopping = on.throttle.stop().then(() => {
    stopped = true;
  });
  await expect(waiting).rejects.toMatchObject({ code: 'aborted' });
  await on.clock.advance(MINUTE);
  expect(stopped).toBe(false);
  await slot.complete({ status: 200 });
  await stopping;
  await expect(on.acquire('mirror')).rejects.toMatchObject({ code: 'aborted' });
  expect(on.clock.pending).toBe(0);
});

test('abandon waits for a heartbeat that is being stored, and leaves no timer', async () => {
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
  const on = await openQuotaBench({}, { store });
  await on.send('link');
  isSlow = true;
  await on.clock.advance(5_000);
  let isOver = false;
  const ended = on.throttle.abandon().then(() => {
    isOver = true;
  });
  await on.clock.advance(1);
  expect(isOver).toBe(false);
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
