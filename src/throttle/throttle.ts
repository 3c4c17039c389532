import type { ErrorCode } from '../errors/codes.ts';
import { asSyncError, SyncError } from '../errors/sync-error.ts';
import type { Clock } from '../lib/clock.ts';
import type { Logger } from '../lib/logger.ts';
import type { Meter } from '../lib/meter.ts';
import { backoff, type Random } from '../lib/random.ts';
import type { Lane } from '../model/lane.ts';
import type { Store } from '../store/database.ts';
import type { Scope } from '../store/workspace-scope.ts';
import { createAlarm } from './alarm.ts';
import { type Book, type Entry, openBook } from './book.ts';
import {
  accepted,
  admitted,
  type Brake,
  boundedHint,
  type Halt,
  halted,
  isProbing,
  isShared,
  keptAfter,
  LONGEST_PAUSE,
  type Observed,
  othersUse,
  type Pause,
  pausedUntil,
  provesRoom,
  refused,
} from './brake.ts';
import type { ConfiguredShare } from './ceiling.ts';
import { beginRun, diedBefore, endRun } from './clean-end.ts';
import { readBrake, writeBrake } from './kept-brake.ts';
import { createLimits, type Limits, type QuotaOptions, type WindowSnapshot } from './limits.ts';
import { createLine, type Wish } from './line.ts';
import { noteShare } from './share-note.ts';

/**
 * The only way to the workspace's quota: every sender of a request acquires a slot first.
 *
 * A slot goes through these states:
 *
 *   waiting    in the line, ordered by `due` (`line.ts`). It leaves by a slot, by its signal, or by `stop`.
 *   reserved   it counts in both windows, in memory. `record` writes its ledger row in the caller's transaction.
 *   sent       that transaction is committed and the request is, or may be, in flight.
 *   completed  the answer came, or none will. It still counts, for one window and its guard (`windows.ts`).
 *   released   nothing was sent (also: the transaction was rolled back). It counts no more.
 *
 *   waiting → reserved → sent → completed;  reserved | sent → released.
 *
 * A process that dies leaves `reserved` without a trace, and `sent` as a row without an end (`book.ts`).
 * Who may go is said in `limits.ts`; what a refusal does, in `brake.ts`. Among those who may, the most urgent goes first.
 */
export interface Throttle {
  /** Resolves with a slot when it is this caller's turn. Rejects with `aborted`. */
  acquire(wish: Wish): Promise<Slot>;
  /**
   * u, the used part, 0..1, of what may be used in the long window, of the cap or of the background's share; without backfills.
   */
  usedShare(): number;
  /** How many requests of the background each window takes at the present share. */
  paces(): readonly { readonly slots: number; readonly hold: number }[];
  snapshot(): QuotaSnapshot;
  /**
   * When the last of so many more background requests can start, of which some are of backfills: epoch milliseconds. At the
   * present share, and if nothing more comes.
   */
  drainedAt(requests: number, backfills?: number): number;
  /** The daemon's key was refused, and no answer has shown yet that it is accepted again: one request at a time. */
  isHalted(): boolean;
  /** The daemon has another key: forgets what it knew of the previous one. A pause of the quota stays. */
  resume(): Promise<void>;
  /** Rejects the waiting callers with `aborted`; resolves when the slots given out have ended. */
  stop(): Promise<void>;
}

/** Exactly one of `release` and `complete` must end every slot. */
export interface Slot {
  /** Writes the ledger row in the caller's transaction, which must be committed before the request is sent. */
  record(query: Scope): Promise<void>;
  /** Nothing was sent, also because the transaction was rolled back: the slot is free at once. Idempotent. */
  release(): void;
  /**
   * The request ended; undefined: no answer came. The slot is freed one window after this moment. One durable update,
   * inside the given transaction where there is one; called again, after that was rolled back, it only writes again.
   */
  complete(answer: SlotAnswer | undefined, query?: Scope): Promise<void>;
}

export interface SlotAnswer {
  readonly status: number;
  /** Milliseconds that a refusal asked to wait. */
  readonly retryAfter?: number;
  /** What the answer says about the daemon's own key: null: accepted; else why it is refused; absent: nothing. */
  readonly key?: KeyRefusal | null;
}

