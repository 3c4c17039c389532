import type { ErrorCode } from '../../model/errors/codes.ts';
import type { WindowSnapshot } from '../../model/windows.ts';
import type { Share } from './share.ts';

/**
 * What delays requests besides the windows: the pause after a refusal, a halt that was asked for, and the share.
 * All times are monotonic milliseconds, so that a jump of the wall clock changes nothing.
 *
 *   free      the configured concurrency.
 *   refused   a 429 came: nothing is sent before `refusedUntil`, in no lane; the share was cut.
 *   probing   the pause is over, but no answer has shown yet that there is room: one request at a time.
 *
 *   free → refused (429);  refused → probing (time);  probing → free (an answer that proves room) | refused (429).
 *
 * Several requests can be in flight when the first refusal comes. Their refusals say the same thing once more: those
 * that started before the last cut may lengthen the pause, but do not cut again. Their successes prove nothing either.
 *
 * A halt is independent of all this, and goes the same way: the daemon's own key was refused. Nothing is sent before its
 * end; then one request at a time, until an answer shows that the key is accepted again. Answers to requests that
 * started before the halt prove nothing: they were judged before it.
 */
export interface Cooldown extends Share {
  /** Refused, and not yet proven wrong: one request at a time. */
  readonly limited: boolean;
  /** When the share was last cut. */
  readonly cutAt: number;
  /** Refusals without an accepted request between them. */
  readonly refusals: number;
  readonly refusedUntil: number;
  readonly halt: Halt | null;
  /** Since when no other use was detected: the last refusal, or the first start of all. */
  readonly quietSince: number;
  /** What the refusal that last cut the share told. */
  readonly observed?: Observed;
}

/**
 * A refusal is a measurement: the full window had exactly its cap, so others had sent what of it was not ours.
 * Where the hint does not tell which window that was, one of the two counts is right.
 */
export interface Observed {
  readonly at: number;
  readonly window: 'long' | 'burst' | 'either';
  /** Requests of others in each window at that moment, if it was the full one; null where the limit is lifted. */
  readonly othersLong: number | null;
  readonly othersBurst: number | null;
}

/** Whole seconds are rounded up, so a hint may exceed the window by this much, milliseconds. */
const HINT_ROUNDING = 1_000;

/** @param hint milliseconds that the refusal asked to wait */
export function othersUse(
  { long, burst }: Readonly<Record<'long' | 'burst', WindowSnapshot>>,
  hint: number | undefined,
): Omit<Observed, 'at'> {
  // The refused request is in our own count, but was never in the server's.
  const others = ({ cap, used }: WindowSnapshot) => (cap === null ? null : Math.max(0, cap - Math.max(0, used - 1)));
  const isLong = burst.cap === null || (hint !== undefined && hint > burst.window + HINT_ROUNDING);
  const window = isLong ? 'long' : long.cap === null ? 'burst' : 'either';
  return { window, othersLong: others(long), othersBurst: others(burst) };
}

/** Part of the share that a refusal leaves; and where it was likely the burst window that was full. */
const KEPT = 0.5;
const KEPT_BY_BURST = 0.9;
/** Above this part of it being ours, and with more than this to wait, the burst window is taken for the full one. */
const LIKELY_PART = 0.25;
const LIKELY_HINT = 4_000;

/**
 * What a refusal leaves of the share. A full burst window is free again within a minute, and says little of how much
 * others use over the long one: it costs less. Where the hint fits both, much use of our own within the last minute
 * speaks for the burst window; so does more than a few seconds to wait, since of the many in the long window one expires
 * every few seconds.
 */
export function keptAfter(
  { long, burst }: Readonly<Record<'long' | 'burst', WindowSnapshot>>,
  hint: number | undefined,
): number {
  const isEither = othersUse({ long, burst }, hint).window === 'either';
  const part = Math.max(0, burst.used - 1) / (burst.cap ?? 1);
  return isEither && (hint ?? 0) > LIKELY_HINT && part > LIKELY_PART ? KEPT_BY_BURST : KEPT;
}

/** For so long after a refusal it is taken for granted that others use the workspace, milliseconds. */
const REMEMBERED = 24 * 3_600_000;

/**
 * Whether other use was detected recently. Then a window can be full at any moment, and requests that are on their way together
 * would all be refused: so they go one by one.
 */
