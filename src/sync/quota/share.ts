import { readMeta, writeMeta } from '../../store/meta.ts';
import type { Scope } from '../../store/workspace-scope.ts';

/**
 * The part of a window's cap that the background lanes may use, 0..1.
 *
 * Others spend from the same windows unseen. A refusal reduces the share at once. It then grows along the curve of TCP
 * CUBIC: fast at first, slowly near the share that was refused, and faster again the longer it stays above that without
 * a refusal. It never grows more slowly than a straight line, and never above its ceiling.
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
 * Growth of 4.3 slots of 200 per minute, and 16 minutes until the refused share is reached again. Chosen by the bench
 * `quota.tenant`: faster growth uses little more and is refused much more often; slower growth leaves slots unused.
 */
const GROWTH_PER_MS = 4.3 / 200 / 60_000;
const RECOVERY = 16 * 60_000;
/** Absorbs rounding errors of binary fractions: 0.29 of 100 is 29 slots. */
const EPSILON = 1e-9;

export function effectiveShare(state: Share, ceiling: Ceiling, now: number): number {
  const elapsed = Math.max(0, now - state.growsFrom);
  return Math.min(ceiling.at(now), Math.max(state.share + GROWTH_PER_MS * elapsed, recovered(state, elapsed)));
}

/** The share on the curve: the reduced share at 0, and the refused share at `RECOVERY`, where the curve is flat. */
function recovered({ share, refusedShare = share }: Share, elapsed: number): number {
  return refusedShare + (refusedShare - share) * (elapsed / RECOVERY - 1) ** 3;
}

/** The time at which the curve reaches a share: the inverse of `recovered`. Infinity if the curve is flat. */
function recoversTo({ share, refusedShare = share }: Share, target: number): number {
  if (refusedShare <= share) return Number.POSITIVE_INFINITY;
  return RECOVERY * (1 + Math.cbrt((target - refusedShare) / (refusedShare - share)));
}

/** Slots of a window for the background lanes: at least one, so that they do not starve. */
export function slotsOf(cap: number, share: number): number {
  return Math.max(1, Math.floor(cap * share + EPSILON));
}

/** The time at which growth adds the next slot. Infinity if the ceiling does not allow another. */
export function nextSlotAt(state: Share, ceiling: Ceiling, cap: number, now: number): number {
  const target = (slotsOf(cap, effectiveShare(state, ceiling, now)) + 1) / cap;
  const grows = state.growsFrom + Math.min((target - state.share) / GROWTH_PER_MS, recoversTo(state, target));
  return Math.max(grows, ceiling.reaches(target));
}

/** The configured upper bound of the share: a fixed number 0..1, or `auto`. */
export type ConfiguredShare = number | 'auto';

/** The upper bound of the share over time. Times are monotonic milliseconds. */
export interface Ceiling {
  at(now: number): number;
  /** The time at which the ceiling reaches this share; Infinity if it never does. */
  reaches(share: number): number;
}

/** An automatic ceiling: after hours without detected use by others, and shortly after a detection. */
interface AutoCeiling {
  readonly alone: number;
  readonly shared: number;
}

/** Alone, three slots of 200 stay free; otherwise a frequent other user would find its slots taken. */
const LONG: AutoCeiling = { alone: 0.985, shared: 0.85 };
/** Others may need many slots within a minute, while the long window allows us a third of this on average. */
const BURST: AutoCeiling = { alone: 0.8, shared: 0.5 };

const HOUR = 3_600_000;
/** After a detection the ceiling stays low for this long, then rises over this long, milliseconds. */
const LOW_FOR = HOUR;
const RISES_OVER = 5 * HOUR;

/**
 * The ceiling of the share of the long window. `auto` takes nearly all slots if no other use was detected for hours. A
 * detected user finds room at once and for hours after. A first start leaves the same room, because it has had no time
 * to detect other users.
 *
 * @param quietSince start of the time without detected use by others, monotonic milliseconds
 */
export function ceilingOf(share: ConfiguredShare, quietSince: number): Ceiling {
  return share === 'auto' ? rising(LONG, quietSince) : fixed(share);
}

/** The ceiling of the share of the burst window. */
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

/** Key in `meta` of the share with which the previous process was configured. */
const SHARE_KEY = 'throttle.share';
/** The default before it became `auto`, when the share was not stored yet. */
const FORMER_DEFAULT = 0.8;

/**
 * Stores the configured share. An unset share can change with a version, so operators must be informed of a change.
 *
 * @param wasUsed returns whether a request was ever sent, by any version
 * @returns the previous share if it differs; undefined if it is the same, or nothing was ever sent
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
