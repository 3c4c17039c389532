import { asSyncError } from '../model/errors/sync-error.ts';
import { type Clock, sleep } from '../platform/lib/clock.ts';
import type { OpenWorkspace } from './open-workspace.ts';
import type { WorkspaceStatus } from './status.ts';

/** How often the state is looked at while waiting, milliseconds. */
const LOOK_EVERY = 50;
/** Waits that only space requests out within the short window are part of draining; longer ones are not. */
const MARGIN = 5_000;

/**
 * Waits until a running partition has processed all deliveries and sent all changes, or until the quota lets nothing
 * more through for longer than its short window, or nothing gets through to the workspace at all.
 *
 * @returns how many deliveries and changes are left
 * Throws what is wrong with the database, where that keeps everything from being taken over.
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
    await sleep(clock, LOOK_EVERY, signal);
  }
}

/** Whether nothing gets through to the workspace, or nothing may for longer than the short window. */
export function isStuck({ quota, state }: WorkspaceStatus, now: number): boolean {
  const pausedFor = (quota.paused?.until ?? 0) - now;
  const nextSlot = quota.nextSlotAt === null ? 0 : quota.nextSlotAt - now;
  return state.kind === 'halted' || Math.max(pausedFor, nextSlot) > quota.burst.window + MARGIN;
}
