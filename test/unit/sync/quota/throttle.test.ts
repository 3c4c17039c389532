import { describe, expect, test } from 'vitest';
import { CALLERS, keyCaller, tokenCaller } from '../../../../src/model/caller.ts';
import { UNKNOWN_GRACE, windowOf } from '../../../../src/model/windows.ts';
import { readMeta, writeMeta } from '../../../../src/store/meta.ts';
import { quotaUseSince, readLedger } from '../../../../src/store/quota/ledger.ts';
import { wasUncleanShutdown } from '../../../../src/sync/quota/slot.ts';
import {
  createUseCount,
  leastOfOthers,
  openWindowLedger,
  QUARTER,
  quarterOf,
  rebaseRow,
} from '../../../../src/sync/quota/window-ledger.ts';
import { MINUTE, openQuotaBench } from '../../../support/cost/quota-bench.ts';
import { createTravellingClock } from '../../../support/fakes/travelling-clock.ts';
import { wrongWhereStatementsFail } from '../../../support/faults/each-statement-fails.ts';
import { openTestStore } from '../../../support/harness/intake.ts';

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

test('does not serve a request that is cancelled after room came and before the timer showed it', async () => {
  const clock = createTravellingClock({ grain: 2 * MINUTE });
  const on = await openQuotaBench({ requests: 2, burst: 0, share: 0.5 }, { clock });
  await on.send('interactive');
  await on.clock.advance(5 * MINUTE);
  await on.send('link');
  const control = new AbortController();
  const waiting = on.acquire('interactive', 1, control.signal);
  await on.clock.advance(10.5 * MINUTE);
  control.abort();
  await expect(waiting).rejects.toMatchObject({ code: 'aborted' });
  expect(on.throttle.snapshot()).toMatchObject({ inFlight: 0, waiting: { interactive: 0 } });
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

describe('a slot', () => {
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
    await Promise.all([cautious.acquire('mirror'), cautious.acquire('mirror'), cautious.acquire('link')]);
  });

  test('a request is slow only from the last of its records on, because an earlier one was rolled back', async () => {
    const crashed = await openQuotaBench();
    await crashed.acquire('mirror');
    const { clock, granted, store, acquire } = await crashed.restart();
    const slots = [acquire('mirror'), acquire('mirror', 2)];
    const first = await slots[0]!;
    await clock.advance(900);
    await store.commit((query) => first.record(query));
    await clock.advance(900);
    expect(granted).toHaveLength(1);
    for (const slot of slots) await (await slot).complete({ status: 200 });
  });
});

