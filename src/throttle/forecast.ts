import type { Use, Window } from './windows.ts';

/** A sliding window, or the background's part of one: at most `limit` requests hold a slot at any time. */
export interface Constraint {
  readonly limit: number;
  /** How long a request holds its slot, milliseconds. */
  readonly hold: number;
  readonly use: Use;
}

/**
 * When the last of `requests` can start, if each starts as soon as every constraint has room: greedy, which no other
 * order beats. Requests are taken to last no time, those in flight to end now, and the limits to stay as they are.
 *
 * @param from before it nothing is sent; the same clock as the completions
 */
export function lastStart(constraints: readonly Constraint[], from: number, requests: number): number {
  const lines = constraints.map((constraint) => freeTimes(constraint, from));
  let at = from;
  for (let sent = 0; sent < requests; sent++) {
    // A slot that is given again is free one hold after this one started, so each line stays in order.
    for (const { times } of lines) at = Math.max(at, times[sent] as number);
    for (const { times, hold } of lines) times.push(at + hold);
  }
  return at;
}

/** When each slot becomes free, ascending: one entry for each slot. */
function freeTimes({ limit, hold, use }: Constraint, from: number): { times: number[]; hold: number } {
  const ends = [...use.completed, ...Array<number>(use.inFlight).fill(from)].sort((a, b) => a - b);
  const held = ends.map((at) => at + hold);
  // With more in use than the limit allows, the earliest of them free nothing.
  const times = held.slice(Math.max(0, held.length - limit));
  const unused = Array<number>(limit - times.length).fill(Number.NEGATIVE_INFINITY);
  return { times: [...unused, ...times], hold };
}

/** Both windows for a request of the background: room for anybody, and room in its own share. */
export function constraintsOf<Shared extends Window>(
  windows: readonly Shared[],
  { all, background }: { readonly all: Use; readonly background: Use },
  slots: (window: Shared) => number,
): Constraint[] {
  return windows.flatMap((window) => [
    { limit: window.cap, hold: window.hold, use: all },
    { limit: slots(window), hold: window.hold, use: background },
  ]);
}
