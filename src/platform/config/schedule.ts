import { parseCron } from '../lib/cron.ts';
import type { Schedule } from '../lib/scheduler.ts';
import { parseDuration } from './duration.ts';

const SHORTEST = 10_000;

/** Parses a schedule; returns the problem of an invalid text. */
export function parseSchedule(text: string): Schedule | { readonly problem: string } {
  if (text === 'off') return 'off';
  const everyMs = parseDuration(text);
  if (everyMs !== undefined) return everyMs < SHORTEST ? { problem: 'the shortest interval is 10s' } : { everyMs };
  return parseCron(text) ? { cron: text } : { problem: 'expected a duration such as 5m, a cron expression, or off' };
}

/** The minutes of one hour and one more: they contain the smallest gap. */
const MOMENTS = 61;

/** Shortest pause between two moments of a schedule, milliseconds. */
export function shortestPause(schedule: Exclude<Schedule, 'off'>): number {
  if ('everyMs' in schedule) return schedule.everyMs;
  const times = parseCron(schedule.cron);
  let shortest = Number.POSITIVE_INFINITY;
  let at = times?.after(0);
  for (let count = 1; count < MOMENTS && at !== undefined; count++) {
    const next = times?.after(at);
    if (next !== undefined) shortest = Math.min(shortest, next - at);
    at = next;
  }
  return shortest;
}
