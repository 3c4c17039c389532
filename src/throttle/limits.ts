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
  /** Part of both caps that the background lanes may use, 0..1. At 1 nothing is kept free. */
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
  /** Requests that the background lanes may have in this window at the present share. */
  readonly backgroundLimit: number | null;
}

/** What is known at one moment. Times are monotonic milliseconds. */
interface Facts {
  readonly book: Pick<Book, 'all' | 'background'>;
  readonly brake: Brake;
  readonly now: number;
}

/**
 * Who may send, and when. Any lane needs room in both windows. The background lanes, which are all but `interactive`,
 * also need room in their own share of both, counted over their own requests alone: what is left belongs to people,
 * and people who use more than that do not starve the background.
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
  /** When to look again for room for the background: it may also come by a share that grows. */
  nextForBackground(facts: Facts): number;
  /** The used part, 0..1, of what may be used in the long window. */
  usedShare(facts: Facts): number;
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

  const share = ({ brake, now }: Facts) => effectiveShare(brake, quota.share, now);
  const roomForAll = ({ book }: Facts) => latest(windows.map(({ cap, hold }) => roomAt(book.all, cap, hold)));
  const roomInShare = (facts: Facts) => {
    const part = share(facts);
    return latest(windows.map(({ cap, hold }) => roomAt(facts.book.background, slotsOf(cap, part), hold)));
  };
  const roomForBackground = (facts: Facts) => Math.max(roomForAll(facts), roomInShare(facts));
  const nextGrowth = ({ brake, now }: Facts) =>
    earliest(windows.map(({ cap }) => nextSlotAt(brake, quota.share, cap, now)));
  const describe = (window: Window, length: number, facts: Facts): WindowSnapshot => ({
    window: length,
    cap: window.cap || null,
    used: usedAt(facts.book.all, window.hold, facts.now),
    usedByBackground: usedAt(facts.book.background, window.hold, facts.now),
    backgroundLimit: window.cap > 0 ? slotsOf(window.cap, share(facts)) : null,
  });

  return {
    windows,
    smallestShare: 1 / Math.max(1, ...windows.map(({ cap }) => cap)),
    share,
    roomForAll,
    roomForBackground,
    nextForBackground: (facts) => Math.min(roomForBackground(facts), Math.max(roomForAll(facts), nextGrowth(facts))),
    usedShare(facts) {
      if (long.cap === 0) return 0;
      const { used, usedByBackground, backgroundLimit } = describe(long, quota.window, facts);
      return Math.min(1, Math.max(used / long.cap, usedByBackground / (backgroundLimit ?? 1)));
    },
    drainedAt: (facts, from, requests) =>
      lastStart(
        constraintsOf(windows, facts.book, (cap) => slotsOf(cap, share(facts))),
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
