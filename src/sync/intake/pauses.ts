import type { Connection } from '../../connectors/connector.ts';
import { asSyncError, type ErrorCode, SyncError } from '../../model/errors.ts';
import type { HttpClient } from '../../platform/http/http-client.ts';
import { backoff, type Clock, type Random } from '../../platform/lib/clock.ts';
import { duration } from '../../platform/lib/quantities.ts';

/** Failures of a credential, of a limit, and of this machine. All other failures concern only the requested unit. */
const FAILURES_OF_ALL_UNITS: ReadonlySet<ErrorCode> = new Set([
  'rate_limited',
  'unauthorized',
  'consent_needed',
  'secret_key_missing',
  'secret_key_wrong',
  'disk_full',
  'data_folder_unusable',
  'held_elsewhere',
]);

/**
 * Returns whether a request for any other unit of the connection would fail in the same way. `forbidden` is not such a
 * failure: vendors reject single repositories and projects for reasons of their own, such as SAML or a list of allowed
 * addresses.
 */
export function affectsAllUnits({ code }: Pick<SyncError, 'code'>): boolean {
  return FAILURES_OF_ALL_UNITS.has(code);
}

/** The first and the longest pause before a retry after a temporary failure, milliseconds. */
const FIRST_RETRY = 5_000;
export const LONGEST_RETRY = 900_000;
/** The attempts for one page or item before the others continue. */
export const MOST_ATTEMPTS = 6;

/** Returns the pause before a retry, milliseconds. */
export function retryPause(random: Random, failures: number, longest = LONGEST_RETRY): number {
  return backoff(random, failures, FIRST_RETRY, longest);
}

/** The pause after a rate limit without a time, milliseconds. */
const DEFAULT_PAUSE = 60_000;
/** The longest pause, whatever time the vendor names, milliseconds. */
const LONGEST_PAUSE = 3_600_000;

/**
 * The uses of a vendor's rate limit, the most urgent first. Each use leaves a part of the limit to the uses before it.
 * A write to the vendor counts as a fetch.
 */
const USES = ['fetch', 'poll', 'background'] as const;
export type RateLimitUse = (typeof USES)[number];

/**
 * The pauses of connections whose vendor must get no requests for a while. Polls, fetches, backfills, sweeps and writes
 * to vendors share them. They are in memory only.
 */
export type Pauses = ReturnType<typeof createPauses>;

export function createPauses(clock: Clock) {
  const until = new Map<string, number>();
  const leftOf = (key: string) => Math.max(0, (until.get(key) ?? 0) - clock.monotonic());
  const extend = (key: string, ms: number) => void until.set(key, clock.monotonic() + Math.max(leftOf(key), ms));
  const pause = (connection: string, ms: number, from: RateLimitUse = 'fetch') => {
    for (const use of USES.slice(USES.indexOf(from))) extend(`${use} ${connection}`, ms);
  };
  return {
    /** Returns the milliseconds left; 0 if the connection is free for this use. */
    left: (connection: string, use: RateLimitUse) => leftOf(`${use} ${connection}`),
    /** Returns the milliseconds left of the limits that the vendor itself reported, which concern every use. */
    vendorLimitLeft: (connection: string) => leftOf(`vendor ${connection}`),
    /** Pauses this use and the less urgent uses for `ms`. Never shortens a pause. */
    pause,
    /**
     * Records a failed request. A limit that the vendor reported pauses every use. A limit that worksync applied before
     * sending, to leave requests to more urgent uses, pauses this use and the less urgent ones.
     *
     * @returns the milliseconds of the pause; 0 if the error is no rate limit
     */
    recordFailure(connection: string, error: SyncError, use: RateLimitUse) {
      const ms = rateLimitPause(error);
      const isReportedByVendor = error.status !== undefined;
      if (ms > 0) pause(connection, ms, isReportedByVendor ? 'fetch' : use);
      if (ms > 0 && isReportedByVendor) extend(`vendor ${connection}`, ms);
      return ms;
    },
  };
}

/** Returns the milliseconds of the pause after this error; 0 if it is no rate limit. */
function rateLimitPause(error: SyncError): number {
  if (error.code !== 'rate_limited') return 0;
  return Math.min(LONGEST_PAUSE, Math.max(1_000, error.retryAfter ?? DEFAULT_PAUSE));
}

/**
 * Wraps the HTTP client of one connection. While a limit that the vendor reported lasts, it sends nothing and throws
 * `rate_limited`. Callers check the pauses before they begin, but a limit may come between two requests of one
 * operation.
 */
export function withRateLimitGuard(http: HttpClient, connection: string, pauses: Pauses): HttpClient {
  return {
    async request(request) {
      const retryAfter = pauses.vendorLimitLeft(connection);
      if (retryAfter > 0)
        throw new SyncError('rate_limited', `the provider wants to be left alone for ${duration(retryAfter)}`, {
          retryAfter,
          hint: 'worksync continues by itself when this time is over. If this happens often, poll less often, or give worksync a credential of its own.',
        });
      return http.request(request);
    },
    close: () => http.close(),
  };
}

/**
 * Wraps a connection so that each limit that the vendor reports is recorded, whatever caused the request. So a limit
 * that a command meets pauses the polls too.
 */
export function recordRateLimits(connection: Connection, name: string, pauses: Pauses): Connection {
  return withFailureHandler(connection, (thrown) => {
    const error = asSyncError(thrown);
    if (error.status !== undefined) pauses.recordFailure(name, error, 'background');
    throw thrown;
  });
}

/** Wraps all functions of an object and of the objects in it. All of them are asynchronous. */
function withFailureHandler<Part extends object>(part: Part, onFailure: (thrown: unknown) => never): Part {
  const wrap = (value: unknown): unknown => {
    if (typeof value === 'function')
      return async (...args: unknown[]): Promise<unknown> => {
        try {
          return await value.apply(part, args);
        } catch (thrown) {
          return onFailure(thrown);
        }
      };
    return typeof value === 'object' && value !== null ? withFailureHandler(value, onFailure) : value;
  };
  return Object.fromEntries(Object.entries(part).map(([key, value]) => [key, wrap(value)])) as Part;
}
