import type { Clock } from '../platform/lib/clock.ts';
import { drained } from './drain.ts';
import type { OpenWorkspace } from './open-workspace.ts';

export interface OnceResult {
  readonly workspace: string;
  readonly pullRequests: number;
  readonly links: number;
  /** Deliveries and changes that remain because of the quota, or because they need approval. */
  readonly left: number;
  /** The fault that blocks the workspace, and the connections whose last poll failed: the stored state may be incomplete. */
  readonly failures: readonly string[];
}

/**
 * Polls everything that a running partition follows, and waits until it is sent as far as the quota allows.
 *
 * @param patience longest wait for that, milliseconds
 */
export async function pollOnce(partition: OpenWorkspace, clock: Clock, patience: number): Promise<OnceResult> {
  const over = new AbortController();
  const cancel = clock.after(patience, () => over.abort());
  await partition.polls.pollNow();
  const left = await drained(partition, clock, over.signal);
  cancel();
  const { pullRequests, links, connections, state } = await partition.status();
  const halt = state.kind === 'halted' ? [`workspace: ${state.code}: ${state.message}`] : [];
  const polls = connections.flatMap(({ name, failure }) => (failure ? [`${name}: ${failure.message}`] : []));
  const failures = [...halt, ...polls];
  return { workspace: partition.name, pullRequests: pullRequests.total, links: links.total, left, failures };
}

/** Returns the result for a workspace whose replica did not answer. */
export function notPolled(workspace: string): OnceResult {
  return { workspace, pullRequests: 0, links: 0, left: 0, failures: ['the replica that works on it did not answer'] };
}
