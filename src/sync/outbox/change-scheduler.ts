// Design: src/decisions/changes.md

import { debounceOf } from '../../model/lane.ts';
import { onClockSetBack } from '../../platform/lib/clock.ts';
import { type DueChange, type Eligibility, firstDueTimes, nextDue, nextLive } from '../../store/changes/next-change.ts';
import { clampFutureTimestamps } from '../../store/installation/clock-changes.ts';
import { canRecord } from '../../store/workspace/server-capabilities.ts';
import { tasksWereRead } from '../../store/workspace/workspace-reads.ts';
import type { Throttle } from '../quota/throttle.ts';
import { recordsPullRequests, type WorkspaceContext } from '../workspace-context.ts';

/** The change to send next. */
export interface NextChange extends DueChange {
  /** Whether nothing has happened since that could have made another change more urgent. */
  isCurrent(): boolean;
}

export type ChangeScheduler = ReturnType<typeof createChangeScheduler>;

/** How long a selected change stays selected unless a wake-up arrives, milliseconds. */
const SELECTION_LIFETIME = 50;
/** Quota windows for which due times are considered in advance. */
const WINDOWS_AHEAD = 2;

/**
 * Decides which change is sent next, and when.
 *
 * @param areChangesCurrent whether the present rules have evaluated all changes. Until then nothing is written
 */
export function createChangeScheduler(context: WorkspaceContext, areChangesCurrent = () => true) {
  const { store, throttle, clock, breaker, config } = context;
  const { visibility } = config.quota;
  let mayWrite = false;
  let mayRecord = false;
  let onlyWrites = false;
  const checkClock = onClockSetBack(clock, () =>
    store.commit((transaction) => clampFutureTimestamps(transaction, clock.now())),
  );

  /** Returns the conditions that a change must meet to be sent now. */
  async function eligible(): Promise<Eligibility> {
    mayWrite ||= await tasksWereRead(store.query);
    mayRecord ||= recordsPullRequests(config) && (await canRecord(store.query));
    return {
      now: clock.now(),
      // A person has approved the writes that are sent alone.
      onlyReads: !mayWrite || !(onlyWrites || areChangesCurrent()),
      onlyWrites,
      withoutRecords: !mayRecord,
      retriesLast: sendsOneByOne(),
      leadTime: await currentLeadTime(),
    };
  }

  /** Milliseconds by which changes are sent before their due time, so that the quota can serve all of them in time. */
  async function currentLeadTime(): Promise<number> {
    if (visibility === undefined) return 0;
    const paces = throttle.paces();
    const limit = WINDOWS_AHEAD * Math.max(0, ...paces.map(({ slots }) => slots));
    const dueTimes = await firstDueTimes(store.query, limit);
    const { maxWait } = debounceOf('mirror', 0, visibility);
    return leadTime(forecastDueTimes(dueTimes, clock.now() + maxWait), paces);
  }

  /** True while the outcome of any request is doubtful: requests are sent one at a time, and changes take turns. */
  function sendsOneByOne(): boolean {
    return breaker.open || throttle.isHalted();
  }

  return {
    /**
     * Selects the next change to send, and from when on it may be sent.
     *
     * @param wake resolves when another change may have become more urgent
     */
    async nextChange(wake?: Promise<void>): Promise<NextChange | undefined> {
      let isWoken = false;
      void wake?.then(() => {
        isWoken = true;
      });
      const selectedAt = clock.monotonic();
      await checkClock();
      const next = await nextDue(store.query, await eligible());
      return next && { ...next, isCurrent: () => !isWoken && clock.monotonic() - selectedAt < SELECTION_LIFETIME };
    },
    /** Returns the next change that is not part of a backfill. */
    nextLiveChange: async () => nextLive(store.query, await eligible()),
    sendsOneByOne,
    /** True once the tasks of the workspace were read. Before that, desired and known state cannot be compared. */
    mayWrite: () => mayWrite,
    /** Excludes reads from now on. */
    selectWritesOnly(): void {
      onlyWrites = true;
    },
  };
}

/** Milliseconds of reserve per slot: a request takes some time, and other requests start meanwhile. */
const MARGIN = 2_000;

/** A burst is the changes of this period, milliseconds. */
const BURST_PERIOD = 30_000;
/** A burst is expected to continue for this many further periods. */
const EXPECTED_PERIODS = 3;

/**
 * Returns the given due times, followed by the expected due times of a burst that continues.
 * A release, for example, adds labels for minutes: waiting until all changes are known would start too late.
 *
 * @param dueTimes ascending
 * @param latest when a change would be due that arrived now
 */
export function forecastDueTimes(dueTimes: readonly number[], latest: number): number[] {
  const recent = dueTimes.filter((due) => due > latest - BURST_PERIOD && due <= latest).length;
  const gap = BURST_PERIOD / recent;
  const expected = Array.from({ length: recent * EXPECTED_PERIODS }, (_, index) => latest + (index + 1) * gap);
  return [...dueTimes, ...expected];
}

/**
 * Returns how long before its due time the first change must be sent so that all changes can be sent in time.
 * If more changes are due within a window than it has slots, the slot of the first must be free when the last is due.
 *
 * @param dueTimes ascending
 * @returns whole milliseconds
 */
export function leadTime(dueTimes: readonly number[], paces: ReturnType<Throttle['paces']>): number {
  const latest = [...dueTimes];
  for (let index = latest.length - 1; index >= 0; index--) {
    for (const { slots, hold } of paces) {
      const reusedAt = latest[index + slots];
      if (reusedAt !== undefined) latest[index] = Math.min(latest[index] as number, reusedAt - hold - MARGIN);
    }
  }
  const [first] = dueTimes;
  // Expected due times may be fractions of a millisecond. Those of rows are whole.
  return first === undefined ? 0 : Math.ceil(first - (latest[0] as number));
}
