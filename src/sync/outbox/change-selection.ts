import { debounceOf } from '../../model/lane.ts';
import type { Clock } from '../../platform/lib/clock.ts';
import { onClockSetBack } from '../../platform/lib/clock-set-back.ts';
import { clampFutureTimestamps } from '../../store/clock-changes.ts';
import type { Store } from '../../store/database.ts';
import { type DueChange, type Eligibility, firstDueTimes, nextDue, nextLive } from '../../store/next-change.ts';
import { canRecord } from '../../store/server-capabilities.ts';
import { tasksWereRead } from '../../store/workspace-reads.ts';
import type { Breaker } from './breaker.ts';
import { forecastDueTimes, leadTime } from './deadlines.ts';
import type { Slots } from './send-context.ts';

export interface ChoiceDeps {
  readonly store: Store;
  readonly throttle: Slots;
  readonly clock: Clock;
  readonly breaker: Breaker;
  /** Within which every change is to be seen, milliseconds; absent: as soon as the quota makes sensible. */
  readonly visibility?: number;
  /** Whether any connection records its pull requests in the workspace. */
  readonly recordsPullRequests: boolean;
}

/** Which change goes next, and when. */
export interface ChangeSelection {
  /** What may be sent at this moment. */
  eligible(): Promise<Eligibility>;
  /** The one that is due first, and when. */
  next(): Promise<DueChange | undefined>;
  /** The same, backfills left out. */
  nextLive(): Promise<DueChange | undefined>;
  /** What a request brings is not known before its answer: they go one by one, each change in its turn. */
  isProbing(): boolean;
  /** The workspace was read once: until then what would be written is a guess. */
  mayWrite(): boolean;
  /** From now on nothing is read. */
  chooseWritesOnly(): void;
}

/** Windows of which the due times are looked at ahead. */
const LOOK_AHEAD = 2;
export function createChangeSelection(deps: ChoiceDeps): ChangeSelection {
  const { store, throttle, clock, breaker, visibility, recordsPullRequests } = deps;
  let mayWrite = false;
  let mayRecord = false;
  let onlyWrites = false;
  const mindTheClock = onClockSetBack(clock, () =>
    store.commit((transaction) => clampFutureTimestamps(transaction, clock.now())),
  );

  async function eligible(): Promise<Eligibility> {
    mayWrite ||= await tasksWereRead(store.query);
    mayRecord ||= recordsPullRequests && (await canRecord(store.query));
    const may = { onlyReads: !mayWrite, onlyWrites, withoutRecords: !mayRecord };
    return { now: clock.now(), ...may, retriesLast: isProbing(), leadTime: await ahead() };
  }

  /** If the quota cannot keep a promise at the last moment, the change goes earlier. */
  async function ahead(): Promise<number> {
    if (visibility === undefined) return 0;
    const paces = throttle.paces();
    const most = LOOK_AHEAD * Math.max(0, ...paces.map(({ slots }) => slots));
    const dues = await firstDueTimes(store.query, most);
    const { maxWait: longest } = debounceOf('mirror', 0, visibility);
    return leadTime(forecastDueTimes(dues, clock.now() + longest), paces);
  }

  function isProbing(): boolean {
    return breaker.open || throttle.isHalted();
  }

  return {
    eligible,
    async next() {
      await mindTheClock();
      return nextDue(store.query, await eligible());
    },
    nextLive: async () => nextLive(store.query, await eligible()),
    isProbing,
    mayWrite: () => mayWrite,
    chooseWritesOnly() {
      onlyWrites = true;
    },
  };
}
