import type { Clock } from '../../platform/lib/clock.ts';

const SPAN = 86_400_000;
const MOST = 2_000;

export type LagWatch = ReturnType<typeof createLagWatch>;
export type LagReport = NonNullable<ReturnType<LagWatch['report']>>;

/**
 * The time from the acknowledgement of a delivery to the answer of the write that it led to, over the last 24 hours. Imports and
 * backfills do not count: `importKey` in `store/deliveries/inbox.ts` marks them, and the metric `sync_lag_seconds` has the same times.
 * Keeps the latest samples in memory; a restart discards them.
 */
export function createLagWatch({ monotonic }: Pick<Clock, 'monotonic'>) {
  const latest: { readonly at: number; readonly lag: number }[] = [];
  let next = 0;
  return {
    note(lag: number) {
      latest[next] = { at: monotonic(), lag };
      next = (next + 1) % MOST;
    },
    /** Returns median and 95th percentile, milliseconds; null if no live delivery led to a write since the start or within 24 hours. */
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
