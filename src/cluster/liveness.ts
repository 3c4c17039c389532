import type { RenewedReplica } from '../store/leases.ts';

/** Detects expired processes. Times are milliseconds of a clock that is never set. */
export interface ExpiryReaper {
  /**
   * Returns the processes that have not renewed for one TTL.
   *
   * @param read the rows of all other processes, and the times before and after they were read
   */
  expired(read: {
    readonly replicas: readonly RenewedReplica[];
    readonly began: number;
    readonly ended: number;
  }): readonly RenewedReplica[];
  /** Returns the time at which the next process expires unless it renews; Infinity if there is none. */
  nextExpiry(): number;
}

/**
 * A process trusts its leases until one TTL after the start of a renewal, and other processes can read a renewal only after its
 * start. So if they have read the same renewal for a whole TTL, by their own elapsed time, that trust is over. The stored expiry is
 * only compared for changes. If the database's clock was set back, a dead process is not kept alive; if it was set ahead, no living
 * process loses its leases.
 */
export function createExpiryReaper(ttl: number): ExpiryReaper {
  let renewals = new Map<string, { readonly expiresAt: number; readonly since: number }>();
  return {
    expired({ replicas, began, ended }) {
      const previous = renewals;
      renewals = new Map(
        replicas.map(({ incarnation, expires_at: expiresAt }) => {
          const known = previous.get(incarnation);
          return [incarnation, known?.expiresAt === expiresAt ? known : { expiresAt, since: ended }];
        }),
      );
      return replicas.filter(({ incarnation }) => began - (renewals.get(incarnation)?.since ?? began) >= ttl);
    },
    nextExpiry: () => Math.min(...[...renewals.values()].map(({ since }) => since + ttl)),
  };
}

/** Detects configured workspaces that have no owner. Workspaces are given by their numbers. */
export interface UnownedMonitor {
  /** Whether it is time for another check. */
  isDue(): boolean;
  /** Records the workspaces that a check found without an owner. */
  record(free: readonly number[]): void;
  /** Returns the workspaces without an owner at two checks in a row or more, with the time since the first, milliseconds. */
  unowned(): ReadonlyMap<number, number>;
}

/** Time between two checks, milliseconds. A lease that moves between processes has no owner for less. */
const CHECK_EVERY = 10_000;

/** @param elapsed elapsed milliseconds of a clock that is never set */
export function createUnownedMonitor(elapsed: () => number): UnownedMonitor {
  let since = new Map<number, number>();
  let checkedAt = elapsed();
  return {
    isDue: () => elapsed() - checkedAt >= CHECK_EVERY,
    record(free) {
      checkedAt = elapsed();
      since = new Map(free.map((workspace) => [workspace, since.get(workspace) ?? checkedAt]));
    },
    unowned() {
      const repeated = [...since].filter(([, first]) => first < checkedAt);
      return new Map(repeated.map(([workspace, first]) => [workspace, elapsed() - first]));
    },
  };
}
