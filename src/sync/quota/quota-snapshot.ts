import type { Lane } from '../../model/lane.ts';
import type { WindowSnapshot } from '../../model/windows.ts';
import type { Clock } from '../../platform/lib/clock.ts';
import type { ConfiguredShare } from './ceiling.ts';
import { type Observed, type Pause, pausedUntil } from './cooldown.ts';
import type { Facts, Limits } from './limits.ts';
import type { KeyRefusal } from './slot.ts';
import type { WaitQueue } from './wait-queue.ts';
import type { WindowLedger } from './window-ledger.ts';

export interface QuotaSnapshot {
  readonly long: WindowSnapshot;
  readonly burst: WindowSnapshot;
  readonly configuredShare: ConfiguredShare;
  readonly effectiveShare: number;
  /** What the share grows back to after a refusal: the configured one, or as much as `auto` may be by now. */
  readonly ceiling: number;
  /** Refused lately, and not yet let in again: one request at a time. */
  readonly limited: boolean;
  /** Epoch milliseconds, and why; null where nothing pauses. */
  readonly paused: Pause | null;
  /** The daemon's key was refused, and no answer has shown yet that it is accepted again. */
  readonly halt: KeyRefusal | null;
  readonly waiting: Readonly<Record<Lane, number>>;
  readonly inFlight: number;
  /** When a background request may be sent next, epoch milliseconds; null: only after an answer has come. */
  readonly nextSlotAt: number | null;
  /** When a request of people that came now would be sent, behind those that wait, epoch milliseconds. */
  readonly nextForPeopleAt: number;
  /** What the last refusal showed about other use of the workspace; null if none is stored. */
  readonly lastRefusal: Observed | null;
}

interface SnapshotInput {
  readonly facts: Facts;
  readonly limits: Limits;
  readonly line: Pick<WaitQueue, 'waiting'>;
  readonly book: Pick<WindowLedger, 'all'>;
  readonly clock: Clock;
  readonly share: ConfiguredShare;
}

export function snapshotOf({ facts, limits, line, book, clock, share }: SnapshotInput): QuotaSnapshot {
  const { cooldown, now } = facts;
  const pause = pausedUntil(cooldown);
  const from = Math.max(now, pause.until);
  const next = Math.max(from, limits.nextForBackground(facts));
  const toWall = (at: number) => wallTimeOf(at, clock);
  return {
    ...limits.snapshot(facts),
    configuredShare: share,
    effectiveShare: limits.share(facts),
    ceiling: limits.ceiling(facts),
    limited: cooldown.limited,
    paused: pause.until > now ? { ...pauseOf(pause), until: toWall(pause.until) } : null,
    halt: cooldown.halt && { code: cooldown.halt.code, reason: cooldown.halt.reason },
    waiting: line.waiting(),
    inFlight: book.all.inFlight,
    nextSlotAt: next === Number.POSITIVE_INFINITY ? null : toWall(next),
    nextForPeopleAt: toWall(limits.peopleServedAt(facts, from, line.waiting().interactive + 1)),
    lastRefusal: cooldown.observed ? { ...cooldown.observed, at: toWall(cooldown.observed.at) } : null,
  };
}

/** A monotonic time as the wall clock will show it. */
export function wallTimeOf(at: number, clock: Clock): number {
  return Math.round(clock.now() + at - clock.monotonic());
}

function pauseOf({ until, code, reason }: Pause): Pause {
  return { until, code, reason };
}
