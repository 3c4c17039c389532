import type { Cancel, Clock } from '../../platform/lib/clock.ts';

/** One timer for one moment. Setting the same moment again costs nothing. */
export interface Alarm {
  /** Calls at this moment, monotonic milliseconds, instead of the one set before; Infinity: never. */
  set(at: number): void;
}

export function createAlarm(clock: Clock, call: () => void): Alarm {
  let moment = Number.POSITIVE_INFINITY;
  let cancel: Cancel | undefined;
  return {
    set(at) {
      if (at === moment) return;
      cancel?.();
      cancel = undefined;
      moment = at;
      if (at === Number.POSITIVE_INFINITY) return;
      cancel = clock.after(Math.max(0, Math.ceil(at - clock.monotonic())), () => {
        moment = Number.POSITIVE_INFINITY;
        call();
      });
    },
  };
}
