import { lookup } from 'node:dns';
import { type BlockList, isIP } from 'node:net';
import { type Dispatcher, EnvHttpProxyAgent } from 'undici';
import type { Clock } from '../lib/clock.ts';
import { blockListOf } from './private-ranges.ts';

/** The proxies of the environment; see `platform/config/proxies.ts`. */
export interface OutboundProxies {
  readonly httpProxy: string;
  readonly httpsProxy: string;
  readonly noProxy: string;
}

/** The reason why a request is not sent. */
export type ProxyRefusal = 'blocked' | 'refused';

/** Sends requests through the proxies of the environment. */
export interface OutboundProxy {
  /**
   * Chooses the route of a request; undefined for loopback, which no proxy serves. The target is checked as without a proxy, as
   * far as this machine can: a literal address, and a name that resolves here to blocked addresses only.
   */
  routeTo(url: URL): Promise<{ readonly dispatcher: Dispatcher } | ProxyRefusal | undefined>;
  /** Records a 407 of the proxy, which is then not used for `REFUSED_FOR`. */
  refused(): void;
  close(): Promise<void>;
}

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

export function createOutboundProxy(options: OutboundProxyOptions): OutboundProxy {
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
    async routeTo({ hostname }) {
      const host = hostname
        .replace(/^\[|\]$/g, '')
        .replace(/\.$/, '')
        .toLowerCase();
      if (host === 'localhost' || host.endsWith('.localhost') || isIn(LOOPBACK, host)) return undefined;
      if (METADATA_NAMES.test(host)) return 'blocked';
      if (isIP(host) === 0 ? await nameIsBlocked(host) : isIn(blocked, host)) return 'blocked';
      return clock.monotonic() < refusedUntil ? 'refused' : { dispatcher };
    },
    refused() {
      refusedUntil = clock.monotonic() + REFUSED_FOR;
    },
    close: () => dispatcher.destroy(),
  };
}

function isIn(list: BlockList, address: string): boolean {
  const family = isIP(address);
  return family !== 0 && list.check(address, family === 6 ? 'ipv6' : 'ipv4');
}
