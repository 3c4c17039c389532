import { SyncError } from '../../model/errors/sync-error.ts';
import type { HttpAnswer } from '../../platform/http/http-client.ts';
import { boundedWait, retryAfter } from '../../platform/http/provider-errors.ts';
import type { Clock } from '../../platform/lib/clock.ts';
import { purposeNow } from '../../platform/lib/purpose.ts';

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

/** The times that a vendor sets for its limits, milliseconds; described in `Refusals`. */
interface Waits {
  waitOf?(answer: HttpAnswer, now: number): number | undefined;
  readonly otherwise?: number;
  readonly shortest?: number;
}

export function limitWait(
  { waitOf, otherwise = MINUTE, shortest = 0 }: Waits,
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
