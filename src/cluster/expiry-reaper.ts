import type { RenewedReplica } from '../store/leases.ts';

/** Judges which of the other processes have expired. */
export interface ExpiryReaper {
  /**
   * Those that were seen without a renewal for one TTL.
   *
   * @param read what was read of all, and when the reading began and ended
   */
  lapsed(read: {
    readonly replicas: readonly RenewedReplica[];
    readonly began: number;
    readonly ended: number;
  }): readonly RenewedReplica[];
  /** When the next one lapses unless it is renewed; Infinity where there is none. */
  next(): number;
}

/**
 * A holder trusts its leases until one TTL after the begin of a renewal, and a renewal begins before anybody sees it. So who has
 * seen the same one for a whole TTL knows that the trust in it is over, by the time that passed here, whatever was done to any
 * clock: an expiry that lies hours ahead, since the database's clock was set back, keeps nobody waiting, and one that is over,
 * since it was set ahead, takes nothing from who lives.
 *
 * Moments are milliseconds of a clock that nobody sets.
 */
export function createExpiryReaper(ttl: number): ExpiryReaper {
  let seen = new Map<string, { readonly expiresAt: number; readonly since: number }>();
  return {
    lapsed({ replicas, began, ended }) {
      const before = seen;
      seen = new Map(
        replicas.map(({ incarnation, expires_at: expiresAt }) => {
          const known = before.get(incarnation);
          return [incarnation, known?.expiresAt === expiresAt ? known : { expiresAt, since: ended }];
        }),
      );
      return replicas.filter(({ incarnation }) => began - (seen.get(incarnation)?.since ?? began) >= ttl);
    },
    next: () => Math.min(...[...seen.values()].map(({ since }) => since + ttl)),
  };
}
