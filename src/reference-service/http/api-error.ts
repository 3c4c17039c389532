import { hash } from 'node:crypto';
import { type ApiErrorCode, ERROR_CODES } from '../../workspace-api/contract.ts';

/** A refusal, as the client is told: becomes the error object (W66). The status belongs to the code. */
export class ApiError extends Error {
  readonly errorCode: ApiErrorCode;
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;

  constructor(errorCode: ApiErrorCode, message: string, headers: Readonly<Record<string, string>> = {}) {
    super(message);
    this.errorCode = errorCode;
    this.status = ERROR_CODES[errorCode];
    this.headers = headers;
  }
}

/** The error object. All three fields are always there. */
export function errorBody(status: number, message: string, errorCode: ApiErrorCode) {
  return { code: status, message, errorCode };
}

export function notFound(what: string): ApiError {
  return new ApiError('not_found', `${what} not found`);
}

export function invalid(message: string): ApiError {
  return new ApiError('validation_failed', message);
}

/** A strong validator over the bytes of an answer. */
export function etagOf(body: string): string {
  return `"${hash('sha1', body, 'base64url')}"`;
}

/** `If-None-Match` names the validator, by weak comparison as for every GET (RFC 9110, 13.1.2). */
export function isNotModified(ifNoneMatch: string | undefined, etag: string): boolean {
  if (ifNoneMatch === undefined) return false;
  if (ifNoneMatch.trim() === '*') return true;
  return ifNoneMatch.split(',').some((given) => given.trim().replace(/^W\//, '') === etag);
}

/** `If-Match` fails: none of its validators is this one, by strong comparison (RFC 9110, 13.1.1). */
export function isChanged(ifMatch: string | undefined, etag: string): boolean {
  if (ifMatch === undefined || ifMatch.trim() === '*') return false;
  return !ifMatch.split(',').some((given) => given.trim() === etag);
}