describe('the ledger of a window', () => {
  async function bench(options: Parameters<typeof openTestStore>[0] = {}) {
    const { query, commit } = await openTestStore(options);
    const clock = createTravellingClock();
    /** Commits work that is rolled back. */
    const rollBack = (work: (transaction: typeof query) => Promise<unknown>) =>
      expect(
        commit(async (transaction) => {
          await work(transaction as typeof query);
          throw new Error('rolled back');
        }),
      ).rejects.toThrow('rolled back');
    return {
      ...{ query, clock, rollBack },
      open: () => openWindowLedger(query, clock, [windowOf(5, 60_000)]),
      rows: () => readLedger(query),
      used: async () =>
        (await quotaUseSince(query, 0)).map(({ caller, requests, refused }) => [caller, requests, refused]),
    };
  }

  const NOW = 5_000;
  const ROW = {
    id: 7,
    boot: 'a',
    lane: 'mirror' as const,
    caller: null,
    started: 1_000,
    completed: 1_500,
    status: 200,
  };
  const UNANSWERED = { ...ROW, status: null };
  const SENT = { ...UNANSWERED, completed: null };

  describe('a row at a start', () => {
    type Row = Parameters<typeof rebaseRow>[0];
    const graceful = { completed: NOW + UNKNOWN_GRACE };
    const future = { ...ROW, started: 9_000, completed: 9_500 };
    const old = { boot: 'b', started: NOW - 2_000 };

    test.each<[string, before: Row, boot: string, after: Row, lastSeen?: number]>([
      ['of this boot with an end is unchanged', ROW, 'a', ROW],
      ['of this boot in flight counts as just sent, with grace', SENT, 'a', { ...SENT, ...graceful }],
      ['of another boot is as old as its boot proves', ROW, 'b', { ...ROW, ...old, completed: NOW - 1_500 }],
      [
        'of another boot without an answer counts as just sent',
        UNANSWERED,
        'b',
        { ...UNANSWERED, ...old, ...graceful },
      ],
      ['from a restored image proves its age', future, 'a', { ...ROW, started: NOW - 500, completed: NOW }, 9_500],
    ])('%s', (_name, before, boot, after, lastSeen = 3_000) => {
      expect(rebaseRow(before, { boot, now: NOW, lastSeen })).toEqual(after);
    });

    test('of another boot is converted once, also across a second restart in the new boot', async () => {
      const { query, clock, open } = await bench();
      const first = await open();
      await first.record(first.open('mirror'), query);
      await clock.advance(30_000);
      clock.reboot();
      await clock.advance(1_000);
      const second = await open();
      await clock.advance(5_000);
      expect(second.all.completed).toEqual([1_000 + UNKNOWN_GRACE]);
      expect((await open()).all.completed).toEqual(second.all.completed);
    });

    test('of another boot proves only the time until the last heartbeat', async () => {
      const { query, clock, open } = await bench();
      const first = await open();
      const entry = first.open('mirror');
      await first.record(entry, query);
      first.complete(entry, 200, clock.monotonic());
      await first.recordEnd(entry, query);
      await clock.advance(20_000);
      await first.heartbeat(query);
      // The second boot stores only its start.
      for (const later of [5_000, 3_000]) {
        await clock.advance(later);
        clock.reboot();
        await clock.advance(1_000);
        expect((await open()).all.completed).toEqual([1_000 - 20_000]);
      }
    });
  });

  describe('an entry', () => {
    test('has a row until one window after its end, which the next record deletes', async () => {
      const { query, clock, open, rows } = await bench();
      const ledger = await open();
      const entry = ledger.open('mirror');
      await ledger.record(entry, query);
      ledger.complete(entry, 201, clock.monotonic());
      await ledger.recordEnd(entry, query);
      await clock.advance(60_100);
      expect(await rows()).toMatchObject([{ id: entry.id, status: 201, completed: 0 }]);
      const next = ledger.open('read');
      await ledger.record(next, query);
      expect(await rows()).toMatchObject([{ id: next.id, completed: null, status: null }]);
    });

    test('never has the id of another one, even if that row was rolled back', async () => {
      const { query, open, rows, rollBack } = await bench();
      const ledger = await open();
      const lost = ledger.open('mirror');
      await rollBack((transaction) => ledger.record(lost, transaction));
      const recorded = ledger.open('mirror');
      await ledger.record(recorded, query);
      ledger.release(lost);
      const next = ledger.open('mirror');
      await ledger.record(next, query);
      expect((await rows()).map(({ id }) => id)).toEqual([recorded.id, next.id]);
    });

    test('is counted once if its end is written twice, never if rolled back, and at the next start if interrupted', async () => {
      const { query, open, used, rollBack } = await bench();
      const ledger = await open();
      const twice = ledger.open('mirror');
      await ledger.record(twice, query);
      ledger.complete(twice, 200, 0);
      await rollBack((transaction) => ledger.recordEnd(twice, transaction));
      expect(await used()).toEqual([]);
      for (let times = 0; times < 2; times++) await ledger.recordEnd(twice, query);
      await ledger.record(ledger.open('interactive', CALLERS.command), query);
      expect(await used()).toEqual([['mirror', 1, 0]]);
      for (let starts = 0; starts < 2; starts++) await open();
      expect(await used()).toEqual([
        ['command', 1, 0],
        ['mirror', 1, 0],
      ]);
    });
  });

  describe('the count of uses', () => {
    const key = (name: string) => keyCaller(Buffer.from(name).toString('hex').padEnd(64, '0'));

    test('is of requests and refusals, by caller and quarter of an hour', async () => {
      const { query, clock } = await bench();
      const uses = createUseCount(clock);
      const first = quarterOf(clock.now());
      for (const status of [200, 429, undefined]) await uses.add(query, { caller: 'mirror', status });
      await uses.add(query, { caller: tokenCaller('gwt_1'), status: 200 });
      await clock.advance(QUARTER);
      await uses.add(query, { caller: 'mirror', status: 404 });
      expect(await quotaUseSince(query, 0)).toEqual([
        { since: first, caller: 'mirror', requests: 3, refused: 1 },
        { since: first, caller: 'token:gwt_1', requests: 1, refused: 0 },
        { since: first + QUARTER, caller: 'mirror', requests: 1, refused: 0 },
      ]);
    });

    test('limits the rows of a flood of keys, also across a restart, and has one row for unknown keys', async () => {
      const { query, clock, used } = await bench();
      const send = async (uses: ReturnType<typeof createUseCount>, count: number, name: string, status: number) => {
        for (let made = 0; made < count; made++) await uses.add(query, { caller: key(`${name}${made}`), status });
      };
      await send(createUseCount(clock), 50, 'wrong ', 401);
      expect(await used()).toEqual([[CALLERS.wrongKeys, 50, 0]]);
      await send(createUseCount(clock), 60, '', 200);
      await send(createUseCount(clock), 100, '', 200);
      const rows = await used();
      expect(rows).toHaveLength(64 + 2);
      expect(rows).toContainEqual([CALLERS.otherKeys, 36, 0]);
    });

    test.each([
      ['long', 90, 12, 90],
      ['burst', 90, 12, 12],
      ['either', 90, 12, 12],
    ] as const)(
      'of a refusal at a full %s window with %s and %s requests of others: %s',
      (window, long, burst, least) => {
        expect(leastOfOthers({ at: 0, window, othersLong: long, othersBurst: burst })).toBe(least);
      },
    );
  });
});

test('stores nothing of a start after a crash in another boot, with another share, whichever statement fails', async () => {
  const wrong = await wrongWhereStatementsFail(async (store) => {
    const on = await openQuotaBench({ share: 0.5 }, { store });
    await on.acquire('link');
    await on.send('link', 1, 429);
    await writeMeta(store.query, 'throttle.share', '0.7');
    on.clock.reboot();
    return () => on.restart();
  });
  expect(wrong).toEqual([]);
});
