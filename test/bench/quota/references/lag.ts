import { byItem, type Event } from './trace.ts';

/** A write that the server let in. Seconds. */
export interface Write {
  readonly item: string;
  readonly start: number;
  readonly end: number;
}

export interface Freshness {
  /** Of each event: until the end of the first write that started at or after it, or until its difference vanished. */
  readonly lags: readonly number[];
  /** Integral over time of the number of items out of date, hours. */
  readonly staleHours: number;
}

/** What the trace's events experienced, given the writes. `end`: what is out of date then counts until then. */
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
  return { lags: lags.toSorted((left, right) => left - right), staleHours: stale / 3_600 };
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
      // What differed while it was on its way, and differs no more, needed no write of its own.
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

/** The smallest value that at least this part of the values does not exceed. `sorted` ascends. */
export function quantile(sorted: readonly number[], part: number): number {
  return sorted[Math.max(0, Math.ceil(part * sorted.length) - 1)] ?? 0;
}
