import type { Clock } from '../lib/clock.ts';
import type { LogFields, Logger } from '../lib/logger.ts';

/** Refused requests that an address may send in one burst, and how many it gets back per second. */
const BURST = 60;
const PER_SECOND = 1;
/** Addresses remembered; beyond that the oldest is forgotten. */
const MOST_ADDRESSES = 10_000;

export interface AddressGuard {
  /** False where this address has failed too often: its next request is not even read. */
  admits(address: string): boolean;
  failed(address: string): void;
  /** An address that signs well once is never turned away: behind a reverse proxy all senders share one address. */
  proved(address: string): void;
}

/** A token bucket for each address that sends what is refused. */
export function createAddressGuard(clock: Clock): AddressGuard {
  const buckets = new Map<string, { tokens: number; at: number }>();
  const remember = (address: string, tokens: number) => {
    buckets.delete(address);
    buckets.set(address, { tokens, at: clock.monotonic() });
    if (buckets.size > MOST_ADDRESSES) buckets.delete(buckets.keys().next().value as string);
  };
  const tokensOf = (address: string): number => {
    const bucket = buckets.get(address);
    if (!bucket) return BURST;
    if (bucket.tokens === Number.POSITIVE_INFINITY) return bucket.tokens;
    return Math.min(BURST, bucket.tokens + ((clock.monotonic() - bucket.at) / 1000) * PER_SECOND);
  };
  return {
    admits: (address) => tokensOf(address) >= 1,
    failed: (address) => remember(address, tokensOf(address) - 1),
    proved(address) {
      if (tokensOf(address) !== Number.POSITIVE_INFINITY) remember(address, Number.POSITIVE_INFINITY);
    },
  };
}

/** The same warning for the same subject is logged at most once in this time, milliseconds. */
const QUIET = 60_000;

/** Logs the first warning about a subject at once, and the number of those it kept back with the next one after a minute. */
export function createQuietWarnings(clock: Clock): (logger: Logger, subject: string, fields: LogFields) => void {
  const last = new Map<string, { at: number; kept: number }>();
  return (logger, subject, fields) => {
    const entry = last.get(subject);
    const now = clock.monotonic();
    if (entry && now - entry.at < QUIET) {
      entry.kept++;
      return;
    }
    logger.warn({ ...fields, alsoRefused: entry?.kept ?? 0 }, 'delivery refused');
    last.set(subject, { at: now, kept: 0 });
  };
}
