/**
 * The arithmetic of sliding windows, on monotonic milliseconds.
 *
 * The server counts a request when it arrives, at an instant we do not see: somewhere between its start and its
 * completion. So a slot is taken from the start until one window after the completion. Then for any two requests that
 * used the same slot: start of the later ≥ completion of the earlier + window ≥ arrival of the earlier + window. Hence
 * no window at the server ever holds more than its cap, whatever the network does to the order and the delay.
 */
export interface Window {
  /** Most requests that the server takes within one window. */
  readonly cap: number;
  /** How long a slot stays taken after its request completed, milliseconds: the window and its guard. */
  readonly hold: number;
}

/** Requests that count: those whose answer is awaited, and the completion times of the others, ascending. */
export interface Use {
  inFlight: number;
  readonly completed: number[];
}

/** One quota window as it is now. `null` where the limit is lifted. */
export interface WindowSnapshot {
  /** Milliseconds. */
  readonly window: number;
  readonly cap: number | null;
  readonly used: number;
  readonly usedByBackground: number;
  /** Of these, by backfills. */
  readonly usedByBackfill: number;
  /** Requests that the background lanes may have in this window at the present share; and with how many backfills wait. */
  readonly backgroundLimit: number | null;
  readonly backfillLimit: number | null;
}

/**
 * A request whose answer nobody saw may still be on its way: it stands in a socket's buffer or in a proxy. It counts
 * as if it ended this much later, milliseconds.
 */
export const UNKNOWN_GRACE = 10_000;

/** Two clocks may run apart by this much: the usual tolerance of a quartz. */
const CLOCK_RATE = 500e-6;
/** The server may round its times to whole milliseconds. */
const ROUNDING = 1;

/** A window with its guard: 0.45 s on 15 minutes costs 0.05 % of the rate. */
export function windowOf(cap: number, length: number): Window {
  return { cap, hold: length * (1 + CLOCK_RATE) + ROUNDING };
}

/** Requests that count in a window at `now`. */
export function usedAt(use: Use, hold: number, now: number): number {
  const live = use.completed.findIndex((at) => at + hold > now);
  return use.inFlight + (live === -1 ? 0 : use.completed.length - live);
}

/**
 * When a window has room for one more request: -Infinity where it has now and always had, Infinity where an answer
 * must come first.
 */
export function roomAt(use: Use, limit: number, hold: number): number {
  const allowed = limit - use.inFlight;
  if (allowed <= 0) return Number.POSITIVE_INFINITY;
  // Room for one more means that at most `allowed - 1` completed ones still count: the one before those is gone.
  const mustBeGone = use.completed.at(-allowed);
  if (mustBeGone === undefined || use.completed.length < allowed) return Number.NEGATIVE_INFINITY;
  return mustBeGone + hold;
}

/** A window at one moment, and the requests that may use it. Monotonic milliseconds. */
interface Filled {
  readonly use: Use;
  readonly slots: number;
  readonly hold: number;
  readonly now: number;
}

/**
 * Whether one more request may take a slot although others are expected at this rate (requests per millisecond): for as
 * long as it holds its slot there must be a free one for each of them, and some to spare. Slots become free again in the
 * order in which they were taken, so it is enough to look just before each of these moments. An empty window always has
 * room for one: with few slots more is expected than there are, and the request would wait for ever.
 */
export function leavesRoom(
  { use, slots, hold, now }: Filled,
  { rate, spare }: { readonly rate: number; readonly spare: number },
): boolean {
  const ends = [...use.completed.map((at) => at + hold - now), ...Array<number>(use.inFlight).fill(hold)];
  const held = ends.filter((end) => end > 0);
  const free = slots - held.length - 1;
  const most = Math.max(0, slots - 1 - spare);
  return [...held, hold].every((end, freed) => free + freed >= Math.min(most, rate * end) + spare);
}

/** Adds a completion and keeps the order. Nearly always it is the latest. */
export function addCompletion(completed: number[], at: number): void {
  completed.splice(completed.findLastIndex((earlier) => earlier <= at) + 1, 0, at);
}

/** Drops the completions that count nowhere any more. */
export function forgetBefore(completed: number[], before: number): void {
  const kept = completed.findIndex((at) => at >= before);
  completed.splice(0, kept === -1 ? completed.length : kept);
}
