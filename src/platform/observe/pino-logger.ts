import { styleText } from 'node:util';
import { type DestinationStream, destination, pino, stdTimeFunctions } from 'pino';
import { SyncError } from '../../model/errors/sync-error.ts';
import type { Logger } from '../lib/logger.ts';
import { asTyped } from '../lib/own-command.ts';
import type { Scrubber } from './scrubber.ts';

export interface LoggerOptions {
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
  const parts = [`${head} ${harmless(String(msg))}`, ...pairsOf(fields), ...messageOf(failure)];
  return `${parts.join('  ')}${remedyOf(failure)}\n`;
}

/** Adds a colour, unless the terminal has none or `NO_COLOR` is set. */
function coloured(colour: (typeof COLOURS)[keyof typeof COLOURS], text: string): string {
  return styleText(colour, text, { stream: process.stderr });
}

function pairsOf(fields: Fields): string[] {
  return Object.entries(fields).map(([name, value]) => `${harmless(name)}=${plain(value)}`);
}

function plain(value: unknown): string {
  const isWord = typeof value === 'string' && /^[\w./:#@+-]+$/.test(value);
  return isWord ? value : harmless(JSON.stringify(value) ?? 'undefined');
}

function messageOf(error: Fields | string | undefined): string[] {
  if (error === undefined) return [];
  if (typeof error !== 'object') return [plain(error)];
  return [harmless(`${String(error['code'] ?? error['name'])}: ${String(error['message'])}`)];
}

function remedyOf(error: Fields | string | undefined): string {
  if (typeof error !== 'object') return '';
  const below = [error['hint'], error['stack']].filter((text) => typeof text === 'string');
  return below
    .flatMap((text) => text.split('\n'))
    .map((text) => `\n             ${harmless(asTyped(text.trim()))}`)
    .join('');
}

function harmless(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '\ufffd');
}
