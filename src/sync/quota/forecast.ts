import type { Window, WindowUse } from '../../model/windows.ts';

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
