import { lookup } from 'node:dns';
import { isIP, type LookupFunction } from 'node:net';
import { buildConnector, EnvHttpProxyAgent } from 'undici';
import type { Clock } from '../lib/clock.ts';
import { blockListOf, hostOf, isIn, isLocalName } from './addresses.ts';

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

type Callback = Parameters<LookupFunction>[2];

/**
 * Resolves each name once at a time, however many connections wait for it.
 *
 * If no name server answers, the system takes many seconds for a name, looks up four at a time, and continues after the connection
 * has given up. Attempts would accumulate there with their sockets, and work with files would wait behind them.
 */
export function createSharedLookup(ask: LookupFunction = lookup): LookupFunction {
  const asked = new Map<string, Callback[]>();
  return (host, options, callback) => {
    const key = JSON.stringify([host, options]);
    const others = asked.get(key);
    if (others) {
      others.push(callback);
      return;
    }
    const waiting = [callback];
    asked.set(key, waiting);
    ask(host, options, (...answer) => {
      asked.delete(key);
      for (const resolve of waiting) resolve(...answer);
    });
  };
}

/** The first checks for people, by the reason why there was no connection. */
const REMEDIES: readonly (readonly [codes: RegExp, hint: string])[] = [
  [
    /^ENOTFOUND$/,
    'DNS knows no such name: correct the host name in the configuration, or the DNS of this machine. The request was not sent.',
  ],
  [
    /^EAI_/,
    'DNS does not answer: check the name servers of this machine or container, and its network. The request was not sent.',
  ],
  [
    /^ECONNREFUSED$/,
    'Nothing listens at this address: check host and port, and whether the server runs. The request was not sent.',
  ],
  [
    /^(UND_ERR_CONNECT_TIMEOUT|ETIMEDOUT|E(HOST|NET)(UNREACH|DOWN)|EADDRNOTAVAIL)$/,
    'The network does not reach the server: check the route, and firewalls on the way. The request was not sent.',
  ],
  [
    /^CERT_HAS_EXPIRED$/,
    'The certificate of the server has expired: renew it there. If it has not, the clock of this machine is wrong.',
  ],
  [/^CERT_NOT_YET_VALID$/, 'The certificate of the server is not valid yet: the clock here or there is wrong.'],
  [
    /^(DEPTH_ZERO_SELF_SIGNED_CERT|SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_VERIFY_LEAF_SIGNATURE|UNABLE_TO_GET_ISSUER_CERT(_LOCALLY)?|CERT_UNTRUSTED)$/,
    'This machine does not trust the issuer of the certificate: start worksync with NODE_EXTRA_CA_CERTS=<file of the issuer>, or let the server send the whole chain.',
  ],
  [
    /^ERR_TLS_CERT_ALTNAME_INVALID$/,
    'The certificate is for another host name: configure the name that it is for, or give the server the right certificate.',
  ],
  [/^CERT_REVOKED$/, 'The issuer revoked the certificate of the server: give the server another one.'],
  [
    /^(EPROTO$|ERR_SSL_|ERR_TLS_)/,
    'Client and server agree on no TLS: check whether the address should begin with http:// or needs another port.',
  ],
];

/** Returns the remedy if there was no connection; undefined if the error needs no remedy of its own. */
export function unreachableHint(error: Error): string | undefined {
  const { code } = error as NodeJS.ErrnoException;
  if (typeof code !== 'string') return undefined;
  return REMEDIES.find(([codes]) => codes.test(code))?.[1];
}

/** The proxies of the environment; see `platform/config/daemon-options.ts`. */
export interface OutboundProxies {
  readonly httpProxy: string;
  readonly httpsProxy: string;
  readonly noProxy: string;
}

export type OutboundProxy = ReturnType<typeof createOutboundProxy>;

interface OutboundProxyOptions {
  readonly proxies: OutboundProxies;
  readonly clock: Clock;
  readonly blockedRanges: readonly string[];
  /** Options of undici for connections of all kinds. `connect` makes those that bypass the proxy. */
  readonly agent: EnvHttpProxyAgent.Options;
  /** Resolves a name; another one in tests. */
  readonly resolve?: typeof lookup;
}

/** Milliseconds after a 407 in which nothing is sent through the proxy: most proxies lock accounts that are tried with a wrong password. */
export const REFUSED_FOR = 300_000;
/** Milliseconds that the local DNS may take. Behind a proxy there is often none. */
const RESOLVED_WITHIN = 1_000;
/** Milliseconds for which an answer of the local DNS counts. */
const RESOLVED_FOR = 60_000;
const MOST_NAMES = 1_000;

const LOOPBACK = blockListOf(['127.0.0.0/8', '::1/128', '0.0.0.0/32', '::/128']);
/** Names of the metadata services of clouds, which hand out credentials. */
const METADATA_NAMES = /^(metadata(\.google\.internal)?|instance-data(\.ec2\.internal)?)$/;

/** Sends requests through the proxies of the environment. */
export function createOutboundProxy(options: OutboundProxyOptions) {
  const { proxies, clock, blockedRanges, agent, resolve = lookup } = options;
  // Always uses a tunnel, so that nothing of a request leaves before the tunnel is open.
  const dispatcher = new EnvHttpProxyAgent({ ...agent, ...proxies, proxyTunnel: true });
  const blocked = blockListOf(blockedRanges);
  const names = new Map<string, { readonly isBlocked: Promise<boolean>; readonly at: number }>();
  let refusedUntil = Number.NEGATIVE_INFINITY;

  function nameIsBlocked(name: string): Promise<boolean> {
    const known = names.get(name);
    if (known && clock.monotonic() - known.at < RESOLVED_FOR) return known.isBlocked;
    if (names.size >= MOST_NAMES) names.clear();
    const isBlocked = new Promise<boolean>((settle) => {
      const cancel = clock.after(RESOLVED_WITHIN, () => settle(false));
      resolve(name, { all: true }, (error, addresses) => {
        cancel();
        settle(!error && addresses.length > 0 && addresses.every(({ address }) => isIn(blocked, address)));
      });
    });
    names.set(name, { isBlocked, at: clock.monotonic() });
    return isBlocked;
  }

  return {
    /**
     * Chooses the route of a request, or the reason why it is not sent; undefined for loopback, which no proxy serves. The target is
     * checked as without a proxy, as far as this machine can: a literal address, and a name that resolves here to blocked addresses
     * only.
     */
    async routeTo(url: URL) {
      const host = hostOf(url);
      if (isLocalName(host) || isIn(LOOPBACK, host)) return undefined;
      if (METADATA_NAMES.test(host)) return 'blocked';
      if (isIP(host) === 0 ? await nameIsBlocked(host) : isIn(blocked, host)) return 'blocked';
      return clock.monotonic() < refusedUntil ? 'refused' : { dispatcher };
    },
    /** Records a 407 of the proxy, which is then not used for `REFUSED_FOR`. */
    refused() {
      refusedUntil = clock.monotonic() + REFUSED_FOR;
    },
    close: () => dispatcher.destroy(),
  };
}
