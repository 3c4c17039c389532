import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { forecastDueTimes, leadTime } from '../../../../src/sync/outbox/change-scheduler.ts';

const PACES = [
  { slots: 6, hold: 900_000 },
  { slots: 2, hold: 60_000 },
];

/** How late the last late one of these starts, where the first start is at `from` and each goes when there is room. */
function lateness(dues: readonly number[], from: number): number {
  const starts: number[] = [];
  let late = 0;
  for (const due of dues) {
    const rooms = PACES.map(({ slots, hold }) => (starts.at(-slots) ?? Number.NEGATIVE_INFINITY) + hold);
    starts.push(Math.max(from, starts.at(-1) ?? from, ...rooms));
    late = Math.max(late, (starts.at(-1) as number) - due);
  }
  return late;
}

describe('the head start of changes that are due', () => {
  it('is none where the quota takes them all at their times', () => {
    expect(leadTime([], PACES)).toBe(0);
    expect(leadTime([5], PACES)).toBe(0);
    expect(leadTime([0, 1, 60_000 + 5_000, 60_000 + 9_000], PACES)).toBe(0);
  });

  it('is what the third needs that is due with the first two, and the seventh', () => {
    expect(leadTime([0, 0, 0], PACES)).toBe(62_000);
    expect(leadTime([0, 0, 0, 0, 0], PACES)).toBe(2 * 62_000);
    expect(leadTime(Array<number>(7).fill(0), PACES)).toBe(902_000);
  });

  it('is of whole milliseconds, as times in rows are, though expected times lie between them', () => {
    const burst = Array.from({ length: 7 }, (_, index) => 90_000 + index);
    const expected = forecastDueTimes(burst, 100_000);
    expect(expected.every(Number.isInteger)).toBe(false);
    const start = leadTime(expected, PACES);
    expect([start > 0, Number.isInteger(start)]).toEqual([true, true]);
  });

  it('brings every one in time, whatever they are', () => {
    const all = fc.array(fc.integer({ min: 0, max: 400_000 }), { minLength: 1, maxLength: 12 });
    fc.assert(
      fc.property(all, (times) => {
        const dues = times.toSorted((a, b) => a - b);
        expect(lateness(dues, (dues[0] as number) - leadTime(dues, PACES))).toBe(0);
      }),
    );
  });
});

describe('the due times that are expected', () => {
  it('are those that are known, where nothing came lately', () => {
    expect(forecastDueTimes([], 100_000)).toEqual([]);
    expect(forecastDueTimes([5, 70_000], 100_000)).toEqual([5, 70_000]);
  });

  it('go on as within the last half minute, three times as long', () => {
    const lately = [80_000, 100_000];
    const expected = forecastDueTimes([10_000, ...lately], 100_000);
    expect(expected.slice(0, 3)).toEqual([10_000, ...lately]);
    expect(expected.slice(3)).toEqual([115_000, 130_000, 145_000, 160_000, 175_000, 190_000]);
  });

  it('let a burst that has begun go ahead, before all of it is there', () => {
    const begun = [99_000, 100_000];
    expect(leadTime(begun, PACES)).toBe(0);
    expect(leadTime(forecastDueTimes(begun, 100_000), PACES)).toBeGreaterThan(60_000);
  });
});
