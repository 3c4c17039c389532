import { isIPv6 } from 'node:net';
import type { Clock } from '../lib/clock.ts';

/** Refused requests that an address may send in one burst, and how many it gets back per second. */
export interface Patience {
  readonly burst: number;
  readonly perSecond: number;
}

/** Addresses remembered; beyond that the oldest is forgotten. */
const MOST_ADDRESSES = 10_000;

/** A token bucket for each address whose requests are refused. */
export function createAddressGuard(clock: Clock, { burst, perSecond }: Patience) {
  const buckets = new Map<string, { tokens: number; at: number }>();
  const tokensOf = (address: string): number => {
    const bucket = buckets.get(address);
    if (!bucket) return burst;
    return Math.min(burst, bucket.tokens + ((clock.monotonic() - bucket.at) / 1000) * perSecond);
  };
  return {
    /** Returns false if this address has failed too often recently. */
    admits: (address: string) => tokensOf(address) >= 1,
    failed(address: string) {
      const tokens = Math.max(-burst, tokensOf(address) - 1);
      buckets.delete(address);
      buckets.set(address, { tokens, at: clock.monotonic() });
      if (buckets.size > MOST_ADDRESSES) buckets.delete(buckets.keys().next().value as string);
    },
    /** Returns the number of requests that may still fail before the address is refused. */
    left: (address: string) => Math.max(0, Math.floor(tokensOf(address))),
  };
}

/**
 * Returns the group of an address for limits: an IPv4 address is its own group, also if it is written as IPv6; other IPv6
 * addresses share one group per /64, because a customer usually has a whole one. A text that is no address is its own group.
 */
export function groupOfAddress(address: string): string {
  if (!address.includes(':')) return address;
  const mapped = /^::ffff:([0-9]{1,3}(?:\.[0-9]{1,3}){3})$/i.exec(address);
  if (mapped) return mapped[1] as string;
  if (!isIPv6(address)) return address;
  const [head = '', tail] = (address.split('%', 1)[0] as string).toLowerCase().split('::');
  const first = head === '' ? [] : head.split(':');
  // "::" stands for zeros; an IPv4 address at the end is beyond the first half.
  const missing = tail === undefined ? 0 : 8 - first.length - tail.split(':').filter((part) => part !== '').length;
  const parts = [...first, ...Array.from({ length: Math.max(0, missing) }, () => '0'), ...(tail ?? '').split(':')];
  return `${parts
    .slice(0, 4)
    .map((part) => part.replace(/^0+(?=.)/, '') || '0')
    .join(':')}::/64`;
}
