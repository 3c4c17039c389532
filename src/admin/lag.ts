import type { Clock } from '../platform/lib/clock.ts';

/**
 * The time from the acknowledgement of a delivery to the answer of the write that it led to, over the last 24 hours. Imports and
 * backfills do not count: `importKey` in `store/deliveries/inbox.ts` marks them, and the metric `sync_lag_seconds` has the same times.
 */
export interface LagReport {
  readonly count: number;
  /** Median and 95th percentile, milliseconds. */
  readonly p50: number;
  readonly p95: number;
}

export interface LagWatch {
  note(milliseconds: number): void;
  /** Returns null if no live delivery led to a write since the start of the process, or within the last 24 hours. */
  report(): LagReport | null;
}

const SPAN = 86_400_000;
/** Samples that are kept. On a busy day only the last ones count. */
const MOST = 2_000;

/** Keeps the latest samples in memory; a restart discards them. */
export function createLagWatch({ monotonic }: Pick<Clock, 'monotonic'>): LagWatch {
  const latest: { readonly at: number; readonly lag: number }[] = [];
  let next = 0;
  return {
    note(lag) {
      latest[next] = { at: monotonic(), lag };
      next = (next + 1) % MOST;
    },
    report() {
      const since = monotonic() - SPAN;
      const lags = latest.filter(({ at }) => at >= since).map(({ lag }) => lag);
      if (lags.length === 0) return null;
      const sorted = lags.toSorted((a, b) => a - b);
      const quantile = (part: number) => sorted[Math.ceil(part * sorted.length) - 1] as number;
      return { count: sorted.length, p50: quantile(0.5), p95: quantile(0.95) };
    },
  };
}
