import {
  leavesRoom,
  roomInAll,
  usedAt,
  type Window,
  type WindowSnapshot,
  type WindowUse,
  windowOf,
  withinCap,
} from '../../model/windows.ts';
import type { WorkspaceConfig } from '../../platform/config/schema.ts';
import type { Cooldown } from './cooldown.ts';
import {
  burstCeilingOf,
  type Ceiling,
  type ConfiguredShare,
  ceilingOf,
  effectiveShare,
  nextSlotAt,
  slotsOf,
} from './share.ts';
import type { WindowLedger } from './window-ledger.ts';

/** The configured quota. 0 `requests` or 0 `burst` lift that limit, in tests and benchmarks. */
export type QuotaOptions = WorkspaceConfig['quota'];

/** The state of the quota at one moment. Times are monotonic milliseconds. */
export interface QuotaState {
  readonly ledger: Pick<WindowLedger, 'all' | 'background' | 'backfill' | 'status' | 'latest' | 'since'>;
  readonly cooldown: Cooldown;
  readonly now: number;
  /** Time of the last interactive request for a slot. */
  readonly interactiveAt: number;
}

interface SharedWindow extends Window {
  readonly ceilingOf: (share: ConfiguredShare, quietSince: number) => Ceiling;
}

/** The part of each cap that is reserved for active people: 10 of 200, 2 of 40. */
const INTERACTIVE_RESERVE = 0.05;
/** The part of the background's slots that backfills leave free, so that live lanes find a slot at once. */
const LIVE_RESERVE = 0.03;

/** A backfill that must wait for live work checks again after this, milliseconds. */
const BACKFILL_RETRY = 5_000;
/** A forecast takes a refusal into account for this long, milliseconds. */
const FORECAST_MEMORY = 3_600_000;
/** The shortest sample of live work, milliseconds. */
const MIN_OBSERVATION = 60_000;

/**
 * Decides which lanes may send, and when. Every lane needs room in both windows. The background lanes (all except
 * `interactive`) also need room in their share, which counts only their own requests, so that people who use more than
 * the rest do not starve them.
 *
 * A backfill also needs a free slot for each live request, at the recent rate, until its own slot is free again. A
 * reserve stays free besides, and backfills are spread evenly, so that live work finds a slot every few seconds.
 */
export type Limits = ReturnType<typeof createLimits>;

interface Queued {
  /** All background requests, backfills included. */
  readonly requests: number;
  readonly backfills: number;
}

function windowsOf(quota: QuotaOptions) {
  const long: SharedWindow = { ...windowOf(quota.requests, quota.window), ceilingOf };
  const burst: SharedWindow = { ...windowOf(quota.burst, quota.burstWindow), ceilingOf: burstCeilingOf };
  return { long, burst, windows: [long, burst].filter(({ cap }) => cap > 0) };
}

