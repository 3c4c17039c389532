import { WINDOWS, type Window } from './windows.ts';

/**
 * The earliest second at which the last of `count` requests can start, from an empty ledger. Closed form for two
 * windows of which the short one repeats a whole number of times within the long one.
 */
export function optimum(count: number, [long, short] = WINDOWS as readonly [Window, Window]): number {
  const inLong = (count - 1) % long.cap;
  return long.length * Math.floor((count - 1) / long.cap) + short.length * Math.floor(inLong / short.cap);
}

/**
 * Seconds until the last answer, where each request takes `d` seconds, `concurrency` go at once, and a slot is freed
 * one window and its guard after the answer.
 */
export function ruleOfCompletion(
  count: number,
  { concurrency, d, guards }: { concurrency: number; d: number; guards: readonly [long: number, short: number] },
  [long, short] = WINDOWS as readonly [Window, Window],
): number {
  const inLong = (count - 1) % long.cap;
  const longWaits = (long.length + guards[0] + d) * Math.floor((count - 1) / long.cap);
  const shortWaits = (short.length + guards[1] + d) * Math.floor(inLong / short.cap);
  return longWaits + shortWaits + d * Math.floor((inLong % short.cap) / concurrency) + d;
}
