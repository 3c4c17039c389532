import { isIPv6 } from 'node:net';

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
