import type { Clock } from '../../platform/lib/clock.ts';
import { type Budget, createBudget, providerTime } from '../kit/rate-limit.ts';

const HOUR = 3_600_000;
/** The share of the limit that is left at most once Bitbucket says that the limit is near (BB3). */
const NEAR = 0.2;

/**
 * Bitbucket counts the requests of the last hour. It says how many it allows and whether the limit is near, not how many are
 * left. So worksync counts its own; only that hint shows other users of the same credential.
 */
export function createHourlyBudget(clock: Clock, standard: number): Budget {
  const sent: number[] = [];
  let limit = standard;
  const budget = createBudget(clock, (headers) => {
    const said = headers['x-ratelimit-limit'];
    if (said !== undefined && /^[1-9]\d{0,6}$/.test(said)) limit = Number(said);
    const isNear = headers['x-ratelimit-nearlimit']?.toLowerCase() === 'true';
    const left = Math.max(0, limit - sent.length);
    const oldest = sent[0] ?? clock.monotonic();
    return {
      limit,
      remaining: isNear ? Math.min(left, Math.floor(limit * NEAR)) : left,
      resetAt: (providerTime({ headers }) ?? clock.now()) + HOUR - (clock.monotonic() - oldest),
    };
  });
  return {
    require: budget.require,
    update(answer) {
      const now = clock.monotonic();
      sent.push(now);
      while (now - (sent[0] ?? now) >= HOUR) sent.shift();
      budget.update(answer);
    },
  };
}
