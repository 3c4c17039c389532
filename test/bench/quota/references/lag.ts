import { byItem, type Event } from './trace.ts';
import { createGate, WINDOWS, type Window } from './windows.ts';

export interface Write {
  readonly item: string;
  readonly start: number;
  readonly end: number;
}

export interface Freshness {
  /** The lag of each event: until the first write that started at or after it has ended, or its difference has vanished. */
  readonly lags: readonly number[];
  /** Integral over time of the number of items out of date, hours. */
  readonly staleHours: number;
}

export function freshness(events: readonly Event[], writes: readonly Write[], end: number): Freshness {
  const writesOf = byItem(writes);
  const lags: number[] = [];
  let stale = 0;
  for (const [item, own] of byItem(events)) {
    const ordered = (writesOf.get(item) ?? []).toSorted((left, right) => left.start - right.start);
    const seen = ofItem(own, ordered, end);
    lags.push(...seen.lags);
    stale += seen.stale;
  }
  return { lags, staleHours: stale / 3_600 };
}

type Moment =
  | { readonly at: number; readonly order: 0; readonly event: Event }
  | { readonly at: number; readonly order: 1; readonly starts: Write }
  | { readonly at: number; readonly order: 2; readonly ends: Write };

/** One pass over an item's events, starts and ends of writes. At one time events come first: a write sees them. */
function ofItem(events: readonly Event[], writes: readonly Write[], end: number): { lags: number[]; stale: number } {
  const moments: Moment[] = [
    ...events.map((event) => ({ at: event.at, order: 0, event }) as const),
    ...writes.map((starts) => ({ at: starts.start, order: 1, starts }) as const),
    ...writes.map((ends) => ({ at: ends.end, order: 2, ends }) as const),
  ].sort((left, right) => left.at - right.at || left.order - right.order);
  const lags: number[] = [];
  let waiting: number[] = [];
  let state: string | undefined;
  let sent: string | undefined;
  let known: string | undefined;
  let flying = 0;
  let stale = 0;
  let before = 0;
  for (const moment of moments) {
    if (state !== known) stale += moment.at - before;
    before = moment.at;
    if (moment.order === 0) {
      state = moment.event.state;
      waiting.push(moment.at);
      if (flying === 0 && state === known) {
        lags.push(...waiting.map((at) => moment.at - at));
        waiting = [];
      }
    } else if (moment.order === 1) {
      sent = state;
      flying++;
      lags.push(...waiting.map((at) => moment.starts.end - at));
      waiting = [];
    } else {
      flying--;
      known = sent;
      // A difference that arose and vanished during the request needed no write.
      if (flying === 0 && state === known) {
        lags.push(...waiting.map((at) => moment.at - at));
        waiting = [];
      }
    }
  }
  if (state !== known) stale += Math.max(0, end - before);
  lags.push(...waiting.map((at) => end - at));
  return { lags, stale };
}

/** The smallest value that at least this part of the values does not exceed; of no values NaN, which is no figure. */
export function quantile(values: readonly number[], part: number): number {
  const sorted = values.toSorted((left, right) => left - right);
  return sorted[Math.max(0, Math.ceil(part * sorted.length) - 1)] ?? Number.NaN;
}

/**
 * U(T): the fewest writes such that no item is out of date for longer than T seconds without a break. An item is out of
 * date while its state differs from the one last written; it ends by a write, or by a change back.
 */
export function fewestWrites(events: readonly Event[], longest: number): number {
  return [...byItem(events).values()].reduce((sum, own) => sum + fewestOfItem(own, longest), 0);
}

/**
 * Exact, by dynamic programming over "the state that was written last". Writes are worth making only while the item is
 * out of date, and only at moments of events: between two events nothing changes, and earlier is never worse.
 */
function fewestOfItem(events: readonly Event[], longest: number): number {
  const states = [undefined, ...events.map(({ state }) => state)];
  const times = [Number.NEGATIVE_INFINITY, ...events.map(({ at }) => at)];
  const fewest = states.map(() => 0);
  for (let written = states.length - 1; written >= 0; written--) fewest[written] = fewestAfter(written);
  return fewest[0] as number;

  function fewestAfter(written: number): number {
    const known = states[written];
    const stale = states.findIndex((state, index) => index > written && state !== known);
    if (stale === -1) return 0;
    let best = Number.POSITIVE_INFINITY;
    const latest = (times[stale] as number) + longest;
    for (let index = stale; index < states.length && (times[index] as number) <= latest; index++) {
      if (states[index] === known) return Math.min(best, fewest[index] as number);
      best = Math.min(best, 1 + (fewest[index] as number));
    }
    return best;
  }
}

interface Options {
  /** Seconds of the future that it knows. */
  readonly knows: number;
  /** Seconds that a request takes. */
  readonly d?: number;
  readonly windows?: readonly Window[];
}

interface Item {
  readonly events: readonly Event[];
  /** Index of the first event that is still to come. */
  next: number;
  state: string | undefined;
  known: string | undefined;
}

/**
 * The schedule of one who knows the next seconds: an item is left alone while its next event is known to come; of the
 * others the one that went out of date first is written, as soon as the server's own windows have room. Knowing
 * nothing it is "oldest first, without delay", which is also what a queue with one pending job per item does.
 */
export function lookAhead(events: readonly Event[], { knows, d = 0.15, windows = WINDOWS }: Options): Write[] {
  const gate = createGate(windows);
  const items = new Map([...byItem(events)].map(([name, own]) => [name, itemOf(own)]));
  /** Out of date, the oldest first. */
  const stale = new Map<string, Item>();
  const writes: Write[] = [];
  let now = 0;
  for (let next = 0; ; ) {
    const ready = firstReady(stale, now + knows);
    const opens = ready === undefined ? Number.POSITIVE_INFINITY : gate.opensAt(now);
    const event = events[next];
    if (ready !== undefined && opens <= now) {
      gate.arrive(now);
      settle(stale, ready);
      writes.push({ item: ready, start: now, end: now + d });
    } else if (event !== undefined && event.at <= opens) {
      now = event.at;
      next++;
      happen(stale, items.get(event.item) as Item, event);
    } else if (opens === Number.POSITIVE_INFINITY) {
      return writes;
    } else {
      now = opens;
    }
  }
}

function itemOf(events: readonly Event[]): Item {
  return { events, next: 0, state: undefined, known: undefined };
}

/** The one that went out of date first, of those with no event until `foreseen`. */
function firstReady(stale: ReadonlyMap<string, Item>, foreseen: number): string | undefined {
  for (const [name, { events, next }] of stale) {
    if ((events[next]?.at ?? Number.POSITIVE_INFINITY) > foreseen) return name;
  }
  return undefined;
}

function happen(stale: Map<string, Item>, item: Item, event: Event): void {
  item.next++;
  item.state = event.state;
  if (item.state === item.known) stale.delete(event.item);
  // A map keeps the order in which keys came in: that of going out of date.
  else if (!stale.has(event.item)) stale.set(event.item, item);
}

function settle(stale: Map<string, Item>, name: string): void {
  const item = stale.get(name) as Item;
  item.known = item.state;
  stale.delete(name);
}
