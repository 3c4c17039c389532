import { CODES, type ErrorCode } from './codes.ts';
import type { SyncError } from './sync-error.ts';

/** Code, message and remedy of a failure, as it was stored. */
export interface Failure {
  readonly code: string;
  readonly message: string;
  readonly hint: string | null;
}

/** The text of a failure for a row: `code: message`, and its remedy behind it, where that is not the one of the registry. */
export function storedFailure({ code, message, hint }: Pick<SyncError, 'code' | 'message' | 'hint'>): string {
  const text = `${code}: ${message}`;
  return hint === CODES[code].hint ? text : `${text}${REMEDY}${hint}`;
}

const REMEDY = '\nremedy: ';

/** Reads such a text. What has no code of the registry is shown as it is. */
export function readFailure(stored: string): Failure {
  const [told = '', hint] = stored.split(REMEDY, 2);
  const [, code = '', message = ''] = /^([a-z_]+): ?([\s\S]*)$/.exec(told) ?? [];
  if (!Object.hasOwn(CODES, code)) return { code: 'internal', message: told, hint: null };
  return { code, message, hint: hint ?? CODES[code as ErrorCode].hint };
}
