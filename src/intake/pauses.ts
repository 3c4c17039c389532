import type { SyncError } from '../errors/sync-error.ts';
import type { Clock } from '../lib/clock.ts';

/** What a provider is given when it limits us and names no time, milliseconds. */
const UNNAMED = 60_000;
/** However long a provider asks to wait, it is asked again after this, milliseconds. */
const LONGEST = 3_600_000;

/** Connections that must be left alone for a while; polls and fetches share this. Forgotten at a restart. */
export interface Pauses {
  /** Milliseconds left; 0 where the connection is free. */
  left(connection: string): number;
  /** Pauses for `ms`; a longer pause that runs already stays. */
  pause(connection: string, ms: number): void;
}

export function createPauses(clock: Clock): Pauses {
  const until = new Map<string, number>();
  return {
    left: (connection) => Math.max(0, (until.get(connection) ?? 0) - clock.monotonic()),
    pause(connection, ms) {
      until.set(connection, Math.max(until.get(connection) ?? 0, clock.monotonic() + ms));
    },
  };
}

/** How long a connection pauses because of this error: 0 unless the provider limited us. */
export function limitPause(error: SyncError): number {
  if (error.code !== 'rate_limited') return 0;
  return Math.min(LONGEST, Math.max(1_000, error.retryAfter ?? UNNAMED));
}
