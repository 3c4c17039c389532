// Design: src/decisions/quota.md

import type { Lane } from '../../model/change.ts';
import { SyncError } from '../../model/errors.ts';
import { withinCap } from '../../model/windows.ts';
import { type Cancel, type Clock, createDeadlineTimer } from '../../platform/lib/clock.ts';
import type { StoreContext } from '../../store/store-context.ts';
import {
  type Cooldown,
  createCooldownControl,
  isProbing,
  isShared,
  pausedUntil,
  readCooldown,
  writeCooldown,
} from './cooldown.ts';
import { createLimits, type Limits, type QuotaOptions, type QuotaState } from './limits.ts';
import { storeShare } from './share.ts';
import {
  createSlots,
  createWaitQueue,
  durably,
  remainingCaution,
  type Slot,
  type SlotRequest,
  type WaitQueue,
  wasUncleanShutdown,
} from './slot.ts';
import { type Entry, openWindowLedger, type WindowLedger, wasUsed } from './window-ledger.ts';

/**
 * The only access to the quota of a workspace: every sender of a request acquires a slot first.
 *
 * States of a slot:
 *
 *   waiting    in the queue, until it is served, cancelled or the throttle stops.
 *   reserved   counts in both windows, in memory. `record` writes its ledger row in the caller's transaction.
 *   sent       that transaction is committed, and the request may be in flight.
 *   completed  the answer came, or none will. Counts for one more window.
 *   released   nothing was sent, or the transaction was rolled back. No longer counts.
 *
 *   waiting → reserved → sent → completed;  reserved | sent → released.
 *
 * A crash leaves no trace of `reserved`, and leaves `sent` as a row without an end. `limits.ts` decides which lanes may
 * send; of their requests the most urgent goes first. `cooldown.ts` defines the effect of a refusal.
 */
export type Throttle = ReturnType<typeof wire>;

/** A request without an answer for this long no longer delays the others, milliseconds. */
const SLOW_AFTER = 1_000;

/**
 * Restores the state of the previous process. Throws if the database fails.
 *
 * @param careful time with few requests in flight after an unclean end, milliseconds; one long window if absent
 * @param untouched time for which unanswered requests of the previous process can still be in flight; `UNKNOWN_GRACE` if absent
 */
export async function createThrottle(
  context: StoreContext,
  quota: QuotaOptions,
  { careful, untouched }: { readonly careful?: number; readonly untouched?: number } = {},
): Promise<Throttle> {
  const { clock, store, logger } = context;
  const limits = createLimits(quota);
  const stored = await durably(store, async (query) => ({
    previousShare: await storeShare(query, quota.share, wasUsed),
    ledger: await openWindowLedger(query, clock, limits.windows, untouched),
    cooldown: await readCooldown(query, clock),
    wasUnclean: await wasUncleanShutdown(query),
    remainingCaution: await remainingCaution(query),
  }));
  if (stored.previousShare !== undefined) {
    logger.info(
      { share: quota.share, before: stored.previousShare },
      quota.share === 'auto'
        ? 'quota.share is auto now: background work uses nearly all of the quota while no other use is detected; set a number to keep a fixed part'
        : 'quota.share has changed',
    );
  }
  const { ledger, cooldown, wasUnclean } = stored;
  const caution = wasUnclean ? (careful ?? limits.longestHold) : stored.remainingCaution;
  return wire(context, quota, limits, ledger, cooldown, wasUnclean, caution);
}

