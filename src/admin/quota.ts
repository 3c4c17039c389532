import { LANES, type Lane } from '../model/lane.ts';
import type { Clock } from '../platform/lib/clock.ts';
import { waitingByLane } from '../store/changes/outbox-rows.ts';
import { readCounts, sumOf } from '../store/status/counts.ts';
import { readLastDueAt } from '../store/status/queue-status.ts';
import type { Throttle } from '../sync/quota/throttle.ts';
import type { OpenWorkspace } from './open-workspace.ts';

/** The present quota of one workspace, and a forecast for the pending requests. Times are epoch milliseconds. */
export interface QuotaReport extends Omit<ReturnType<Throttle['snapshot']>, 'waiting'> {
  readonly at: number;
  /** Changes that wait in each lane; commands and callers of the gateway are `interactive`. */
  readonly lanes: Readonly<Record<Lane, number>>;
  /** Expected time of the last waiting request, by quota and due time, if no more work arrives and nothing is refused. */
  readonly forecast: {
    readonly requests: number;
    /** Requests of backfills among them. */
    readonly backfill: number;
    readonly drainedAt: number;
    /** Changes that need approval: they are not among the requests. */
    readonly held: number;
  };
}

export async function describeQuota({ store, throttle }: OpenWorkspace, clock: Clock): Promise<QuotaReport> {
  const { waiting, ...snapshot } = throttle.snapshot();
  const lanes = Object.fromEntries(LANES.map((lane) => [lane, 0])) as Record<Lane, number>;
  for (const { lane, count } of await waitingByLane(store.query)) lanes[lane] = count;
  lanes.interactive += waiting.interactive;
  const requests = Object.values(lanes).reduce((sum, count) => sum + count, 0);
  const { changes } = await readCounts(store.query);
  const held = sumOf(changes, ({ state }) => state === 'held');
  const lastDueAt = (await readLastDueAt(store.query)) ?? 0;
  const drainedAt = Math.max(throttle.drainedAt(requests, lanes.backfill), lastDueAt);
  const forecast = { requests, backfill: lanes.backfill, drainedAt, held };
  return { ...snapshot, at: clock.now(), lanes, forecast };
}

/** The effect of more requests in the lane of backfills on the present state. It changes with the share and with live work. */
export interface Admission {
  readonly requests: number;
  /** The time at which the last of them can be sent, epoch milliseconds. */
  readonly drainedAt: number;
  /** Requests in each long window: recent live work, these requests, and slots that stay free for live work. */
  readonly perWindow: { readonly live: number; readonly backfill: number; readonly free: number } | null;
  /** A reason to wait; null if there is none. */
  readonly objection: string | null;
}

/** A backfill is too slow if less than this part of the background's share is free. */
const LITTLE = 0.1;

export function admissionOf(throttle: Throttle, clock: Clock, requests: number): Admission {
  const { long, burst, effectiveShare, ceiling, paused } = throttle.snapshot();
  const { window, backgroundLimit, backfillLimit, usedByBackground, usedByBackfill } = long.cap === null ? burst : long;
  const now = clock.now();
  if (backgroundLimit === null || backfillLimit === null) {
    return { requests, drainedAt: paused?.until ?? now, perWindow: null, objection: paused?.reason ?? null };
  }
  const live = usedByBackground - usedByBackfill;
  const backfill = Math.max(1, backfillLimit - live);
  const drainedAt = Math.ceil((paused?.until ?? now) + (requests / backfill) * window);
  const perWindow = { live, backfill, free: backgroundLimit - backfillLimit };
  const objection =
    paused?.reason ??
    (effectiveShare < ceiling ? 'others use the workspace: the share was cut and is growing back' : null) ??
    (backfill < backgroundLimit * LITTLE ? 'live work uses nearly all of the share' : null);
  return { requests, drainedAt, perWindow, objection };
}
