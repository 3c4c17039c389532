import type { Cancel, Clock } from '../lib/clock.ts';
import type { LogFields, Logger } from '../lib/logger.ts';

/** Milliseconds after which the same line is logged again, with the number of its repeats: longer each time. */
const LOG_AFTER = [60_000, 300_000, 900_000, 3_600_000] as const;
/** Milliseconds without a repeat after which a line is over: longer than polls usually wait. */
const OVER_AFTER = 600_000;
/** Subjects that are stored: a flood must not fill the memory. */
const MOST_SUBJECTS = 1_000;
const SHORTEST = 1_000;

/** Fields that differ between repeats, and do not identify the subject. */
const VARYING: ReadonlySet<string> = new Set(['reason', 'address', 'warning']);

type Level = 'warn' | 'error';

/** A line that may be repeated. */
interface Line {
  readonly logger: Logger;
  readonly level: Level;
  readonly fields: LogFields;
  readonly message: string;
}

/** A logged line, and its repeats since. */
interface Repeated {
  line: Line;
  /** Repeats since it was last logged, and in total. */
  repeats: number;
  total: number;
  step: number;
  loggedAt: number;
  seenAt: number;
  cancel: Cancel;
}

/**
 * A logger that logs a warning or an error once. Repeats about the same subject are then counted, and logged with the count at
 * growing intervals, and once when it is over. The subject is the texts of the line, its delivery and the code of its error.
 */
export function mergingRepeats(logger: Logger, clock: Clock): Logger {
  return wrap(logger, '', createRepeats(clock));
}

/** Returns when its repeats are to be logged. */
function dueAt({ loggedAt, step }: Repeated): number {
  return loggedAt + (LOG_AFTER[step] as number);
}

function isDue(repeated: Repeated, now: number): boolean {
  return now >= dueAt(repeated);
}

type Report = (subject: string, line: Line) => void;

function wrap(logger: Logger, bindings: string, report: Report): Logger {
  const reporting = (level: Level) => (fields: LogFields, message: string) =>
    report(`${level} ${message} ${bindings} ${subjectOf(fields)}`, { logger, level, fields, message });
  return {
    debug: (fields, message) => logger.debug(fields, message),
    info: (fields, message) => logger.info(fields, message),
    warn: reporting('warn'),
    error: reporting('error'),
    child: (fields) => wrap(logger.child(fields), `${bindings} ${subjectOf(fields)}`, report),
  };
}

function subjectOf(fields: LogFields): string {
  const parts = Object.entries(fields).flatMap(([name, value]) => {
    if (name === 'error') return [codeOf(value)];
    const isSubject = typeof value === 'string' ? !VARYING.has(name) : name === 'delivery';
    return isSubject ? [`${name}=${String(value)}`] : [];
  });
  return parts.join(' ');
}

function codeOf(error: unknown): string {
  if (!(error instanceof Error)) return typeof error === 'string' ? error : '';
  const { code } = error as { code?: unknown };
  return typeof code === 'string' ? code : `${error.name}: ${error.message}`;
}

function createRepeats(clock: Clock): Report {
  const known = new Map<string, Repeated>();

  function log({ logger, level, fields, message }: Line, more: LogFields = {}): void {
    logger[level]({ ...fields, ...more }, message);
  }

  function begin(subject: string, line: Line): void {
    log(line);
    const [oldest] = known.size < MOST_SUBJECTS ? [] : known.keys();
    if (oldest !== undefined) forget(oldest);
    const now = clock.monotonic();
    const repeated = { line, repeats: 0, total: 0, step: 0, loggedAt: now, seenAt: now, cancel: () => undefined };
    known.set(subject, repeated);
    scheduleCheck(subject, repeated);
  }

  function forget(subject: string): void {
    known.get(subject)?.cancel();
    known.delete(subject);
  }

  function scheduleCheck(subject: string, repeated: Repeated): void {
    const now = clock.monotonic();
    const overAt = repeated.seenAt + OVER_AFTER;
    // Without repeats, it can only be over next.
    const at = isDue(repeated, now) ? overAt : Math.min(dueAt(repeated), overAt);
    repeated.cancel = clock.after(Math.max(SHORTEST, at - now), () => check(subject, repeated));
  }

  function check(subject: string, repeated: Repeated): void {
    const now = clock.monotonic();
    if (now - repeated.seenAt >= OVER_AFTER) {
      forget(subject);
      const { line, total } = repeated;
      if (total > 0) line.logger.info({ ...line.fields, repeats: total, was: line.message }, 'no longer repeated');
      return;
    }
    if (isDue(repeated, now) && repeated.repeats > 0) {
      log(repeated.line, { repeats: repeated.repeats });
      repeated.repeats = 0;
      repeated.loggedAt = now;
      repeated.step = Math.min(repeated.step + 1, LOG_AFTER.length - 1);
    }
    scheduleCheck(subject, repeated);
  }

  return (subject, line) => {
    const repeated = known.get(subject);
    if (!repeated) return begin(subject, line);
    const now = clock.monotonic();
    repeated.line = line;
    repeated.repeats++;
    repeated.total++;
    repeated.seenAt = now;
    // It was quiet when its time came, and repeats now: logged at once.
    if (isDue(repeated, now)) {
      repeated.cancel();
      check(subject, repeated);
    }
  };
}
