import type { Clock } from '../platform/lib/clock.ts';

/**
 * The clock of the database, which all processes over it share, as one of them reckons it between two times at which it asked.
 * Moments of `passed` are milliseconds of a clock that nobody sets.
 */
export interface ClockOffset {
  /** Told that the store said `now` to a question that began and ended at these moments of `passed`. */
  heard(now: number, asked: Asked): void;
  /** How far the store is ahead of `passed`; undefined before anything was heard. */
  ahead(): number | undefined;
  /** How often it was set since it was first heard: by more than answers take. */
  timesSet(): number;
}

export interface Asked {
  readonly began: number;
  readonly ended: number;
}

/** Less than this, milliseconds, is the way of an answer, or the drift of a clock that is slewed. */
const JUMP = 2_000;

export function createClockOffset(): ClockOffset {
  let ahead: number | undefined;
  let timesSet = 0;
  return {
    heard(now, { began, ended }) {
      const [least, most] = [now - ended, now - began];
      const isFirst = ahead === undefined;
      const isSet = ahead !== undefined && (least - ahead > JUMP || ahead - most > JUMP);
      if (isSet) timesSet += 1;
      // It follows a clock that drifts, and never further than it knows for certain.
      ahead = isFirst || isSet ? (least + most) / 2 : Math.min(Math.max(ahead as number, least), most);
    },
    ahead: () => ahead,
    timesSet: () => timesSet,
  };
}

/** The clock of a process that tells the time of the store, so that no two processes differ in it. */
export function offsetClock(clock: Clock, store: ClockOffset, passed: () => number): Clock {
  return {
    ...clock,
    now() {
      const ahead = store.ahead();
      return ahead === undefined ? clock.now() : Math.round(passed() + ahead);
    },
  };
}

/**
 * The clock by which the ledger of one workspace is kept while this process owns it. It goes on from where the owner before
 * counted, never goes back, and does not follow when the store's clock is set: the next owner counts by another one then.
 *
 * @param era names the clock that the store goes by at present
 */
export function ledgerClock(
  clock: Clock,
  era: string,
  { store, passed }: { store: ClockOffset; passed: () => number },
): Clock {
  const set = store.timesSet();
  let ahead = store.ahead() ?? 0;
  let latest = Number.NEGATIVE_INFINITY;
  return {
    ...clock,
    bootId: `store:${era}`,
    monotonic() {
      if (store.timesSet() === set) ahead = store.ahead() ?? ahead;
      latest = Math.max(latest, passed() + ahead);
      return latest;
    },
  };
}
