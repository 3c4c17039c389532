/**
 * Tells an outage of the workspace from the failure of a single change.
 *
 * closed  requests go out as the quota allows.
 * open    the last `THRESHOLD` requests all failed to get through: one request at a time, `PROBE_EVERY` apart, until
 *         one gets through. Failures while open count against no change.
 */
export interface Breaker {
  readonly open: boolean;
  /** Milliseconds to wait before the next request; 0 while closed. */
  pause(): number;
  passed(): void;
  failed(): void;
}

const THRESHOLD = 3;
const PROBE_EVERY = 30_000;

export function createBreaker(): Breaker {
  let failures = 0;
  return {
    get open() {
      return failures >= THRESHOLD;
    },
    pause: () => (failures >= THRESHOLD ? PROBE_EVERY : 0),
    passed: () => {
      failures = 0;
    },
    failed: () => {
      failures++;
    },
  };
}
