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

/** What the server remembers: the arrivals that it let in, ascending. Refused ones do not count. */
export interface Gate {
  readonly accepted: readonly number[];
  /**
   * A request arrives at `now`, not earlier than any before it.
   *
   * @returns undefined where it is let in, else the whole seconds until there is room
   */
  arrive(now: number): number | undefined;
  /** The first moment, at or after `now`, at which a request would be let in. */
  opensAt(now: number): number;
}

export function createGate(windows: readonly Window[] = WINDOWS): Gate {
  const accepted: number[] = [];
  const opensAt = (now: number) =>
    Math.max(now, ...windows.map(({ cap, length }) => (accepted.at(-cap) ?? Number.NEGATIVE_INFINITY) + length));
  return {
    accepted,
    opensAt,
    arrive(now) {
      const opens = opensAt(now);
      if (opens > now) return Math.max(1, Math.ceil(opens - now));
      accepted.push(now);
      return undefined;
    },
  };
}

/** Most arrivals that any sliding window of this length holds, whatever order the times are given in. */
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
