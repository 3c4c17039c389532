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
