/**
 * The part of a quota that the background lanes may use. Shares are numbers from 0 to 1 of a window's cap.
 *
 * Others spend from the same windows unseen. A refusal halves the share at once; without refusals it grows back in a
 * straight line (additive increase, multiplicative decrease), never above what is configured.
 */
export interface Share {
  /** The share at `growsFrom` and before. */
  readonly share: number;
  /** Monotonic milliseconds. */
  readonly growsFrom: number;
}

/** 5 slots of 200 a minute. Faster growth uses little more and is refused twice as often; slower leaves slots idle. */
const GROWTH_PER_MS = 5 / 200 / 60_000;
/** Absorbs what binary fractions lose: 0.29 of 100 is 29 slots. */
const EPSILON = 1e-9;

export function effectiveShare(state: Share, configured: number, now: number): number {
  return Math.min(configured, state.share + GROWTH_PER_MS * Math.max(0, now - state.growsFrom));
}

/** Slots of a window for the background lanes: at least one, or they would starve. */
export function slotsOf(cap: number, share: number): number {
  return Math.max(1, Math.floor(cap * share + EPSILON));
}

/** When growth gives the next slot of this cap; Infinity where the share has grown to what is configured. */
export function nextSlotAt(state: Share, configured: number, cap: number, now: number): number {
  const slots = slotsOf(cap, effectiveShare(state, configured, now));
  if (slots >= slotsOf(cap, configured)) return Number.POSITIVE_INFINITY;
  return state.growsFrom + ((slots + 1) / cap - state.share) / GROWTH_PER_MS;
}
