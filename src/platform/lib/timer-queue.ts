import type { Cancel, Clock } from './clock.ts';
import type { CronTimes } from './cron.ts';
import { createSortedQueue } from './sorted-queue.ts';
import { createSuspendAwareClock } from './suspend-aware-clock.ts';

/** A job that waits for its next run. */
export interface Waiting {
  /** The next moment of a cron expression is after this one, epoch milliseconds. */
  readonly last: number;
  /** By the time that passed; set by the pace alone, as is `times`: the cron expression whose moment it waits for. */
  due: number;
  times?: CronTimes;
  begin(): void;
}

/** Starts each waiting job at its time, with one timer for all. */
export interface TimerQueue {
  /** Milliseconds that passed, sleep of the machine included. */
  passed(): number;
  /** Begins it in so many milliseconds. */
  wait(entry: Waiting, left: number): void;
  /** Begins it at the next moment of a cron expression, where one comes. */
  waitFor(entry: Waiting, times: CronTimes): void;
  leave(entry: Waiting): void;
}

/** Between the starts of two jobs, milliseconds: many may be overdue at once. */
const SPACING = 50;
/** The clocks are looked at no more seldom than this while a job waits, milliseconds. */
const LONGEST_SLEEP = 60_000;

export function createTimerQueue(clock: Clock): TimerQueue {
  const line = createSortedQueue<Waiting>();
  const passed = createSuspendAwareClock(clock);
  let cancel: Cancel = () => undefined;
  let freeAt = Number.NEGATIVE_INFINITY;

  function arm(): void {
    cancel();
    const first = line.first();
    if (first === undefined) return;
    const left = Math.max(first.due, freeAt) - passed.now();
    cancel = clock.after(Math.min(LONGEST_SLEEP, Math.max(0, left)), look);
  }

  function look(): void {
    noticeClocks();
    const now = passed.now();
    const first = line.first();
    if (first && first.due <= now && freeAt <= now) beginOrWait(first, now);
    arm();
  }

  /** Moments of cron expressions move with the wall clock. */
  function noticeClocks(): void {
    if (!passed.look()) return;
    for (const entry of line.all()) if (entry.times) place(entry, untilMoment(entry.times, entry.last), entry.times);
  }

  /** The clocks drift, and timers may be early: the moment of a cron expression may still be ahead. */
  function beginOrWait(entry: Waiting, now: number): void {
    const left = entry.times ? untilMoment(entry.times, entry.last) : 0;
    if (left > 0) {
      place(entry, left, entry.times);
      return;
    }
    freeAt = now + SPACING;
    line.remove(entry);
    entry.begin();
  }

  function untilMoment(times: CronTimes, last: number): number {
    const now = clock.now();
    return (times.after(Math.min(last, now)) ?? Number.POSITIVE_INFINITY) - now;
  }

  function place(entry: Waiting, left: number, times?: CronTimes): void {
    line.remove(entry);
    entry.times = times;
    entry.due = passed.now() + Math.max(0, left);
    if (left !== Number.POSITIVE_INFINITY) line.add(entry);
  }

  return {
    passed: passed.now,
    wait(entry, left) {
      place(entry, left);
      arm();
    },
    waitFor(entry, times) {
      place(entry, untilMoment(times, entry.last), times);
      arm();
    },
    leave(entry) {
      line.remove(entry);
      arm();
    },
  };
}
