// Design: src/decisions/quota.md

import { SyncError } from '../../model/errors/sync-error.ts';
import type { Clock } from '../../platform/lib/clock.ts';
import type { Logger } from '../../platform/lib/logger.ts';
import type { Meter } from '../../platform/lib/meter.ts';
import type { Random } from '../../platform/lib/random.ts';
import type { Store } from '../../store/database.ts';
import { createAlarm } from './alarm.ts';
import { type Cooldown, isProbing, isShared, pausedUntil } from './cooldown.ts';
import { createCooldownControl } from './cooldown-control.ts';
import { createLimits, type Facts, type Limits, type QuotaOptions } from './limits.ts';
import { readCooldown, writeCooldown } from './persisted-cooldown.ts';
import { type QuotaSnapshot, snapshotOf, wallTimeOf } from './quota-snapshot.ts';
import { noteShare } from './share-note.ts';
import { carefulFor, wasUncleanShutdown } from './shutdown-marker.ts';
import type { Slot } from './slot.ts';
import { createSlots, durably } from './slots.ts';
import { createWaitQueue, type SlotRequest } from './wait-queue.ts';
import { type Entry, openWindowLedger, type WindowLedger } from './window-ledger.ts';

/**
 * The only access to the workspace's quota: every sender of a request acquires a slot first.
 *
 * States of a slot:
 *
 *   waiting    queued by `due` (`wait-queue.ts`). It leaves with a slot, by its signal, or by `stop`.
 *   reserved   counted in both windows, in memory. `record` writes its ledger row in the caller's transaction.
 *   sent       that transaction is committed, and the request is or may be in flight.
 *   completed  answered, or given up. It still counts for one window and its guard (`windows.ts`).
 *   released   never sent, or its transaction was rolled back. It no longer counts.
 *
 *   waiting → reserved → sent → completed;  reserved | sent → released.
 *
 * A process that dies leaves no trace of `reserved`, and a row without an end for `sent` (`window-ledger.ts`).
 * `limits.ts` decides which requests may go, most urgent first; `cooldown.ts` handles refusals.
 */
export interface Throttle {
  /** Resolves with a slot when it is this caller's turn. Rejects with `aborted`. */
  acquire(wish: SlotRequest): Promise<Slot>;
  /**
   * u, the used part, 0..1, of what may be used in the long window, of the cap or of the background's share; without backfills.
   */
  usedShare(): number;
  /** How many requests of the background each window takes at the present share. */
  paces(): readonly { readonly slots: number; readonly hold: number }[];
  snapshot(): QuotaSnapshot;
  /** The long window alone, for lists of many workspaces: requests that count now, and the limit; null where it is lifted. */
  used(): { readonly used: number; readonly cap: number | null };
  /**
   * When the last of so many more background requests can start, of which some are of backfills: epoch milliseconds. At the
   * present share, and if nothing more comes.
   */
  drainedAt(requests: number, backfills?: number): number;
  /** The daemon's key was refused, and no answer has shown yet that it is accepted again: one request at a time. */
  isHalted(): boolean;
  /** The daemon has another key: forgets what it knew of the previous one. A pause of the quota stays. */
  resume(): Promise<void>;
  /** For one that nothing was sent through: ends at once, and leaves the database as it found it. */
  abandon(): Promise<void>;
  /** Rejects the waiting callers with `aborted`; resolves when the slots given out have ended. */
  stop(): Promise<void>;
}

export interface ThrottleOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  readonly meter: Meter;
  readonly quota: QuotaOptions;
  /** How long few requests are in flight after a process that died, milliseconds; absent: one long window. */
  readonly careful?: number;
  /** How long requests of that process without an answer may still be on their way, milliseconds; absent: `UNKNOWN_GRACE`. */
  readonly untouched?: number;
}

