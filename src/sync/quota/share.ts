/**
 * The part of a quota that the background lanes may use. Shares are numbers from 0 to 1 of a window's cap.
 *
 * Others spend from the same windows unseen. A refusal cuts the share at once. It grows back fast at first, slower as it
 * comes near the share that was refused, and faster again the longer it is past that unrefused (the curve that TCP CUBIC
 * uses); never slower than in a straight line, and never above its ceiling (`ceiling.ts`).
 */
export interface Share {
  /** The share at `growsFrom` and before. */
  readonly share: number;
  /** Monotonic milliseconds. */
  readonly growsFrom: number;
  /** The share at which the last refusal came; absent where there was none. */
  readonly refusedShare?: number;
}

/** The most that the share grows to; it may rise with time. Times are monotonic milliseconds. */
export interface Ceiling {
  at(now: number): number;
  /** When it has risen to this share; Infinity where it never does. */
  reaches(share: number): number;
}

/**
 * 4.3 slots of 200 a minute, and 16 minutes until the refused share is reached again. Chosen by the bench `quota.tenant`:
 * faster growth uses little more and is refused much more often; slower leaves slots idle.
 */
const GROWTH_PER_MS = 4.3 / 200 / 60_000;
const RECOVERY = 16 * 60_000;
/** Absorbs what binary fractions lose: 0.29 of 100 is 29 slots. */
const EPSILON = 1e-9;

export function effectiveShare(state: Share, ceiling: Ceiling, now: number): number {
  const grown = Math.max(0, now - state.growsFrom);
  return Math.min(ceiling.at(now), Math.max(state.share + GROWTH_PER_MS * grown, recovered(state, grown)));
}

/** On the curve: the share of the cut at 0, the refused share at `RECOVERY`, flat there. */
function recovered({ share, refusedShare = share }: Share, grown: number): number {
  return refusedShare + (refusedShare - share) * (grown / RECOVERY - 1) ** 3;
}

/** When the curve reaches a share: the inverse of `recovered`; Infinity where it is a flat line. */
function recoversTo({ share, refusedShare = share }: Share, target: number): number {
  if (refusedShare <= share) return Number.POSITIVE_INFINITY;
  return RECOVERY * (1 + Math.cbrt((target - refusedShare) / (refusedShare - share)));
}

/** Slots of a window for the background lanes: at least one, or they would starve. */
export function slotsOf(cap: number, share: number): number {
  return Math.max(1, Math.floor(cap * share + EPSILON));
}

/** When growth gives the next slot of this cap; Infinity where the ceiling gives no more. */
export function nextSlotAt(state: Share, ceiling: Ceiling, cap: number, now: number): number {
  const target = (slotsOf(cap, effectiveShare(state, ceiling, now)) + 1) / cap;
  const grows = state.growsFrom + Math.min((target - state.share) / GROWTH_PER_MS, recoversTo(state, target));
  return Math.max(grows, ceiling.reaches(target));
}
