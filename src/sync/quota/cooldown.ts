import type { Lane } from '../../model/change.ts';
import type { ErrorCode } from '../../model/errors.ts';
import type { WindowSnapshot } from '../../model/windows.ts';
import { backoff, type Clock } from '../../platform/lib/clock.ts';
import { readMeta, writeMeta } from '../../store/meta.ts';
import type { StoreContext } from '../../store/store-context.ts';
import type { Scope } from '../../store/workspace-scope.ts';
import type { Share } from './share.ts';

/**
 * Delays beyond the windows. Times are monotonic milliseconds, so a jump of the wall clock has no effect.
 *
 *   free      full concurrency.
 *   refused   after a 429: no lane sends before `refusedUntil`, and the share is reduced.
 *   probing   after the pause: one request at a time, until an answer proves room.
 *
 *   free → refused (429);  refused → probing (time);  probing → free (proof of room) | refused (429).
 *
 * A request that started before the last reduction proves nothing new: its 429 can only extend the pause, and its
 * success does not end the probing.
 *
 * A halt is independent: the workspace rejected the daemon's key. Nothing is sent before its end, then one request at a
 * time until a request that started later shows that the key is accepted.
 */
export interface Cooldown extends Share {
  /** Refused or probing. */
  readonly limited: boolean;
  /** Time of the last reduction of the share. */
  readonly cutAt: number;
  /** Consecutive refusals without an accepted request between them. */
  readonly refusals: number;
  readonly refusedUntil: number;
  readonly halt: KeyHalt | null;
  /** The last detection of other users: the last refusal, or else the very first start. */
  readonly quietSince: number;
  readonly observed?: ObservedUse;
}

export interface KeyRefusal {
  readonly code: ErrorCode;
  readonly reason: string;
}

interface KeyHalt extends KeyRefusal {
  readonly until: number;
  /** Time of the last rejection. */
  readonly since: number;
}

export type Pause = Pick<KeyHalt, 'until' | 'code' | 'reason'>;

export interface SlotAnswer {
  readonly status: number;
  /** Wait requested by a refusal, milliseconds. */
  readonly retryAfter?: number;
  /** The daemon's key: null if accepted, the reason if rejected, absent if unknown. */
  readonly key?: KeyRefusal | null;
}

/**
 * Use by others, measured by a refusal: the cap of the full window minus our own requests. If the full window is
 * unknown, only one of the two counts is right.
 */
export interface ObservedUse {
  readonly at: number;
  readonly window: 'long' | 'burst' | 'either';
  /** Requests of others if this window was full; null if its limit is lifted. */
  readonly othersLong: number | null;
  readonly othersBurst: number | null;
}

type WindowSnapshots = Readonly<Record<'long' | 'burst', WindowSnapshot>>;

export const OPEN: Cooldown = {
  share: 1,
  growsFrom: 0,
  limited: false,
  cutAt: 0,
  refusals: 0,
  refusedUntil: 0,
  halt: null,
  quietSince: 0,
};

/** Servers round hints up to whole seconds, milliseconds. */
const HINT_ROUNDING = 1_000;

/** Measures the use by others. `hint`: the wait that the refusal requested, milliseconds. */
export function othersUse({ long, burst }: WindowSnapshots, hint: number | undefined): Omit<ObservedUse, 'at'> {
  // Our count includes the refused request; the server's never did.
  const others = ({ cap, used }: WindowSnapshot) => (cap === null ? null : Math.max(0, cap - Math.max(0, used - 1)));
  const isLong = burst.cap === null || (hint !== undefined && hint > burst.window + HINT_ROUNDING);
  const window = isLong ? 'long' : long.cap === null ? 'burst' : 'either';
  return { window, othersLong: others(long), othersBurst: others(burst) };
}

/** Factors of a reduction: usually, and if the burst window was probably full. */
const CUT_FACTOR = 0.5;
const BURST_CUT_FACTOR = 0.9;
/** Thresholds of our own part of the burst window, and of the hint, above which that window was probably full. */
const LIKELY_BURST_PART = 0.25;
const LIKELY_BURST_HINT = 4_000;

/**
 * The factor by which a refusal reduces the share. A full burst window says little about use by others over the long
 * window, so it reduces less. If the hint fits both windows, much own use in the last minute and a long hint together
 * point to the burst window: in a full long window a slot expires every few seconds.
 */
export function cutFactor({ long, burst }: WindowSnapshots, hint: number | undefined): number {
  const isEither = othersUse({ long, burst }, hint).window === 'either';
  const ownPart = Math.max(0, burst.used - 1) / (burst.cap ?? 1);
  return isEither && (hint ?? 0) > LIKELY_BURST_HINT && ownPart > LIKELY_BURST_PART ? BURST_CUT_FACTOR : CUT_FACTOR;
}

