import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { silentLogger } from '../../../../src/platform/lib/telemetry.ts';
import { writeMeta } from '../../../../src/store/meta.ts';
import {
  afterAdmission,
  afterKeyRejected,
  afterRefusal,
  boundedHint,
  COOLDOWN_KEY,
  cutFactor,
  isShared,
  OPEN,
  othersUse,
  provesRoom,
  readCooldown,
  rebaseCooldown,
} from '../../../../src/sync/quota/cooldown.ts';
import { burstCeilingOf, ceilingOf, effectiveShare, nextSlotAt, slotsOf } from '../../../../src/sync/quota/share.ts';
import { MINUTE, openQuotaBench } from '../../../support/cost/quota-bench.ts';
import { createTravellingClock } from '../../../support/fakes/travelling-clock.ts';
import { openTestStore } from '../../../support/harness/intake.ts';

const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const REFUSAL = { started: 1_000, now: 2_000, wait: 5_000, refusedShare: 0.8, smallestShare: 1 / 200, factor: 0.5 };

const OBSERVED = { at: 5_000, window: 'long', othersLong: 150, othersBurst: 30 } as const;

describe('a refusal', () => {
  test('reduces the share, pauses as long as the hint says, and limits to one request at a time', () => {
    expect(afterRefusal(OPEN, REFUSAL)).toEqual({
      ...{ share: 0.4, refusedShare: 0.8, quietSince: 2_000, growsFrom: 2_000, cutAt: 2_000 },
      ...{ limited: true, refusals: 1, refusedUntil: 7_000, halt: null },
    });
  });

  test('of a request that started before the last reduction only extends the pause', () => {
    const first = afterRefusal(OPEN, REFUSAL);
    const second = afterRefusal(first, { ...REFUSAL, started: 1_500, now: 2_100, wait: 9_000 });
    expect(second).toEqual({ ...first, refusedUntil: 11_100 });
    expect(afterRefusal(second, { ...REFUSAL, started: 1_500, now: 2_200, wait: 1_000 }).refusedUntil).toBe(11_100);
  });

  test.each([
    [0, 1_000],
    [61_000, 61_000],
    [9e9, 900_000],
  ])('with a hint of %d ms pauses for %d ms', (hint, wait) => {
    expect(boundedHint(hint)).toBe(wait);
  });
});

describe('an answer', () => {
  test.each([
    [200, true],
    [404, true],
    [401, false],
    [429, false],
    [500, false],
  ])('%d proves room: %s', (status, proof) => {
    expect(provesRoom(status)).toBe(proof);
  });

  test('ends the probing only if its request started after the reduction', () => {
    const cooldown = afterRefusal(OPEN, REFUSAL);
    expect(afterAdmission(cooldown, 1_500)).toBe(cooldown);
    expect(afterAdmission(cooldown, 8_000)).toEqual({ ...cooldown, limited: false, refusals: 0 });
    expect(afterAdmission(OPEN, 8_000)).toBe(OPEN);
  });
});

const HALT = { until: 300_000, since: 2_000, code: 'unauthorized', reason: 'the key was refused' } as const;

describe('a halt', () => {
  test('is extended only by a request that started after it', () => {
    const halted = { ...OPEN, halt: HALT };
    const again = { code: HALT.code, reason: 'second', now: 310_000 };
    expect(afterKeyRejected(halted, { ...again, started: HALT.since })).toBe(halted);
    expect(afterKeyRejected(halted, { ...again, started: 300_000 }).halt?.until).toBe(370_000);
  });
});

describe('a stored cooldown', () => {
  test('of the first commits of schema 1 is read', async () => {
    const { query } = await openTestStore();
    const clock = createTravellingClock();
    const brake = { ...OPEN, refusedUntil: 5_000, quietSince: 10 };
    await writeMeta(query, COOLDOWN_KEY, JSON.stringify({ boot: clock.bootId, at: 0, wall: clock.now(), brake }));
    expect(await readCooldown(query, clock)).toEqual(brake);
  });

  const cooldown = { ...afterRefusal(OPEN, REFUSAL), halt: { ...HALT, until: 302_000 } };
  const saved = { boot: 'a', at: 2_000, wall: 1_000_000, cooldown };

  test('is converted by the wall clock in another boot', () => {
    const present = rebaseCooldown(saved, 'b', 50, 1_004_000);
    expect(present.refusedUntil - 50).toBe(1_000);
    expect(present.growsFrom - 50).toBe(-4_000);
    expect(present.halt).toEqual({ ...HALT, until: 50 + 296_000, since: 50 - 4_000 });
    expect(present.cutAt).toBeLessThan(50);
  });

  test('from the future of the same boot, as in a restored machine image, is converted like one of another boot', () => {
    expect(rebaseCooldown(saved, 'a', 1_000, 1_000_000).refusedUntil).toBe(6_000);
  });
});

/** @param cap null: the limit is lifted */
const window = (length: number, cap: number | null, used: number) => ({
  ...{ window: length, cap, used, usedByBackground: 0, usedByBackfill: 0 },
  ...{ backfillLimit: null, backgroundLimit: null },
});

