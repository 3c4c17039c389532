import type { Lane } from '../../model/lane.ts';
import { type WindowSnapshot, withinCap } from '../../model/windows.ts';
import type { Clock } from '../../platform/lib/clock.ts';
import { type KeyRefusal, type ObservedUse, type Pause, pausedUntil } from './cooldown.ts';
import type { Limits, QuotaState } from './limits.ts';
import type { ConfiguredShare } from './share.ts';

export interface QuotaSnapshot {
  readonly long: WindowSnapshot;
  readonly burst: WindowSnapshot;
  readonly configuredShare: ConfiguredShare;
  readonly effectiveShare: number;
  /** Upper bound of the share: the configured one, or the present ceiling of `auto`. */
  readonly ceiling: number;
  /** Refused, and no proof of room since: one request at a time. */
  readonly limited: boolean;
  /** End in epoch milliseconds, and reason; null if nothing pauses. */
  readonly paused: Pause | null;
  /** The rejection of the daemon's key, until an answer shows that it is accepted. */
  readonly halt: KeyRefusal | null;
  readonly waiting: Readonly<Record<Lane, number>>;
  readonly inFlight: number;
  /** Earliest start of a background request, epoch milliseconds; null if an answer must come first. */
  readonly nextSlotAt: number | null;
  /** Start of an interactive request that arrives now, epoch milliseconds. */
  readonly nextForPeopleAt: number;
  readonly lastRefusal: ObservedUse | null;
}

interface SnapshotInput {
  readonly state: QuotaState;
  readonly limits: Limits;
  readonly waiting: Readonly<Record<Lane, number>>;
  readonly clock: Clock;
  readonly share: ConfiguredShare;
}

export function snapshotOf({ state, limits, waiting, clock, share }: SnapshotInput): QuotaSnapshot {
  const { cooldown, ledger, now } = state;
  const { until, code, reason } = pausedUntil(cooldown);
  const from = Math.max(now, until);
  const next = Math.max(from, limits.nextForBackground(state));
  const toWall = (at: number) => wallTimeOf(at, clock);
  const { long, burst } = limits.snapshot(state);
  return {
    ...{ long: withinCap(long), burst: withinCap(burst) },
    configuredShare: share,
    effectiveShare: limits.share(state),
    ceiling: limits.ceiling(state),
    limited: cooldown.limited,
    paused: until > now ? { until: toWall(until), code, reason } : null,
    halt: cooldown.halt && { code: cooldown.halt.code, reason: cooldown.halt.reason },
    waiting,
    inFlight: ledger.all.inFlight,
    nextSlotAt: next === Number.POSITIVE_INFINITY ? null : toWall(next),
    nextForPeopleAt: toWall(limits.interactiveServedAt(state, from, waiting.interactive + 1)),
    lastRefusal: cooldown.observed ? { ...cooldown.observed, at: toWall(cooldown.observed.at) } : null,
  };
}

/** Converts monotonic to epoch milliseconds. */
export function wallTimeOf(at: number, clock: Clock): number {
  return Math.round(clock.now() + at - clock.monotonic());
}
