import type { ErrorCode } from '../../model/errors/codes.ts';
import { asSyncError, SyncError, withoutSecrets } from '../../model/errors/sync-error.ts';
import type { HttpAnswer } from '../../platform/http/http-client.ts';
import { parseJson } from '../../platform/http/parse-json.ts';
import { errorOfStatus } from '../../platform/http/provider-errors.ts';
import { limitWait } from './rate-limit.ts';

/** The ways in which one vendor refuses a request. */
export interface Refusals {
  /** Returns the message for people in the vendor's error object. May throw, and may return any type. Absent: `message`. */
  messageOf?(body: unknown): unknown;
  /** Statuses whose meaning differs from that of most vendors. */
  readonly statuses?: ReadonlyMap<number, ErrorCode>;
  readonly hints?: Readonly<Record<number, string>>;
  /** Returns how long a limit lasts, milliseconds, if the answer reports it in another way than by `Retry-After`. */
  waitOf?(answer: HttpAnswer, now: number): number | undefined;
  /** Milliseconds to wait if the answer reports no time. Default: a minute. */
  readonly otherwise?: number;
  /** Shortest wait, milliseconds, whatever the answer reports. */
  readonly shortest?: number;
  /** Describes the limit that was reached, if the answer names it. */
  limitOf?(answer: HttpAnswer): string | undefined;
}

const messageIn = (body: unknown) => (body as { message?: unknown }).message;

/** Returns the error for an answer that is no success; it contains the vendor's message. */
export function refusalOf(vendor: Refusals, answer: HttpAnswer, what: string, now: number): SyncError {
  const { status } = answer;
  const byStatus = errorOfStatus(answer, what, now);
  const vendorText = vendorMessage(answer, vendor.messageOf ?? messageIn);
  const message = vendorText === '' ? byStatus.message : `${byStatus.message} (${vendorText})`;
  const code = vendor.statuses?.get(status) ?? byStatus.code;
  if (code !== 'rate_limited')
    return new SyncError(code, message, { status, hint: vendor.hints?.[status] ?? byStatus.hint });
  const limit = vendor.limitOf?.(answer);
  const messageWithLimit = limit === undefined ? message : `${message}: ${limit}`;
  return new SyncError(code, messageWithLimit, { status, retryAfter: limitWait(vendor, answer, now) });
}

/**
 * Returns the vendor's message about a refusal, fit for a log; empty if there is none that can be read.
 *
 * @param messageOf returns the message in the vendor's error object; it may throw, and may return any type
 */
export function vendorMessage(answer: Pick<HttpAnswer, 'body'>, messageOf: (body: unknown) => unknown): string {
  try {
    const message = messageOf(parseJson(answer.body));
    return typeof message === 'string' ? onOneLine(message) : '';
  } catch {
    return '';
  }
}

/** Makes a text of the vendor fit for a log: short, on one line, and without our secrets or halves of them. */
export function onOneLine(text: string, longest = 200): string {
  return withoutSecrets(text)
    .replace(/[\s\p{C}]+/gu, ' ')
    .slice(0, longest);
}

/** Returns the error for an answer that differs from the vendor's reference. */
export function malformed(what: string): SyncError {
  return new SyncError('answer_malformed', what);
}

/** Returns the error for a list that is switched off at the vendor. @param what `issues of acme/web` */
export function featureOff(what: string): SyncError {
  return new SyncError('feature_off', `${what} are switched off at the vendor`);
}

/**
 * Reads a list. If the vendor refuses it or does not find it, checks whether it is switched off, and throws `feature_off` then.
 *
 * @param offOf returns what is switched off now, as in `featureOff`; undefined if nothing is
 */
export async function detectFeatureOff<Result>(
  read: () => Promise<Result>,
  offOf: () => Promise<string | undefined>,
): Promise<Result> {
  try {
    return await read();
  } catch (thrown) {
    const { code } = asSyncError(thrown);
    if (code !== 'forbidden' && code !== 'not_found') throw thrown;
    // If this check fails too, the first error says more.
    const what = await offOf().catch(() => undefined);
    throw what === undefined ? thrown : featureOff(what);
  }
}

/** Resolves with the answer, or with undefined if the request failed with one of these codes. */
export async function undefinedOn<Answer>(
  request: Promise<Answer>,
  ...codes: readonly ErrorCode[]
): Promise<Answer | undefined> {
  try {
    return await request;
  } catch (thrown) {
    if (codes.includes(asSyncError(thrown).code)) return undefined;
    throw thrown;
  }
}

/**
 * Resolves with the result of work that nothing depends on, such as a count for a progress bar; with undefined if it fails.
 * Rejects only if the signal is aborted.
 */
export async function bestEffort<Result>(
  work: () => Result | Promise<Result>,
  signal: AbortSignal,
): Promise<Result | undefined> {
  try {
    return await work();
  } catch (thrown) {
    if (signal.aborted) throw thrown;
    return undefined;
  }
}