export function createLimits(quota: QuotaOptions) {
  const { long, burst, windows } = windowsOf(quota);
  const longestHold = Math.max(0, ...windows.map(({ hold }) => hold));
  const ceiling = (window: SharedWindow, { cooldown }: QuotaState) =>
    window.ceilingOf(quota.share, cooldown.quietSince);
  const share = (window: SharedWindow, state: QuotaState) =>
    effectiveShare(state.cooldown, ceiling(window, state), state.now);
  /** In the past if there is no reserve for people. */
  const reserveEnds = ({ interactiveAt }: QuotaState) => interactiveAt + longestHold;
  const backgroundSlots = (window: SharedWindow, state: QuotaState) => {
    const { cap } = window;
    const slots = slotsOf(cap, share(window, state));
    const isReserved = reserveEnds(state) > state.now;
    return isReserved ? Math.max(1, Math.min(slots, cap - partOf(cap, INTERACTIVE_RESERVE))) : slots;
  };
  const backfillSlots = (window: SharedWindow, state: QuotaState) => {
    const slots = backgroundSlots(window, state);
    return Math.max(1, slots - partOf(slots, LIVE_RESERVE));
  };
  const roomForAll = ({ ledger }: QuotaState) => roomInAll(ledger.all, windows);
  const sharesOf = (state: QuotaState, slots: typeof backgroundSlots) =>
    windows.map((window) => ({ cap: slots(window, state), hold: window.hold }));
  const roomInShare = (state: QuotaState, slots: typeof backgroundSlots) =>
    roomInAll(state.ledger.background, sharesOf(state, slots));
  const backfillInterval = (state: QuotaState) => (long.cap === 0 ? 0 : long.hold / backgroundSlots(long, state));
  const nextEvenBackfill = (state: QuotaState) =>
    (state.ledger.latest.get('backfill') ?? Number.NEGATIVE_INFINITY) + backfillInterval(state);
  /** Time at which a backfill can take a slot without delaying live lanes. */
  const besideLive = (state: QuotaState) => {
    const { ledger, now } = state;
    const slots = backgroundSlots(long, state);
    const need = { rate: liveRate(state, long.hold), spare: slots - backfillSlots(long, state) };
    const isRoom = leavesRoom({ use: ledger.background, slots, hold: long.hold, now }, need);
    return long.cap === 0 || isRoom ? Number.NEGATIVE_INFINITY : now + BACKFILL_RETRY;
  };
  /** Time until which a backfill waits, for its even pace and for live work. */
  const backfillDelayedUntil = (state: QuotaState) => Math.max(nextEvenBackfill(state), besideLive(state));
  /** Time at which the background gets more slots: by growth, or by the end of the reserve for people. */
  const growthAt = (window: SharedWindow, state: QuotaState) => {
    const reserveEnd = reserveEnds(state);
    const grown = nextSlotAt(state.cooldown, ceiling(window, state), window.cap, state.now);
    return Math.min(grown, reserveEnd > state.now ? reserveEnd : Number.POSITIVE_INFINITY);
  };
  const nextGrowth = (state: QuotaState) => earliest(windows.map((window) => growthAt(window, state)));
  const describe = (window: SharedWindow, length: number, state: QuotaState): WindowSnapshot => {
    const { all: used, background: usedByBackground, backfill: usedByBackfill } = usesOf(state, window.hold);
    const backgroundLimit = window.cap > 0 ? backgroundSlots(window, state) : null;
    const backfillLimit = window.cap > 0 ? backfillSlots(window, state) : null;
    const cap = window.cap || null;
    return { window: length, cap, used, usedByBackground, usedByBackfill, backgroundLimit, backfillLimit };
  };
  /** Start of the last of `count` requests, with the share that is expected meanwhile. */
  const lastOf = (state: QuotaState, from: number, slots: typeof backgroundSlots, count: number) => {
    const slotsLater = (window: SharedWindow, now: number) => {
      const expected = expectedShare(state.cooldown, ceiling(window, state).at(state.now), state.now);
      const most = Math.max(slots(window, state), slotsOf(window.cap, expected));
      return Math.min(most, slots(window, { ...state, now }));
    };
    const growsAfter = (window: SharedWindow, now: number) => growthAt(window, { ...state, now });
    return lastStart(backgroundConstraints(windows, state.ledger, slotsLater, growsAfter), from, count);
  };

  return {
    /** Without lifted limits. */
    windows,
    /** Milliseconds. */
    longestHold,
    /** One request of the largest cap. */
    smallestShare: 1 / Math.max(1, ...windows.map(({ cap }) => cap)),
    /** Background's share of the long window. */
    share: (state: QuotaState) => share(long, state),
    /** Upper bound to which a reduced share grows. */
    ceiling: (state: QuotaState) => ceiling(long, state).at(state.now),
    /** Time from which any lane has room: not after now if it has room now, Infinity if an answer must come first. */
    roomForAll,
    /** Time from which the background's share has room, monotonic milliseconds. Its lanes also need `roomForAll`. */
    roomInBackgroundShare: (state: QuotaState) => roomInShare(state, backgroundSlots),
    /** Time from which a backfill has room in its part of the share and is not delayed. It also needs `roomForAll`. */
    roomForBackfill: (state: QuotaState) => Math.max(roomInShare(state, backfillSlots), backfillDelayedUntil(state)),
    /** Time to check again: also a growing share or the end of the reserve for people can make room. */
    nextForBackground: (state: QuotaState) =>
      Math.max(roomForAll(state), Math.min(roomInShare(state, backgroundSlots), nextGrowth(state))),
    nextForBackfill: (state: QuotaState) =>
      Math.max(
        roomForAll(state),
        backfillDelayedUntil(state),
        Math.min(roomInShare(state, backfillSlots), nextGrowth(state)),
      ),
    /** Start of the last of this many more interactive requests; not before `from`. */
    interactiveServedAt: ({ ledger }: QuotaState, from: number, requests: number) =>
      lastStart(windowConstraints(windows, ledger.all), from, requests),
    /** See `Throttle.usedShare`. Backfills and status changes do not count, because they yield to the other lanes. */
    usedShare(state: QuotaState) {
      if (long.cap === 0) return 0;
      const { all, background, backfill, status } = usesOf(state, long.hold);
      const yielding = backfill + status;
      return Math.min(1, Math.max((all - yielding) / long.cap, (background - yielding) / backgroundSlots(long, state)));
    },
    paces: (state: QuotaState) =>
      windows.map((window) => ({ slots: backgroundSlots(window, state), hold: window.hold })),
    /** Start of the last of these background requests, not before `from`, if nothing else arrives. */
    drainedAt(state: QuotaState, from: number, { requests, backfills }: Queued) {
      const live = lastOf(state, from, backgroundSlots, requests - backfills);
      if (backfills === 0) return live;
      const isFree = (now: number) => besideLive({ ...state, now }) === Number.NEGATIVE_INFINITY;
      const first = Math.max(nextEvenBackfill(state), firstFree(from, long.hold, isFree));
      const all = lastOf(state, from, backfillSlots, requests);
      return Math.max(live, all, first + (backfills - 1) * backfillInterval(state));
    },
    /** Whether nothing is in flight and no request counts in a window. */
    isIdle: ({ ledger, now }: QuotaState) => windows.every(({ hold }) => usedAt(ledger.all, hold, now) === 0),
    used: (state: QuotaState) => withinCap({ cap: long.cap || null, used: usesOf(state, long.hold).all }),
    snapshot: (state: QuotaState) => ({
      long: describe(long, quota.window, state),
      burst: describe(burst, quota.burstWindow, state),
    }),
  };
}

