import { styleText } from 'node:util';
import { type DestinationStream, destination, pino, stdTimeFunctions } from 'pino';
import { SyncError } from '../../model/errors.ts';
import type { Cancel, Clock } from '../lib/clock.ts';
import { asTyped } from '../lib/own-program.ts';
import type { LogFields, Logger } from '../lib/telemetry.ts';
import { printable } from '../lib/text.ts';
import type { Scrubber } from './scrubber.ts';

interface LoggerOptions {
  readonly level: 'debug' | 'info' | 'warn' | 'error' | 'silent';
  readonly scrubber: Scrubber;
  /** Standard error unless given: data goes to standard output. */
  readonly destination?: DestinationStream;
  /** For a person at a terminal: the standard error is one, unless a destination is given. */
  readonly isPretty?: boolean;
}

/** Fields that hold credentials, at the first three levels. The scrubber covers everything else. */
const REDACTED = ['authorization', 'cookie', 'token', 'apiKey', 'secret', 'secrets', 'password', 'privateKey'];

/**
 * Newline-delimited JSON, or lines for people. Three guards keep a line harmless: credential fields are removed, the values of
 * all loaded secrets are replaced in the finished line, and characters that steer a terminal or reorder text are escaped (JSON
 * itself escapes only those below U+0020).
 */
export function createLogger(options: LoggerOptions): Logger {
  const { isPretty = options.destination === undefined && process.stderr.isTTY } = options;
  const finished = (line: string) => {
    const harmless = escapeUnseen(options.scrubber.scrub(line));
    return isPretty ? prettyLine(harmless) : harmless;
  };
  return pino(
    {
      level: options.level,
      base: undefined,
      timestamp: stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      serializers: { error: describeError, err: describeError },
      redact: { paths: REDACTED.flatMap((name) => [name, `*.${name}`, `*.*.${name}`]), censor: '[secret]' },
      hooks: { streamWrite: finished },
    },
    options.destination ?? destination({ fd: 2, sync: true }),
  );
}

/** Escapes characters that JSON has inside strings only, so that the escape is valid at each of them. */
function escapeUnseen(line: string): string {
  return line.replace(
    /[\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

/** Deeper chains of causes repeat themselves, or loop. */
const DEEPEST = 5;

/**
 * Returns an error as fields of a log line: code, verdict, hint and the chain of causes. The stack is kept only if the fault may be
 * ours. Other values are returned unchanged.
 */
function describeError(thrown: unknown, depth = 0): unknown {
  if (!(thrown instanceof Error)) return thrown;
  if (depth === DEEPEST) return { message: thrown.message };
  const error = thrown as Error & { code?: unknown };
  return {
    ...(thrown instanceof SyncError ? known(thrown) : { name: error.name, code: error.code, message: error.message }),
    ...(isOurs(thrown) ? { stack: thrown.stack } : {}),
    ...(thrown instanceof AggregateError
      ? { errors: thrown.errors.slice(0, DEEPEST).map((each) => describeError(each, DEEPEST)) }
      : {}),
    ...(thrown.cause === undefined ? {} : { cause: describeError(thrown.cause, depth + 1) }),
  };
}

function known(error: SyncError): Record<string, unknown> {
  const { code, message, verdict, hint, status, errorCode, retryAfter } = error;
  return { code, message, verdict, hint, status, errorCode, retryAfter };
}

/** A SyncError other than `internal` names its remedy, and an error with a code was made by the system. */
function isOurs(error: Error): boolean {
  if (error instanceof SyncError) return error.code === 'internal';
  return (error as { code?: unknown }).code === undefined;
}

type Fields = Readonly<Record<string, unknown>>;

const COLOURS = { debug: 'gray', info: 'green', warn: 'yellow', error: 'red' } as const;

/**
 * Returns a log line for a person at a terminal: time, level, message, fields, and the remedy of an error below. Values are quoted as
 * in JSON, so that none of them acts on the terminal.
 */
function prettyLine(line: string): string {
  const { level, time, msg, error, err, ...fields } = JSON.parse(line) as Fields;
  const name = String(level) as keyof typeof COLOURS;
  const head = `${String(time).slice(11, 23)} ${coloured(COLOURS[name] ?? 'gray', name.toUpperCase().padEnd(5))}`;
  const failure = (error ?? err) as Fields | string | undefined;
  const parts = [`${head} ${printable(String(msg))}`, ...pairsOf(fields), ...messageOf(failure)];
  return `${parts.join('  ')}${remedyOf(failure)}\n`;
}

/** Adds a colour, unless the terminal has none or `NO_COLOR` is set. */
function coloured(colour: (typeof COLOURS)[keyof typeof COLOURS], text: string): string {
  return styleText(colour, text, { stream: process.stderr });
}

function pairsOf(fields: Fields): string[] {
  return Object.entries(fields).map(([name, value]) => `${printable(name)}=${plain(value)}`);
}

function plain(value: unknown): string {
  const isWord = typeof value === 'string' && /^[\w./:#@+-]+$/.test(value);
  return isWord ? value : printable(JSON.stringify(value) ?? 'undefined');
}

function messageOf(error: Fields | string | undefined): string[] {
  if (error === undefined) return [];
  if (typeof error !== 'object') return [plain(error)];
  return [printable(`${String(error['code'] ?? error['name'])}: ${String(error['message'])}`)];
}

function remedyOf(error: Fields | string | undefined): string {
  if (typeof error !== 'object') return '';
  const below = [error['hint'], error['stack']].filter((text) => typeof text === 'string');
  return below
    .flatMap((text) => text.split('\n'))
    .map((text) => `\n             ${printable(asTyped(text.trim()))}`)
    .join('');
}

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
