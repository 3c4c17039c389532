/** Stands in for `platform/lib/clock.ts` in a test of patience: time passes so many times as fast. */

import { type Clock, systemClock as realClock } from '../../../src/platform/lib/clock.ts';

export * from '../../../src/platform/lib/clock.ts';

export const PACE = 1_000;

export function systemClock(): Clock {
  const real = realClock();
  return {
    ...real,
    after: (ms, call) => real.after(ms / PACE, call),
    monotonic: () => real.monotonic() * PACE,
  };
}