/** Returns how many requests of each group count in a window. */
function usesOf({ ledger, now }: QuotaState, hold: number) {
  const { all, background, backfill, status } = ledger;
  return {
    all: usedAt(all, hold, now),
    background: usedAt(background, hold, now),
    backfill: usedAt(backfill, hold, now),
    status: usedAt(status, hold, now),
  };
}

/**
 * The expected average share. Either it is refused again at the last refused share, or the other users stop, so the
 * middle is assumed. Tuned with the benchmark `test/bench/quota/forecast.ts`.
 */
function expectedShare({ observed, refusedShare }: Cooldown, ceiling: number, now: number): number {
  const isRecent = observed !== undefined && now - observed.at < FORECAST_MEMORY;
  return isRecent && refusedShare !== undefined ? (Math.min(refusedShare, ceiling) + ceiling) / 2 : 1;
}

/** The first time with a free slot, within one window, because the rate of live lanes falls without new requests. */
function firstFree(from: number, hold: number, isFree: (at: number) => boolean): number {
  for (let at = from; at < from + hold; at += BACKFILL_RETRY) if (isFree(at)) return at;
  return from + hold;
}

/** Requests per millisecond that live lanes may need by their recent use: exceeded by chance once in forty times. */
function liveRate(state: QuotaState, hold: number): number {
  const { background, backfill } = usesOf(state, hold);
  const live = background - backfill;
  const observed = Math.min(hold, Math.max(MIN_OBSERVATION, state.now - state.ledger.since));
  return (live + 2 * Math.sqrt(live) + 3) / observed;
}