/** @param caution time with few requests in flight, milliseconds */
function wire(
  context: StoreContext,
  quota: QuotaOptions,
  limits: Limits,
  ledger: WindowLedger,
  cooldown: Cooldown,
  wasUnclean: boolean,
  caution: number,
) {
  const { clock, store, meter } = context;
  const queue = createWaitQueue(quota.concurrency);
  const timer = createDeadlineTimer(clock, () => pump());
  /** Requests that have waited long for their answer. */
  const slow = new Set<Entry>();
  // After a crash another one is likely, and requests in flight at a crash count for longer than they must. So few are
  // in flight for a while.
  const cautiousUntil = clock.monotonic() + caution;
  /** Time of the last interactive request. After a restart the ledger contains it. */
  let requestedAt = Number.NEGATIVE_INFINITY;
  let stopped = false;

  const state = (now = clock.monotonic()): QuotaState => ({
    ledger,
    cooldown: control.cooldown,
    now,
    interactiveAt: Math.max(requestedAt, ledger.latest.get('interactive') ?? Number.NEGATIVE_INFINITY),
  });
  const measure = (now?: number) => {
    const present = state(now);
    return { ...limits.snapshot(present), share: limits.share(present) };
  };
  const control = createCooldownControl(cooldown, context, limits.smallestShare, measure, () => pump());
  const isIdle = () => limits.isIdle(state());
  const slots = createSlots(context, ledger, control, measure, wasUnclean, isIdle);

  const concurrency = (now: number) => {
    const { cooldown } = control;
    if (isProbing(cooldown)) return 1;
    const isOneByOne = now < cautiousUntil || isShared(cooldown, now);
    return isOneByOne ? Math.min(quota.concurrency, 1 + slow.size) : quota.concurrency;
  };

  const followers = createFollowers(() => pump());

  const pump = (now = clock.monotonic()) => {
    if (stopped) return;
    while (followers.waits() && isAdmitted(limits, state(now))) followers.serveFirst();
    // Followers bypass the queue, and may be in flight after the requests that they follow have ended.
    const freePlaces = () => concurrency(now) - followers.running();
    const isFull = () => freePlaces() <= 0;
    queue.setConcurrency(Math.max(1, freePlaces()));
    while (!isFull() && serveNext(queue, limits, state(now)));
    timer.set(nextAdmission({ waits: (lanes) => !isFull() && queue.waits(lanes), followers }, limits, state(now)));
  };

  /** Reserves a slot at once and passes it to `grant`. Resolves when the slot has ended. */
  const serve = (request: SlotRequest, since: number, grant: (slot: Slot) => void): Promise<void> => {
    const entry = ledger.open(request.lane, request.caller);
    meter.observe('quota_wait_seconds', (entry.started - since) / 1_000, { lane: request.lane });
    const mark = createSlowMark(entry, slow, clock, () => pump());
    return new Promise<void>((onEnd) => grant(slots.create(entry, { onRecorded: mark.begin, onEnd }))).finally(
      mark.end,
    );
  };

  const end = async () => {
    stopped = true;
    timer.set(Number.POSITIVE_INFINITY);
    await slots.stopHeartbeat();
    await Promise.all([queue.close(), followers.close()]);
  };

  queue.onChange(() => pump());
  pump();

  return {
    /** Resolves with a slot when the request's turn comes. Rejects with `aborted`. */
    acquire(request: SlotRequest) {
      if (stopped || request.signal?.aborted) return Promise.reject(cancelled());
      const since = clock.monotonic();
      if (request.lane === 'interactive') requestedAt = since;
      const slot = new Promise<Slot>((resolve, reject) => {
        const place = request.isFollower ? followers : queue;
        place.enter(
          request,
          () => serve(request, since, resolve),
          () => reject(cancelled()),
        );
      });
      pump(since);
      return slot;
    },

    /** The used part, 0..1, of the available long window: of the cap or of the background's share. Excludes backfills and status changes. */
    usedShare: () => limits.usedShare(state()),
    /** Background requests that each window admits at the present share; `hold` in milliseconds. */
    paces: () => limits.paces(state()),
    /** Whether nothing may be sent at present. A slot that was granted before is given back. */
    isPaused: () => pausedUntil(control.cooldown).until > clock.monotonic(),
    /** Whether the daemon's key was rejected, and is not yet known to be accepted again. */
    isHalted: () => control.cooldown.halt !== null,
    snapshot: () => snapshotOf(state(), limits, queue.waiting(), quota, clock),
    /** Requests in the long window, and its cap; null if lifted. Cheaper than `snapshot`. */
    used: () => limits.used(state()),

    /** Start of the last of these background requests if nothing else arrives, epoch milliseconds. */
    drainedAt(requests: number, backfills = 0) {
      const current = state();
      const from = Math.max(current.now, pausedUntil(current.cooldown).until);
      return wallTimeOf(limits.drainedAt(current, from, { requests, backfills }), clock);
    },

    /** Forgets that the key was rejected, because the daemon has a new one. A pause after a 429 stays. */
    async resume() {
      if (control.clearHalt()) await durably(store, (query) => writeCooldown(query, clock, control.cooldown));
    },

    /** Ends a throttle through which nothing was sent, without a write. */
    abandon: end,

    /** Rejects waiting requests with `aborted`. Resolves when all slots have ended. */
    async stop() {
      await end();
      await slots.recordShutdown(cautiousUntil - clock.monotonic());
    },
  };
}

/** Adds a request to `slow` some time after its row was recorded, until it ends. */
function createSlowMark(entry: Entry, slow: Set<Entry>, clock: Clock, onSlow: () => void) {
  let cancel: Cancel | undefined;
  const end = () => {
    cancel?.();
    slow.delete(entry);
  };
  return {
    end,
    begin() {
      // `record` may be called again after a rollback, so this cancels the timer of the earlier call.
      end();
      cancel = clock.after(SLOW_AFTER, () => {
        slow.add(entry);
        onSlow();
      });
    },
  };
}

