import { isUtf8 } from 'node:buffer';
import type { AnswerRoom } from '../platform/http/admission.ts';
import type { HttpAnswer } from '../platform/http/http-client.ts';

/** An answer to the caller. */
export interface Outgoing {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer | string | undefined;
  /** Whether it is the workspace's own answer. */
  readonly isTheirs?: true;
  /** The part of the server's budget that the body takes until it is sent. */
  readonly room?: AnswerRoom;
}

/** The headers of an answer that go back to the caller. */
const PASSED_BACK = [
  'content-type',
  'content-disposition',
  'content-range',
  'content-security-policy',
  'etag',
  'location',
  'retry-after',
  'allow',
  'x-content-type-options',
];

/** Only the caller may keep it, and must revalidate it. */
const KEPT_BY_CALLER = 'private, no-cache';

/** Converts an answer of the workspace for the caller. */
export function outgoing({ status, headers: given, body }: HttpAnswer, room?: AnswerRoom): Outgoing {
  const headers = headersNamed(PASSED_BACK, given);
  const content = status === 204 || status === 304 ? undefined : sendable(body);
  return { status, headers, body: content, isTheirs: true, ...(room && { room }) };
}

/** Returns those of the headers that have one of these names, and one value. */
export function headersNamed(
  names: readonly string[],
  given: Readonly<Record<string, unknown>>,
): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const name of names) {
    const value = given[name];
    if (typeof value === 'string') headers[name] = value;
  }
  return headers;
}

/** Sends text in one piece with its head, which takes the system half the time of separate bytes. */
function sendable(body: Buffer): Buffer | string {
  return body.length <= LONGEST_TEXT && isUtf8(body) ? body.toString() : body;
}

const LONGEST_TEXT = 65_536;

/**
 * Converts the answer to a cached read.
 *
 * @param age whole seconds
 * @param condition the caller's If-None-Match
 */
export function aged(answer: Outgoing, age: number, condition?: string): Outgoing {
  const { status, headers: given } = answer;
  const headers = { ...given, age: String(age), 'cache-control': KEPT_BY_CALLER };
  const isKnown = status === 200 && names(condition, given['etag']);
  return isKnown ? { ...answer, status: 304, headers, body: undefined } : { ...answer, headers };
}

/** If-None-Match compares weakly (RFC 9110, section 13.1.2). */
function names(condition: string | undefined, etag: string | undefined): boolean {
  if (condition === undefined || etag === undefined) return false;
  const plain = (tag: string) => tag.trim().replace(/^W\//, '');
  return condition.trim() === '*' || condition.split(',').some((tag) => plain(tag) === plain(etag));
}

/** The text and form of W68, with the delay that is really expected. */
export function tooMany(seconds: number): Outgoing {
  const refusal = refuse(429, 'rate_limit_exceeded', `standard rate limit exceeded, retry in ${seconds} seconds`);
  return { ...refusal, headers: { ...refusal.headers, 'retry-after': String(seconds) } };
}

/** The error object (W66). */
export function refuse(code: number, errorCode: string, message: string): Outgoing {
  const headers = { 'content-type': 'application/json; charset=utf-8' };
  return { status: code, headers, body: JSON.stringify({ code, message, errorCode }) };
}

/** Refuses a request that was not sent to the workspace. The caller may repeat it after a second. */
export function retrySoon(errorCode: string, message: string): Outgoing {
  const refusal = refuse(503, errorCode, message);
  return { ...refusal, headers: { ...refusal.headers, 'retry-after': '1' } };
}

export const unauthorized = () => refuse(401, 'unauthorized', 'missing or invalid credentials');
