import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createWindows, slotsPerRow } from '../../../../src/reference-service/http/quota-windows.ts';

const quota = fc.record({
  requests: fc.integer({ min: 0, max: 12 }),
  window: fc.integer({ min: 1, max: 900 }),
  burst: fc.integer({ min: 0, max: 6 }),
  burstWindow: fc.integer({ min: 1, max: 90 }),
});

describe('both windows', () => {
  it('answer as a plain count over all accepted times does', () => {
    fc.assert(
      fc.property(quota, fc.array(fc.integer({ min: 0, max: 120 }), { maxLength: 120 }), (caps, pauses) => {
        const windows = createWindows(caps);
        const accepted: number[] = [];
        let now = 0;
        for (const pause of pauses) {
          now += pause;
          const full = (cap: number, length: number) =>
            cap > 0 && accepted.filter((time) => time > now - length).length >= cap;
          const expected = full(caps.requests, caps.window) || full(caps.burst, caps.burstWindow);
          const wait = windows.wait(now);
          expect(wait > 0).toBe(expected);
          if (expected) continue;
          windows.add(now);
          accepted.push(now);
        }
      }),
    );
  });

  it('name the shortest sufficient wait', () => {
    fc.assert(
      fc.property(quota, fc.array(fc.integer({ min: 0, max: 60 }), { maxLength: 60 }), (caps, pauses) => {
        const windows = createWindows(caps);
        const told: boolean[] = [];
        let now = 0;
        for (const pause of pauses) {
          now += pause;
          const wait = windows.wait(now);
          told.push(wait === 0 || windows.wait(now + wait - 0.5) > 0, windows.wait(now + wait) === 0);
          now += wait;
          windows.add(now);
        }
        expect(told).not.toContain(false);
      }),
    );
  });
});

it.each([
  [{ requests: 200, burst: 40 }, 1],
  [{ requests: 200, burst: 0 }, 5],
  [{ requests: 0, burst: 4_000 }, 100],
  [{ requests: 1, burst: 1 }, 1],
])('a row of the log for %j stands for %i slots', (caps, slots) => {
  expect(slotsPerRow({ ...caps, window: 1, burstWindow: 1 })).toBe(slots);
});
