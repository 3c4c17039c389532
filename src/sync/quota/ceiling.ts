import type { Ceiling } from './share.ts';

/** `auto`, or the part of both limits that the background lanes use at most, 0..1. */
export type ConfiguredShare = number | 'auto';

/** The ceiling when no other use was detected for long, and just after one was or may have been. */
interface Range {
  readonly alone: number;
  readonly beside: number;
}

/** Three slots of 200 stay free for whoever comes, or what comes often finds its slots. */
const LONG: Range = { alone: 0.985, beside: 0.85 };
/** Others may want much within a minute, and the long window lets us use no more than a third of this on average. */
const BURST: Range = { alone: 0.8, beside: 0.5 };

const HOUR = 3_600_000;
/** For so long after other use was detected nothing changes; then the ceiling rises for so long, milliseconds. */
const CAREFUL = HOUR;
const RISES = 5 * HOUR;

/**
 * The most that the background's share of the long window grows to. A configured one stands as it is. `auto` takes nearly
 * all where no other use was detected for hours; a detected user finds room from then on, and for hours after. A first
 * start leaves as much: it has had no time to detect anybody.
 *
 * @param quietSince since when no other use was detected, monotonic milliseconds
 */
export function ceilingOf(share: ConfiguredShare, quietSince: number): Ceiling {
  return share === 'auto' ? rising(LONG, quietSince) : level(share);
}

/** The same of the short window. */
export function burstCeilingOf(share: ConfiguredShare, quietSince: number): Ceiling {
  return share === 'auto' ? rising(BURST, quietSince) : level(share);
}

/** Absorbs what binary fractions lose. */
const EPSILON = 1e-9;

function level(share: number): Ceiling {
  return {
    at: () => share,
    reaches: (target) => (target <= share + EPSILON ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY),
  };
}

function rising({ alone, beside }: Range, quietSince: number): Ceiling {
  const from = quietSince + CAREFUL;
  return {
    at: (now) => beside + (alone - beside) * Math.min(1, Math.max(0, (now - from) / RISES)),
    reaches: (target) => {
      if (target <= beside + EPSILON) return Number.NEGATIVE_INFINITY;
      if (target > alone + EPSILON) return Number.POSITIVE_INFINITY;
      return from + ((target - beside) / (alone - beside)) * RISES;
    },
  };
}
