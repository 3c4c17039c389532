import { describe, expect, test } from 'vitest';
import { playBackfill } from '../bench/quota/backfill.ts';
import { playJumps } from '../bench/quota/drain.ts';
import { play, playLives } from '../bench/quota/play.ts';
import { createChance, randomDurations } from '../bench/quota/references/chance.ts';
import { MANNERS } from '../bench/quota/references/co-tenant.ts';
import { generateDay } from '../bench/quota/references/day.ts';
import { fewestWrites, freshness, lookAhead, quantile } from '../bench/quota/references/lag.ts';
import { atOnce, eventLines, eventsOf } from '../bench/quota/references/trace.ts';
import { optimum } from '../bench/quota/references/windows.ts';
import { expectWithinWindows } from '../bench/quota/server.ts';
import { playShared, type Shared } from '../bench/quota/tenant.ts';

/** Short versions of the quota benches: the same code in virtual time, on less of it. */

describe('a drain', () => {
  test.each([
    [200, true, 1.03],
    [200, false, 1.005],
    [420, true, 1.005],
  ])('of %d changes at once, lists known: %s, takes at most %d times the optimum', async (count, knowsLists, ratio) => {
    const chances = { duration: randomDurations(1), arrives: createChance(2).float };
    const { server, took } = await play({ lines: atOnce(count), knowsLists, ...chances });
    expectWithinWindows(server);
    expect(server.arrivals).toHaveLength(knowsLists ? count : count + 2);
    expect(took / (optimum(server.arrivals.length) + 0.15)).toBeLessThan(ratio);
  });

  test('goes on at its rate while the wall clock jumps and requests arrive late', async () => {
    const { server, took } = await playJumps(1, 240);
    expectWithinWindows(server);
    expect((optimum(240) + 2) / took).toBeGreaterThan(0.98);
  });

  test.each(['carried', 'frozen'] as const)(
    'through kills, its time %s, exceeds no window and loses nothing',
    async (time) => {
      const { server } = await playLives({ changes: 240, seed: 1, kills: 6, within: 800, down: 5, time });
      expectWithinWindows(server);
      expect(new Set(server.writes.map(({ item }) => item)).size).toBe(240);
    },
  );
});

describe('a day', () => {
  const lines = generateDay(1, 0.06);
  const events = eventsOf(lines);

  test.each([10, 60, 300])(
    'with a promised visibility of %d s makes few more requests than the fewest',
    async (promise) => {
      const { server, took } = await play({ lines: eventLines(lines), straight: true, visibility: promise * 1_000 });
      expectWithinWindows(server);
      const { lags } = freshness(events, server.writes, took);
      expect(quantile(lags, 0.999)).toBeLessThanOrEqual(promise);
      // The bench holds the whole day to 1.02; of these 300 writes each one is a third of a hundredth.
      expect(server.arrivals.length / fewestWrites(events, promise)).toBeLessThanOrEqual(1.03);
    },
  );

  test('through inbox and reconcile, replays and polls included, is as fresh as the look-ahead allows', async () => {
    const { server, took } = await play({ lines });
    expectWithinWindows(server);
    const own = freshness(events, server.writes, took);
    const look = freshness(events, lookAhead(events, { knows: 5 }), took);
    expect(quantile(own.lags, 0.95)).toBeLessThanOrEqual(1.05 * quantile(look.lags, 0.95) + 5);
    expect(quantile(own.lags, 1)).toBeLessThanOrEqual(1.15 * quantile(look.lags, 1) + 10);
  });
});

describe.each(MANNERS)('another user of the quota, %s', (manner) => {
  test('is detected on the first day; on the second it waits little, and each refusal of ours comes alone', async () => {
    const [, second] = await playShared(manner, 1, 2, 86_400);
    const { refusedPerHour, mostPerPause, wait, used, available } = second as Shared;
    expect(mostPerPause).toBe(1);
    expect(refusedPerHour).toBeLessThanOrEqual(manner === 'bursts' ? 9 : 7);
    expect(wait).toBeLessThanOrEqual(manner === 'bursts' ? 180 : 40);
    expect(used / available).toBeGreaterThanOrEqual(0.84);
  });
});

test('a backfill takes what live work leaves, and live work hardly notices', async () => {
  const { lags, used, left } = await playBackfill(generateDay(1, 0.1), 1_000);
  expect(quantile(lags, 0.95)).toBeLessThanOrEqual(10);
  // The first window of an empty ledger is filled evenly, not at once: a fifth of so few.
  expect(used / left).toBeGreaterThanOrEqual(0.8);
});
