import { type Clock, sleep } from './clock.ts';

/**
 * Wakes a stage after another one has committed rows for it. A signal carries no data, because the rows contain the work. So a missed
 * or an extra signal changes only when the stage reads them.
 */
export type WakeSignal = ReturnType<typeof createWakeSignal>;

export function createWakeSignal() {
  let isNotified = false;
  let wake: (() => void) | undefined;
  return {
    notify() {
      if (wake === undefined) {
        isNotified = true;
        return;
      }
      const call = wake;
      wake = undefined;
      call();
    },
    /**
     * Resolves at the next `notify`, or at once if `notify` was called while nothing waited. Never rejects. Only one stage waits at a
     * signal: a new call replaces the one before, which then never resolves.
     */
    wait(): Promise<void> {
      if (isNotified) {
        isNotified = false;
        return Promise.resolve();
      }
      return new Promise((resolve) => {
        wake = resolve;
      });
    },
  };
}

/** Waits for `ms`, or until `wake` resolves because there is work. Infinity: until `wake` resolves. */
export async function waitForWork(clock: Clock, ms: number, wake: Promise<void>, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  if (ms === Number.POSITIVE_INFINITY) return wake;
  const woken = new AbortController();
  const timer = sleep(clock, ms, AbortSignal.any([signal, woken.signal]));
  await Promise.race([timer, wake]);
  woken.abort();
}
