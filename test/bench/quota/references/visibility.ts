import { byItem, type Event } from './trace.ts';

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

  /** The state of index `written` is known and present; what do the events after it cost? */
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
