import { readFileSync } from 'node:fs';

/** Cancels a timer; harmless when it has fired. */
export type Cancel = () => void;

/** All time comes from here, always passed in, so that tests can travel. */
export interface Clock {
  /** Wall clock, epoch milliseconds. For people and for comparing with what others say; it may jump. */
  now(): number;
  /** Milliseconds of a clock that never jumps, counted from the start of `bootId`. */
  monotonic(): number;
  /** Names the boot that `monotonic` counts from. Values of different boots cannot be compared. */
  readonly bootId: string;
  /** Calls once after `ms` milliseconds. The timer does not keep the process alive. */
  after(ms: number, call: () => void): Cancel;
}

/** Longest delay a Node timer takes; a longer one would fire at once. */
const LONGEST_TIMER = 2_147_483_647;

export function systemClock(): Clock {
  return {
    now: () => Date.now(),
    monotonic: () => Number(process.hrtime.bigint() / 1_000n) / 1_000,
    bootId: readBootId(),
    after(ms, call) {
      const timer = setTimeout(call, Math.min(Math.max(0, ms), LONGEST_TIMER));
      timer.unref();
      return () => clearTimeout(timer);
    },
  };
}

/** Keeps the process alive while nothing but timers is awaited, which do not; until it is cancelled. */
export function keepAlive(): Cancel {
  const timer = setInterval(() => undefined, LONGEST_TIMER);
  return () => clearInterval(timer);
}

/** Resolves after `ms`, or at once when the signal aborts. Never rejects. */
export function sleep(clock: Clock, ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const done = () => {
      cancel();
      signal?.removeEventListener('abort', done);
      resolve();
    };
    const cancel = clock.after(ms, done);
    signal?.addEventListener('abort', done, { once: true });
  });
}

function readBootId(): string {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  } catch {
    // Without a kernel boot id every process counts as a boot of its own, which costs at most one quota window.
    return `process-${crypto.randomUUID()}`;
  }
}

/** A correction of the clock by less does not count as set back, milliseconds. */
const LEAST = 1_000;

/**
 * Minds the wall clock: where it was set back since it was looked at before, what is dated by it would wait until the old time has come
 * again, so `redate` is called, and called again next time where it fails.
 *
 * @param isDue `redate` is called at the first look too: what is there may be dated by the clock of a process before
 * @returns what looks at the clock, and tells whether anything was dated anew
 */
export function onClockSetBack(
  clock: Pick<Clock, 'now' | 'monotonic'>,
  redate: () => Promise<void>,
  isDue = false,
): () => Promise<boolean> {
  const offsetNow = () => clock.now() - clock.monotonic();
  let offset = offsetNow();
  let isPending = isDue;
  return async () => {
    const before = offset;
    offset = offsetNow();
    isPending ||= offset < before - LEAST;
    if (!isPending) return false;
    await redate();
    isPending = false;
    return true;
  };
}

/** Time that passed for the world, milliseconds from an arbitrary start: it never goes back, and leaves no sleep out. */
export interface SuspendAwareClock {
  now(): number;
  /**
   * Looks at both clocks. Where the wall clock moved further than the monotonic one, the machine slept or the clock was
   * set ahead: that time counts as passed. A wall clock that was set back takes nothing back.
   *
   * @returns whether the wall clock was set, or the machine slept, since the last look
   */
  look(): boolean;
}

/** More than this between the two clocks is no drift, milliseconds. */
const JUMP = 2_000;

export function createSuspendAwareClock(clock: Clock): SuspendAwareClock {
  let seen = { wall: clock.now(), monotonic: clock.monotonic() };
  let slept = 0;
  return {
    now: () => clock.monotonic() + slept,
    look() {
      const next = { wall: clock.now(), monotonic: clock.monotonic() };
      const ahead = next.wall - seen.wall - (next.monotonic - seen.monotonic);
      seen = next;
      if (ahead > JUMP) slept += ahead;
      return Math.abs(ahead) > JUMP;
    },
  };
}
