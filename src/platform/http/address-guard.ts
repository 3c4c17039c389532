import type { Clock } from '../lib/clock.ts';

/** Refused requests that an address may send in one burst, and how many it gets back per second. */
export interface Patience {
  readonly burst: number;
  readonly perSecond: number;
}

/** Addresses remembered; beyond that the oldest is forgotten. */
const MOST_ADDRESSES = 10_000;

export interface AddressGuard {
  /** False where this address has failed too often lately. */
  admits(address: string): boolean;
  failed(address: string): void;
  /** How many more may fail before it is no longer admitted. */
  left(address: string): number;
}

/** A token bucket for each address whose requests are refused. */
export function createAddressGuard(clock: Clock, { burst, perSecond }: Patience): AddressGuard {
  const buckets = new Map<string, { tokens: number; at: number }>();
  const tokensOf = (address: string): number => {
    const bucket = buckets.get(address);
    if (!bucket) return burst;
    return Math.min(burst, bucket.tokens + ((clock.monotonic() - bucket.at) / 1000) * perSecond);
  };
  return {
    admits: (address) => tokensOf(address) >= 1,
    failed(address) {
      const tokens = Math.max(-burst, tokensOf(address) - 1);
      buckets.delete(address);
      buckets.set(address, { tokens, at: clock.monotonic() });
      if (buckets.size > MOST_ADDRESSES) buckets.delete(buckets.keys().next().value as string);
    },
    left: (address) => Math.max(0, Math.floor(tokensOf(address))),
  };
}
