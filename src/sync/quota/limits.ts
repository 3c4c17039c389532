import { leavesRoom, roomAt, usedAt, type Window, type WindowSnapshot, windowOf } from '../../model/windows.ts';
import { burstCeilingOf, type ConfiguredShare, ceilingOf } from './ceiling.ts';
import type { Cooldown } from './cooldown.ts';
import { anybody, constraintsOf, lastStart } from './forecast.ts';
import { type Ceiling, effectiveShare, nextSlotAt, slotsOf } from './share.ts';
import type { WindowLedger } from './window-ledger.ts';

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
   * Part of both caps that the background lanes may use, 0..1, or `auto` (`ceiling.ts`). Also at 1 a little is kept free
   * for people, from the moment that one of them asks until one long window after.
   */
  readonly share: ConfiguredShare;
  /** Most requests in flight at once. */
  readonly concurrency: number;
}

/** What is known at one moment. Times are monotonic milliseconds. */
export interface Facts {
  readonly book: Pick<WindowLedger, 'all' | 'background' | 'backfill' | 'latest' | 'since'>;
  readonly cooldown: Cooldown;
  readonly now: number;
  /** When a person or a command last asked for a request. */
  readonly peopleAt: number;
}

interface SharedWindow extends Window {
  readonly ceilingOf: (share: ConfiguredShare, quietSince: number) => Ceiling;
}

/** Part of each cap that is kept free for people while there are any: 10 of 200, 2 of 40. */
const FOR_PEOPLE = 0.05;
/**
 * Part of the background's slots that backfills leave to the live lanes, so that these need not wait for a slot to
 * expire: it is what a backfill loses against one that takes everything.
 */
const FOR_LIVE = 0.03;

/** Where a backfill may not go for the sake of live work, it looks again after this, milliseconds. */
const LOOK_AGAIN = 5_000;
/** For so long after a refusal a forecast reckons with others, milliseconds. */
const LATELY = 3_600_000;
/** The rate of live work is not judged by less, milliseconds. */
const LEAST_OBSERVED = 60_000;

/**
 * Who may send, and when. Any lane needs room in both windows. The background lanes, which are all but `interactive`,
 * also need room in their own share of both, counted over their own requests alone: what is left belongs to people,
 * and people who use more than that do not starve the background.
 *
 * Backfills go only where live lanes that go on as they did lately find a free slot for each request, for as long as the
 * backfill's own slot is held; a few stay free besides, and no window ÷ slots sees more than one of them. What comes live
 * then finds slots that are free, and others that are free again every few seconds.
 */
export interface Limits {
  /** Those that are not lifted. */
  readonly windows: readonly Window[];
  /** How long a request counts at most, milliseconds. */
  readonly longestHold: number;
  /** The background's share is never cut below this: one request of the largest cap. */
  readonly smallestShare: number;
  /** The background's share of the long window at present, and what a share that was cut grows back to. */
  share(facts: Facts): number;
  ceiling(facts: Facts): number;
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
  /**
   * When the last of so many background requests can start, if nothing else comes. The share grows as it would,
   * and beside others less. Not before `from`.
   */
  drainedAt(facts: Facts, from: number, waiting: Waiting): number;
  /** Whether nothing is in flight and nothing counts any more. */
  isIdle(facts: Facts): boolean;
  /** Of the long window. */
  used(facts: Facts): Pick<WindowSnapshot, 'used' | 'cap'>;
  snapshot(facts: Facts): { long: WindowSnapshot; burst: WindowSnapshot };
}

interface Waiting {
  /** Of the background, those of backfills among them. */
  readonly requests: number;
  readonly backfills: number;
}

