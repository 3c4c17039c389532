import type { Clock } from '../platform/lib/clock.ts';

/**
 * An estimate of the database's clock, which all processes over it share. Samples correct it; between them it runs with the local
 * monotonic clock. Values of `elapsed` are milliseconds of that clock, which is never set.
 */
export type ClockOffset = ReturnType<typeof createClockOffset>;

/** The local monotonic time before and after a query. */
export interface QueryInterval {
  readonly began: number;
  readonly ended: number;
}

/** A smaller difference, milliseconds, is the latency of an answer or the drift of a clock that is slewed. */
const JUMP = 2_000;

export function createClockOffset() {
  let ahead: number | undefined;
  let timesSet = 0;
  return {
    /** Adds a sample: the server's time, and the local monotonic time before and after the query. */
    addSample(now: number, { began, ended }: QueryInterval) {
      const least = now - ended;
      const most = now - began;
      if (ahead === undefined) {
        ahead = (least + most) / 2;
        return;
      }
      const isSet = least - ahead > JUMP || ahead - most > JUMP;
      if (isSet) timesSet += 1;
      // The estimate follows a clock that drifts, but leaves its value only as far as the sample proves.
      ahead = isSet ? (least + most) / 2 : Math.min(Math.max(ahead, least), most);
    },
    /** Returns the time by which the server is ahead of `elapsed`; undefined before the first sample. */
    ahead: () => ahead,
    /** Returns how often the server's clock was set since the first sample, by more than a query can take. */
    timesSet: () => timesSet,
  };
}

/** Returns a clock with the time of the store, so that all processes agree on it. Before the first sample it is the local time. */
export function offsetClock(clock: Clock, store: ClockOffset, elapsed: () => number): Clock {
  return {
    ...clock,
    now() {
      const ahead = store.ahead();
      return ahead === undefined ? clock.now() : Math.round(elapsed() + ahead);
    },
  };
}

/**
 * Returns the clock for the ledger of one workspace while this process owns it. It continues the count of the previous owner and
 * never goes back. It ignores later settings of the store's clock, because the next owner counts in another era then.
 *
 * @param era names the clock that the store uses now
 */
export function ledgerClock(
  clock: Clock,
  era: string,
  { store, elapsed }: { store: ClockOffset; elapsed: () => number },
): Clock {
  const timesSet = store.timesSet();
  let ahead = store.ahead() ?? 0;
  let latest = Number.NEGATIVE_INFINITY;
  return {
    ...clock,
    bootId: `store:${era}`,
    monotonic() {
      if (store.timesSet() === timesSet) ahead = store.ahead() ?? ahead;
      latest = Math.max(latest, elapsed() + ahead);
      return latest;
    },
  };
}
