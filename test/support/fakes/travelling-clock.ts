import type { Cancel, Clock } from '../../../src/platform/lib/clock.ts';
import { nextTurnOfLoop, statementsUnderWay } from '../harness/statements.ts';

/**
 * A clock that stands still until the test moves it. Timers fire in the order of their due times, those due at the
 * same moment in the order they were set; after each, whatever it started runs on before the next one fires. The same
 * test therefore always takes the same course. Real time never passes and is never waited for.
 *
 *   const clock = createTravellingClock();
 *   const answer = work(clock);          // sets timers by clock.after(...)
 *   await clock.advance(60_000);         // a minute passes
 *
 * Work that waits for a real socket or file needs real turns of the event loop, which a travelling clock cannot count:
 * await that work itself, then move on. Only statements to a database over a socket are known to it (`statements.ts`).
 */
export interface TravellingClock extends Clock {
  /** Lets `ms` milliseconds pass on both clocks, firing what falls due. A timer that is set on the way counts too. */
  advance(ms: number): Promise<void>;
  /** Goes to the next timer and fires it. False, and no time passes, when there is none. */
  toNextTimer(): Promise<boolean>;
  /** Goes from timer to timer until the condition holds; throws when that takes over `limit` ms or no timer is left. */
  until(condition: () => boolean, limit?: number): Promise<void>;
  /** Moves the wall clock only, ahead or back, as an administrator or NTP would. No timer fires for it. */
  jumpWall(ms: number): void;
  /**
   * The machine restarts: a new boot id, the monotonic clock counts from 0 again, and the timers are gone, as is every
   * process that had set one. The wall clock goes on.
   */
  reboot(): void;
  /** Milliseconds that passed since the clock was made, across reboots and jumps: the time of the world outside. */
  elapsed(): number;
  readonly pending: number;
}

export interface TravellingClockOptions {
  /** First time of the wall clock, epoch milliseconds. */
  readonly start?: number;
  /** Timers fire only at multiples of this, milliseconds, as those of a busy machine that looks at them seldom. */
  readonly grain?: number | undefined;
  /** Lets whatever is ready run, to its end; absent: some turns of the event loop. */
  readonly settle?: () => Promise<void>;
}

interface Timer {
  readonly due: number;
  readonly call: () => void;
}

const START = Date.UTC(2026, 0, 5, 9);
/** More than a test may mean to travel in one go: 30 days. */
const FAR = 30 * 86_400_000;

export function createTravellingClock(options: TravellingClockOptions = {}): TravellingClock {
  const { settle = someTurns, grain } = options;
  let elapsed = 0;
  let wallAtZero = options.start ?? START;
  let bootedAt = 0;
  let boots = 1;
  let timers: Timer[] = [];

  const rounded = (due: number) => (grain === undefined ? due : Math.ceil(due / grain) * grain);
  const fire = async (timer: Timer) => {
    elapsed = Math.max(elapsed, timer.due);
    timers.shift();
    timer.call();
    await settle();
  };

  return {
    now: () => Math.floor(wallAtZero + elapsed),
    monotonic: () => elapsed - bootedAt,
    get bootId() {
      return `boot-${boots}`;
    },
    after(ms, call): Cancel {
      const timer = { due: rounded(elapsed + Math.max(0, ms)), call };
      timers.splice(timers.findLastIndex((other) => other.due <= timer.due) + 1, 0, timer);
      return () => {
        timers = timers.filter((other) => other !== timer);
      };
    },
    async advance(ms) {
      const end = elapsed + ms;
      await settle();
      while (timers[0] !== undefined && timers[0].due <= end) await fire(timers[0]);
      elapsed = end;
    },
    async toNextTimer() {
      await settle();
      if (timers[0] === undefined) return false;
      await fire(timers[0]);
      return true;
    },
    async until(condition, limit = FAR) {
      const end = elapsed + limit;
      await settle();
      while (!condition()) {
        const next = timers[0];
        if (next === undefined) throw new Error('the condition does not hold, and no timer is left to wait for');
        if (next.due > end) throw new Error(`the condition did not hold within ${limit} ms`);
        await fire(next);
      }
    },
    jumpWall(ms) {
      wallAtZero += ms;
    },
    reboot() {
      bootedAt = elapsed;
      boots += 1;
      timers = [];
    },
    elapsed: () => elapsed,
    get pending() {
      return timers.length;
    },
  };
}

/** Turns of the event loop after which work that waits for no real input has come to rest. */
const TURNS = 3;

/**
 * Lets promises and immediates run: each turn drains all microtasks, also those that the turn before added. What a database
 * answers over a socket is waited for.
 */
async function someTurns(): Promise<void> {
  for (let turn = 0; turn < TURNS; turn += 1) {
    await nextTurnOfLoop();
    if (statementsUnderWay() > 0) turn = -1;
  }
}
