import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { admissionOf } from '../../../../src/admin/quota/quota.ts';
import { addCompletion, roomAt, type WindowUse } from '../../../../src/model/windows.ts';
import { backgroundConstraints, lastStart, windowConstraints } from '../../../../src/sync/quota/limits.ts';
import { MINUTE, openQuotaBench } from '../../../support/cost/quota-bench.ts';

const WINDOW = 15 * MINUTE;

describe('limits', () => {
  test('keep the background within its share, and admit interactive requests up to the cap', async () => {
    const on = await openQuotaBench({ burst: 0, share: 0.8, concurrency: 1 });
    await on.spend(8);
    const background = on.send('mirror', 1);
    const interactive = [on.send('interactive', 60), on.send('interactive', 90), on.send('interactive', 70)];
    await on.clock.advance(MINUTE);
    expect(on.granted.slice(8)).toEqual(['interactive 60', 'interactive 70']);
    expect(on.throttle.snapshot()).toMatchObject({
      long: { cap: 10, used: 10, usedByBackground: 8, backgroundLimit: 8 },
      burst: { cap: null },
      waiting: { interactive: 1, mirror: 1 },
      effectiveShare: 0.8,
    });
    await on.clock.until(() => on.granted.length === 12);
    await Promise.all([background, ...interactive]);
    expect(on.granted.slice(10).toSorted()).toEqual(['interactive 90', 'mirror 1']);
  });

  test('have no effect once they are lifted', async () => {
    const on = await openQuotaBench({ requests: 0, burst: 0 });
    await on.spend(300);
    expect(on.clock.elapsed()).toBe(0);
    expect(on.throttle.usedShare()).toBe(0);
    const { nextSlotAt, long } = on.throttle.snapshot();
    expect(nextSlotAt).toBe(on.clock.now());
    expect(long).toMatchObject({ cap: null, backgroundLimit: null, backfillLimit: null });
  });

  test('spread backfills evenly, reserve slots for live lanes, and stop backfills while live lanes need theirs', async () => {
    const on = await openQuotaBench({ burst: 0, requests: 100 });
    const backfills = Array.from({ length: 120 }, () => on.send('backfill'));
    await on.clock.advance(8_999);
    expect(on.granted).toHaveLength(1);
    await on.clock.advance(90_000);
    expect(on.granted).toHaveLength(11);
    await on.clock.advance(13 * MINUTE);
    // Three slots are the reserve for live lanes, and one is for live work that may come although none came recently.
    expect(on.granted).toHaveLength(96);
    await on.spend(3);
    expect(on.granted.slice(-3)).toEqual(['mirror 1', 'mirror 1', 'mirror 1']);
    expect(on.throttle.usedShare()).toBeCloseTo(0.03, 9);
    await on.clock.until(() => on.granted.length === 123);
    await Promise.all(backfills);
  });

  test('reserve slots for people after an interactive request even at full share, and forecast its start', async () => {
    const on = await openQuotaBench({ burst: 0, requests: 100 });
    await on.spend(100);
    await on.clock.advance(5 * MINUTE);
    const background = Array.from({ length: 100 }, () => on.send('mirror'));
    const forecast = on.throttle.snapshot().nextForPeopleAt;
    expect(forecast - on.clock.now()).toBeCloseTo(10 * MINUTE, -3);
    const interactive = on.acquire('interactive', 99);
    await on.clock.until(() => on.granted.includes('interactive 99'));
    expect(on.clock.now()).toBe(forecast);
    await (await interactive).complete({ status: 200 });
    await on.clock.advance(1);
    expect(on.throttle.snapshot().long).toMatchObject({ usedByBackground: 95, backgroundLimit: 95 });
    await on.send('interactive');
    await on.clock.advance(15 * MINUTE + 1_000);
    expect(on.throttle.snapshot().long.backgroundLimit).toBe(100);
    await Promise.all(background);
  });
});

describe('the forecast of a backfill', () => {
  const open = (requests = 200, share: number | 'auto' = 1) =>
    openQuotaBench({ requests, burst: 0, share, concurrency: 8 });

  test('depends on the slots that live work leaves', async () => {
    const { clock, throttle, send, spend } = await open();
    expect(admissionOf(throttle, clock, 1_940)).toEqual({
      requests: 1_940,
      drainedAt: clock.now() + 10 * WINDOW,
      perWindow: { live: 0, backfill: 194, free: 6 },
      objection: null,
    });
    await spend(97);
    const busy = admissionOf(throttle, clock, 1_940);
    expect(busy.perWindow).toEqual({ live: 97, backfill: 97, free: 6 });
    expect(busy.drainedAt).toBe(clock.now() + 20 * WINDOW);
    // Backfills do not count as live work.
    const backfilled = send('backfill');
    await clock.until(() => throttle.snapshot().long.usedByBackfill === 1);
    await backfilled;
    expect(admissionOf(throttle, clock, 1_940).perWindow?.live).toBe(97);
  });
});

const unused = (): WindowUse => ({ inFlight: 0, completed: [] });

describe('the start of the last request', () => {
  test('uses slots that are added meanwhile, and is extrapolated for thousands of requests', () => {
    const slots = (_: unknown, at: number) => (at < 50 ? 1 : 2);
    const growsAfter = (_: unknown, at: number) => (at < 50 ? 50 : Number.POSITIVE_INFINITY);
    const growing = () =>
      backgroundConstraints([{ cap: 9, hold: 100 }], { all: unused(), background: unused() }, slots, growsAfter);
    expect([1, 2, 3, 4].map((requests) => lastStart(growing(), 0, requests))).toEqual([0, 50, 100, 150]);
    expect(lastStart(growing(), 0, 13_000) - lastStart(growing(), 0, 3_000)).toBe(10_000 * 50);
  });

  test('equals a simulation that sends one request after the other', () => {
    const cap = fc.integer({ min: 1, max: 8 });
    const times = fc.array(fc.integer({ min: -90, max: 0 }), { maxLength: 12 });
    fc.assert(
      fc.property(cap, cap, times, times, fc.integer({ min: 1, max: 40 }), (long, burst, one, other, requests) => {
        const windows = [
          { limit: long, hold: 90, use: { inFlight: 0, completed: one.toSorted((a, b) => a - b) } },
          { limit: burst, hold: 20, use: { inFlight: 0, completed: other.toSorted((a, b) => a - b) } },
        ];
        const constraints = windows.flatMap(({ limit, hold, use }) => windowConstraints([{ cap: limit, hold }], use));
        const forecast = lastStart(constraints, 0, requests);
        let now = 0;
        for (let sent = 0; sent < requests; sent++) {
          for (const { limit, hold, use } of windows) now = Math.max(now, roomAt(use, limit, hold));
          for (const { use } of windows) addCompletion(use.completed, now);
        }
        expect(forecast).toBe(now);
      }),
    );
  });
});
