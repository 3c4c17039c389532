/**
 * Loaded before a program (`--import`): it stands in for `platform/lib/clock.ts` there. No timer of 8 s or longer fires, so the limit of
 * a shutdown decides nothing on a slow machine.
 */

import { type Clock, systemClock as realClock } from '../../../src/platform/lib/clock.ts';
import { replaceClock } from './replace-clock.ts';

export * from '../../../src/platform/lib/clock.ts';

const NEVER = 8_000;

export function systemClock(): Clock {
  const real = realClock();
  return { ...real, after: (ms, call) => (ms < NEVER ? real.after(ms, call) : () => undefined) };
}

replaceClock(import.meta.url);
