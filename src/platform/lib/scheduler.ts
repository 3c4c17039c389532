import type { Clock } from './clock.ts';
import { type CronTimes, parseCron } from './cron.ts';
import type { Logger } from './logger.ts';
import type { Random } from './random.ts';
import type { Stage } from './stage.ts';
import { createStartupJitter, type StartupJitter } from './startup-jitter.ts';
import { createTimerQueue, type TimerQueue, type Waiting } from './timer-queue.ts';

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
