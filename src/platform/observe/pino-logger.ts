import { type DestinationStream, destination, pino, stdTimeFunctions } from 'pino';
import type { Logger } from '../lib/logger.ts';
import { describeError } from './describe-error.ts';
import { prettyLine } from './pretty-line.ts';
import type { Scrubber } from './scrubber.ts';

export interface LoggerOptions {
  readonly level: 'debug' | 'info' | 'warn' | 'error' | 'silent';
  readonly scrubber: Scrubber;
  /** Standard error unless given: data goes to standard output. */
  readonly destination?: DestinationStream;
  /** For a person at a terminal: the standard error is one, unless a destination is given. */
  readonly isPretty?: boolean;
}

/** Fields that hold credentials wherever they turn up near the top; the scrubber is the net below. */
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

/** Outside a string JSON holds none of these, so an escape is right wherever one stands. */
function escapeUnseen(line: string): string {
  return line.replace(
    /[\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
