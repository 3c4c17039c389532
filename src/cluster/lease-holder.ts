// Design: src/decisions/leases.md

import { SyncError } from '../model/errors.ts';
import type { HttpClient } from '../platform/http/http-client.ts';
import type { Fence } from '../store/installation/leases.ts';
import type { Peer } from './peers.ts';

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
