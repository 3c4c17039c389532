/** The quota as the server has it: at most `cap` arrivals within any `length` seconds. */
export interface Window {
  readonly cap: number;
  readonly length: number;
}

/** The workspace's two windows, seconds. */
export const WINDOWS: readonly Window[] = [
  { cap: 200, length: 900 },
  { cap: 40, length: 60 },
];

export type Gate = ReturnType<typeof createGate>;

export function createGate(windows: readonly Window[] = WINDOWS) {
  const accepted: number[] = [];
  const opensAt = (now: number) =>
    Math.max(now, ...windows.map(({ cap, length }) => (accepted.at(-cap) ?? Number.NEGATIVE_INFINITY) + length));
  return {
    /** The accepted arrivals, ascending. Refused requests do not count. */
    accepted: accepted as readonly number[],
    /** The first moment, at or after `now`, at which a request would be let in. */
    opensAt,
    /**
     * A request arrives at `now`, not earlier than any before it.
     *
     * @returns undefined where it is let in, else the whole seconds until there is room
     */
    arrive(now: number): number | undefined {
      const opens = opensAt(now);
      if (opens > now) return Math.max(1, Math.ceil(opens - now));
      accepted.push(now);
      return undefined;
    },
  };
}

export function fullest(arrivals: readonly number[], length: number): number {
  const times = arrivals.toSorted((left, right) => left - right);
  let first = 0;
  let most = 0;
  for (const [index, at] of times.entries()) {
    while (at - (times[first] as number) >= length) first++;
    most = Math.max(most, index - first + 1);
  }
  return most;
}

/**
 * The earliest second at which the last of `count` requests can start, from an empty ledger. Closed form for two
 * windows of which the short one repeats a whole number of times within the long one.
 */
export function optimum(count: number, [long, short] = WINDOWS as readonly [Window, Window]): number {
  const inLong = (count - 1) % long.cap;
  return long.length * Math.floor((count - 1) / long.cap) + short.length * Math.floor(inLong / short.cap);
}

/**
 * Seconds until the last answer, where each request takes `d` seconds, `concurrency` go at once, and a slot is freed
 * one window and its guard after the answer.
 */
export function ruleOfCompletion(
  count: number,
  { concurrency, d, guards }: { concurrency: number; d: number; guards: readonly [long: number, short: number] },
  [long, short] = WINDOWS as readonly [Window, Window],
): number {
  const inLong = (count - 1) % long.cap;
  const longWaits = (long.length + guards[0] + d) * Math.floor((count - 1) / long.cap);
  const shortWaits = (short.length + guards[1] + d) * Math.floor(inLong / short.cap);
  return longWaits + shortWaits + d * Math.floor((inLong % short.cap) / concurrency) + d;
}

/**
 * A: most requests of ours within `length` whole seconds such that another user of the same windows, undisturbed, would
 * never be refused. With P(s) the number of ours before second s it asks, for each window and each s,
 * `P(s + W) - P(s) <= cap - others(s, s + W]` and `P(s) <= P(s + 1)`: differences alone, so the most that P(length) can
 * be is a shortest path from 0 to `length` (an edge for each bound, one of 0 for each step back).
 *
 * @param others arrivals of the other user, seconds, ascending
 */
export function available(others: readonly number[], length: number, windows: readonly Window[] = WINDOWS): number {
  const before = countsBefore(others, length);
  const edges = (at: number): [to: number, weight: number][] => {
    const ahead = windows.map(({ cap, length: reach }): [number, number] => {
      const to = Math.min(length, at + reach);
      return [to, Math.max(0, cap - ((before[to] as number) - (before[at] as number)))];
    });
    return at === 0 ? ahead : [...ahead, [at - 1, 0]];
  };
  return shortestPath(edges, length);
}

function countsBefore(arrivals: readonly number[], length: number): number[] {
  const counts = Array.from({ length: length + 1 }, () => 0);
  for (const at of arrivals) {
    const second = Math.floor(at) + 1;
    if (second <= length) counts[second] = (counts[second] as number) + 1;
  }
  for (let second = 1; second <= length; second++) counts[second]! += counts[second - 1] as number;
  return counts;
}

/** Dial's algorithm: the weights are small whole numbers, so the nodes wait in one list for each distance. */
function shortestPath(edges: (at: number) => [number, number][], target: number): number {
  const distance = new Map<number, number>([[0, 0]]);
  const lists: number[][] = [[0]];
  for (let reached = 0; reached < lists.length; reached++) {
    const list = lists[reached] ?? [];
    for (let at = list.pop(); at !== undefined; at = list.pop()) {
      if (distance.get(at) !== reached) continue;
      if (at === target) return reached;
      for (const [to, weight] of edges(at)) {
        const next = reached + weight;
        if (next >= (distance.get(to) ?? Number.POSITIVE_INFINITY)) continue;
        distance.set(to, next);
        (lists[next] ??= []).push(to);
      }
    }
  }
  return Number.POSITIVE_INFINITY;
}