/** The daemon's key was refused: nothing more is sent with it for a while, then one request at a time. */
export interface KeyRefusal {
  readonly code: ErrorCode;
  /** For people. */
  readonly reason: string;
}

interface QuotaSnapshot {
  readonly long: WindowSnapshot;
  readonly burst: WindowSnapshot;
  readonly configuredShare: ConfiguredShare;
  readonly effectiveShare: number;
  /** What the share grows back to after a refusal: the configured one, or as much as `auto` may be by now. */
  readonly ceiling: number;
  /** Refused lately, and not yet let in again: one request at a time. */
  readonly limited: boolean;
  /** Epoch milliseconds, and why; null where nothing pauses. */
  readonly paused: Pause | null;
  /** The daemon's key was refused, and no answer has shown yet that it is accepted again. */
  readonly halt: KeyRefusal | null;
  readonly waiting: Readonly<Record<Lane, number>>;
  readonly inFlight: number;
  /** When a background request may be sent next, epoch milliseconds; null: only after an answer has come. */
  readonly nextSlotAt: number | null;
  /** When a request of people that came now would be sent, behind those that wait, epoch milliseconds. */
  readonly nextForPeopleAt: number;
  /** What the last refusal showed about other use of the workspace; null if none is stored. */
  readonly lastRefusal: Observed | null;
}

export interface ThrottleOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  readonly meter: Meter;
  readonly quota: QuotaOptions;
}

/** Milliseconds without a row of the ledger after which the time is written down. */
const BEAT_EVERY = 5_000;
/** Most answers have come by then, milliseconds. */
const SLOW = 1_000;
/** With a refused key one request in this time is spent to see whether somebody replaced the key, milliseconds. */
const HALT = 5 * 60_000;

/** Reads ledger and brake, re-dating what comes from another boot. Throws what keeps the database from being read or written. */
export async function createThrottle(options: ThrottleOptions): Promise<Throttle> {
  const { clock, store, logger, quota } = options;
  const limits = createLimits(quota);
  const kept = await durably(store, async (query) => ({
    shareBefore: await noteShare(query, quota.share),
    book: await openBook(query, clock, limits.windows),
    brake: await readBrake(query, clock),
    diedBefore: await diedBefore(query),
  }));
  if (kept.shareBefore !== undefined) {
    logger.info(
      { share: quota.share, before: kept.shareBefore },
      quota.share === 'auto'
        ? 'quota.share is auto now: background work uses nearly all of the quota while no other use is detected; set a number to keep a fixed part'
        : 'quota.share has changed',
    );
  }
  return wire(options, limits, kept);
}

/** The state that a process gets from the previous one. */
interface Kept {
  readonly book: Book;
  readonly brake: Brake;
  readonly diedBefore: boolean;
}

/**
 * The parts joined: line, limits, book, brake and one alarm. One long closure, because `brake` and `stopped` are its
 * only state and each of the short functions in it reads or sets them.
 */