/** Most answers have come by then, milliseconds. */
const SLOW = 1_000;
/** Reads ledger and cooldown, re-dating what comes from another boot. Throws what keeps the database from being read or written. */
export async function createThrottle(options: ThrottleOptions): Promise<Throttle> {
  const { clock, store, logger, quota } = options;
  const limits = createLimits(quota);
  const kept = await durably(store, async (query) => ({
    shareBefore: await noteShare(query, quota.share),
    book: await openWindowLedger(query, clock, limits.windows, options.untouched),
    cooldown: await readCooldown(query, clock),
    wasUncleanShutdown: await wasUncleanShutdown(query),
    carefulFor: await carefulFor(query),
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
  readonly book: WindowLedger;
  readonly cooldown: Cooldown;
  readonly wasUncleanShutdown: boolean;
  /** Milliseconds that are left of being careful after an unclean end before that. */
  readonly carefulFor: number;
}

/** The parts joined: line, limits, book, cooldown, slots and one alarm. */
function wire(options: ThrottleOptions, limits: Limits, { book, cooldown: kept, ...before }: Kept): Throttle {
  const died = before.wasUncleanShutdown;
  const { clock, store, meter, quota } = options;
  const line = createWaitQueue(quota.concurrency);
  const alarm = createAlarm(clock, () => pump());
  /** Requests that wait long for their answer. */
  const slow = new Set<Entry>();
  /**
   * A process that died may soon die again, and what it then has on its way counts longer than it must: so for one long
   * window after such an end there is little on its way at once.
   */
  const carefulUntil = clock.monotonic() + (died ? (options.careful ?? limits.longestHold) : before.carefulFor);
  /** When a person last asked for a slot. The ledger has the requests that came of it, so it survives a restart. */
  let askedAt = Number.NEGATIVE_INFINITY;
  let stopped = false;

  const facts = (): Facts => ({
    ...{ book, cooldown: control.cooldown, now: clock.monotonic() },
    peopleAt: Math.max(askedAt, book.latest.get('interactive') ?? Number.NEGATIVE_INFINITY),
  });
  const control = createCooldownControl(kept, { ...options, limits, book, facts, onChange: () => pump() });
  const slots = createSlots({ ...options, book, control, died, isIdle: () => limits.isIdle(facts()) });

  const serveOne = (): boolean => {
    const known = facts();
    if (pausedUntil(known.cooldown).until > known.now || limits.roomForAll(known) > known.now) return false;
    if (limits.roomForBackground(known) > known.now) return line.serveOne('people');
    return line.serveOne(limits.roomForBackfill(known) > known.now ? 'live' : 'anyone');
  };

  /** When the first of the waiting callers may go; Infinity where nobody waits, or an answer must come first. */
  const nextMoment = (): number => {
    const known = facts();
    const people = line.waits('people') ? limits.roomForAll(known) : Number.POSITIVE_INFINITY;
    const live = line.waits('live') ? limits.nextForBackground(known) : Number.POSITIVE_INFINITY;
    const backfill = line.waits('backfill') ? limits.nextForBackfill(known) : Number.POSITIVE_INFINITY;
    return Math.max(pausedUntil(known.cooldown).until, Math.min(people, live, backfill));
  };

  /** One that is slow to answer does not hold up the others. */
  const concurrency = () => {
    const { cooldown } = control;
    if (isProbing(cooldown)) return 1;
    const now = clock.monotonic();
    const oneByOne = now < carefulUntil || isShared(cooldown, now);
    return oneByOne ? Math.min(quota.concurrency, 1 + slow.size) : quota.concurrency;
  };

  const pump = () => {
    if (stopped) return;
    line.setConcurrency(concurrency());
    while (serveOne());
    alarm.set(nextMoment());
  };

  /** A slot's time in the line: reserved at once, over when the slot has ended. */
  const serve = (wish: SlotRequest, since: number, give: (slot: Slot) => void): Promise<void> => {
    const entry = book.open(wish.lane, wish.caller);
    meter.observe('quota_wait_seconds', (entry.started - since) / 1_000, { lane: wish.lane });
    const becameSlow = clock.after(SLOW, () => {
      slow.add(entry);
      pump();
    });
    return new Promise<void>((ended) => give(slots.create(entry, ended))).finally(() => {
      becameSlow();
      slow.delete(entry);
    });
  };

  const end = async () => {
    stopped = true;
    alarm.set(Number.POSITIVE_INFINITY);
    await slots.stopBeating();
    await line.close();
  };

  line.onChange(pump);
  pump();

  return {
    acquire(wish) {
      if (stopped || wish.signal?.aborted) return Promise.reject(withdrawn());
      const since = clock.monotonic();
      if (wish.lane === 'interactive') askedAt = since;
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

    isHalted: () => control.cooldown.halt !== null,

    snapshot: () => snapshotOf({ facts: facts(), limits, line, book, clock, share: quota.share }),

    used: () => limits.used(facts()),

    drainedAt(requests, backfills = 0) {
      const known = facts();
      const from = Math.max(known.now, pausedUntil(known.cooldown).until);
      return wallTimeOf(limits.drainedAt(known, from, { requests, backfills }), clock);
    },

    async resume() {
      if (control.forgetHalt()) await durably(store, (query) => writeCooldown(query, clock, control.cooldown));
    },

    abandon: end,

    async stop() {
      await end();
      await slots.noteEnd(carefulUntil - clock.monotonic());
    },
  };
}

function withdrawn(): SyncError {
  return new SyncError('aborted', 'the request for a quota slot was cancelled');
}
