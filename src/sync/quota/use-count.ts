import { CALLERS, readCaller } from '../../model/caller.ts';
import type { Clock } from '../../platform/lib/clock.ts';
import { addQuotaUse, quotaCallersIn, raiseQuotaUse } from '../../store/ledger.ts';
import type { Scope } from '../../store/workspace-scope.ts';
import type { ObservedUse } from './cooldown.ts';

/** Length of a counting interval, milliseconds. */
export const QUARTER = 15 * 60_000;
/** Most tokens and keys with a row per interval, because anyone can invent credentials. */
const MAX_CREDENTIALS = 64;
const UNAUTHORIZED = 401;
const TOO_MANY_REQUESTS = 429;

/** Counts requests by caller and quarter of an hour. Has no effect on decisions. */
export interface UseCount {
  /** Counts a request, in the transaction that stores how it ended. */
  add(query: Scope, request: { readonly caller: string; readonly status: number | undefined }): Promise<void>;
  /** Stores the least use by others that a refusal proves. */
  addOthers(query: Scope, observed: ObservedUse): Promise<void>;
}

export function quarterOf(time: number): number {
  return Math.floor(time / QUARTER) * QUARTER;
}

export function createUseCount(clock: Clock): UseCount {
  /** Tokens and keys with a row in the present interval. */
  let counted = { since: Number.NaN, callers: new Set<string>() };

  async function rowOf(query: Scope, since: number, caller: string, status: number | undefined): Promise<string> {
    const { kind } = readCaller(caller);
    if (kind !== 'token' && kind !== 'key') return caller;
    // Invented credentials must not use up the rows of real ones.
    if (kind === 'key' && status === UNAUTHORIZED) return CALLERS.wrongKeys;
    if (counted.since !== since) {
      const stored = await quotaCallersIn(query, since);
      const credentials = stored.filter((each) => ['token', 'key'].includes(readCaller(each).kind));
      counted = { since, callers: new Set(credentials) };
    }
    if (!counted.callers.has(caller) && counted.callers.size >= MAX_CREDENTIALS) return CALLERS.otherKeys;
    counted.callers.add(caller);
    return caller;
  }

  return {
    async add(query, { caller, status }) {
      const since = quarterOf(clock.now());
      const row = await rowOf(query, since, caller, status);
      await addQuotaUse(query, since, row, status === TOO_MANY_REQUESTS ? 1 : 0);
    },
    async addOthers(query, observed) {
      const least = leastOfOthers(observed);
      if (least > 0) await raiseQuotaUse(query, quarterOf(clock.now()), CALLERS.others, least);
    },
  };
}

/** The certain use by others: the smaller count if the full window is unknown. */
export function leastOfOthers({ window, othersLong, othersBurst }: ObservedUse): number {
  const counts = [...(window === 'burst' ? [] : [othersLong]), ...(window === 'long' ? [] : [othersBurst])];
  const known = counts.filter((count) => count !== null);
  return known.length === 0 ? 0 : Math.min(...known);
}