function wire(options: ThrottleOptions, limits: Limits, { book, brake: kept, diedBefore: died }: Kept): Throttle {
  const { clock, store, random, logger, meter, quota } = options;
  const line = createLine(quota.concurrency);
  const alarm = createAlarm(clock, () => pump());
  const pulse = createAlarm(clock, () => {
    beating = beat();
  });
  const pulseLater = () => pulse.set(stopped ? Number.POSITIVE_INFINITY : clock.monotonic() + BEAT_EVERY);
  let beating = Promise.resolve();
  /** Requests that wait long for their answer. */
  const slow = new Set<Entry>();
  /**
   * A process that died may soon die again, and what it then has on its way counts longer than it must: so for one long
   * window after such an end there is little on its way at once.
   */
  const carefulUntil = died ? clock.monotonic() + limits.longestHold : Number.NEGATIVE_INFINITY;
  let brake = kept;
  let peopleAt = book.latest.get('interactive') ?? Number.NEGATIVE_INFINITY;
  let stopped = false;
  /** Whether it stands in the database that this process, or one that died, uses the quota: maybe, and for certain. */
  let isNoted = died;
  let isKept = died;

  const facts = () => ({ book, brake, now: clock.monotonic(), peopleAt });

  const serveOne = (): boolean => {
    const known = facts();
    if (pausedUntil(brake).until > known.now || limits.roomForAll(known) > known.now) return false;
    if (limits.roomForBackground(known) > known.now) return line.serveOne('people');
    return line.serveOne(limits.roomForBackfill(known) > known.now ? 'live' : 'anyone');
  };

  /** When the first of the waiting callers may go; Infinity where nobody waits, or an answer must come first. */
  const nextMoment = (): number => {
    const known = facts();
    const people = line.waits('people') ? limits.roomForAll(known) : Number.POSITIVE_INFINITY;
    const live = line.waits('live') ? limits.nextForBackground(known) : Number.POSITIVE_INFINITY;
    const backfill = line.waits('backfill') ? limits.nextForBackfill(known) : Number.POSITIVE_INFINITY;
    return Math.max(pausedUntil(brake).until, Math.min(people, live, backfill));
  };

  /** One that is slow to answer does not hold up the others. */
  const concurrency = () => {
    if (isProbing(brake)) return 1;
    const now = clock.monotonic();
    const oneByOne = now < carefulUntil || isShared(brake, now);
    return oneByOne ? Math.min(quota.concurrency, 1 + slow.size) : quota.concurrency;
  };

  const pump = () => {
    if (stopped) return;
    line.setConcurrency(concurrency());
    while (serveOne());
    alarm.set(nextMoment());
  };

  const setBrake = (next: Brake) => {
    brake = next;
    pump();
  };

  const refuse = (entry: Entry, hint: number | undefined) => {
    const wait = hint === undefined ? backoff(random, brake.refusals, 1_000, LONGEST_PAUSE) : boundedHint(hint);
    const { smallestShare } = limits;
    const now = clock.monotonic();
    const windows = limits.snapshot(facts());
    const observed = { at: now, ...othersUse(windows, hint) };
    const kept = keptAfter(windows, hint);
    const refusedShare = limits.share(facts());
    setBrake(refused(brake, { started: entry.started, now, wait, smallestShare, kept, observed, refusedShare }));
    meter.count('quota_refusals_total', { lane: entry.lane });
    logger.warn({ lane: entry.lane, waitMs: wait, refusals: brake.refusals }, 'the workspace refused: quota used up');
  };

  const admit = (entry: Entry) => {
    const next = admitted(brake, entry.started);
    if (next === brake) return;
    setBrake(next);
    logger.info({ share: limits.share(facts()) }, 'the workspace accepts requests again');
  };

  const judgeKey = (entry: Entry, refusal: KeyRefusal | null) => {
    const now = clock.monotonic();
    const next = refusal
      ? halted(brake, { ...refusal, until: now + HALT, since: now } satisfies Halt)
      : accepted(brake, entry.started);
    if (next !== brake) setBrake(next);
  };

  const report = (entry: Entry) => {
    const { long, burst } = limits.snapshot(facts());
    meter.count('quota_requests_total', { lane: entry.lane });
    meter.gauge('quota_used', long.used, { window: 'long' });
    meter.gauge('quota_used', burst.used, { window: 'burst' });
    meter.gauge('quota_share', limits.share(facts()));
  };

  /** Applies what the end of a request shows. True if the brake has changed and must be stored. */
  const end = (entry: Entry, answer: SlotAnswer | undefined): boolean => {
    const before = brake;
    book.complete(entry, answer?.status);
    if (answer?.key !== undefined) judgeKey(entry, answer.key);
    if (answer?.status === 429) refuse(entry, answer.retryAfter);
    else if (answer !== undefined && provesRoom(answer.status)) admit(entry);
    report(entry);
    return brake !== before;
  };

  const createSlot = (entry: Entry, ended: () => void): Slot => {
    let brakeChanged = false;
    const write = async (query: Scope) => {
      pulseLater();
      await book.recordEnd(entry, query);
      if (brakeChanged) await writeBrake(query, clock, brake);
    };
    return {
      async record(query) {
        pulseLater();
        isNoted = true;
        if (!isKept) await beginRun(query);
        await book.record(entry, query);
      },
      release() {
        if (entry.state !== 'open') return;
        book.release(entry);
        ended();
      },
      async complete(answer, query) {
        if (entry.state === 'released') return;
        // What was sent was recorded, in a transaction that was not rolled back.
        isKept ||= entry.recorded;
        if (entry.state === 'open') brakeChanged = end(entry, answer);
        await (query === undefined ? durably(store, write) : write(query)).finally(ended);
      },
    };
  };

  /** Time that nothing tells of is lost to the windows with a reboot: so, while they hold something, it is written down. */
  const beat = async () => {
    if (stopped || limits.isIdle(facts())) return;
    pulseLater();
    try {
      await durably(store, (query) => book.beat(query));
    } catch (error) {
      logger.warn({ error }, 'the time of the ledger could not be stored');
    }
  };

  /** A slot's time in the line: reserved at once, over when the slot has ended. */
  const serve = (wish: Wish, since: number, give: (slot: Slot) => void): Promise<void> => {
    const entry = book.open(wish.lane);
    meter.observe('quota_wait_seconds', (entry.started - since) / 1_000, { lane: wish.lane });
    const becameSlow = clock.after(SLOW, () => {
      slow.add(entry);
      pump();
    });
    return new Promise<void>((ended) => give(createSlot(entry, ended))).finally(() => {
      becameSlow();
      slow.delete(entry);
    });
  };

  /** A monotonic time as the wall clock will show it. */
  const toWall = (at: number) => Math.round(clock.now() + at - clock.monotonic());

  line.onChange(pump);
  pulseLater();
  setBrake(brake);

  return {
    acquire(wish) {
      if (stopped || wish.signal?.aborted) return Promise.reject(withdrawn());
      const since = clock.monotonic();
      if (wish.lane === 'interactive') peopleAt = since;
      const slot = new Promise<Slot>((give, reject) => {
        line.enter(
          wish,
          () => serve(wish, since, give),
          () => reject(withdrawn()),
        );
      });
      pump();
      return slot;
    },

    usedShare: () => limits.usedShare(facts()),
    paces: () => limits.paces(facts()),

    isHalted: () => brake.halt !== null,

    snapshot() {
      const known = facts();
      const pause = pausedUntil(brake);
      const from = Math.max(known.now, pause.until);
      const next = Math.max(from, limits.nextForBackground(known));
      return {
        ...limits.snapshot(known),
        configuredShare: quota.share,
        effectiveShare: limits.share(known),
        ceiling: limits.ceiling(known),
        limited: brake.limited,
        paused: pause.until > known.now ? { ...pauseOf(pause), until: toWall(pause.until) } : null,
        halt: brake.halt && { code: brake.halt.code, reason: brake.halt.reason },
        waiting: line.waiting(),
        inFlight: book.all.inFlight,
        nextSlotAt: next === Number.POSITIVE_INFINITY ? null : toWall(next),
        nextForPeopleAt: toWall(limits.peopleServedAt(known, from, line.waiting().interactive + 1)),
        lastRefusal: brake.observed ? { ...brake.observed, at: toWall(brake.observed.at) } : null,
      };
    },

    drainedAt(requests, backfills = 0) {
      const known = facts();
      return toWall(limits.drainedAt(known, Math.max(known.now, pausedUntil(brake).until), { requests, backfills }));
    },

    async resume() {
      if (brake.halt === null) return;
      setBrake({ ...brake, halt: null });
      await durably(store, (query) => writeBrake(query, clock, brake));
    },

    async stop() {
      stopped = true;
      alarm.set(Number.POSITIVE_INFINITY);
      pulse.set(Number.POSITIVE_INFINITY);
      await beating;
      await line.close();
      if (!isNoted) return;
      try {
        await durably(store, endRun);
      } catch (error) {
        logger.warn({ error }, 'the clean shutdown could not be recorded: the next process starts carefully');
      }
    },
  };
}

function pauseOf({ until, code, reason }: Pause): Pause {
  return { until, code, reason };
}

async function durably<Result>(store: Store, work: (query: Scope) => Promise<Result>): Promise<Result> {
  try {
    return await store.commit(work);
  } catch (error) {
    throw asSyncError(error);
  }
}

function withdrawn(): SyncError {
  return new SyncError('aborted', 'the request for a quota slot was cancelled');
}