/** Requests that follow another one of their turn, in the order of their arrival. */
type Followers = ReturnType<typeof createFollowers>;

function createFollowers(onEnd: () => void) {
  const waiting: { readonly serve: () => void; readonly reject: () => void }[] = [];
  const served = new Set<Promise<void>>();
  return {
    enter({ signal }: SlotRequest, serve: () => Promise<void>, reject: () => void) {
      const cancel = () => {
        waiting.splice(waiting.indexOf(follower), 1);
        reject();
      };
      const follower = {
        serve() {
          signal?.removeEventListener('abort', cancel);
          const ended = serve().finally(() => {
            served.delete(ended);
            onEnd();
          });
          served.add(ended);
        },
        reject,
      };
      signal?.addEventListener('abort', cancel, { once: true });
      waiting.push(follower);
    },
    waits: () => waiting.length > 0,
    serveFirst: () => waiting.shift()?.serve(),
    running: () => served.size,
    async close() {
      for (const { reject } of waiting.splice(0)) reject();
      await Promise.all(served);
    },
  };
}

/** Whether a request of the live background lanes is admitted. */
function isAdmitted(limits: Limits, state: QuotaState): boolean {
  const { cooldown, now } = state;
  return Math.max(pausedUntil(cooldown).until, limits.roomForAll(state), limits.roomInBackgroundShare(state)) <= now;
}

/** Serves the most urgent admitted request. False if none is admitted. */
function serveNext(queue: WaitQueue, limits: Limits, state: QuotaState): boolean {
  const { cooldown, now } = state;
  if (queue.isEmpty() || pausedUntil(cooldown).until > now || limits.roomForAll(state) > now) return false;
  if (limits.roomInBackgroundShare(state) > now) return queue.serveOne('interactive');
  const mayServeBackfill = !queue.waits('backfill') || limits.roomForBackfill(state) <= now;
  return queue.serveOne(mayServeBackfill ? 'backfill' : 'live');
}

/** Time at which a waiting request may be admitted; Infinity if none waits, or an answer must come first. */
function nextAdmission(
  { waits, followers }: Pick<WaitQueue, 'waits'> & { readonly followers: Followers },
  limits: Limits,
  state: QuotaState,
): number {
  const interactive = waits('interactive') ? limits.roomForAll(state) : Number.POSITIVE_INFINITY;
  const live = followers.waits() || waits('live') ? limits.nextForBackground(state) : Number.POSITIVE_INFINITY;
  const backfill = waits('backfill') ? limits.nextForBackfill(state) : Number.POSITIVE_INFINITY;
  return Math.max(pausedUntil(state.cooldown).until, Math.min(interactive, live, backfill));
}

function cancelled(): SyncError {
  return new SyncError('aborted', 'the request for a quota slot was cancelled');
}

export type QuotaSnapshot = ReturnType<typeof snapshotOf>;

function snapshotOf(
  state: QuotaState,
  limits: Limits,
  waiting: Readonly<Record<Lane, number>>,
  quota: QuotaOptions,
  clock: Clock,
) {
  const { cooldown, ledger, now } = state;
  const { until, code, reason } = pausedUntil(cooldown);
  const from = Math.max(now, until);
  const next = Math.max(from, limits.nextForBackground(state));
  const toWall = (at: number) => wallTimeOf(at, clock);
  const { long, burst } = limits.snapshot(state);
  return {
    long: withinCap(long),
    burst: withinCap(burst),
    configuredShare: quota.share,
    effectiveShare: limits.share(state),
    /** Upper bound of the share: the configured one, or the present ceiling of `auto`. */
    ceiling: limits.ceiling(state),
    /** Refused, and no proof of room since: one request at a time. */
    limited: cooldown.limited,
    /** End in epoch milliseconds, and reason; null if nothing pauses. */
    paused: until > now ? { until: toWall(until), code, reason } : null,
    /** The rejection of the daemon's key, until an answer shows that it is accepted. */
    halt: cooldown.halt && { code: cooldown.halt.code, reason: cooldown.halt.reason },
    waiting,
    inFlight: ledger.all.inFlight,
    /** Earliest start of a background request, epoch milliseconds; null if an answer must come first. */
    nextSlotAt: next === Number.POSITIVE_INFINITY ? null : toWall(next),
    /** Start of an interactive request that arrives now, epoch milliseconds. */
    nextForPeopleAt: toWall(limits.interactiveServedAt(state, from, waiting.interactive + 1)),
    lastRefusal: cooldown.observed ? { ...cooldown.observed, at: toWall(cooldown.observed.at) } : null,
  };
}

/** Converts monotonic to epoch milliseconds. */
function wallTimeOf(at: number, clock: Clock): number {
  return Math.round(clock.now() + at - clock.monotonic());
}
