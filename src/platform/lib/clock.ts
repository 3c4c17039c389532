import { readFileSync } from 'node:fs';

/** Cancels a timer; harmless when it has fired. */
export type Cancel = () => void;

/** The only source of time. It is always a parameter, so that tests can set the time. */
export interface Clock {
  /** Wall clock, epoch milliseconds, for people and for comparisons with times of other systems. It may jump. */
  now(): number;
  /** Milliseconds of a clock that never jumps, counted from the start of `bootId`. */
  monotonic(): number;
  /** Names the boot that `monotonic` counts from. Values of different boots cannot be compared. */
  readonly bootId: string;
  /** Calls once after `ms` milliseconds. The timer does not keep the process alive. */
  after(ms: number, call: () => void): Cancel;
}

/** Longest delay that a timer of Node accepts; a longer one would fire at once. */
const LONGEST_TIMER = 2_147_483_647;

export function systemClock(): Clock {
  return {
    now: Date.now,
    monotonic: () => Number(process.hrtime.bigint() / 1_000n) / 1_000,
    bootId: readBootId(),
    after(ms, call) {
      const timer = setTimeout(call, Math.min(Math.max(0, ms), LONGEST_TIMER));
      timer.unref();
      return () => clearTimeout(timer);
    },
  };
}

/** One timer for one deadline. Setting the same deadline again has no effect. */
export function createDeadlineTimer(clock: Clock, callback: () => void) {
  let deadline = Number.POSITIVE_INFINITY;
  let cancel: Cancel | undefined;
  return {
    /** Replaces the deadline, monotonic milliseconds. Infinity clears it. */
    set(at: number) {
      if (at === deadline) return;
      cancel?.();
      cancel = undefined;
      deadline = at;
      if (at === Number.POSITIVE_INFINITY) return;
      cancel = clock.after(Math.max(0, Math.ceil(at - clock.monotonic())), () => {
        deadline = Number.POSITIVE_INFINITY;
        callback();
      });
    },
  };
}

/** Keeps the process alive until it is cancelled, because the timers of `after` do not. */
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
    // Without a boot id of the kernel, each process counts as a boot of its own, which costs at most one quota window.
    return `process-${crypto.randomUUID()}`;
  }
}

/** A smaller correction does not count as a clock that was set back, milliseconds. */
const LEAST = 1_000;

/**
 * Returns a check of the wall clock. If the clock was set back since the last check, stored due times would wait until the old time
 * returns, so the check calls `redate`; if that fails, the next check calls it again. The check returns whether it did.
 *
 * @param isDue the first check calls `redate` too, because a previous process may have stored the times by another clock
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

/** A larger difference between the two clocks is no drift, milliseconds. */
const JUMP = 2_000;

/** Elapsed time that includes the sleep of the machine, milliseconds from an arbitrary start. It never goes back. */
export function createSuspendAwareClock(clock: Clock) {
  let seen = { wall: clock.now(), monotonic: clock.monotonic() };
  let slept = 0;
  return {
    now: () => clock.monotonic() + slept,
    /**
     * Compares both clocks. If the wall clock advanced further than the monotonic one, the machine slept or the clock was set ahead:
     * the difference counts as elapsed. A wall clock that was set back changes nothing.
     *
     * @returns whether the wall clock was set, or the machine slept, since the last call
     */
    update() {
      const next = { wall: clock.now(), monotonic: clock.monotonic() };
      const ahead = next.wall - seen.wall - (next.monotonic - seen.monotonic);
      seen = next;
      if (ahead > JUMP) slept += ahead;
      return Math.abs(ahead) > JUMP;
    },
  };
}

/** The only source of randomness. It is always a parameter, so that tests can repeat a run. */
export interface Random {
  /** Uniform in [0, 1). */
  float(): number;
  uuid(): string;
  bytes(length: number): Buffer;
}

export function systemRandom(): Random {
  return { float: Math.random, uuid: () => crypto.randomUUID(), bytes: randomPool() };
}

/** Returns short sequences from a pool, because each system call costs more than filling the pool. */
function randomPool(): (length: number) => Buffer {
  const size = 4_096;
  let pool: Buffer = Buffer.alloc(0);
  return (length) => {
    if (length > LONGEST_POOLED) return randomBytes(length);
    if (pool.length < length) pool = randomBytes(size);
    const taken = pool.subarray(0, length);
    pool = pool.subarray(length);
    return taken;
  };
}

/** Uses the global `crypto`, because short commands must not load `node:crypto`. */
function randomBytes(length: number): Buffer {
  return crypto.getRandomValues(Buffer.alloc(length));
}

/** The length of an id, bytes. Secrets are longer, and never come from the pool. */
const LONGEST_POOLED = 16;

/** Exponential back-off with full jitter: uniform in (0, min(cap, base · 2^attempt)], milliseconds. */
export function backoff(random: Random, attempt: number, base = 1_000, cap = 300_000): number {
  const ceiling = Math.min(cap, base * 2 ** Math.min(attempt, 30));
  return Math.max(1, Math.ceil(random.float() * ceiling));
}

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

/** Returns a check whether what is read from now on is still valid: until `ms` have passed or `wake` resolves. */
export function createValidity(clock: Clock, ms: number, wake: Promise<void>): () => boolean {
  const from = clock.monotonic();
  let isWoken = false;
  void wake.then(() => {
    isWoken = true;
  });
  return () => !isWoken && clock.monotonic() - from < ms;
}
