// Design: src/decisions/leases.md

import { SyncError } from '../model/errors.ts';
import type { HttpClient } from '../platform/http/http-client.ts';
import type { Fence, LeaseOwner, RenewedReplica, Replica } from '../store/installation/leases.ts';

/** The right of a process to work on a workspace. */
export interface Lease {
  /** Whether certainly no other process owns the workspace now. Checked right before each request is sent. */
  isTrusted(): boolean;
  /** Aborted when the lease is no longer trusted. Absent: it never ends. */
  readonly lost?: AbortSignal;
  /** The fence with which each commit begins. Absent: this is the only process. */
  readonly fence?: Fence;
}

/** A workspace, and the time for which it has had or lacked an owner, milliseconds. */
export interface OwnershipAge {
  readonly workspace: string;
  readonly since: number;
}

/** Acquires the leases of this process's share of the workspaces, renews them, and gives them back. */
export interface LeaseHolder {
  /** Sets the configured workspaces. Gives back workspaces that are not among them. Never rejects. */
  want(workspaces: readonly string[]): Promise<void>;
  /** Returns undefined if this process does not own the workspace or must give it back. Each acquisition has a new lease. */
  leaseOf(workspace: string): Lease | undefined;
  /** Registers a call after each change of the owned workspaces. A workspace is given back when the call has resolved. */
  onChange(call: () => Promise<void>): void;
  /** Returns the processes that share the database, as of the last renewal; empty if this is the only one. */
  replicas(): readonly Peer[];
  /** Returns the process that owns the workspace, perhaps this one; undefined if it has no owner. */
  ownerOf(workspace: string): Promise<Peer | undefined>;
  /** Returns the owners of all workspaces, by name. */
  owners(): Promise<ReadonlyMap<string, Peer>>;
  /** Returns the workspaces that this process owns. */
  owned(): readonly OwnershipAge[];
  /** Returns configured workspaces that have had no owner for at least 10 s. */
  unowned(): readonly OwnershipAge[];
  /** Returns the time since the last renewal, milliseconds; undefined if leases are never renewed. */
  renewedAgo(): number | undefined;
  /** Gives all workspaces back. The caller must have stopped all work on them. */
  stop(): Promise<void>;
}

const UNLIMITED: Lease = { isTrusted: () => true };

/** The holder for the only process of a data folder. It owns everything, and runs no queries. */
export const soleHolder: LeaseHolder = {
  want: async () => undefined,
  leaseOf: () => UNLIMITED,
  onChange: () => undefined,
  replicas: () => [],
  ownerOf: async () => undefined,
  owners: async () => new Map(),
  owned: () => [],
  unowned: () => [],
  renewedAgo: () => undefined,
  stop: async () => undefined,
};

/**
 * Checks the lease right before each request to the workspace or to a vendor, because a process that was suspended between two
 * requests has no other way to notice in time. Throws `lease_lost` if the lease is not trusted; nothing was sent then.
 */
export function fencedHttpClient(http: HttpClient, lease: Lease): HttpClient {
  if (!lease.fence) return http;
  return {
    ...http,
    async request(request) {
      if (!lease.isTrusted()) throw new SyncError('lease_lost', 'another process may own the workspace by now');
      return http.request(request);
    },
  };
}

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