const OTHERS_REMEMBERED = 24 * 3_600_000;

/**
 * Whether others used the workspace within a day. Then a window can be full at any moment, and all requests in flight
 * would be refused together, so requests go one at a time.
 */
export function isShared({ observed }: Cooldown, now: number): boolean {
  return observed !== undefined && now - observed.at < OTHERS_REMEMBERED;
}

/** Bounds of a hint, milliseconds. */
const MIN_HINT = 1_000;
const MAX_PAUSE = 900_000;

export function boundedHint(retryAfter: number): number {
  return Math.min(MAX_PAUSE, Math.max(MIN_HINT, retryAfter));
}

interface Refusal {
  readonly started: number;
  readonly now: number;
  /** Milliseconds. */
  readonly wait: number;
  readonly refusedShare: number;
  readonly smallestShare: number;
  readonly factor: number;
  readonly observed?: ObservedUse;
}

/** Pauses, and reduces the share. The share grows during the pause too, because requests of others expire meanwhile. */
export function afterRefusal(cooldown: Cooldown, refusal: Refusal): Cooldown {
  const { now, refusedShare } = refusal;
  const refusedUntil = Math.max(cooldown.refusedUntil, now + refusal.wait);
  if (refusal.started < cooldown.cutAt) return { ...cooldown, refusedUntil };
  return {
    ...cooldown,
    share: Math.max(refusal.smallestShare, refusedShare * refusal.factor),
    refusedShare,
    growsFrom: now,
    limited: true,
    cutAt: now,
    refusals: cooldown.refusals + 1,
    refusedUntil,
    quietSince: now,
    observed: refusal.observed,
  };
}

/** Ends the probing. Returns the given object if nothing changes. */
export function afterAdmission(cooldown: Cooldown, started: number): Cooldown {
  if (!cooldown.limited || started < cooldown.cutAt) return cooldown;
  return { ...cooldown, limited: false, refusals: 0 };
}

/** Whether an answer proves room: a 401 comes before the quota check, and a 5xx can come from a proxy. */
export function provesRoom(status: number): boolean {
  return status < 500 && status !== 401 && status !== 429;
}

/** The first interval between tests of a rejected key, milliseconds. It doubles with each rejection, up to the longest one. */
const FIRST_KEY_PROBE = 5_000;
const MAX_KEY_PROBE_MS = 60_000;

/** Starts or extends the halt. A request that started before the last rejection proves nothing new: the given object is returned. */
export function afterKeyRejected(
  cooldown: Cooldown,
  { started, now, ...refusal }: KeyRefusal & { readonly started: number; readonly now: number },
): Cooldown {
  const { halt } = cooldown;
  if (halt !== null && started <= halt.since) return cooldown;
  const interval = halt === null ? FIRST_KEY_PROBE : Math.min(MAX_KEY_PROBE_MS, 2 * (halt.until - halt.since));
  return { ...cooldown, halt: { ...refusal, until: now + interval, since: now } };
}

/** Ends the halt. Returns the given object if nothing changes. */
function afterKeyAccepted(cooldown: Cooldown, started: number): Cooldown {
  if (cooldown.halt === null || started <= cooldown.halt.since) return cooldown;
  return { ...cooldown, halt: null };
}

/** Whether a refusal or a halt is not yet known to be over: one request at a time. */
export function isProbing({ limited, halt }: Cooldown): boolean {
  return limited || halt !== null;
}

/** The pause that ends last; it is in the past if nothing pauses. */
export function pausedUntil(cooldown: Cooldown): Pause {
  const reason = 'the workspace refused a request: its quota is used up';
  const refusal = { until: cooldown.refusedUntil, code: 'rate_limited', reason } as const;
  return cooldown.halt !== null && cooldown.halt.until > refusal.until ? cooldown.halt : refusal;
}

export interface QuotaMeasure extends WindowSnapshots {
  readonly share: number;
}

export type CooldownControl = ReturnType<typeof createCooldownControl>;

interface Request {
  readonly lane: Lane;
  /** Monotonic milliseconds. */
  readonly started: number;
}

