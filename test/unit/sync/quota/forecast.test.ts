import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { addCompletion, roomAt, type WindowUse } from '../../../../src/model/windows.ts';
import { backgroundConstraints, lastStart, windowConstraints } from '../../../../src/sync/quota/forecast.ts';

const unused = (): WindowUse => ({ inFlight: 0, completed: [] });

/** The windows of 200 and 40 requests without guard, empty. Seconds. */
const EMPTY_WINDOWS = [
  { cap: 200, hold: 900 },
  { cap: 40, hold: 60 },
].flatMap((window) => windowConstraints([window], unused()));

describe('the start of the last request', () => {
  // W * floor((N-1)/C) + w * floor(((N-1) mod C) / b), in seconds.
  it.each([
    [0, 0],
    [1, 0],
    [40, 0],
    [41, 60],
    [200, 240],
    [201, 900],
    [1_000, 3_840],
    [1_001, 4_500],
    [1_100, 4_620],
  ])('of %d requests in empty windows is after %d s', (requests, seconds) => {
    expect(lastStart(EMPTY_WINDOWS, 0, requests)).toBe(seconds);
  });

  it('waits for used slots, for requests in flight as if they ended now, and for the end of a pause', () => {
    const window = (use: WindowUse) => windowConstraints([{ cap: 3, hold: 100 }], use);
    expect(lastStart(window({ inFlight: 0, completed: [10, 20, 30] }), 50, 1)).toBe(110);
    expect(lastStart(window({ inFlight: 0, completed: [10, 20, 30] }), 50, 3)).toBe(130);
    expect(lastStart(window({ inFlight: 3, completed: [] }), 50, 1)).toBe(150);
    expect(lastStart(window({ inFlight: 0, completed: [5, 10, 20, 30] }), 50, 1)).toBe(120 - 10);
    expect(lastStart(window(unused()), 700, 3)).toBe(700);
  });

  it('respects the share of the background', () => {
    const windows = [{ cap: 10, hold: 100 }];
    const part = backgroundConstraints(windows, { all: unused(), background: unused() }, ({ cap }) => cap / 2);
    expect(lastStart(part, 0, 6)).toBe(100);
    const interactive = { inFlight: 0, completed: [1, 2, 3, 4, 5, 6, 7, 8] };
    expect(
      lastStart(
        backgroundConstraints(windows, { all: interactive, background: unused() }, () => 5),
        10,
        3,
      ),
    ).toBe(101);
  });

  it('uses slots that are added meanwhile, and is extrapolated for thousands of requests', () => {
    const slots = (_: unknown, at: number) => (at < 50 ? 1 : 2);
    const growsAfter = (_: unknown, at: number) => (at < 50 ? 50 : Number.POSITIVE_INFINITY);
    const growing = () =>
      backgroundConstraints([{ cap: 9, hold: 100 }], { all: unused(), background: unused() }, slots, growsAfter);
    expect([1, 2, 3, 4].map((requests) => lastStart(growing(), 0, requests))).toEqual([0, 50, 100, 150]);
    expect(lastStart(growing(), 0, 13_000) - lastStart(growing(), 0, 3_000)).toBe(10_000 * 50);
  });

  it('equals a simulation that sends one request after the other', () => {
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
