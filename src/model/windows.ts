/**
 * The arithmetic of sliding windows, in monotonic milliseconds.
 *
 * The server counts a request when it arrives, at an unknown time between its start and its completion. So a slot is
 * taken from the start of a request until one window after its completion. For any two requests of the same slot:
 * start of the later ≥ completion of the earlier + window ≥ arrival of the earlier + window. Hence no window at the
 * server ever contains more requests than its cap, whatever the network does to their order and delay.
 */
export interface Window {
  /** The most requests that the server accepts within one window. */
  readonly cap: number;
  /** How long a slot stays taken after its request completed, milliseconds: the window and its guard. */
  readonly hold: number;
}

/** The requests that count in a window: the number in flight, and the completion times of the others, ascending. */
export interface WindowUse {
  inFlight: number;
  readonly completed: number[];
}

/** The current state of one quota window. `null` where the limit is lifted. */
export interface WindowSnapshot {
  /** Length of the window, milliseconds. */
  readonly window: number;
  readonly cap: number | null;
  readonly used: number;
  readonly usedByBackground: number;
  /** The part of `usedByBackground` that backfills used. */
  readonly usedByBackfill: number;
  /** Requests that the background lanes may have in this window at the current share. */
  readonly backgroundLimit: number | null;
  /** The number of used slots from which on backfills wait. */
  readonly backfillLimit: number | null;
}

/**
 * Returns a window for people. After a restore, worksync counts as many requests as the larger window accepts, because it does not
 * know which were sent: the smaller one is full then.
 */
export function withinCap<Use extends Pick<WindowSnapshot, 'cap' | 'used'>>(use: Use): Use {
  const most = use.cap ?? Number.POSITIVE_INFINITY;
  const counts = Object.entries(use).filter(([name]) => name.startsWith('used'));
  return { ...use, ...Object.fromEntries(counts.map(([name, count]) => [name, Math.min(most, count as number)])) };
}

/**
 * A request without an answer may still be in flight, in the buffer of a socket or in a proxy.
 * It counts as if it ended this much later, milliseconds.
 */
export const UNKNOWN_GRACE = 10_000;

/** The difference in speed between two clocks: the usual tolerance of a quartz. */
const CLOCK_RATE = 500e-6;
/** The server may round its times to whole milliseconds. Milliseconds. */
const ROUNDING = 1;

/** Returns a window with a safety margin: 0.45 s in 15 minutes, which costs 0.05 % of the rate. */
export function windowOf(cap: number, length: number): Window {
  return { cap, hold: length * (1 + CLOCK_RATE) + ROUNDING };
}

/** Returns the number of requests that count in a window at `now`. */
export function usedAt(use: WindowUse, hold: number, now: number): number {
  const live = use.completed.findIndex((at) => at + hold > now);
  return use.inFlight + (live === -1 ? 0 : use.completed.length - live);
}

/**
 * Returns when a window has room for one more request.
 * -Infinity: there was always room. Infinity: a request in flight must end first.
 */
export function roomAt(use: WindowUse, limit: number, hold: number): number {
  const allowed = limit - use.inFlight;
  if (allowed <= 0) return Number.POSITIVE_INFINITY;
  // There is room when at most `allowed - 1` completed requests count, so the one before those must expire.
  const mustExpire = use.completed.at(-allowed);
  if (mustExpire === undefined || use.completed.length < allowed) return Number.NEGATIVE_INFINITY;
  return mustExpire + hold;
}

/** Returns when all windows have room for one more request, see {@link roomAt}. -Infinity without windows. */
export function roomInAll(use: WindowUse, windows: readonly Window[]): number {
  return Math.max(Number.NEGATIVE_INFINITY, ...windows.map(({ cap, hold }) => roomAt(use, cap, hold)));
}

/** The state of a window at the time `now`. Monotonic milliseconds. */
interface WindowState {
  readonly use: WindowUse;
  readonly slots: number;
  readonly hold: number;
  readonly now: number;
}

/**
 * Whether one more request may take a slot although others are expected. While it occupies its slot, there must be a
 * free slot for each expected request, and `spare` more. Slots become free in the order in which they were taken, so it
 * is enough to check just before each of these times. An empty window always has room for one request: otherwise, with
 * few slots, it would wait for ever. `rate` is in requests per millisecond.
 */
export function leavesRoom(
  { use, slots, hold, now }: WindowState,
  { rate, spare }: { readonly rate: number; readonly spare: number },
): boolean {
  const ends = [...use.completed.map((at) => at + hold - now), ...Array<number>(use.inFlight).fill(hold)];
  const taken = ends.filter((end) => end > 0);
  const free = slots - taken.length - 1;
  const most = Math.max(0, slots - 1 - spare);
  return [...taken, hold].every((end, freed) => free + freed >= Math.min(most, rate * end) + spare);
}

/** Adds a completion and keeps the order. It is nearly always the latest. */
export function addCompletion(completed: number[], at: number): void {
  completed.splice(completed.findLastIndex((earlier) => earlier <= at) + 1, 0, at);
}

/** Removes the completions before a time, because they count in no window any more. */
export function forgetBefore(completed: number[], before: number): void {
  const kept = completed.findIndex((at) => at >= before);
  completed.splice(0, kept === -1 ? completed.length : kept);
}