describe('the use by others that a refusal reveals', () => {
  test.each([
    ['a hint longer than the burst window: the long one was full', 200, 51, 40, 11, 300_000, 'long', 150, 30],
    ['a hint that fits both: either was full', 200, 51, 40, 11, 30_000, 'either', 150, 30],
    ['no burst window', 200, 51, null, 11, 5_000, 'long', 150, null],
    ['no long window', null, 51, 40, 11, 5_000, 'burst', null, 30],
  ] as const)('%s', (_rule, longCap, longUsed, burstCap, burstUsed, hint, full, othersLong, othersBurst) => {
    const snapshots = { long: window(900_000, longCap, longUsed), burst: window(60_000, burstCap, burstUsed) };
    expect(othersUse(snapshots, hint)).toEqual({ window: full, othersLong, othersBurst });
  });
});

describe('the factor of a refusal', () => {
  test.each([
    ['the long window was full', 200, 40, 21, 300_000, 0.5],
    ['little own use in the last minute', 200, 40, 5, 30_000, 0.5],
    ['the longest wait that counts as short', 200, 40, 21, 4_000, 0.5],
    ['the shortest wait that counts as long', 200, 40, 21, 4_001, 0.9],
    ['no hint', 200, 40, 21, undefined, 0.5],
  ] as const)('%s', (_rule, longCap, burstCap, burstUsed, hint, factor) => {
    const snapshots = { long: window(900_000, longCap, 51), burst: window(60_000, burstCap, burstUsed) };
    expect(cutFactor(snapshots, hint)).toBe(factor);
  });
});

test.each([
  ['without a refusal', undefined, 0, false],
  ['almost a day after a refusal', OBSERVED, DAY - 1, true],
  ['a day after a refusal', OBSERVED, DAY, false],
] as const)('assumes, %s, that others use the workspace: %#', (_when, observed, age, expected) => {
  const cooldown = observed ? afterRefusal(OPEN, { ...REFUSAL, now: 5_000, observed }) : OPEN;
  expect(isShared(cooldown, 5_000 + age)).toBe(expected);
});

test('pauses every lane as long as the hint says, and then sends one request at a time, past slow ones', async () => {
  const on = await openQuotaBench({ burst: 0, requests: 100, share: 0.8 });
  await on.send('mirror', 1, 429, 30_000);
  const requests = [on.acquire('interactive'), on.acquire('mirror'), on.acquire('mirror')];
  await on.clock.advance(29_999);
  expect(on.granted).toHaveLength(1);
  expect(on.throttle.snapshot()).toMatchObject({ limited: true, effectiveShare: expect.closeTo(0.436, 3) });
  expect(on.throttle.snapshot().paused?.until).toBe(on.clock.now() + 1);
  await on.clock.advance(1);
  expect(on.granted).toHaveLength(2);
  const probe = await Promise.race(requests);
  await probe.complete({ status: 200 });
  // Others use the workspace, so one request still follows the other, past slow ones.
  await on.clock.advance(0);
  expect(on.granted).toHaveLength(3);
  await on.clock.advance(1_000);
  await Promise.all(requests);
  expect(on.throttle.snapshot()).toMatchObject({ limited: false, paused: null });
});

test('keeps the pause and the reduced share across a restart, a reboot and a jump of the wall clock', async () => {
  const before = await openQuotaBench({ burst: 0, requests: 100 });
  await before.send('mirror', 1, 429, 300_000);
  before.clock.jumpWall(86_400_000);
  const restarted = await before.restart();
  expect(restarted.throttle.snapshot()).toMatchObject({ limited: true, effectiveShare: 0.5 });
  const left = () => (restarted.throttle.snapshot().paused?.until ?? 0) - restarted.clock.now();
  expect(left()).toBe(300_000);
  restarted.clock.jumpWall(-2 * 86_400_000);
  restarted.clock.reboot();
  const rebooted = await restarted.restart();
  const sent = rebooted.send('mirror');
  await rebooted.clock.advance(299_999);
  expect(rebooted.granted).toEqual([]);
  await rebooted.clock.advance(1);
  await sent;
});

describe('the slots of a share', () => {
  test.each([
    [200, 0.8, 160],
    [100, 0.29, 29],
    [3, 0.1, 1],
    [1, 0, 1],
  ])('are at least one, rounded down: %d x %d = %d', (cap, share, slots) => {
    expect(slotsOf(cap, share)).toBe(slots);
  });
});

describe('a reduced share', () => {
  const reduced = { share: 0.2, refusedShare: 0.6, growsFrom: 10 * MINUTE };

  test.each([
    [10 * MINUTE, 0.2],
    [14 * MINUTE, 0.6 - 0.4 * 0.75 ** 3],
    [26 * MINUTE, 0.6],
    [90 * MINUTE, 0.8],
  ])('grows along the curve: at %d ms it is %d of a configured 0.8', (now, share) => {
    expect(effectiveShare(reduced, ceilingOf(0.8, 0), now)).toBeCloseTo(share, 9);
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
  await first.restart({ share: 0.5 });
  expect(messages).toEqual([expect.anything(), expect.stringContaining('quota.share has changed')]);
});
