import { AsyncLocalStorage } from 'node:async_hooks';
import { asSyncError, type ErrorCode, type ErrorDetails, SyncError, withoutSecrets } from '../../model/errors.ts';
import type { HttpAnswer } from '../../platform/http/http-client.ts';
import { parseJson } from '../../platform/http/parse-json.ts';
import type { Clock } from '../../platform/lib/clock.ts';

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

const SECOND = 1_000;
const MINUTE = 60 * SECOND;

/** The purpose of a request. Several purposes share one limit, and requests that people wait for come first. */
export type RateLimitUse = 'fetch' | 'poll' | 'background';

/** The share of the limit that each use leaves to more urgent ones; backfills and sweeps are the background. */
const LEAVES: Readonly<Record<RateLimitUse, number>> = { fetch: 0, poll: 0.1, background: 0.5 };

/** The share of the limit that may be used to verify items after a restore of the database. */
const SHARE_OF_RESTORE = 0.2;

export interface Rate {
  readonly limit: number;
  readonly remaining: number;
  /** When the whole limit is available again, epoch milliseconds by the provider's clock. */
  readonly resetAt: number;
}

/** The requests that one connection has left, according to the vendor's answers. Unknown before the first answer. */
export interface Budget {
  /**
   * Throws `rate_limited` if the rest of the limit is reserved for more urgent uses; the caller then sends nothing. Requests
   * with the purpose `restore` count as background, and take at most a fifth of the limit; those with `poll` count as polls.
   */
  require(use: RateLimitUse): void;
  update(answer: HttpAnswer): void;
}

/** @param rateOf reads the vendor's headers; returns undefined if the answer reports no limit */
export function createBudget(clock: Clock, rateOf: (headers: HttpAnswer['headers']) => Rate | undefined): Budget {
  let known: (Rate & { readonly until: number }) | undefined;
  /** Requests for a restore, in a period of their own, because some vendors move the end of theirs with each answer. */
  let restore = { requests: 0, until: 0 };

  function requireFor(use: RateLimitUse): void {
    const wait = known ? known.until - clock.monotonic() : 0;
    if (!known || wait <= 0 || known.remaining > known.limit * LEAVES[use]) return;
    const { remaining, limit } = known;
    throw reservedForOthers(`${remaining} of ${limit} requests are left`, wait);
  }

  function requireForRestore(): void {
    requireFor('background');
    const now = clock.monotonic();
    if (!known) return;
    if (now >= restore.until) restore = { requests: 0, until: known.until };
    const most = Math.max(1, Math.floor(known.limit * SHARE_OF_RESTORE));
    if (restore.requests >= most && restore.until > now) {
      const used = `the restore has used ${restore.requests} of ${known.limit} requests`;
      throw reservedForOthers(used, restore.until - now);
    }
    restore.requests += 1;
  }

  return {
    require(use) {
      const purpose = purposeNow();
      if (purpose === 'restore') requireForRestore();
      else requireFor(purpose ?? use);
    },
    update(answer) {
      const rate = rateOf(answer.headers);
      if (!rate || !(rate.limit > 0)) return;
      // Answers may overtake each other: within one period the rest only shrinks. A period ends with its longest wait.
      const isSamePeriod = known?.resetAt === rate.resetAt && clock.monotonic() < known.until;
      const remaining = known && isSamePeriod ? Math.min(known.remaining, rate.remaining) : rate.remaining;
      const wait = boundedWait(rate.resetAt - (providerTime(answer) ?? clock.now()) + SECOND);
      known = { ...rate, remaining, until: clock.monotonic() + wait };
    },
  };
}

function reservedForOthers(what: string, retryAfterMs: number): SyncError {
  return new SyncError('rate_limited', `${what}, and worksync keeps the others for more urgent uses`, {
    retryAfter: retryAfterMs,
    hint: 'worksync continues by itself when the limit resets. If this happens often, poll less often, or give worksync a credential of its own.',
  });
}

/**
 * Reads the headers `<prefix>-limit`, `-remaining` and `-reset`, as several vendors name them.
 *
 * @param unit of the reset, milliseconds
 */
export function rateFrom(headers: HttpAnswer['headers'], prefix: string, unit = SECOND): Rate | undefined {
  const [limit, remaining, reset] = ['limit', 'remaining', 'reset'].map((name) => headers[`${prefix}-${name}`]);
  if (![limit, remaining, reset].every((text) => text !== undefined && /^\d{1,15}$/.test(text))) return undefined;
  return { limit: Number(limit), remaining: Number(remaining), resetAt: Number(reset) * unit };
}

/** Returns how long to wait for a limit, milliseconds: by `Retry-After`, else in the vendor's own way. */
export function limitWait(
  { waitOf, otherwise = MINUTE, shortest = 0 }: Pick<Refusals, 'waitOf' | 'otherwise' | 'shortest'>,
  answer: HttpAnswer,
  now: number,
): number {
  const wait = retryAfterWait(answer, now) ?? waitOf?.(answer, now) ?? otherwise;
  return boundedWait(Math.max(wait, shortest));
}

export function retryAfterWait(answer: Pick<HttpAnswer, 'headers'>, now: number): number | undefined {
  const wait = retryAfter(answer.headers, now);
  return wait !== undefined && wait > 0 ? wait : undefined;
}

/**
 * Returns the time until a limit resets, milliseconds, within the bound of every wait; undefined if it has reset already.
 *
 * @param resetAt when the limit resets, epoch milliseconds by the provider's clock
 */
export function untilReset(answer: HttpAnswer, resetAt: number | undefined, now: number): number | undefined {
  const wait = (resetAt ?? 0) - (providerTime(answer) ?? now);
  return wait > 0 ? boundedWait(wait + SECOND) : undefined;
}

/** Returns the provider's time from the `Date` header of an answer, epoch milliseconds. */
export function providerTime(answer: Pick<HttpAnswer, 'headers'>): number | undefined {
  const time = Date.parse(answer.headers['date'] ?? '');
  return Number.isNaN(time) ? undefined : time;
}

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

/**
 * A purpose that limits the number of requests. `restore`: to confirm the items of a restored database; `poll`: to read what no
 * webhook reports.
 */
export type Purpose = 'restore' | 'poll';

const current = new AsyncLocalStorage<Purpose>();

/** Runs the work, and all that it awaits, for this purpose. */
export function forPurpose<Result>(purpose: Purpose, work: () => Promise<Result>): Promise<Result> {
  return current.run(purpose, work);
}

/** Returns the purpose of the current work; undefined if it has none of these. */
export function purposeNow(): Purpose | undefined {
  return current.getStore();
}
