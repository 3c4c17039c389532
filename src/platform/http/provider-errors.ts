import type { ErrorCode } from '../../model/errors/codes.ts';
import { type ErrorDetails, SyncError } from '../../model/errors/sync-error.ts';
import type { HttpAnswer } from './http-client.ts';

const BY_STATUS: Readonly<Record<number, ErrorCode>> = {
  401: 'unauthorized',
  403: 'forbidden',
  404: 'not_found',
  408: 'server_failed',
  409: 'conflict',
  410: 'not_found',
  425: 'server_failed',
  429: 'rate_limited',
};

/**
 * Returns the error of an answer outside 2xx, by its status alone. A connector first handles statuses with another meaning, such
 * as GitHub's 403 for an exhausted limit.
 *
 * @param what the request for people: `list pull requests of acme/api`
 * @param now wall clock, epoch milliseconds: a `Retry-After` may be a date
 */
export function errorOfStatus(answer: Pick<HttpAnswer, 'status' | 'headers'>, what: string, now: number): SyncError {
  const { status } = answer;
  const wait = retryAfter(answer.headers, now);
  const details: ErrorDetails = {
    status,
    ...(wait === undefined ? {} : { retryAfter: wait }),
    ...hintOf(answer),
  };
  return new SyncError(codeOf(status), `${what}: status ${status}`, details);
}

function codeOf(status: number): ErrorCode {
  const code = BY_STATUS[status];
  if (code) return code;
  if (status >= 500) return 'server_failed';
  return status >= 300 ? 'refused' : 'answer_malformed';
}

function hintOf({ status, headers }: Pick<HttpAnswer, 'status' | 'headers'>): ErrorDetails {
  if (status === 401)
    return {
      hint: 'The credential is wrong, expired or revoked. Replace it where the connection gets it from, usually an environment variable.',
    };
  if (status < 300 || status > 399) return {};
  return {
    hint: `The server redirects to ${redirectTarget(headers)}, which worksync does not follow. If the server has moved, configure its new address; if this is a login page, check that the configured address is that of the API.`,
  };
}

/** The target of a redirect for people: without the query, which may hold secrets, and at most 200 characters long. */
export function redirectTarget({ location = '' }: HttpAnswer['headers']): string {
  const target = URL.parse(location, 'https://relative.invalid');
  if (location === '' || !target || !/^https?:$/.test(target.protocol)) return 'another address';
  const isRelative = !URL.canParse(location);
  return `${isRelative ? '' : target.origin}${target.pathname}`.slice(0, 200);
}

/** The longest wait that a vendor can dictate, milliseconds. Vendors count limits by the hour at most. */
export const LONGEST_DICTATED_WAIT = 3_600_000;

/** Limits a wait that a vendor requested, milliseconds. */
export function boundedWait(ms: number): number {
  return Math.min(ms, LONGEST_DICTATED_WAIT);
}

/**
 * RFC 9110, section 10.2.3: seconds, or an HTTP date. Milliseconds from now, within the bound; undefined if the header is absent
 * or cannot be read.
 */
export function retryAfter(headers: HttpAnswer['headers'], now: number): number | undefined {
  const value = headers['retry-after']?.trim();
  if (!value) return undefined;
  if (/^\d+$/.test(value)) return boundedWait(Number(value) * 1_000);
  const date = /[a-z]/i.test(value) ? Date.parse(value) : Number.NaN;
  return Number.isNaN(date) ? undefined : boundedWait(Math.max(0, date - now));
}
