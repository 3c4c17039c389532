import { asSyncError } from '../../model/errors.ts';
import { type Clock, sleep } from '../../platform/lib/clock.ts';
import type { OpenWorkspace } from '../open-workspace.ts';
import type { WorkspaceStatus } from '../status/status.ts';

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

export function notPolled(workspace: string): OnceResult {
  return { workspace, pullRequests: 0, links: 0, left: 0, failures: ['the replica that works on it did not answer'] };
}

const POLL_EVERY = 50;
/** Milliseconds of waiting beyond the short window that still count as spacing requests out. */
const MARGIN = 5_000;

/**
 * Waits until a running partition has processed all deliveries and sent all changes, or until the quota allows nothing for longer
 * than its short window, or nothing reaches the workspace. Throws the fault of the database if nothing can be processed.
 *
 * @returns how many deliveries and changes are left
 */
export async function drained(partition: OpenWorkspace, clock: Clock, signal?: AbortSignal): Promise<number> {
  for (;;) {
    const fault = partition.store.fault();
    if (fault) throw asSyncError(fault);
    const status = await partition.status();
    const { deliveries, changes, connections } = status;
    const fetches = connections.reduce((sum, connection) => sum + connection.fetches, 0);
    const left = deliveries.pending + changes.byState.pending + changes.byState.sending + fetches;
    if (left === 0 && partition.outbox.inFlight === 0) return changes.byState.unknown + changes.byState.held;
    if (signal?.aborted || (isStuck(status, clock.now()) && deliveries.pending === 0)) return left;
    await sleep(clock, POLL_EVERY, signal);
  }
}

/** Whether nothing reaches the workspace, or the quota allows nothing for longer than the short window. */
export function isStuck({ quota, state }: WorkspaceStatus, now: number): boolean {
  const pausedFor = (quota.paused?.until ?? 0) - now;
  const nextSlot = quota.nextSlotAt === null ? 0 : quota.nextSlotAt - now;
  return state.kind === 'halted' || Math.max(pausedFor, nextSlot) > quota.burst.window + MARGIN;
}
