import { BlockList, isIP, isIPv6 } from 'node:net';
import type { Clock } from '../lib/clock.ts';

/**
 * Addresses that are not public: this machine, private networks, link-local, carrier NAT, multicast, and the IPv6 spellings of
 * those IPv4 ranges. The block list itself checks IPv4-mapped addresses as IPv4.
 */
export const PRIVATE_RANGES: readonly string[] = [
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.168.0.0/16',
  '198.18.0.0/15',
  '224.0.0.0/4',
  '240.0.0.0/4',
  '::/127',
  'fc00::/7',
  'fe80::/10',
  'ff00::/8',
  '64:ff9b::a00:0/104',
  '64:ff9b::7f00:0/104',
  '64:ff9b::ac10:0/108',
  '64:ff9b::c0a8:0/112',
  '64:ff9b::6440:0/106',
  '64:ff9b:1::/48',
  '2002::/16',
];

/** Returns a block list of Node. @param ranges in CIDR notation */
export function blockListOf(ranges: readonly string[]): BlockList {
  const list = new BlockList();
  for (const range of ranges) {
    const [address, bits] = range.split('/') as [string, string];
    list.addSubnet(address, Number(bits), address.includes(':') ? 'ipv6' : 'ipv4');
  }
  return list;
}

/**
 * Whether an address names a private host by itself. The addresses of a name are known only when it is called: pass
 * `PRIVATE_RANGES` to the client too, which refuses them then.
 */
export function isPrivateHost(url: string): boolean {
  const host = hostOf(new URL(url));
  return isLocalName(host) || isIn(blockListOf(PRIVATE_RANGES), host);
}

/** Returns the host without the brackets of IPv6 and the final dot of a name. */
export function hostOf({ hostname }: URL): string {
  return hostname
    .replace(/^\[|\]$/g, '')
    .replace(/\.$/, '')
    .toLowerCase();
}

export function isLocalName(host: string): boolean {
  return host === 'localhost' || host.endsWith('.localhost');
}

export function isIn(list: BlockList, address: string): boolean {
  const family = isIP(address);
  return family !== 0 && list.check(address, family === 6 ? 'ipv6' : 'ipv4');
}

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
