import type { Fence } from '../store/leases.ts';

/** What a process may do with a workspace that it holds. */
export interface Lease {
  /** Whether certainly nobody else holds it at this moment. Asked right before something leaves the process. */
  isTrusted(): boolean;
  /** Aborted when it is trusted no more. Absent: that never happens. */
  readonly lost?: AbortSignal;
  /** What each commit begins with. Absent: there is nobody to be kept out. */
  readonly fence?: Fence;
}

/** Knows which workspaces this process holds. */
export interface Holder {
  /** What it takes its share of from now on; a name that is not among them is given back. Never rejects. */
  want(workspaces: readonly string[]): Promise<void>;
  /** Undefined where the process does not hold it, or is to leave it. Another one each time that it is taken anew. */
  leaseOf(workspace: string): Lease | undefined;
  /** Called after each change of the owned workspaces. What is to be left is given back when the call has resolved. */
  onChange(call: () => Promise<void>): void;
  /** Gives everything back. Nobody works on any of it any more. */
  stop(): Promise<void>;
}

const WITHOUT_END: Lease = { isTrusted: () => true };

/** The one process whose data folder it is: it holds everything, and nothing is asked or written for that. */
export const soleHolder: Holder = {
  want: async () => undefined,
  leaseOf: () => WITHOUT_END,
  onChange: () => undefined,
  stop: async () => undefined,
};
