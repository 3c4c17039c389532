import { isIPv6 } from 'node:net';

/**
 * Whom an address belongs to, as far as limits can tell: an IPv4 address is its own group, also if it is written as IPv6; of
 * other IPv6 addresses everybody has a whole /64, so those share one name. A text that is no address is its own group.
 */
export function groupOfAddress(address: string): string {
  if (!address.includes(':')) return address;
  const mapped = /^::ffff:([0-9]{1,3}(?:\.[0-9]{1,3}){3})$/i.exec(address);
  if (mapped) return mapped[1] as string;
  if (!isIPv6(address)) return address;
  const [head = '', tail] = (address.split('%', 1)[0] as string).toLowerCase().split('::');
  const first = head === '' ? [] : head.split(':');
  // What "::" leaves out are zeros; an IPv4 address at the end is beyond the first half.
  const missing = tail === undefined ? 0 : 8 - first.length - tail.split(':').filter((part) => part !== '').length;
  const parts = [...first, ...Array.from({ length: Math.max(0, missing) }, () => '0'), ...(tail ?? '').split(':')];
  return `${parts
    .slice(0, 4)
    .map((part) => part.replace(/^0+(?=.)/, '') || '0')
    .join(':')}::/64`;
}