export function isShared({ observed }: Cooldown, now: number): boolean {
  return observed !== undefined && now - observed.at < REMEMBERED;
}

export interface Halt {
  readonly until: number;
  /** When it was last set: only what started later can prove it over. */
  readonly since: number;
  readonly code: ErrorCode;
  readonly reason: string;
}

/** Why nothing is sent, and until when. */
export type Pause = Pick<Halt, 'until' | 'code' | 'reason'>;

/** Nothing limits requests but the windows and the configured share. */
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

/** The workspace's hint is trusted within these bounds only, milliseconds. Nothing pauses for longer. */
const SHORTEST_HINT = 1_000;
export const LONGEST_PAUSE = 900_000;

export function boundedHint(retryAfter: number): number {
  return Math.min(LONGEST_PAUSE, Math.max(SHORTEST_HINT, retryAfter));
}

export interface Refusal {
  /** When the refused request started. */
  readonly started: number;
  readonly now: number;
  /** How long to wait, milliseconds. */
  readonly wait: number;
  /** Of the background at the moment of the refusal. */
  readonly refusedShare: number;
  /** The share is never cut below this: one request of the largest cap. */
  readonly smallestShare: number;
  /** Part of the share that is left; see `keptAfter`. */
  readonly kept: number;
  readonly observed?: Observed;
}

/** The share grows from the cut on, also during the pause: the requests of others leave the windows meanwhile. */
export function refused(cooldown: Cooldown, refusal: Refusal): Cooldown {
  const refusedUntil = Math.max(cooldown.refusedUntil, refusal.now + refusal.wait);
  if (refusal.started < cooldown.cutAt) return { ...cooldown, refusedUntil };
  const { refusedShare } = refusal;
  return {
    ...cooldown,
    share: Math.max(refusal.smallestShare, refusedShare * refusal.kept),
    refusedShare,
    growsFrom: refusal.now,
    limited: true,
    cutAt: refusal.now,
    refusals: cooldown.refusals + 1,
    refusedUntil,
    quietSince: refusal.now,
    observed: refusal.observed,
  };
}

/** A request that started at `started` was let in. Answers the same object where that changes nothing. */
export function admitted(cooldown: Cooldown, started: number): Cooldown {
  if (!cooldown.limited || started < cooldown.cutAt) return cooldown;
  return { ...cooldown, limited: false, refusals: 0 };
}

/**
 * Whether an answer proves that the quota had room. A 401 is given before the quota is looked at, and a 5xx may come
 * from a proxy in front of it.
 */
export function provesRoom(status: number): boolean {
  return status < 500 && status !== 401 && status !== 429;
}

/** Halts everything until then; a halt that lasts longer stays. */
export function halted(cooldown: Cooldown, halt: Halt): Cooldown {
  return cooldown.halt !== null && cooldown.halt.until >= halt.until ? cooldown : { ...cooldown, halt };
}

/** The key was accepted for a request that started at `started`. Answers the same object where that proves nothing. */
export function accepted(cooldown: Cooldown, started: number): Cooldown {
  if (cooldown.halt === null || started <= cooldown.halt.since) return cooldown;
  return { ...cooldown, halt: null };
}

/** Whether requests go one at a time: after a refusal or a halt, until one of them shows that it is over. */
export function isProbing({ limited, halt }: Cooldown): boolean {
  return limited || halt !== null;
}

/** The end of whichever pause lasts longest; in the past where nothing pauses. */
export function pausedUntil(cooldown: Cooldown): Pause {
  const reason = 'the workspace refused a request: its quota is used up';
  const refusal = { until: cooldown.refusedUntil, code: 'rate_limited', reason } as const;
  return cooldown.halt !== null && cooldown.halt.until > refusal.until ? cooldown.halt : refusal;
}

/** The cooldown as it is kept: its times count from `boot`, and `wall` was the epoch time at `at`. */
export interface SavedCooldown {
  readonly boot: string;
  readonly at: number;
  readonly wall: number;
  readonly cooldown: Cooldown;
}

/**
 * The kept cooldown in times of the present boot. In the same boot that is what was kept. After a reboot only the wall
 * clock tells how much time passed, and it may have jumped: a jump ahead ends a pause early, a jump back keeps it for
 * what was left when it was kept, never longer.
 */
export function restored(saved: SavedCooldown, boot: string, now: number, wall: number): Cooldown {
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
