import type { Clock } from '../lib/clock.ts';

/** Refused requests that an address may send in one burst, and how many it gets back per second. */
export interface Patience {
  readonly burst: number;
  readonly perSecond: number;
}

/** Addresses remembered; beyond that the oldest is forgotten. */
const MOST_ADDRESSES = 10_000;

export interface AddressGuard {
  /** False where this address has failed too often: its next request is not even read. */
  admits(address: string): boolean;
  failed(address: string): void;
  /** How many more may fail before it is turned away. */
  left(address: string): number;
  /** An address that proves itself once is never turned away: behind a reverse proxy all senders share one address. */
  proved(address: string): void;
}

/** A token bucket for each address that sends what is refused. */
export function createAddressGuard(clock: Clock, { burst, perSecond }: Patience): AddressGuard {
  const buckets = new Map<string, { tokens: number; at: number }>();
  const remember = (address: string, tokens: number) => {
    buckets.delete(address);
    buckets.set(address, { tokens, at: clock.monotonic() });
    if (buckets.size > MOST_ADDRESSES) buckets.delete(buckets.keys().next().value as string);
  };
  const tokensOf = (address: string): number => {
    const bucket = buckets.get(address);
    if (!bucket) return burst;
    if (bucket.tokens === Number.POSITIVE_INFINITY) return bucket.tokens;
    return Math.min(burst, bucket.tokens + ((clock.monotonic() - bucket.at) / 1000) * perSecond);
  };
  return {
    admits: (address) => tokensOf(address) >= 1,
    failed: (address) => remember(address, tokensOf(address) - 1),
    left: (address) => Math.max(0, Math.floor(tokensOf(address))),
    proved(address) {
      if (tokensOf(address) !== Number.POSITIVE_INFINITY) remember(address, Number.POSITIVE_INFINITY);
    },
  };
}
