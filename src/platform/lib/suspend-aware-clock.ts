import type { Clock } from './clock.ts';

/** Time that passed for the world, milliseconds from an arbitrary start: it never goes back, and leaves no sleep out. */
export interface SuspendAwareClock {
  now(): number;
  /**
   * Looks at both clocks. Where the wall clock moved further than the monotonic one, the machine slept or the clock was
   * set ahead: that time counts as passed. A wall clock that was set back takes nothing back.
   *
   * @returns whether the wall clock was set, or the machine slept, since the last look
   */
  look(): boolean;
}

/** More than this between the two clocks is no drift, milliseconds. */
const JUMP = 2_000;

export function createSuspendAwareClock(clock: Clock): SuspendAwareClock {
  let seen = { wall: clock.now(), monotonic: clock.monotonic() };
  let slept = 0;
  return {
    now: () => clock.monotonic() + slept,
    look() {
      const next = { wall: clock.now(), monotonic: clock.monotonic() };
      const ahead = next.wall - seen.wall - (next.monotonic - seen.monotonic);
      seen = next;
      if (ahead > JUMP) slept += ahead;
      return Math.abs(ahead) > JUMP;
    },
  };
}
