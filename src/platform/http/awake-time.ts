import type { Clock } from '../lib/clock.ts';

/**
 * Time in which this process could read what arrived, milliseconds. While it is busy, or waits for a processor, senders seem to send
 * nothing; that time counts against none of them.
 */
export interface AwakeTime {
  now(): number;
  /** Begins to look, unless it does already. */
  watch(): void;
}

interface Looks {
  /** Whether to look once more. */
  isNeeded(): boolean;
  /** Called after each interval. */
  look(): void;
}

/** Time stands still from the moment at which a look is due until it happens. */
export function createAwakeTime(clock: Clock, interval: number, { isNeeded, look }: Looks): AwakeTime {
  let lost = 0;
  let dueAt: number | undefined;

  function schedule(): void {
    dueAt = clock.monotonic() + interval;
    clock.after(interval, onLook);
  }

  function onLook(): void {
    lost += Math.max(0, clock.monotonic() - (dueAt ?? 0));
    dueAt = undefined;
    if (!isNeeded()) return;
    schedule();
    look();
  }

  return {
    now: () => Math.min(clock.monotonic(), dueAt ?? Number.POSITIVE_INFINITY) - lost,
    watch() {
      if (dueAt === undefined) schedule();
    },
  };
}
