import { CALLERS, readCaller } from '../../model/caller.ts';
import type { Clock } from '../../platform/lib/clock.ts';
import { addQuotaUse, quotaCallersIn, raiseQuotaUse } from '../../store/quota-use.ts';
import type { Scope } from '../../store/workspace-scope.ts';
import type { Observed } from './cooldown.ts';

/** Length of what is counted together, milliseconds. */
export const QUARTER = 15 * 60_000;
/** Tokens and keys that are counted apart in one quarter: more would be rows that somebody makes up. */
const MOST_APART = 64;
const UNAUTHORIZED = 401;
const TOO_MANY = 429;

/** Counts who used the quota, quarter by quarter. It decides nothing. */
export interface UseCount {
  /** In the transaction that stores how the request ended. */
  add(query: Scope, request: { readonly caller: string; readonly status: number | undefined }): Promise<void>;
  /** A refusal shows what others have used at least. */
  addOthers(query: Scope, observed: Observed): Promise<void>;
}

export function quarterOf(time: number): number {
  return Math.floor(time / QUARTER) * QUARTER;
}

export function createUseCount(clock: Clock): UseCount {
  /** Tokens and keys that have a row in the present quarter. */
  let apart = { since: Number.NaN, callers: new Set<string>() };

  async function placeOf(query: Scope, since: number, caller: string, status: number | undefined): Promise<string> {
    const { kind } = readCaller(caller);
    if (kind !== 'token' && kind !== 'key') return caller;
    // Whoever makes credentials up takes no row from those that exist.
    if (kind === 'key' && status === UNAUTHORIZED) return CALLERS.wrongKeys;
    if (apart.since !== since) {
      const known = await quotaCallersIn(query, since);
      apart = { since, callers: new Set(known.filter((each) => ['token', 'key'].includes(readCaller(each).kind))) };
    }
    if (!apart.callers.has(caller) && apart.callers.size >= MOST_APART) return CALLERS.otherKeys;
    apart.callers.add(caller);
    return caller;
  }

  return {
    async add(query, { caller, status }) {
      const since = quarterOf(clock.now());
      await addQuotaUse(query, since, await placeOf(query, since, caller, status), status === TOO_MANY ? 1 : 0);
    },
    async addOthers(query, observed) {
      const least = leastOfOthers(observed);
      if (least > 0) await raiseQuotaUse(query, quarterOf(clock.now()), CALLERS.others, least);
    },
  };
}

/** Where the refusal does not tell which window was full, the smaller of the two counts is certain. */
export function leastOfOthers({ window, othersLong, othersBurst }: Observed): number {
  const counts = [...(window === 'burst' ? [] : [othersLong]), ...(window === 'long' ? [] : [othersBurst])];
  const known = counts.filter((count) => count !== null);
  return known.length === 0 ? 0 : Math.min(...known);
}
