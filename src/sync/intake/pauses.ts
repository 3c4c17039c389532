import type { Connection } from '../../connectors/connector.ts';
import { asSyncError, SyncError } from '../../model/errors/sync-error.ts';
import type { HttpClient } from '../../platform/http/http-client.ts';
import type { Clock } from '../../platform/lib/clock.ts';
import { duration } from '../../platform/lib/quantities.ts';

/** The pause when a provider limits us and names no time, milliseconds. */
const UNNAMED = 60_000;
/** However long a provider asks to wait, it is asked again after this, milliseconds. */
const LONGEST = 3_600_000;

/**
 * What a connection's limit is used for, the most urgent first: each leaves something to those before it. What is written to the
 * provider goes as a fetch.
 */
const USES = ['fetch', 'poll', 'background'] as const;
export type Use = (typeof USES)[number];

/**
 * Connections whose provider must not be asked for a while; all that ask a provider share this: polls, fetches, backfills, sweeps,
 * and what is written to it. Forgotten at a restart.
 */
export interface Pauses {
  /** Milliseconds left; 0 where the connection is free for this use. */
  left(connection: string, use: Use): number;
  /** Milliseconds for which the provider itself wants to be left alone, whatever it is asked for. */
  toldLeft(connection: string): number;
  /** Pauses for `ms`, for this use and what is less urgent; a longer pause that runs already stays. */
  pause(connection: string, ms: number, from?: Use): void;
  /**
   * Notes why a request failed. A limit that the provider told of is everybody's; one that was kept without asking it, to
   * leave something to what is more urgent, holds for this use and those after it.
   *
   * @returns how long it pauses, milliseconds; 0 where the error is no limit
   */
  note(connection: string, error: SyncError, use: Use): number;
}

export function createPauses(clock: Clock): Pauses {
  const until = new Map<string, number>();
  const leftOf = (key: string) => Math.max(0, (until.get(key) ?? 0) - clock.monotonic());
  const extend = (key: string, ms: number) => void until.set(key, clock.monotonic() + Math.max(leftOf(key), ms));
  const pause = (connection: string, ms: number, from: Use = 'fetch') => {
    for (const use of USES.slice(USES.indexOf(from))) extend(`${use} ${connection}`, ms);
  };
  return {
    left: (connection, use) => leftOf(`${use} ${connection}`),
    toldLeft: (connection) => leftOf(`told ${connection}`),
    pause,
    note(connection, error, use) {
      const ms = limitPause(error);
      const isTold = error.status !== undefined;
      if (ms > 0) pause(connection, ms, isTold ? 'fetch' : use);
      if (ms > 0 && isTold) extend(`told ${connection}`, ms);
      return ms;
    },
  };
}

/** How long a connection pauses because of this error: 0 unless it is a limit. */
function limitPause(error: SyncError): number {
  if (error.code !== 'rate_limited') return 0;
  return Math.min(LONGEST, Math.max(1_000, error.retryAfter ?? UNNAMED));
}

/**
 * The client of one connection: it sends nothing while the provider wants to be left alone, and throws `rate_limited`. Who asks
 * looks at the pauses before it begins; where it takes several requests, another one may be refused between them.
 */
export function withRateLimitGuard(http: HttpClient, connection: string, pauses: Pick<Pauses, 'toldLeft'>): HttpClient {
  return {
    async request(request) {
      const retryAfter = pauses.toldLeft(connection);
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
 * The connection, from which the pauses learn each limit that the provider tells of, whoever asked: what a person's command hears
 * concerns the polls too.
 */
export function recordRateLimits(connection: Connection, name: string, pauses: Pick<Pauses, 'note'>): Connection {
  const note = (thrown: unknown): never => {
    const error = asSyncError(thrown);
    if (error.status !== undefined) pauses.note(name, error, 'background');
    throw thrown;
  };
  return withFailuresSeen(connection, note);
}

/** All that such an object does is asked for and may fail; parts of it are the same. */
function withFailuresSeen<Part extends object>(part: Part, onFailure: (thrown: unknown) => never): Part {
  const seen = (each: unknown): unknown => {
    if (typeof each === 'function')
      return async (...given: unknown[]): Promise<unknown> => {
        try {
          return await each.apply(part, given);
        } catch (thrown) {
          return onFailure(thrown);
        }
      };
    return typeof each === 'object' && each !== null ? withFailuresSeen(each, onFailure) : each;
  };
  return Object.fromEntries(Object.entries(part).map(([key, each]) => [key, seen(each)])) as Part;
}
