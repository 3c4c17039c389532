import { type Cancel, type Clock, createSuspendAwareClock, type Random } from './clock.ts';
import { type CronTimes, parseCron } from './cron.ts';
import type { Logger } from './telemetry.ts';

/** The times of a repeated job. Moments of a cron expression are those of the process's time zone. */
export type Schedule = { readonly everyMs: number } | { readonly cron: string } | 'off';

/** A repeated job. */
export interface Job {
  /** Unique among the jobs of a workspace, and stable across versions: its last run is stored under this name. */
  readonly name: string;
  readonly when: Schedule;
  /** Milliseconds after each start at which it runs too. It then needs no stored last run. */
  readonly atStart?: number;
  /** Never called while it runs. A run that ends after the signal was aborted does not count. */
  run(signal: AbortSignal): Promise<void>;
}

/** Stores last runs over restarts: epoch milliseconds by job. */
export interface RunMemory {
  read(): Promise<ReadonlyMap<string, number>>;
  /** Replaces all stored runs. */
  replace(runs: ReadonlyMap<string, number>): Promise<void>;
  note(job: string, at: number): Promise<void>;
}

/** The jobs of one workspace. */
export interface Timetable extends Stage {
  /** Runs a job now, also one that is off, or joins the present run. It counts as a run. Rejects with the error of the job. */
  runNow(job: string): Promise<void>;
}

/** Owns every interval of the process. */
export interface Scheduler {
  /** @param phase its place among those that start together, in [0, 1); absent: it waits for none of them */
  open(jobs: readonly Job[], memory: RunMemory, logger: Logger, phase?: number): Timetable;
}

export function createScheduler({ clock, random }: { readonly clock: Clock; readonly random: Random }): Scheduler {
  const pace = createTimerQueue(clock);
  const stagger = createStartupJitter(pace.passed);
  return {
    open: (jobs, memory, logger, phase) =>
      createTimetable({ jobs, memory, logger, clock, random, pace, phase, stagger }),
  };
}

interface TimetableOptions {
  readonly jobs: readonly Job[];
  readonly memory: RunMemory;
  readonly logger: Logger;
  readonly clock: Clock;
  readonly random: Random;
  readonly pace: TimerQueue;
  readonly phase: number | undefined;
  readonly stagger: StartupJitter;
}

/** An interval varies by this share in both directions, so that jobs that began together drift apart. */
const JITTER = 0.1;

interface Entry extends Waiting {
  readonly job: Job;
  readonly cron?: CronTimes;
  last: number;
  running?: Promise<void>;
}

/**
 * An interval counts from the start of the last run, also over restarts. So a daemon that never lives as long as an interval
 * still runs due jobs, and one that was off for longer runs each once, soon after its start. A job skips what falls due during
 * its own run. A job that never ran first waits a random part of its interval, so that many new workspaces do not run together.
 * After a start, the due jobs of many workspaces run one after the other, each at its place: for at most five minutes, and half
 * an interval.
 *
 * A last run that lies ahead of the wall clock counts as now.
 */
