import { SyncError } from '../../model/errors/sync-error.ts';
import type { HttpAnswer } from '../../platform/http/http-client.ts';
import { boundedWait } from '../../platform/http/provider-errors.ts';
import type { Clock } from '../../platform/lib/clock.ts';
import { purposeNow } from '../../platform/lib/purpose.ts';
import { providerTime } from './answers.ts';

/** What a request is for. Others use the same limit, and what people wait for comes first. */
export type Use = 'fetch' | 'poll' | 'background';

/** The share of the limit that may be used to confirm the items of a restored database. */
const OF_RESTORE = 0.2;

/** The share of the limit that each use leaves to more urgent ones; backfills and sweeps are the background. */
const LEAVES: Readonly<Record<Use, number>> = { fetch: 0, poll: 0.1, background: 0.5 };

/** What the vendor says is left. */
export interface Rate {
  readonly limit: number;
  readonly remaining: number;
  /** When the whole limit is there again, epoch milliseconds by the provider's clock. */
  readonly resetAt: number;
}

/** The requests that one connection has left, as the vendor's answers tell. Before the first answer nothing is known. */
export interface Budget {
  /**
   * Throws `rate_limited` where no more is left than this use must leave to others; the caller then sends nothing. What is done for
   * the purpose `restore` counts as background, and takes at most a fifth of the limit.
   */
  require(use: Use): void;
  learn(answer: HttpAnswer): void;
}

const SECOND = 1_000;

/** @param rateOf reads the vendor's headers; undefined where the answer tells nothing */
export function createBudget(clock: Clock, rateOf: (headers: HttpAnswer['headers']) => Rate | undefined): Budget {
  let known: (Rate & { readonly until: number }) | undefined;
  /** Requests because of a restore, in a period of their own: some vendors move the end of theirs with each answer. */
  let restore = { requests: 0, until: 0 };

  function requireFor(use: Use): void {
    const left = known ? known.until - clock.monotonic() : 0;
    if (!known || left <= 0 || known.remaining > known.limit * LEAVES[use]) return;
    const { remaining, limit } = known;
    throw keptForOthers(`${remaining} of ${limit} requests are left`, left);
  }

  function requireForRestore(): void {
    requireFor('background');
    const now = clock.monotonic();
    if (!known) return;
    if (now >= restore.until) restore = { requests: 0, until: known.until };
    const most = Math.max(1, Math.floor(known.limit * OF_RESTORE));
    if (restore.requests >= most && restore.until > now)
      throw keptForOthers(`the restore has used ${restore.requests} of ${known.limit} requests`, restore.until - now);
    restore.requests += 1;
  }

  return {
    require(use) {
      if (purposeNow() === 'restore') requireForRestore();
      else requireFor(use);
    },
    learn(answer) {
      const rate = rateOf(answer.headers);
      if (!rate || !(rate.limit > 0)) return;
      // Answers may overtake each other: within one period what is left only shrinks. A period ends with its longest wait.
      const isSamePeriod = known?.resetAt === rate.resetAt && clock.monotonic() < known.until;
      const remaining = known && isSamePeriod ? Math.min(known.remaining, rate.remaining) : rate.remaining;
      const wait = boundedWait(rate.resetAt - (providerTime(answer) ?? clock.now()) + SECOND);
      known = { ...rate, remaining, until: clock.monotonic() + wait };
    },
  };
}

function keptForOthers(what: string, retryAfter: number): SyncError {
  return new SyncError('rate_limited', `${what}, and worksync keeps the others for more urgent uses`, {
    retryAfter,
    hint: 'worksync continues by itself when the limit resets. If this happens often, poll less often, or give worksync a credential of its own.',
  });
}

/** `<prefix>-limit`, `-remaining` and `-reset`, as several vendors name them. @param unit of the reset, milliseconds */
export function rateFrom(headers: HttpAnswer['headers'], prefix: string, unit = SECOND): Rate | undefined {
  const [limit, remaining, reset] = ['limit', 'remaining', 'reset'].map((name) => headers[`${prefix}-${name}`]);
  if (![limit, remaining, reset].every((text) => text !== undefined && /^\d{1,15}$/.test(text))) return undefined;
  return { limit: Number(limit), remaining: Number(remaining), resetAt: Number(reset) * unit };
}
