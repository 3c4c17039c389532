import type { Clock } from '../../../src/platform/lib/clock.ts';
import { systemClock } from '../../../src/platform/lib/clock.ts';

/** This many milliseconds of the tests' time pass in one of real time. */
const SPEED = 60;

/**
 * The system's clock, run faster: a minute passes in a second. Every process that makes one reads the same time, since
 * both the wall clock and the monotonic clock of a system are shared by its processes; so the windows of a daemon and
 * of a service in another process can be compared.
 */
export function fastClock(): Clock {
  const system = systemClock();
  return {
    // Sped up from a moment near the present, so that the years stay what they are.
    now: () => Math.floor(NEAR + (system.now() - NEAR) * SPEED),
    monotonic: () => system.monotonic() * SPEED,
    bootId: system.bootId,
    after: (ms, call) => system.after(ms / SPEED, call),
  };
}

const NEAR = Date.UTC(2026, 0, 5, 9);