/** Updates the cooldown from the answers of the workspace. */
export function createCooldownControl(
  initial: Cooldown,
  { clock, random, logger, meter }: StoreContext,
  smallestShare: number,
  measure: () => QuotaMeasure,
  onChange: () => void,
) {
  let cooldown = initial;

  const change = (next: Cooldown) => {
    cooldown = next;
    onChange();
  };

  const refuse = ({ lane, started }: Request, hint: number | undefined) => {
    const wait = hint === undefined ? backoff(random, cooldown.refusals, 1_000, MAX_PAUSE) : boundedHint(hint);
    const now = clock.monotonic();
    const { share: refusedShare, ...windows } = measure();
    const observed = { at: now, ...othersUse(windows, hint) };
    const factor = cutFactor(windows, hint);
    change(afterRefusal(cooldown, { started, now, wait, smallestShare, factor, observed, refusedShare }));
    meter.count('quota_refusals_total', { lane });
    logger.warn({ lane, waitMs: wait, refusals: cooldown.refusals }, 'the workspace refused: quota used up');
  };

  const admit = ({ started }: Request) => {
    const next = afterAdmission(cooldown, started);
    if (next === cooldown) return;
    change(next);
    logger.info({ share: measure().share }, 'the workspace accepts requests again');
  };

  const applyKeyVerdict = ({ started }: Request, refusal: KeyRefusal | null) => {
    const next = refusal
      ? afterKeyRejected(cooldown, { ...refusal, started, now: clock.monotonic() })
      : afterKeyAccepted(cooldown, started);
    if (next !== cooldown) change(next);
  };

  return {
    get cooldown(): Cooldown {
      return cooldown;
    },

    /** Applies an answer. Returns whether the cooldown changed and must be stored. */
    apply(request: Request, answer: SlotAnswer | undefined): boolean {
      if (answer === undefined) return false;
      const before = cooldown;
      if (answer.key !== undefined) applyKeyVerdict(request, answer.key);
      if (answer.status === 429) refuse(request, answer.retryAfter);
      else if (provesRoom(answer.status)) admit(request);
      return cooldown !== before;
    },

    /** Returns false if there is no halt. */
    clearHalt(): boolean {
      if (cooldown.halt === null) return false;
      change({ ...cooldown, halt: null });
      return true;
    },
  };
}

/** Key of the stored cooldown in `meta`, older than the term cooldown. */
export const COOLDOWN_KEY = 'throttle.brake';

/** Stored form: times of boot `boot`; the wall clock showed `wall` at `at`. */
interface SavedCooldown {
  readonly boot: string;
  readonly at: number;
  readonly wall: number;
  readonly cooldown: Cooldown;
}

/** Reads the cooldown in times of the present boot. Stores a converted one, so that it is converted only once. */
export async function readCooldown(query: Scope, clock: Clock): Promise<Cooldown> {
  const text = await readMeta(query, COOLDOWN_KEY);
  const initial = { ...OPEN, quietSince: clock.monotonic() };
  if (text === undefined) {
    await writeCooldown(query, clock, initial);
    return initial;
  }
  const saved = withCooldown(JSON.parse(text));
  const cooldown = rebaseCooldown(saved, clock.bootId, clock.monotonic(), clock.now());
  if (cooldown !== saved.cooldown) await writeCooldown(query, clock, cooldown);
  return cooldown;
}

/** The first commits of schema 1 stored the cooldown as `brake`. */
function withCooldown(stored: SavedCooldown & { readonly brake?: Cooldown }): SavedCooldown {
  return stored.brake === undefined ? stored : { ...stored, cooldown: stored.brake };
}

export async function writeCooldown(query: Scope, clock: Clock, cooldown: Cooldown): Promise<void> {
  const saved: SavedCooldown = { boot: clock.bootId, at: clock.monotonic(), wall: clock.now(), cooldown };
  await writeMeta(query, COOLDOWN_KEY, JSON.stringify(saved));
}

/**
 * Converts a stored cooldown to times of the present boot. After a reboot only the wall clock shows how much time
 * passed. If it jumped ahead, a pause ends early; if it jumped back, a pause is never extended.
 */
export function rebaseCooldown(saved: SavedCooldown, boot: string, now: number, wall: number): Cooldown {
  if (saved.boot === boot && saved.at <= now) return saved.cooldown;
  const shift = now - saved.at - Math.max(0, wall - saved.wall);
  const { cooldown } = saved;
  return {
    ...cooldown,
    growsFrom: cooldown.growsFrom + shift,
    cutAt: cooldown.cutAt + shift,
    refusedUntil: cooldown.refusedUntil + shift,
    quietSince: cooldown.quietSince + shift,
    halt: cooldown.halt && { ...cooldown.halt, until: cooldown.halt.until + shift, since: cooldown.halt.since + shift },
    observed: cooldown.observed && { ...cooldown.observed, at: cooldown.observed.at + shift },
  };
}