function earliest(times: readonly number[]): number {
  return Math.min(Number.POSITIVE_INFINITY, ...times);
}

/** A part of the slots, rounded up: at least one if there are any. */
function partOf(slots: number, fraction: number): number {
  return Math.ceil(slots * fraction);
}

/** A limited number of slots: one window, or the background's part of it. Times are monotonic milliseconds. */
interface Constraint {
  /** Slots at this time, at least one. */
  limitAt(at: number): number;
  /** Time at which the limit grows; Infinity if never or unknown. */
  growsAfter(at: number): number;
  /** Time for which a request takes its slot, milliseconds. */
  readonly hold: number;
  readonly use: WindowUse;
}

/** Further requests are extrapolated: their forecast needs hours, not seconds. */
const MAX_SIMULATED = 3_000;

/**
 * Time at which the last of `requests` can start, not before `from`, if each starts as soon as every constraint has
 * room. No other order is faster. Assumes that requests take no time, and that those in flight end now.
 */
export function lastStart(constraints: readonly Constraint[], from: number, requests: number): number {
  const simulated = constraints.map((constraint) => simulate(constraint, from));
  let at = from;
  for (let sent = 0; sent < Math.min(requests, MAX_SIMULATED); sent++) {
    at = firstWithRoom(simulated, at);
    for (const { freeAt, constraint } of simulated) freeAt.push(at + constraint.hold);
  }
  const slowest = Math.max(0, ...constraints.map(({ limitAt, hold }) => hold / limitAt(at)));
  return at + Math.max(0, requests - MAX_SIMULATED) * slowest;
}

interface Simulated {
  readonly constraint: Constraint;
  /** End of each use of a slot, ascending. */
  readonly freeAt: number[];
}

function simulate(constraint: Constraint, from: number): Simulated {
  const { use, hold } = constraint;
  const ended = [...use.completed, ...Array<number>(use.inFlight).fill(from)].sort((a, b) => a - b);
  return { constraint, freeAt: ended.map((at) => at + hold) };
}

function firstWithRoom(simulated: readonly Simulated[], from: number): number {
  let at = from;
  for (;;) {
    const next = Math.max(at, ...simulated.map((each) => earliestRoom(each, at)));
    if (next === at) return at;
    at = next;
  }
}

/** `at` if there is room, else a later time before which there is none. */
function earliestRoom({ constraint, freeAt }: Simulated, at: number): number {
  // If more slots are taken than exist, the earliest of them free nothing.
  const mustBeFree = freeAt.at(-constraint.limitAt(at));
  if (mustBeFree === undefined || mustBeFree <= at) return at;
  return Math.min(mustBeFree, constraint.growsAfter(at));
}

/** Room in every window, for a request of any lane. */
export function windowConstraints(windows: readonly Window[], use: WindowUse): Constraint[] {
  return windows.map(({ cap, hold }) => ({ limitAt: () => cap, growsAfter: never, hold, use }));
}

type AtTime<SharedWindow> = (window: SharedWindow, at: number) => number;

/** Room in every window and in the background's share of it. `slots`: the background's slots over time. */
export function backgroundConstraints<SharedWindow extends Window>(
  windows: readonly SharedWindow[],
  { all, background }: { readonly all: WindowUse; readonly background: WindowUse },
  slots: AtTime<SharedWindow>,
  growsAfter: AtTime<SharedWindow> = never,
): Constraint[] {
  const shared = windows.map((window) => ({
    limitAt: (at: number) => slots(window, at),
    growsAfter: (at: number) => growsAfter(window, at),
    hold: window.hold,
    use: background,
  }));
  return [...windowConstraints(windows, all), ...shared];
}

function never(): number {
  return Number.POSITIVE_INFINITY;
}
