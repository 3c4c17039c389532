import { createTask, parse } from 'node-cron';
import type { Cancel, Clock } from '../lib/clock.ts';
import type { Random } from '../lib/random.ts';
import type { PollSchedule } from './active-connection.ts';

/** An interval varies by this share either way, so that many connections do not ask at the same moment for ever. */
const JITTER = 0.1;
const SECOND = 1_000;
const MINUTE = 60 * SECOND;

/**
 * Calls at each moment of the schedule until cancelled. The callee sees to it that calls do not overlap. An interval goes
 * on from `lastAt`, epoch milliseconds, where that is told: it is then no longer for having been interrupted.
 *
 * node-cron reads a cron expression and decides which moments it names. The moments themselves come from our clock,
 * one look at each minute (each second where the expression names seconds): so a test can travel, and a wall clock
 * that was set anew is noticed within a minute.
 */
export function repeat(
  schedule: PollSchedule,
  clock: Clock,
  random: Random,
  call: () => void,
  lastAt = clock.now(),
): Cancel {
  if (schedule === 'off') return () => undefined;
  if ('cron' in schedule) return repeatCron(schedule.cron, clock, call);
  // A time ahead of ours can only come from a clock that has since been set back.
  let passed = Math.max(0, clock.now() - lastAt);
  const toNext = () => {
    const pause = schedule.everyMs * (1 - JITTER + 2 * JITTER * random.float());
    const left = Math.max(0, pause - passed);
    passed = 0;
    return left;
  };
  return chain(clock, toNext, call);
}

function repeatCron(expression: string, clock: Clock, call: () => void): Cancel {
  const task = createTask(expression, () => undefined);
  const step = namesSeconds(expression) ? SECOND : MINUTE;
  let next = 0;
  const toNext = () => {
    next = Math.floor(clock.now() / step) * step + step;
    return next - clock.now();
  };
  const cancel = chain(clock, toNext, () => {
    // The moment meant, not the one reached: a timer may be a little early or late.
    if (task.match(new Date(next))) call();
  });
  return () => {
    cancel();
    void task.destroy();
  };
}

function namesSeconds(expression: string): boolean {
  const { second } = parse(expression);
  return second.length !== 1 || second[0] !== 0;
}

/** Calls again and again, each time after the pause that `toNext` names. */
function chain(clock: Clock, toNext: () => number, call: () => void): Cancel {
  let cancelled = false;
  let cancel: Cancel;
  const arm = () => {
    cancel = clock.after(toNext(), () => {
      call();
      if (!cancelled) arm();
    });
  };
  arm();
  return () => {
    cancelled = true;
    cancel();
  };
}
