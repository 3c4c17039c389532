import { describe, expect, it } from 'vitest';
import { createChance } from '../bench/quota/references/chance.ts';
import type { Observed } from '../soak/observe.ts';
import { isOver, slopeOf } from '../soak/slope.ts';
import { judge } from '../soak/verdict.ts';

const MEGABYTE = 1_000_000;
const HOUR = 3_600_000;

/** Twelve hours, seen every six minutes; memory swings by 20 MB. */
function course(change: (hours: number) => Partial<Observed>): readonly Observed[] {
  const chance = createChance(7);
  return Array.from({ length: 120 }, (_, at) => {
    const hours = at / 10;
    const swing = 20 * MEGABYTE * chance.float();
    return {
      ...{ deliveries: at * 5_000, hours, resident: 200 * MEGABYTE + swing, heap: 50 * MEGABYTE, external: MEGABYTE },
      ...{
        handles: 33,
        database: 40 * MEGABYTE,
        log: MEGABYTE,
        rows: 9_000,
        oldestDelivery: HOUR,
        oldestBody: HOUR / 2,
      },
      ...change(hours),
    };
  });
}

describe('the slope', () => {
  it('of a straight line is its own, and certain', () => {
    const slope = slopeOf([0, 1, 2, 3].map((x) => [x, 5 - 2 * x] as const));
    expect(slope.value).toBeCloseTo(-2);
    expect(slope.margin).toBeCloseTo(0);
    expect([isOver(slope, -3), isOver(slope, -1)]).toEqual([true, false]);
  });

  it('needs three points', () => {
    expect(() =>
      slopeOf([
        [0, 0],
        [1, 1],
      ]),
    ).toThrow('too few');
  });
});

describe('a soak', () => {
  it('finds a leak in a noisy course, and none in one that only swings [F30]', () => {
    expect(judge(course(() => ({}))).missed).toEqual([]);
    const leaking = course((hours) => ({ resident: (200 + 4 * hours) * MEGABYTE + (hours % 1) * 10 * MEGABYTE }));
    expect(judge(leaking).missed).toEqual(['resident memory, MB']);
  });

  it.each<[string, (hours: number) => Partial<Observed>]>([
    ['heap in use, MB', (hours) => ({ heap: (50 + 2 * hours) * MEGABYTE })],
    ['open files and connections', (hours) => ({ handles: 33 + Math.floor(2 * hours) })],
    ['database file for a row, kB', (hours) => ({ database: (40 + 10 * hours) * MEGABYTE })],
    ['age of a delivery, hours', (hours) => ({ oldestDelivery: hours * HOUR })],
    ['age of a body, hours', (hours) => ({ oldestBody: hours * HOUR })],
    ['write-ahead log, MiB', (hours) => ({ log: hours > 6 ? 70 * 2 ** 20 : 0 })],
  ])('sees it grow: %s', (what, change) => {
    expect(judge(course(change)).missed).toEqual([what]);
  });

  it('does not blame the file for more rows at a time', () => {
    expect(
      judge(course((hours) => ({ rows: 9_000 + 1_000 * hours, database: (9 + hours) * MEGABYTE }))).missed,
    ).toEqual([]);
  });

  it('that is too short says so', () => {
    expect(() => judge(course(() => ({})).slice(0, 20))).toThrow('too few observations');
  });
});
