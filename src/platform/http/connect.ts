import { buildConnector } from 'undici';
import { blockListOf } from './private-ranges.ts';
import { createSharedLookup } from './shared-lookup.ts';

/**
 * Always refused: link-local addresses and the metadata services of clouds, which hand out credentials.
 * An IPv4-mapped IPv6 address is checked as IPv4 by the block list itself; NAT64 and 6to4 spellings stand here.
 */
export const METADATA_RANGES = [
  '169.254.0.0/16',
  'fe80::/10',
  'fd00:ec2::254/128',
  '100.100.100.200/32',
  '64:ff9b::a9fe:0/112',
  '2002:a9fe::/32',
];

/**
 * Connects like undici does, but checks every address, literal or resolved, against the blocked ranges.
 *
 * Node applies a socket's `blockList` in `net.connect` only and drops it in `tls.connect` (Node 26.10), so TLS gets a
 * socket that was connected, and checked, before. Each of the two legs has `timeout` milliseconds.
 */
export function createConnector(blockedRanges: readonly string[], timeout: number): buildConnector.connector {
  const blockList = blockListOf([...METADATA_RANGES, ...blockedRanges]);
  const lookup = createSharedLookup();
  const plain = buildConnector({ timeout, blockList, lookup } as buildConnector.BuildOptions);
  const secure = buildConnector({ timeout, allowH2: false });
  return (target, callback) => {
    if (target.protocol !== 'https:') return plain(target, callback);
    const leg = { ...target, protocol: 'http:', port: target.port || '443', servername: undefined };
    plain(leg, (...[error, socket]) => {
      if (error) callback(error, null);
      else secure({ ...target, httpSocket: socket }, callback);
    });
  };
}
