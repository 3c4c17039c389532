// Design: src/decisions/leases.md

import type { Fence } from '../store/leases.ts';
import type { SeenReplica } from './replica-facts.ts';

/** A process's right to work on a workspace that it owns. */
export interface Lease {
  /** Whether certainly nobody else owns it at this moment. Asked right before the process sends something. */
  isTrusted(): boolean;
  /** Aborted when the lease is no longer trusted. Absent: that never happens. */
  readonly lost?: AbortSignal;
  /** The fence that each commit begins with. Absent: there is no other process. */
  readonly fence?: Fence;
}

/** A workspace, and since how many milliseconds it has been as it is. */
export interface Kept {
  readonly workspace: string;
  readonly since: number;
}

/** Knows which workspaces this process owns. */
export interface LeaseHolder {
  /** Sets the workspaces that the process takes its share of; gives back those that are not among them. Never rejects. */
  want(workspaces: readonly string[]): Promise<void>;
  /** Undefined if the process does not own it, or must give it back. Another one each time that it is taken anew. */
  leaseOf(workspace: string): Lease | undefined;
  /** Called after each change of the owned workspaces. A workspace to leave is given back when the call has resolved. */
  onChange(call: () => Promise<void>): void;
  /** The processes that share the database, as the last renewal saw them; none where it is the only one. */
  replicas(): readonly SeenReplica[];
  /** The process that owns the workspace, perhaps this one; undefined where nobody owns it. */
  ownerOf(workspace: string): Promise<SeenReplica | undefined>;
  /** Who owns which workspace, of all of them. */
  owners(): Promise<ReadonlyMap<string, SeenReplica>>;
  /** What this process holds. */
  held(): readonly Kept[];
  /** What it should hold or another one, and nobody has held for ten seconds or longer. */
  unheld(): readonly Kept[];
  /** Milliseconds since its leases were last renewed; undefined where nothing is ever renewed. */
  renewedAgo(): number | undefined;
  /** Gives everything back. Nobody works on any of it any more. */
  stop(): Promise<void>;
}

const WITHOUT_END: Lease = { isTrusted: () => true };

/** The only process of a data folder: it owns everything, without asking or writing anything. */
export const soleHolder: LeaseHolder = {
  want: async () => undefined,
  leaseOf: () => WITHOUT_END,
  onChange: () => undefined,
  replicas: () => [],
  ownerOf: async () => undefined,
  owners: async () => new Map(),
  held: () => [],
  unheld: () => [],
  renewedAgo: () => undefined,
  stop: async () => undefined,
};
