import type { Clock } from '../lib/clock.ts';
import type { LogFields, Logger } from '../lib/logger.ts';

/** The same warning for the same subject is logged at most once in this time, milliseconds. */
const QUIET = 60_000;

/** Logs the first warning about a subject at once, and the number of those it kept back with the next one after a minute. */
export function createQuietWarnings(clock: Clock): (logger: Logger, subject: string, fields: LogFields) => void {
  const last = new Map<string, { at: number; kept: number }>();
  return (logger, subject, fields) => {
    const entry = last.get(subject);
    const now = clock.monotonic();
    if (entry && now - entry.at < QUIET) {
      entry.kept++;
      return;
    }
    logger.warn({ ...fields, alsoRefused: entry?.kept ?? 0 }, 'delivery refused');
    last.set(subject, { at: now, kept: 0 });
  };
}
