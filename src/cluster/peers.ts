import type { LeaseOwner, RenewedReplica, Replica } from '../store/installation/leases.ts';

/** The facts that a process reports about itself, stored as JSON beside its leases. */
export interface ReplicaFacts {
  /** The version of the program. */
  readonly version: string;
  /** A keyed hash of the configured workspaces. All processes of an installation should have the same one. */
  readonly config: string;
  /** Epoch milliseconds, by its own clock. */
  readonly startedAt: number;
  /** The name of its machine or container. */
  readonly host: string;
  /** The address of its pages and admin API; absent: its only address. */
  readonly adminAddress?: string | undefined;
}

/** One of the processes that share a database, as of the last renewal. This process is one of them. */
export interface Peer extends ReplicaFacts {
  readonly id: string;
  /** The address at which other processes reach it; empty until it listens. */
  readonly address: string;
  readonly isOwn: boolean;
}

export type Peers = ReturnType<typeof createPeers>;

/**
 * Creates the facts about this process and its peers.
 *
 * @param id of this process
 * @param address returns the address at which other processes reach this one
 */
export function createPeers(id: string, address: () => string, facts: () => ReplicaFacts) {
  let living: readonly Peer[] = [];
  let parsed: ReadonlyMap<string, ReplicaFacts> = new Map();
  /** Returns the peer that a row describes. */
  const peerOf = (owner: LeaseOwner): Peer => ({
    ...(parsed.get(owner.about) ?? parseFacts(owner.about)),
    id: owner.id,
    address: owner.address,
    isOwn: owner.id === id,
  });
  /** Returns the row of this process. */
  const own = (): Omit<Replica, 'incarnation'> => ({ id, address: address(), about: JSON.stringify(facts()) });
  return {
    own,
    /** Whether the stored row of this process differs from its present facts. */
    isOutdated(replicas: readonly RenewedReplica[]): boolean {
      const present = own();
      const stored = replicas.find((each) => each.id === id);
      return stored !== undefined && (stored.about !== present.about || stored.address !== present.address);
    },
    /** Replaces the known peers. */
    update(replicas: readonly RenewedReplica[]): void {
      // Parsed facts are reused, because this runs twice a second and they rarely change.
      parsed = new Map(replicas.map(({ about }) => [about, parsed.get(about) ?? parseFacts(about)]));
      living = replicas.map(peerOf);
    },
    /** Returns the known peers, and this process. */
    all: () => living,
    peerOf,
  };
}

/** Reads facts of any version: a newer one may report more, an older one less. */
function parseFacts(text: string): ReplicaFacts {
  const {
    version = '',
    config = '',
    startedAt = 0,
    host = '',
    adminAddress,
  } = JSON.parse(text) as Partial<ReplicaFacts>;
  return { version, config, startedAt, host, adminAddress };
}

/**
 * Returns how many of `total` workspaces the process `own` should own. All processes compute it from the same list, so their
 * shares add up to `total`.
 *
 * @param living all living processes, in the same order at each of them
 */
export function shareOf(total: number, living: readonly Pick<Replica, 'id'>[], own: string): number {
  const rank = living.findIndex(({ id }) => id === own);
  if (rank === -1) return 0;
  const even = Math.floor(total / living.length);
  return rank < total % living.length ? even + 1 : even;
}