function createTimetable(options: TimetableOptions): Timetable {
  const { jobs, memory, logger, clock, random, pace, phase, stagger } = options;
  const stopping = new AbortController();
  const { signal } = stopping;
  const entries = new Map(jobs.map((job) => [job.name, entryOf(job)]));
  let starting: Promise<void> | undefined;
  /** The longest delay of first runs, milliseconds. */
  let spread = 0;
  if (phase !== undefined) stagger.announce();

  function entryOf(job: Job): Entry {
    const entry: Entry = { job, cron: cronOf(job.when), last: clock.now(), due: 0, begin: () => begin(entry) };
    return entry;
  }

  function begin(entry: Entry): void {
    run(entry).catch((error: unknown) => logger.error({ job: entry.job.name, error }, 'a scheduled job failed'));
  }

  function run(entry: Entry): Promise<void> {
    pace.leave(entry);
    entry.running ??= work(entry).finally(() => (entry.running = undefined));
    return entry.running;
  }

  async function work(entry: Entry): Promise<void> {
    const begunAt = { wall: clock.now(), passed: pace.passed() };
    try {
      await entry.job.run(signal);
    } finally {
      if (!signal.aborted) await count(entry, begunAt);
    }
  }

  async function count(entry: Entry, begunAt: { readonly wall: number; readonly passed: number }): Promise<void> {
    const { job, cron } = entry;
    entry.last = cron ? clock.now() : begunAt.wall;
    if (isKept(job)) await quietly(() => memory.note(job.name, entry.last));
    if (starting && !signal.aborted) waitForNext(entry, pace.passed() - begunAt.passed);
  }

  /** Due times before the start run at once; due times during a run are skipped. */
  function waitForNext(entry: Entry, ago: number, isFirst = false): void {
    const { job, cron } = entry;
    if (cron) pace.waitFor(entry, cron);
    if (typeof job.when !== 'object' || !('everyMs' in job.when)) return;
    const pause = job.when.everyMs * (1 - JITTER + 2 * JITTER * random.float());
    if (ago < pause) pace.wait(entry, pause - ago);
    else pace.wait(entry, isFirst ? heldBack(job) : pause);
  }

  async function goOn(): Promise<void> {
    const before = await quietly(() => memory.read());
    const now = clock.now();
    const runs = new Map<string, number>();
    for (const entry of entries.values()) {
      if (!isKept(entry.job)) continue;
      entry.last = Math.min(now, before?.get(entry.job.name) ?? neverRun(entry.job.when, now));
      runs.set(entry.job.name, entry.last);
    }
    // Also stores runs that lay ahead of the clock: counted from each start again, their interval would never end.
    if (before && !isSame(runs, before)) await quietly(() => memory.replace(runs));
    if (signal.aborted) return;
    for (const entry of entries.values()) if (!entry.running) waitForFirst(entry, now - entry.last);
  }

  function waitForFirst(entry: Entry, ago: number): void {
    const { when, atStart } = entry.job;
    if (when !== 'off' && atStart !== undefined) pace.wait(entry, atStart + heldBack(entry.job));
    else waitForNext(entry, ago, true);
  }

  function heldBack({ when }: Job): number {
    const most = typeof when === 'object' && 'everyMs' in when ? Math.min(spread, when.everyMs / 2) : spread;
    return (phase ?? 0) * most;
  }

  function neverRun(when: Schedule, now: number): number {
    return typeof when === 'object' && 'everyMs' in when ? now - Math.floor(random.float() * when.everyMs) : now;
  }

  async function quietly<Result>(work: () => Promise<Result>): Promise<Result | undefined> {
    try {
      return await work();
    } catch (error) {
      logger.error({ error }, 'the last runs of scheduled jobs could not be read or kept');
      return undefined;
    }
  }

  return {
    runNow(name) {
      const entry = entries.get(name);
      return entry ? run(entry) : Promise.reject(new Error(`there is no job ${name}`));
    },
    start() {
      if (signal.aborted || starting) return;
      if (phase !== undefined) spread = stagger.begin();
      starting = goOn();
    },
    async stop() {
      if (!signal.aborted && !starting && phase !== undefined) stagger.withdraw();
      stopping.abort();
      for (const entry of entries.values()) pace.leave(entry);
      await starting;
      await Promise.allSettled([...entries.values()].flatMap(({ running }) => running ?? []));
    },
  };
}

function cronOf(when: Schedule): CronTimes | undefined {
  return typeof when === 'object' && 'cron' in when ? parseCron(when.cron) : undefined;
}

function isKept({ when, atStart }: Job): boolean {
  return when !== 'off' && atStart === undefined;
}

function isSame(left: ReadonlyMap<string, number>, right: ReadonlyMap<string, number>): boolean {
  return left.size === right.size && [...left].every(([name, at]) => right.get(name) === at);
}

