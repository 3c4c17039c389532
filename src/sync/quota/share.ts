import { readMeta, writeMeta } from '../../store/meta.ts';
import type { Scope } from '../../store/workspace-scope.ts';

/**
 * The part of a window's cap that the background lanes may use, 0..1.
 *
 * Others use the same windows unseen. A refusal reduces the share; then it grows along the curve of TCP CUBIC: slowly
 * near the refused share, fast far from it. It never grows more slowly than a straight line, nor above its ceiling.
 */
export interface Share {
  /** The share at `growsFrom` and before. */
  readonly share: number;
  /** Monotonic milliseconds. */
  readonly growsFrom: number;
  /** The share at which the last refusal came; absent if there was none. */
  readonly refusedShare?: number;
}

/**
 * Chosen with the benchmark `test/bench/quota/tenant.ts`: faster growth uses little more and is refused much more often; slower growth
 * leaves slots unused.
 */
const GROWTH_PER_MS = 4.3 / 200 / 60_000;
const RECOVERY = 16 * 60_000;
/** Absorbs rounding errors of binary fractions: 0.29 of 100 is 29 slots. */
const EPSILON = 1e-9;

export function effectiveShare(state: Share, ceiling: Ceiling, now: number): number {
  const elapsed = Math.max(0, now - state.growsFrom);
  return Math.min(ceiling.at(now), Math.max(state.share + GROWTH_PER_MS * elapsed, recovered(state, elapsed)));
}

/** The curve: the reduced share at 0; flat at `RECOVERY`, at the refused share. */
function recovered({ share, refusedShare = share }: Share, elapsed: number): number {
  return refusedShare + (refusedShare - share) * (elapsed / RECOVERY - 1) ** 3;
}

/** The inverse of `recovered`; Infinity if the curve is a flat line. */
function recoversTo({ share, refusedShare = share }: Share, target: number): number {
  if (refusedShare <= share) return Number.POSITIVE_INFINITY;
  return RECOVERY * (1 + Math.cbrt((target - refusedShare) / (refusedShare - share)));
}

/** Slots for the background lanes: at least one, so that they do not starve. */
export function slotsOf(cap: number, share: number): number {
  return Math.max(1, Math.floor(cap * share + EPSILON));
}

/** Time of the next added slot; Infinity if the ceiling allows none. */
export function nextSlotAt(state: Share, ceiling: Ceiling, cap: number, now: number): number {
  const target = (slotsOf(cap, effectiveShare(state, ceiling, now)) + 1) / cap;
  const grows = state.growsFrom + Math.min((target - state.share) / GROWTH_PER_MS, recoversTo(state, target));
  return Math.max(grows, ceiling.reaches(target));
}

/** A fixed ceiling 0..1, or `auto`. */
export type ConfiguredShare = number | 'auto';

/** The upper bound of the share over time. Times are monotonic milliseconds. */
export interface Ceiling {
  at(now: number): number;
  /** Time at which it reaches this share; Infinity if never. */
  reaches(share: number): number;
}

/** Ceilings long after the last detection of other users, and shortly after it. */
interface AutoCeiling {
  readonly alone: number;
  readonly shared: number;
}

/** Three slots of 200 always stay free for new users. */
const LONG: AutoCeiling = { alone: 0.985, shared: 0.85 };
/** Others may need many slots within a minute; the long window allows us a third of this on average. */
const BURST: AutoCeiling = { alone: 0.8, shared: 0.5 };

const HOUR = 3_600_000;
/** The ceiling stays low after a detection, then rises, milliseconds. */
const LOW_FOR = HOUR;
const RISES_OVER = 5 * HOUR;

/**
 * The ceiling of the long window. `auto` takes nearly all slots if no other user was detected for hours. A first start
 * begins low, because it has had no time to detect one.
 *
 * @param quietSince the last detection of other users, monotonic milliseconds
 */
export function ceilingOf(share: ConfiguredShare, quietSince: number): Ceiling {
  return share === 'auto' ? rising(LONG, quietSince) : fixed(share);
}

/** The ceiling of the burst window. */
export function burstCeilingOf(share: ConfiguredShare, quietSince: number): Ceiling {
  return share === 'auto' ? rising(BURST, quietSince) : fixed(share);
}

function fixed(share: number): Ceiling {
  return {
    at: () => share,
    reaches: (target) => (target <= share + EPSILON ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY),
  };
}

function rising({ alone, shared }: AutoCeiling, quietSince: number): Ceiling {
  const from = quietSince + LOW_FOR;
  return {
    at: (now) => shared + (alone - shared) * Math.min(1, Math.max(0, (now - from) / RISES_OVER)),
    reaches: (target) => {
      if (target <= shared + EPSILON) return Number.NEGATIVE_INFINITY;
      if (target > alone + EPSILON) return Number.POSITIVE_INFINITY;
      return from + ((target - shared) / (alone - shared)) * RISES_OVER;
    },
  };
}

/** Key in `meta`. */
const SHARE_KEY = 'throttle.share';
/** The default of versions that did not store the share. */
const FORMER_DEFAULT = 0.8;

/**
 * Stores the configured share. A new version can change the default, and operators must learn of it.
 *
 * @returns the previous share if it differs and a request was ever sent
 */
export async function storeShare(
  query: Scope,
  share: ConfiguredShare,
  wasUsed: (query: Scope) => Promise<boolean>,
): Promise<ConfiguredShare | undefined> {
  const stored = await readMeta(query, SHARE_KEY);
  const previous = stored === undefined ? FORMER_DEFAULT : (JSON.parse(stored) as ConfiguredShare);
  const isNew = stored === undefined && !(await wasUsed(query));
  if (stored === undefined || previous !== share) await writeMeta(query, SHARE_KEY, JSON.stringify(share));
  return isNew || previous === share ? undefined : previous;
}
