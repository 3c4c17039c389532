import { describe, expect, test } from 'vitest';
import { ceilingOf } from '../../../../src/sync/quota/ceiling.ts';
import {
  accepted,
  admitted,
  boundedHint,
  halted,
  isProbing,
  OPEN,
  pausedUntil,
  provesRoom,
  refused,
  restored,
} from '../../../../src/sync/quota/cooldown.ts';
import { effectiveShare } from '../../../../src/sync/quota/share.ts';

const refusal = { started: 1_000, now: 2_000, wait: 5_000, refusedShare: 0.8, smallestShare: 1 / 200, kept: 0.5 };

describe('a refusal', () => {
  test('cuts the share, pauses until the hint, and lets one request at a time', () => {
    expect(refused(OPEN, refusal)).toEqual({
      share: 0.4,
      refusedShare: 0.8,
      quietSince: 2_000,
      growsFrom: 2_000,
      limited: true,
      cutAt: 2_000,
      refusals: 1,
      refusedUntil: 7_000,
      halt: null,
    });
  });

  test('of a request that started before the last cut only lengthens the pause', () => {
    const first = refused(OPEN, refusal);
    const second = refused(first, { ...refusal, started: 1_500, now: 2_100, wait: 9_000 });
    expect(second).toEqual({ ...first, refusedUntil: 11_100 });
    expect(refused(second, { ...refusal, started: 1_500, now: 2_200, wait: 1_000 }).refusedUntil).toBe(11_100);
  });

  test('after the pause cuts again, down to one request and no further', () => {
    let cooldown = OPEN;
    const shares: number[] = [];
    for (let now = 1_000; now <= 10_000; now += 1_000) {
      const refusedShare = effectiveShare(cooldown, ceilingOf(0.8, 0), now);
      cooldown = refused(cooldown, { ...refusal, started: now - 10, now, wait: 990, refusedShare });
      shares.push(cooldown.share);
    }
    expect(shares.slice(0, 3)).toEqual([0.4, 0.2, 0.1].map((share) => expect.closeTo(share, 2)));
    expect(shares.at(-1)).toBe(1 / 200);
    expect(cooldown.refusals).toBe(10);
  });

  test.each([
    [0, 1_000],
    [1_000, 1_000],
    [61_000, 61_000],
    [9e9, 900_000],
  ])('with a hint of %d ms pauses for %d ms', (hint, wait) => {
    expect(boundedHint(hint)).toBe(wait);
  });
});

describe('an answer', () => {
  test.each([
    [200, true],
    [304, true],
    [404, true],
    [422, true],
    [401, false],
    [429, false],
    [500, false],
    [503, false],
  ])('%d proves room: %s', (status, proof) => {
    expect(provesRoom(status)).toBe(proof);
  });

  test('ends the limit only when its request started after the cut', () => {
    const cooldown = refused(OPEN, refusal);
    expect(admitted(cooldown, 1_500)).toBe(cooldown);
    expect(admitted(cooldown, 8_000)).toEqual({ ...cooldown, limited: false, refusals: 0 });
    expect(admitted(OPEN, 8_000)).toBe(OPEN);
  });
});

const HALT = { until: 300_000, since: 2_000, code: 'unauthorized', reason: 'the key was refused' } as const;

describe('a halt', () => {
  test('holds beside a refusal: the later end counts, with its reason', () => {
    const both = halted(refused(OPEN, refusal), HALT);
    expect(pausedUntil(both)).toEqual(HALT);
    expect(pausedUntil({ ...both, refusedUntil: 400_000 }).until).toBe(400_000);
    expect(pausedUntil({ ...both, halt: null }).until).toBe(7_000);
  });

  test('is not shortened by a shorter one', () => {
    const long = halted(OPEN, { ...HALT, reason: 'first' });
    expect(halted(long, { ...HALT, until: 200_000, reason: 'second' })).toBe(long);
  });

  test('is over only when a request that started after it is accepted; until then one goes at a time', () => {
    const cooldown = halted(OPEN, HALT);
    expect(isProbing(cooldown)).toBe(true);
    expect(accepted(cooldown, 2_000)).toBe(cooldown);
    expect(accepted(cooldown, 300_000)).toEqual(OPEN);
    expect(isProbing(OPEN)).toBe(false);
    expect(accepted(OPEN, 300_000)).toBe(OPEN);
  });
});

describe('a brake that was kept', () => {
  const cooldown = halted(refused(OPEN, refusal), { ...HALT, until: 302_000 });
  const saved = { boot: 'a', at: 2_000, wall: 1_000_000, cooldown };
  const DAY = 86_400_000;

  test('stands as it is in the same boot, wherever the wall clock jumped', () => {
    for (const wall of [1_001_000, 1_000_000 - DAY, 1_000_000 + DAY])
      expect(restored(saved, 'a', 3_000, wall)).toBe(cooldown);
  });

  test('is re-dated by the wall clock in another boot', () => {
    const present = restored(saved, 'b', 50, 1_004_000);
    expect(present.refusedUntil - 50).toBe(1_000);
    expect(present.growsFrom - 50).toBe(-4_000);
    expect(present.halt).toEqual({ ...HALT, until: 50 + 296_000, since: 50 - 4_000 });
    expect(present.cutAt).toBeLessThan(50);
  });

  test('is kept for what was left, never longer, when the wall clock went back; lapses when it went ahead', () => {
    expect(restored(saved, 'b', 50, 1_000_000 - DAY).halt?.until).toBe(50 + 300_000);
    expect(pausedUntil(restored(saved, 'b', 50, 1_000_000 + DAY)).until).toBeLessThan(50);
  });

  test('of the same boot, but from the future: a restored machine image counts as another boot', () => {
    expect(restored(saved, 'a', 1_000, 1_000_000).refusedUntil).toBe(6_000);
  });
});