/** Entries by due time, and those of the same time in the order of their arrival. */
interface SortedQueue<Entry extends { readonly due: number }> {
  first(): Entry | undefined;
  /** Adds an entry, whose `due` must not change until it is removed. */
  add(entry: Entry): void;
  /** Removes an entry, if the queue has it. */
  remove(entry: Entry): void;
  all(): readonly Entry[];
}

function createSortedQueue<Entry extends { readonly due: number }>(): SortedQueue<Entry> {
  const entries: Entry[] = [];

  /** Returns the index of the first entry that is due later, or with `inclusive` at the same time. */
  function indexOf(due: number, inclusive: boolean): number {
    let low = 0;
    for (let high = entries.length; low < high; ) {
      const middle = (low + high) >> 1;
      const at = (entries[middle] as Entry).due;
      if (at < due || (at === due && !inclusive)) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  return {
    first: () => entries[0],
    add(entry) {
      entries.splice(indexOf(entry.due, false), 0, entry);
    },
    remove(entry) {
      const at = entries.indexOf(entry, indexOf(entry.due, true));
      if (at !== -1) entries.splice(at, 1);
    },
    all: () => [...entries],
  };
}

/** A job that waits for its next run. */
interface Waiting {
  /** The last moment of its cron expression, epoch milliseconds: the next one is later. */
  readonly last: number;
  /** Elapsed time at which it is due. The queue alone sets it, and `times`, the cron expression whose moment it waits for. */
  due: number;
  times?: CronTimes;
  begin(): void;
}

/** Starts each waiting job at its time, with one timer for all. */
interface TimerQueue {
  /** Elapsed milliseconds, including the sleep of the machine. */
  passed(): number;
  /** Begins the job after so many milliseconds. */
  wait(entry: Waiting, left: number): void;
  /** Begins the job at the next moment of a cron expression, if there is one. */
  waitFor(entry: Waiting, times: CronTimes): void;
  leave(entry: Waiting): void;
}

/** Milliseconds between the starts of two jobs, because many may be overdue at once. */
const SPACING = 50;
/** Longest time between two checks of the clocks while a job waits, milliseconds. */
const LONGEST_SLEEP = 60_000;

function createTimerQueue(clock: Clock): TimerQueue {
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
    if (!passed.update()) return;
    for (const entry of line.all()) if (entry.times) place(entry, untilMoment(entry.times, entry.last), entry.times);
  }

  /** Waits longer if the moment of a cron expression is still ahead, because clocks drift and timers may be early. */
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

/** Spreads jobs that would begin at the same time. */
interface StartupJitter {
  /** Adds a job that will begin. */
  announce(): void;
  /** Removes a job that will not begin. */
  withdraw(): void;
  /** Records that a job begins. Returns its longest delay, milliseconds: 0 for one alone, and longer the more begin together. */
  begin(): number;
}

/** Milliseconds between the first runs of two jobs, and the longest delay. */
const APART = 150;
const LONGEST = 300_000;

/** @param passed elapsed milliseconds */
function createStartupJitter(passed: () => number): StartupJitter {
  let announced = 0;
  /** The starts within the longest delay. */
  let begun: number[] = [];
  return {
    announce: () => void announced++,
    withdraw: () => void announced--,
    begin() {
      const now = passed();
      begun = begun.filter((at) => now - at < LONGEST);
      const others = announced - 1 + begun.length;
      announced--;
      begun.push(now);
      return Math.min(LONGEST, others * APART);
    },
  };
}

const GOLDEN = (Math.sqrt(5) - 1) / 2;

/** Returns a fixed place in [0, 1) for a number. The places of consecutive numbers are spread evenly. */
export function phaseOf(number: number): number {
  return (number * GOLDEN) % 1;
}

/** A part of the daemon that runs on its own. Both methods are idempotent, also when they race. */
export interface Stage {
  start(): void;
  /** Stops taking new work and resolves when the work in hand is done. */
  stop(): Promise<void>;
}
