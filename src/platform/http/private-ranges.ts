import { BlockList, isIP } from 'node:net';

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
