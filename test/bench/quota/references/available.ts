import { WINDOWS, type Window } from './windows.ts';

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

/** Arrivals before each whole second. */
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
