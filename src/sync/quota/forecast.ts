import type { Use, Window } from '../../model/windows.ts';

/** One window, or the background's part of one: at most so many requests hold a slot at any time. Monotonic milliseconds. */
export interface Constraint {
  /** Slots at this moment, at least one. */
  limitAt(at: number): number;
  /** When there will be more of them; Infinity where there never are, or where that is unknown. */
  growsAfter(at: number): number;
  /** How long a request holds its slot, milliseconds. */
  readonly hold: number;
  readonly use: Use;
}

/** From here on requests go at the pace of those before: whoever waits for thousands asks for hours, not for seconds. */
const EXACT = 3_000;

/**
 * When the last of `requests` can start, if each starts as soon as every constraint has room: greedy, which no other
 * order beats. Requests are taken to last no time, and those in flight to end now.
 *
 * @param from before it nothing is sent; the same clock as the completions
 */
export function lastStart(constraints: readonly Constraint[], from: number, requests: number): number {
  const lines = constraints.map((constraint) => lineOf(constraint, from));
  let at = from;
  for (let sent = 0; sent < Math.min(requests, EXACT); sent++) {
    at = firstWithRoom(lines, at);
    for (const { ends, constraint } of lines) ends.push(at + constraint.hold);
  }
  const slowest = Math.max(0, ...constraints.map(({ limitAt, hold }) => hold / limitAt(at)));
  return at + Math.max(0, requests - EXACT) * slowest;
}

interface Line {
  readonly constraint: Constraint;
  /** When each slot that was ever taken is free again, ascending. */
  readonly ends: number[];
}

function lineOf(constraint: Constraint, from: number): Line {
  const { use, hold } = constraint;
  const ended = [...use.completed, ...Array<number>(use.inFlight).fill(from)].sort((a, b) => a - b);
  return { constraint, ends: ended.map((at) => at + hold) };
}

function firstWithRoom(lines: readonly Line[], from: number): number {
  let at = from;
  for (;;) {
    const next = Math.max(at, ...lines.map((line) => roomIn(line, at)));
    if (next === at) return at;
    at = next;
  }
}

/** This moment, or a later one before which there is no room. */
function roomIn({ constraint, ends }: Line, at: number): number {
  // With more taken than there are slots, the earliest of them free nothing.
  const mustBeFree = ends.at(-constraint.limitAt(at));
  if (mustBeFree === undefined || mustBeFree <= at) return at;
  return Math.min(mustBeFree, constraint.growsAfter(at));
}

/** Both windows for a request of anybody. */
export function anybody(windows: readonly Window[], use: Use): Constraint[] {
  return windows.map(({ cap, hold }) => ({ limitAt: () => cap, growsAfter: never, hold, use }));
}

/** Slots of one window for the background, now and later. */
export type Slots<Shared> = (window: Shared, at: number) => number;

/** Both windows for a request of the background: room for anybody, and room in its own share. */
export function constraintsOf<Shared extends Window>(
  windows: readonly Shared[],
  { all, background }: { readonly all: Use; readonly background: Use },
  slots: Slots<Shared>,
  growsAfter: Slots<Shared> = never,
): Constraint[] {
  const shared = windows.map((window) => ({
    limitAt: (at: number) => slots(window, at),
    growsAfter: (at: number) => growsAfter(window, at),
    hold: window.hold,
    use: background,
  }));
  return [...anybody(windows, all), ...shared];
}

function never(): number {
  return Number.POSITIVE_INFINITY;
}
