import { inspect } from 'node:util';
import { CODES, type ErrorCode, type Verdict } from './codes.ts';

export interface ErrorDetails {
  readonly cause?: unknown;
  /** HTTP status of the answer, if there was one. For an answer of the workspace: the status of its `errorCode`. */
  readonly status?: number;
  /** The workspace itself answered with its error object, and not a proxy in between. */
  readonly own?: boolean;
  /** The server's own stable code (`errorCode` of the workspace API). */
  readonly errorCode?: string;
  /** How long the server requests to wait, milliseconds. */
  readonly retryAfter?: number;
  /** Replaces the registry's hint if a better remedy is known. */
  readonly hint?: string;
}

/**
 * A failure that a caller can act on: a stable code, a verdict, a hint, and the cause.
 * The constructor replaces the values of secrets in all texts, so that an error can be stored and shown.
 */
export class SyncError extends Error {
  override readonly name = 'SyncError';
  readonly code: ErrorCode;
  readonly verdict: Verdict;
  readonly hint: string;
  readonly status: number | undefined;
  readonly own: boolean;
  readonly errorCode: string | undefined;
  readonly retryAfter: number | undefined;

  constructor(code: ErrorCode, message: string, details: ErrorDetails = {}) {
    const cause = causeWithoutSecrets(details.cause);
    super(withoutSecrets(message), cause === undefined ? undefined : { cause });
    this.code = code;
    this.verdict = CODES[code].verdict;
    this.hint = details.hint === undefined ? CODES[code].hint : withoutSecrets(details.hint);
    this.status = details.status;
    this.own = details.own ?? false;
    this.errorCode = details.errorCode === undefined ? undefined : withoutSecrets(details.errorCode);
    // Round up: it is stored as an integer timestamp.
    this.retryAfter = details.retryAfter === undefined ? undefined : Math.ceil(details.retryAfter);
  }
}

/**
 * Converts a thrown value to a SyncError.
 * Errors of the database carry a code of the registry (`platform/database/database-fault.ts`), and some codes of the
 * file system are translated. Everything else is a fault of worksync.
 */
export function asSyncError(thrown: unknown): SyncError {
  if (thrown instanceof SyncError) return thrown;
  const { code, hint } = (thrown ?? {}) as { code?: unknown; hint?: unknown };
  const known = thrown instanceof Error ? knownCode(code) : undefined;
  const details = { cause: thrown, hint: typeof hint === 'string' ? hint : undefined };
  return new SyncError(known ?? 'internal', textOf(thrown), details);
}

/** Whether a part of the request may have left this machine. Only these three codes exclude it. */
export function wasSent({ code }: Pick<SyncError, 'code'>): boolean {
  return code !== 'unreachable' && code !== 'address_blocked' && code !== 'proxy_refused';
}

/** Codes of the file system, from any operation that creates or writes a file. */
const FILE_SYSTEM_CODES: Readonly<Record<string, ErrorCode>> = {
  ENOSPC: 'disk_full',
  EDQUOT: 'disk_full',
  EROFS: 'data_folder_unusable',
};

function knownCode(code: unknown): ErrorCode | undefined {
  if (typeof code !== 'string') return undefined;
  if (Object.hasOwn(FILE_SYSTEM_CODES, code)) return FILE_SYSTEM_CODES[code];
  return Object.hasOwn(CODES, code) ? (code as ErrorCode) : undefined;
}

/** Never throws, although some objects cannot be converted to a text. */
function textOf(thrown: unknown): string {
  if (thrown instanceof Error) return thrown.message;
  return typeof thrown === 'string' ? thrown : inspect(thrown, { depth: 0 });
}

/** Code, message and remedy of a failure, as it was stored. */
export interface StoredFailure {
  readonly code: string;
  readonly message: string;
  readonly hint: string | null;
}

/** Formats a failure for a row: `code: message`, followed by its remedy if that differs from the registry's. */
export function formatFailure({ code, message, hint }: Pick<SyncError, 'code' | 'message' | 'hint'>): string {
  const text = `${code}: ${message}`;
  return hint === CODES[code].hint ? text : `${text}${REMEDY}${hint}`;
}

const REMEDY = '\nremedy: ';

/** Parses a stored failure. A text without a code of the registry becomes the message of an `internal` failure. */
export function parseFailure(stored: string): StoredFailure {
  const [failure = '', hint] = stored.split(REMEDY, 2);
  const [, code = '', message = ''] = /^([a-z_]+): ?([\s\S]*)$/.exec(failure) ?? [];
  if (!Object.hasOwn(CODES, code)) return { code: 'internal', message: failure, hint: null };
  return { code, message, hint: hint ?? CODES[code as ErrorCode].hint };
}

/** Replaces the values of secrets in a text. */
export type Scrub = (text: string) => string;

let scrub: Scrub = (text) => text;

/**
 * Scrubs each new error with this function, so that no secret reaches a database or an output, whatever a server
 * repeats. A process sets one function before it does anything else.
 */
export function cleanErrorsWith(next: Scrub): void {
  scrub = next;
}

/** Scrubs a foreign text. Call it before the text is cut, because the scrubber does not recognise half a secret. */
export function withoutSecrets(text: string): string {
  return scrub(text);
}

/** Causes below this depth are left out, because they are not scrubbed: such chains repeat themselves, or loop. */
const MAX_DEPTH = 5;

/** Returns the cause itself if it contains no secret, otherwise a scrubbed copy. */
function causeWithoutSecrets(cause: unknown, depth = 0): unknown {
  if (typeof cause === 'string') return scrub(cause);
  if (!(cause instanceof Error)) return cause;
  if (depth === MAX_DEPTH) return undefined;
  const inner = causeWithoutSecrets(cause.cause, depth + 1);
  const all = cause instanceof AggregateError ? cause.errors.map((error) => causeWithoutSecrets(error, depth + 1)) : [];
  const isSame =
    inner === cause.cause && all.every((error, index) => error === (cause as AggregateError).errors[index]);
  return isSame && !containsSecret(cause) ? cause : copyOf(cause, inner, all);
}

function containsSecret({ message, stack = '', name }: Error): boolean {
  return [message, stack, name].some((text) => scrub(text) !== text);
}

function copyOf(error: Error, cause: unknown, errors: readonly unknown[]): Error {
  const message = scrub(error.message);
  const details = cause === undefined ? {} : { cause };
  const copy =
    error instanceof AggregateError ? new AggregateError(errors, message, details) : new Error(message, details);
  const { code, stack } = error as Error & { code?: unknown };
  copy.name = scrub(error.name);
  if (stack !== undefined) copy.stack = scrub(stack);
  return Object.assign(copy, code === undefined ? {} : { code });
}
