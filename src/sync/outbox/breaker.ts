/**
 * Tells an outage of the workspace from the failure of a single change.
 *
 * closed  requests go out as the quota allows.
 * open    the last `THRESHOLD` requests or more, of several changes, all failed to get through: one request at a time,
 *         `PROBE_EVERY` apart, until one gets through. Failures while open count against no change.
 *
 * A change that fails alone delays only itself. It is at fault if others get through while it still fails; until then the
 * workspace may be at fault.
 */
export interface Breaker {
  readonly open: boolean;
  /** Nothing has got through lately, be it one change that fails or many. */
  readonly failing: boolean;
  /** Milliseconds to wait before the next request; 0 while closed. */
  pause(): number;
  passed(entity: string): void;
  failed(entity: string): void;
  /** Whether others got through since this change first failed. */
  isAtFault(entity: string): boolean;
}

const THRESHOLD = 3;
/** Pause between two requests while nothing gets through, milliseconds. */
export const PROBE_EVERY = 30_000;

export function createBreaker(): Breaker {
  let streak = 0;
  let passes = 0;
  const inStreak = new Set<string>();
  /** Changes that fail, and how many requests had got through when each began to. */
  const failingSince = new Map<string, number>();
  const isFailing = () => streak >= THRESHOLD;
  const isOpen = () => isFailing() && inStreak.size > 1;
  return {
    get open() {
      return isOpen();
    },
    get failing() {
      return isFailing();
    },
    pause: () => (isOpen() ? PROBE_EVERY : 0),
    passed(entity) {
      streak = 0;
      passes++;
      inStreak.clear();
      failingSince.delete(entity);
    },
    failed(entity) {
      streak++;
      inStreak.add(entity);
      if (!failingSince.has(entity)) failingSince.set(entity, passes);
    },
    isAtFault: (entity) => passes > (failingSince.get(entity) ?? passes),
  };
}
