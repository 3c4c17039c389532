import type { Write } from './lag.ts';
import { byItem, type Event } from './trace.ts';
import { createGate, WINDOWS, type Window } from './windows.ts';

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
