import type { Book } from './book.ts';
import type { Brake } from './brake.ts';
import { constraintsOf, lastStart } from './forecast.ts';
import { effectiveShare, nextSlotAt, slotsOf } from './share.ts';
import { roomAt, usedAt, type Window, windowOf } from './windows.ts';

export interface QuotaOptions {
  /** Requests per `window`; 0 lifts this limit. */
  readonly requests: number;
  /** Milliseconds. */
  readonly window: number;
  /** Requests per `burstWindow`; 0 lifts this limit. */
  readonly burst: number;
  /** Milliseconds. */
  readonly burstWindow: number;
  /**
   * Part of both caps that the background lanes may use, 0..1. Also at 1 a little is kept free for people, from the
   * moment that one of them asks until one long window after.
   */
  readonly share: number;
  /** Most requests in flight at once. */
  readonly concurrency: number;
}

/** One quota window as it is now. `null` where the limit is lifted. */
export interface WindowSnapshot {
  /** Milliseconds. */
  readonly window: number;
  readonly cap: number | null;
  readonly used: number;
  readonly usedByBackground: number;
  /** Of these, by backfills. */
  readonly usedByBackfill: number;
  /** Requests that the background lanes may have in this window at the present share; and with how many backfills wait. */
  readonly backgroundLimit: number | null;
  readonly backfillLimit: number | null;
}

/** What is known at one moment. Times are monotonic milliseconds. */
interface Facts {
  readonly book: Pick<Book, 'all' | 'background' | 'backfill' | 'latest'>;
  readonly brake: Brake;
  readonly now: number;
  /** When a person or a command last asked for a request. */
  readonly peopleAt: number;
}

/** Part of each cap that is kept free for people while there are any: 10 of 200, 2 of 40. */
const FOR_PEOPLE = 0.05;
/**
 * Part of the background's slots that backfills leave to the live lanes, so that these need not wait for a slot to
 * expire: it is what a backfill loses against one that takes everything.
 */
const FOR_LIVE = 0.03;

/**
 * Who may send, and when. Any lane needs room in both windows. The background lanes, which are all but `interactive`,
 * also need room in their own share of both, counted over their own requests alone: what is left belongs to people,
 * and people who use more than that do not starve the background.
 *
 * Backfills go only where the other background lanes would have room to spare, and no faster than evenly: one in each
 * window ÷ slots. What comes live then finds slots that are free, and others that are free again every few seconds.
 */
export interface Limits {
  /** Those that are not lifted. */
  readonly windows: readonly Window[];
  /** The background's share is never cut below this: one request of the largest cap. */
  readonly smallestShare: number;
  share(facts: Facts): number;
  /** When any lane has room: -Infinity where it has, Infinity where an answer must come first. */
  roomForAll(facts: Facts): number;
  roomForBackground(facts: Facts): number;
  /** When to look again for room for the background: it may also come by a share that grows, or when people have gone. */
  nextForBackground(facts: Facts): number;
  roomForBackfill(facts: Facts): number;
  nextForBackfill(facts: Facts): number;
  /** When the last of so many more requests of people can start; not before `from`. */
  peopleServedAt(facts: Facts, from: number, requests: number): number;
  /** The used part, 0..1, of what may be used in the long window. Backfills do not count: they make room. */
  usedShare(facts: Facts): number;
  /** Requests of the background that each window takes at the present share; `hold` in milliseconds. */
  paces(facts: Facts): { slots: number; hold: number }[];
  /** When the last of so many background requests can start, at the present share; not before `from`. */
  drainedAt(facts: Facts, from: number, requests: number): number;
  /** Whether nothing is in flight and nothing counts any more. */
  isIdle(facts: Facts): boolean;
  snapshot(facts: Facts): { long: WindowSnapshot; burst: WindowSnapshot };
}

