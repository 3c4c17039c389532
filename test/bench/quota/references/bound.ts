import { byItem, type Event } from './trace.ts';
import { WINDOWS, type Window } from './windows.ts';

interface Options {
  /** Seconds that a request takes. */
  readonly d?: number;
  /** The window that is looked at; leaving out the other makes the bound weaker, not wrong. */
  readonly window?: Window;
  /** Steps of the search for good prices; any prices give a bound. */
  readonly steps?: number;
}

/** Windows are laid at every so many parts of their length: more of them bind tighter, and take longer. */
const PARTS = 6;

/**
 * The most events that any schedule, also one that knows everything, can show within `longest` seconds: an upper bound.
 *
 * At most `cap` of all requests that start within one window's length are let in. Where each request pays a price for
 * every window that it falls into instead, the items no longer compete, and the best writes of each are found exactly by
 * dynamic programming; what all of them gain, and the price of all that the windows could hold, is no less than what any
 * real schedule gains. Prices are moved towards the windows that are overfull; the lowest bound that was met is kept.
 */
export function mostWithin(
  events: readonly Event[],
  longest: number,
  { d = 0.15, window = WINDOWS[0] as Window, steps = 60 }: Options = {},
): number {
  const items = [...byItem(events).values()].map((own) => itemOf(own, longest));
  const length = window.length / PARTS;
  const segments = Math.floor(((events.at(-1)?.at ?? 0) + longest) / length) + 1;
  const prices = new Float64Array(segments);
  let best = events.length;
  for (let step = 0; step < steps; step++) {
    const used = new Float64Array(segments);
    let bound = prices.reduce((sum, price) => sum + price * window.cap, 0);
    const costs = prices.map((_, segment) => sumOf(prices, segment - PARTS + 1, segment));
    for (const item of items) bound += mostOfItem(item, longest - d, length, costs, used);
    best = Math.min(best, bound);
    for (const first of prices.keys()) {
      const excess = (sumOf(used, first, first + PARTS - 1) - window.cap) / window.cap;
      prices[first] = Math.max(0, (prices[first] as number) + excess / PARTS / Math.sqrt(step + 1));
    }
  }
  return best;
}

function sumOf(values: Float64Array, first: number, last: number): number {
  let sum = 0;
  for (let at = Math.max(0, first); at <= last && at < values.length; at++) sum += values[at] as number;
  return sum;
}

/** A lower bound of a lag's quantile: the shortest time within which that part of the events could be shown at all. */
export function leastQuantile(events: readonly Event[], part: number, options: Options = {}): number {
  const wanted = Math.ceil(part * events.length);
  let [low, high] = [0, 1];
  while (mostWithin(events, high, options) < wanted) [low, high] = [high, high * 2];
  while (high - low > Math.max(0.05, 0.01 * high)) {
    const middle = (low + high) / 2;
    if (mostWithin(events, middle, options) < wanted) low = middle;
    else high = middle;
  }
  return low;
}

interface Item {
  readonly times: readonly number[];
  /** Events whose difference may vanish in time without a write, by a change back: they are given for nothing. */
  readonly free: readonly boolean[];
}

function itemOf(events: readonly Event[], longest: number): Item {
  const free = events.map(({ at }, index) => {
    const before = new Set(events.slice(0, index).map(({ state }) => state));
    return events.slice(index).some((later) => later.at <= at + longest && before.has(later.state));
  });
  return { times: events.map(({ at }) => at), free };
}

/**
 * The gain of the best writes of one item. A write that shows the events `first` to `last` in time starts between the last
 * of them and `reach` after the first, in the cheapest segment there. Adds these writes to `used`.
 */
function mostOfItem({ times, free }: Item, reach: number, length: number, prices: Float64Array, used: Float64Array) {
  const most = new Float64Array(times.length + 1);
  const choices: { next: number; segment: number }[] = [];
  for (let first = times.length - 1; first >= 0; first--) {
    const latest = (times[first] as number) + reach;
    most[first] = (most[first + 1] as number) + (free[first] ? 1 : 0);
    choices[first] = { next: first + 1, segment: -1 };
    for (let last = first; last < times.length && (times[last] as number) <= latest; last++) {
      const segment = cheapest(prices, Math.floor((times[last] as number) / length), Math.floor(latest / length));
      const gain = last - first + 1 - (prices[segment] as number) + (most[last + 1] as number);
      if (gain <= (most[first] as number)) continue;
      most[first] = gain;
      choices[first] = { next: last + 1, segment };
    }
  }
  for (let at = 0; at < times.length; ) {
    const { next, segment } = choices[at] as { next: number; segment: number };
    if (segment >= 0) used[segment] = (used[segment] as number) + 1;
    at = next;
  }
  return most[0] as number;
}

function cheapest(prices: Float64Array, from: number, to: number): number {
  let best = from;
  for (let segment = from + 1; segment <= to; segment++) {
    if ((prices[segment] as number) < (prices[best] as number)) best = segment;
  }
  return best;
}