export function createLimits(quota: QuotaOptions): Limits {
  const long: SharedWindow = { ...windowOf(quota.requests, quota.window), ceilingOf };
  const burst: SharedWindow = { ...windowOf(quota.burst, quota.burstWindow), ceilingOf: burstCeilingOf };
  const windows = [long, burst].filter(({ cap }) => cap > 0);

  const longestHold = Math.max(0, ...windows.map(({ hold }) => hold));
  const ceiling = (window: SharedWindow, { cooldown }: Facts) => window.ceilingOf(quota.share, cooldown.quietSince);
  const share = (window: SharedWindow, facts: Facts) =>
    effectiveShare(facts.cooldown, ceiling(window, facts), facts.now);
  /** When the slots reserved for people are free for all again; in the past if there are none. */
  const peopleGone = ({ peopleAt }: Facts) => peopleAt + longestHold;
  const backgroundSlots = (window: SharedWindow, facts: Facts) => {
    const { cap } = window;
    const slots = slotsOf(cap, share(window, facts));
    return peopleGone(facts) > facts.now ? Math.max(1, Math.min(slots, cap - part(cap, FOR_PEOPLE))) : slots;
  };
  const backfillSlots = (window: SharedWindow, facts: Facts) => {
    const slots = backgroundSlots(window, facts);
    return Math.max(1, slots - part(slots, FOR_LIVE));
  };
  const roomForAll = ({ book }: Facts) => latest(windows.map(({ cap, hold }) => roomAt(book.all, cap, hold)));
  const roomInShare = (facts: Facts, slots: typeof backgroundSlots) =>
    latest(windows.map((window) => roomAt(facts.book.background, slots(window, facts), window.hold)));
  const roomForBackground = (facts: Facts) => Math.max(roomForAll(facts), roomInShare(facts, backgroundSlots));
  const pace = (facts: Facts) => (long.cap === 0 ? 0 : long.hold / backgroundSlots(long, facts));
  const evenly = (facts: Facts) => (facts.book.latest.get('backfill') ?? Number.NEGATIVE_INFINITY) + pace(facts);
  /** Live lanes must find what they need for as long as this slot is taken. */
  const besideLive = (facts: Facts) => {
    const { book, now } = facts;
    const need = { rate: liveRate(facts, long.hold), spare: backgroundSlots(long, facts) - backfillSlots(long, facts) };
    const isRoom = leavesRoom(
      { use: book.background, slots: backgroundSlots(long, facts), hold: long.hold, now },
      need,
    );
    return long.cap === 0 || isRoom ? Number.NEGATIVE_INFINITY : now + LOOK_AGAIN;
  };
  const roomForBackfill = (facts: Facts) =>
    Math.max(roomForAll(facts), roomInShare(facts, backfillSlots), evenly(facts), besideLive(facts));
  /** When this window has more slots for the background: the share has grown, or people have gone. */
  const growth = (window: SharedWindow, facts: Facts) => {
    const gone = peopleGone(facts);
    const grown = nextSlotAt(facts.cooldown, ceiling(window, facts), window.cap, facts.now);
    return Math.min(grown, gone > facts.now ? gone : Number.POSITIVE_INFINITY);
  };
  const nextRelief = (facts: Facts) => earliest(windows.map((window) => growth(window, facts)));
  const describe = (window: SharedWindow, length: number, facts: Facts): WindowSnapshot => ({
    window: length,
    ...useOf(window, facts),
    usedByBackground: usedAt(facts.book.background, window.hold, facts.now),
    usedByBackfill: usedAt(facts.book.backfill, window.hold, facts.now),
    backgroundLimit: window.cap > 0 ? backgroundSlots(window, facts) : null,
    backfillLimit: window.cap > 0 ? backfillSlots(window, facts) : null,
  });

  return {
    windows,
    longestHold,
    smallestShare: 1 / Math.max(1, ...windows.map(({ cap }) => cap)),
    share: (facts) => share(long, facts),
    ceiling: (facts) => ceiling(long, facts).at(facts.now),
    roomForAll,
    roomForBackground,
    nextForBackground: (facts) => Math.min(roomForBackground(facts), Math.max(roomForAll(facts), nextRelief(facts))),
    roomForBackfill,
    nextForBackfill: (facts) =>
      Math.min(
        roomForBackfill(facts),
        Math.max(roomForAll(facts), evenly(facts), besideLive(facts), nextRelief(facts)),
      ),
    peopleServedAt: ({ book }, from, requests) => lastStart(anybody(windows, book.all), from, requests),
    usedShare(facts) {
      if (long.cap === 0) return 0;
      const { used, usedByBackground, usedByBackfill, backgroundLimit } = describe(long, quota.window, facts);
      const ofShare = (usedByBackground - usedByBackfill) / (backgroundLimit ?? 1);
      return Math.min(1, Math.max((used - usedByBackfill) / long.cap, ofShare));
    },
    paces: (facts) => windows.map((window) => ({ slots: backgroundSlots(window, facts), hold: window.hold })),
    drainedAt(facts, from, { requests, backfills }) {
      const last = (slots: typeof backgroundSlots, count: number) => {
        const later = (window: SharedWindow, now: number) => {
          const expected = expectedShare(facts.cooldown, ceiling(window, facts).at(facts.now), facts.now);
          return Math.min(
            Math.max(slots(window, facts), slotsOf(window.cap, expected)),
            slots(window, { ...facts, now }),
          );
        };
        const grows = (window: SharedWindow, now: number) => growth(window, { ...facts, now });
        return lastStart(constraintsOf(windows, facts.book, later, grows), from, count);
      };
      const live = last(backgroundSlots, requests - backfills);
      if (backfills === 0) return live;
      const first = Math.max(
        evenly(facts),
        firstFree(from, long.hold, (now) => besideLive({ ...facts, now }) === Number.NEGATIVE_INFINITY),
      );
      return Math.max(live, last(backfillSlots, requests), first + (backfills - 1) * pace(facts));
    },
    isIdle: ({ book, now }) => windows.every(({ hold }) => usedAt(book.all, hold, now) === 0),
    used: (facts) => useOf(long, facts),
    snapshot: (facts) => ({
      long: describe(long, quota.window, facts),
      burst: describe(burst, quota.burstWindow, facts),
    }),
  };
}

function useOf({ cap, hold }: SharedWindow, { book, now }: Facts): Pick<WindowSnapshot, 'used' | 'cap'> {
  return { cap: cap || null, used: usedAt(book.all, hold, now) };
}

/**
 * The share that the background is expected to reach on average. Beside others it is refused again where it was refused last, or
 * they stop: nobody knows, so it is taken to be half way. Tuned on the tuning days of `quota.forecast`.
 *
 * @param most what it may grow to
 */
function expectedShare({ observed, refusedShare }: Cooldown, most: number, now: number): number {
  const isBeside = observed !== undefined && now - observed.at < LATELY && refusedShare !== undefined;
  return isBeside ? (Math.min(refusedShare, most) + most) / 2 : 1;
}

/** The first moment at which it is free, looked for within one window: if nothing more comes, the rate of live lanes falls. */
function firstFree(from: number, hold: number, isFree: (at: number) => boolean): number {
  for (let at = from; at < from + hold; at += LOOK_AGAIN) if (isFree(at)) return at;
  return from + hold;
}

/** What live lanes may well need, by what they needed lately: so many come by chance once in forty times. Per millisecond. */
function liveRate({ book, now }: Facts, hold: number): number {
  const live = usedAt(book.background, hold, now) - usedAt(book.backfill, hold, now);
  const observed = Math.min(hold, Math.max(LEAST_OBSERVED, now - book.since));
  return (live + 2 * Math.sqrt(live) + 3) / observed;
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