export function createLimits(quota: QuotaOptions): Limits {
  const long = windowOf(quota.requests, quota.window);
  const burst = windowOf(quota.burst, quota.burstWindow);
  const windows = [long, burst].filter(({ cap }) => cap > 0);

  const longestHold = Math.max(0, ...windows.map(({ hold }) => hold));
  const share = ({ brake, now }: Facts) => effectiveShare(brake, quota.share, now);
  /** When what is kept for people is free for all again; in the past where there are none. */
  const peopleGone = ({ peopleAt }: Facts) => peopleAt + longestHold;
  const backgroundSlots = (cap: number, facts: Facts) => {
    const slots = slotsOf(cap, share(facts));
    return peopleGone(facts) > facts.now ? Math.max(1, Math.min(slots, cap - part(cap, FOR_PEOPLE))) : slots;
  };
  const backfillSlots = (cap: number, facts: Facts) => {
    const slots = backgroundSlots(cap, facts);
    return Math.max(1, slots - part(slots, FOR_LIVE));
  };
  const roomForAll = ({ book }: Facts) => latest(windows.map(({ cap, hold }) => roomAt(book.all, cap, hold)));
  const roomInShare = (facts: Facts, slots: typeof backgroundSlots) =>
    latest(windows.map(({ cap, hold }) => roomAt(facts.book.background, slots(cap, facts), hold)));
  const roomForBackground = (facts: Facts) => Math.max(roomForAll(facts), roomInShare(facts, backgroundSlots));
  const evenly = (facts: Facts) =>
    long.cap === 0
      ? Number.NEGATIVE_INFINITY
      : (facts.book.latest.get('backfill') ?? Number.NEGATIVE_INFINITY) + long.hold / backgroundSlots(long.cap, facts);
  const roomForBackfill = (facts: Facts) =>
    Math.max(roomForAll(facts), roomInShare(facts, backfillSlots), evenly(facts));
  const nextGrowth = ({ brake, now }: Facts) =>
    earliest(windows.map(({ cap }) => nextSlotAt(brake, quota.share, cap, now)));
  const nextRelief = (facts: Facts) => {
    const gone = peopleGone(facts);
    return Math.min(nextGrowth(facts), gone > facts.now ? gone : Number.POSITIVE_INFINITY);
  };
  const describe = (window: Window, length: number, facts: Facts): WindowSnapshot => ({
    window: length,
    cap: window.cap || null,
    used: usedAt(facts.book.all, window.hold, facts.now),
    usedByBackground: usedAt(facts.book.background, window.hold, facts.now),
    usedByBackfill: usedAt(facts.book.backfill, window.hold, facts.now),
    backgroundLimit: window.cap > 0 ? backgroundSlots(window.cap, facts) : null,
    backfillLimit: window.cap > 0 ? backfillSlots(window.cap, facts) : null,
  });

  return {
    windows,
    smallestShare: 1 / Math.max(1, ...windows.map(({ cap }) => cap)),
    share,
    roomForAll,
    roomForBackground,
    nextForBackground: (facts) => Math.min(roomForBackground(facts), Math.max(roomForAll(facts), nextRelief(facts))),
    roomForBackfill,
    nextForBackfill: (facts) =>
      Math.min(roomForBackfill(facts), Math.max(roomForAll(facts), evenly(facts), nextRelief(facts))),
    peopleServedAt: ({ book }, from, requests) =>
      lastStart(
        windows.map(({ cap, hold }) => ({ limit: cap, hold, use: book.all })),
        from,
        requests,
      ),
    usedShare(facts) {
      if (long.cap === 0) return 0;
      const { used, usedByBackground, usedByBackfill, backgroundLimit } = describe(long, quota.window, facts);
      const ofShare = (usedByBackground - usedByBackfill) / (backgroundLimit ?? 1);
      return Math.min(1, Math.max((used - usedByBackfill) / long.cap, ofShare));
    },
    paces: (facts) => windows.map(({ cap, hold }) => ({ slots: backgroundSlots(cap, facts), hold })),
    drainedAt: (facts, from, requests) =>
      lastStart(
        constraintsOf(windows, facts.book, (cap) => backgroundSlots(cap, facts)),
        from,
        requests,
      ),
    isIdle: ({ book, now }) => windows.every(({ hold }) => usedAt(book.all, hold, now) === 0),
    snapshot: (facts) => ({
      long: describe(long, quota.window, facts),
      burst: describe(burst, quota.burstWindow, facts),
    }),
  };
}

function latest(times: readonly number[]): number {
  return Math.max(Number.NEGATIVE_INFINITY, ...times);
}

function earliest(times: readonly number[]): number {
  return Math.min(Number.POSITIVE_INFINITY, ...times);
}

/** At least one, where there is something to take it from. */
function part(slots: number, share: number): number {
  return Math.ceil(slots * share);
}
