import type { Event } from './history.ts';

/** Whether the database did not take everything at some time: what it did not take may be known to one process alone, and be lost with it. */
export function isStoreDisturbed(events: readonly Event[]): boolean {
  return events.some((event) => event.what === 'happened' && isOfDatabase(event.happening));
}

const SECOND = 1_000;

/** So long after an answer it may not be stored, milliseconds: where the database does not take all at once, from when it was tried last. */
export function storedWithin(events: readonly Event[]): number {
  return (isStoreDisturbed(events) ? 10 : 1) * SECOND;
}

function isOfDatabase(happening: unknown): boolean {
  return ['fail-statements', 'store-away', 'store-slow'].includes((happening as { readonly do: string }).do);
}
