import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { silentLogger } from '../../../../src/platform/lib/logger.ts';
import { burstCeilingOf, ceilingOf, effectiveShare, nextSlotAt, slotsOf } from '../../../../src/sync/quota/share.ts';
import { MINUTE, openQuotaBench } from '../../../support/cost/quota-bench.ts';
import { openTestStore } from '../../../support/harness/intake.ts';

const HOUR = 60 * MINUTE;

describe('the slots of a share', () => {
  test.each([
    [200, 0.8, 160],
    [40, 0.8, 32],
    [40, 0.7, 28],
    [100, 0.29, 29],
    [7, 0.5, 3],
    [3, 0.1, 1],
    [1, 0, 1],
    [200, 1, 200],
  ])('are at least one, rounded down: %d x %d = %d', (cap, share, slots) => {
    expect(slotsOf(cap, share)).toBe(slots);
  });
});

describe('a reduced share', () => {
  const reduced = { share: 0.2, refusedShare: 0.6, growsFrom: 10 * MINUTE };

  test.each([
    [0, 0.2],
    [10 * MINUTE, 0.2],
    [14 * MINUTE, 0.6 - 0.4 * 0.75 ** 3],
    [18 * MINUTE, 0.6 - 0.4 * 0.5 ** 3],
    [26 * MINUTE, 0.6],
    [34 * MINUTE, 0.716],
    [90 * MINUTE, 0.8],
  ])('grows along the curve: at %d ms it is %d of a configured 0.8', (now, share) => {
    expect(effectiveShare(reduced, ceilingOf(0.8, 0), now)).toBeCloseTo(share, 9);
  });

  test('grows in a straight line if the refused share is unknown', () => {
    expect(effectiveShare({ share: 0.2, growsFrom: 0 }, ceilingOf(1, 0), 10 * MINUTE)).toBeCloseTo(
      0.2 + (10 * 4.3) / 200,
      9,
    );
  });

  test('never exceeds the configured share, also after that was lowered', () => {
    expect(effectiveShare(reduced, ceilingOf(0.3, 0), 60 * MINUTE)).toBe(0.3);
    expect(effectiveShare(reduced, ceilingOf(0.1, 0), 10 * MINUTE)).toBe(0.1);
  });

  test('gains its next slot at the forecast time, and not before', () => {
    const caps = fc.constantFrom(1, 3, 40, 200, 999);
    const law = fc.property(
      caps,
      fc.double({ min: 0, max: 1, noNaN: true }),
      fc.double({ min: 0, max: 1, noNaN: true }),
      fc.nat(600 * MINUTE),
      fc.constantFrom(
        ceilingOf(0.8, 0),
        ceilingOf('auto', Number.NEGATIVE_INFINITY),
        ceilingOf('auto', 3 * MINUTE),
        burstCeilingOf('auto', 3 * MINUTE),
      ),
      (cap, share, lost, now, ceiling) => {
        const state = { share, refusedShare: share + lost, growsFrom: 5 * MINUTE };
        const slotsAt = (time: number) => slotsOf(cap, effectiveShare(state, ceiling, time));
        const next = nextSlotAt(state, ceiling, cap, now);
        const isGrown = slotsAt(now) === slotsAt(9_000 * MINUTE);
        const isExact = next > now && slotsAt(next) > slotsAt(now) && slotsAt(Math.max(now, next - 1)) === slotsAt(now);
        expect(next === Number.POSITIVE_INFINITY ? isGrown : isExact).toBe(true);
      },
    );
    fc.assert(law);
  });
});

describe('the automatic ceiling', () => {
  const alone = Number.NEGATIVE_INFINITY;

  test.each([
    ['now', 0, 0.85, 0.5],
    ['an hour ago', HOUR, 0.85, 0.5],
    ['3.5 hours ago', 3.5 * HOUR, 0.9175, 0.65],
    ['six hours ago', 6 * HOUR, 0.985, 0.8],
    ['a day ago', 24 * HOUR, 0.985, 0.8],
  ])('depends on the last detection of other users: %s', (_what, now, long, burst) => {
    expect(ceilingOf('auto', 0).at(now)).toBeCloseTo(long, 9);
    expect(burstCeilingOf('auto', 0).at(now)).toBeCloseTo(burst, 9);
  });

  test('always leaves slots to people; a configured number is constant', () => {
    expect(slotsOf(200, ceilingOf('auto', alone).at(0))).toBe(197);
    expect(slotsOf(40, burstCeilingOf('auto', alone).at(0))).toBe(32);
    expect([ceilingOf(1, 0).at(0), burstCeilingOf(0.3, 0).at(0)]).toEqual([1, 0.3]);
  });
});

test('an automatic share leaves room at first, rises while no other use is detected, and falls on the first refusal', async () => {
  const on = await openQuotaBench({ requests: 200, burst: 0, share: 'auto' });
  const limit = () => on.throttle.snapshot().long.backgroundLimit;
  expect(limit()).toBe(170);
  await on.clock.advance(3.5 * HOUR);
  expect(limit()).toBe(183);
  // The time without detected use survives a restart and a reboot.
  on.clock.reboot();
  const later = await on.restart();
  await on.clock.advance(2.5 * HOUR);
  expect(later.throttle.snapshot()).toMatchObject({ configuredShare: 'auto', effectiveShare: 0.985, ceiling: 0.985 });
  await later.send('mirror', 1, 429, 60_000);
  expect(later.throttle.snapshot().effectiveShare).toBeCloseTo(0.985 / 2, 9);
  await on.clock.advance(HOUR);
  expect(later.throttle.snapshot().long.backgroundLimit).toBe(170);
  await on.clock.advance(5 * HOUR);
  expect(later.throttle.snapshot().long.backgroundLimit).toBe(197);
});

test('a waiting request uses a slot as soon as the growing share adds it', async () => {
  const on = await openQuotaBench({ burst: 0, requests: 200 });
  await on.spend(99);
  await on.send('mirror', 1, 429, 1_000);
  expect(on.throttle.snapshot().long.backgroundLimit).toBe(100);
  const next = on.send('mirror');
  await on.clock.advance(3_210);
  expect(on.granted).toHaveLength(100);
  await on.clock.advance(2);
  await next;
  expect(on.throttle.snapshot().long.backgroundLimit).toBe(101);
});

test('a start logs a changed share once, but neither a first share nor an unchanged one', async () => {
  const messages: string[] = [];
  const logger = { ...silentLogger, info: (_fields: object, text: string) => void messages.push(text) };
  const store = await openTestStore();
  const first = await openQuotaBench({ share: 'auto' }, { store, logger });
  await first.send('mirror');
  await first.throttle.stop();
  await first.restart();
  expect(messages).toEqual([]);
  // Older versions did not store the share; their default was 0.8.
  await store.query.deleteFrom('meta').where('name', '=', 'throttle.share').execute();
  await first.restart();
  expect(messages).toEqual([expect.stringContaining('quota.share is auto now')]);
  await first.restart();
  expect(messages).toHaveLength(1);
  await first.restart({ share: 0.5 });
  expect(messages[1]).toContain('quota.share has changed');
});
