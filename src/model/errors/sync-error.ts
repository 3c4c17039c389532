import { inspect } from 'node:util';
import { CODES, type ErrorCode, type Verdict } from './codes.ts';
import { causeWithoutSecrets, withoutSecrets } from './secrets.ts';

export interface ErrorDetails {
  readonly cause?: unknown;
  /** HTTP status of the answer, where there was one. An answer of the workspace: the status that its `errorCode` stands for. */
  readonly status?: number;
  /** The workspace itself answered, in its error object, and not a proxy in between. */
  readonly own?: boolean;
  /** The server's own stable code (`errorCode` of the workspace API). */
  readonly errorCode?: string;
  /** How long the server asked to wait, milliseconds. */
  readonly retryAfter?: number;
  /** Replaces the registry's hint where a better remedy is known. */
  readonly hint?: string;
}

/**
 * Every failure that a caller can act on: a stable code, a verdict, a hint, and the cause. Values of secrets are replaced
 * here, in all its texts: what is an error can be stored and shown.
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
    // Whole: what becomes of it is stored as a time.
    this.retryAfter = details.retryAfter === undefined ? undefined : Math.ceil(details.retryAfter);
  }
}

/**
 * Anything thrown, as a SyncError. What lies below this registry names its code itself (`platform/database/database-fault.ts`), or is
 * what the file system says of a file. Everything else is a fault of ours.
 */
export function asSyncError(thrown: unknown): SyncError {
  if (thrown instanceof SyncError) return thrown;
  const { code, hint } = (thrown ?? {}) as { code?: unknown; hint?: unknown };
  const known = thrown instanceof Error ? knownCode(code) : undefined;
  const details = { cause: thrown, hint: typeof hint === 'string' ? hint : undefined };
  return new SyncError(known ?? 'internal', textOf(thrown), details);
}

/** Whether anything of the request may have left this machine: only of these codes is it certain that nothing has. */
export function wasSent({ code }: Pick<SyncError, 'code'>): boolean {
  return code !== 'unreachable' && code !== 'address_blocked' && code !== 'proxy_refused';
}

/** What the file system says, wherever a file is made or written. */
const OF_FILES: Readonly<Record<string, ErrorCode>> = {
  ENOSPC: 'disk_full',
  EDQUOT: 'disk_full',
  EROFS: 'data_folder_unusable',
};

function knownCode(code: unknown): ErrorCode | undefined {
  if (typeof code !== 'string') return undefined;
  if (Object.hasOwn(OF_FILES, code)) return OF_FILES[code];
  return Object.hasOwn(CODES, code) ? (code as ErrorCode) : undefined;
}

/** Never throws, though an object may refuse to become a text. */
function textOf(thrown: unknown): string {
  if (thrown instanceof Error) return thrown.message;
  return typeof thrown === 'string' ? thrown : inspect(thrown, { depth: 0 });
}
