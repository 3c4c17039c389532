import type { ServerRequest } from './server.ts';

/**
 * The callers that may use a route.
 *
 * public   all; the handler checks its own needs.
 * webhook  all; a signature proves the body. No browser sends these requests, so the answers have no headers for browsers.
 * login    browsers that show one of our own pages.
 * metrics  as `read`, or all if metrics are open.
 * read     the read token, the admin token, or any session. Changes nothing.
 * session  every logged-in caller, whatever their role.
 * gateway  a gateway token, for the one workspace that it was made for. Changes nothing.
 * replica  another process of the installation, which signs its requests. Changes nothing.
 * admin    the admin token, or a session of an administrator.
 */
export type RouteAccess =
  | 'public'
  | 'webhook'
  | 'login'
  | 'metrics'
  | 'read'
  | 'session'
  | 'gateway'
  | 'replica'
  | 'admin';

/** The `config` of a route: its callers. A route without one is for administrators of all workspaces. */
export interface RouteNeeds {
  /** `admin` by default. */
  readonly access?: RouteAccess;
  /**
   * The answer contains only what the caller may see. Without it, and without `:workspace` in its address, the route is closed to
   * callers that are limited to some workspaces.
   */
  readonly filters?: true;
  /** Takes a form of our own pages, with their token in the field `page`; other routes that change something take JSON. */
  readonly form?: true;
}

declare module 'fastify' {
  interface FastifyContextConfig extends RouteNeeds {}
}

export interface OriginOptions {
  /** Hosts under which people open this server, in addition to those of loopback: a name, for any port, or `name:port`. */
  readonly allowedHosts?: readonly string[];
  /** The public address: its host is allowed too. */
  readonly publicUrl?: string;
  /** The address that the server listens on. */
  readonly listens?: string;
}

/** The host and the origin that a request names, and its connection. */
export interface Addressed {
  /** `http://localhost:8080`, as a browser writes it in `Origin`; undefined if the `Host` is none of ours. */
  readonly origin: string | undefined;
  /** Whether it came over TLS, according to a trusted proxy. */
  readonly isTls: boolean;
  /** Whether it cannot have been read in transit: it came over TLS, or from this machine and through no proxy. */
  readonly isPrivate: boolean;
}

const LOOPBACK_NAMES = ['localhost', '127.0.0.1', '[::1]'];
/** Wildcard addresses, under which no page is opened. */
const ANY_ADDRESS = ['0.0.0.0', '::', ''];
const HOST = /^(\[[\da-f:.]{2,45}\]|[a-z\d](?:[a-z\d.-]{0,252}[a-z\d])?)(?::(\d{1,5}))?$/;

/** Headers that reverse proxies send: one of them means that there is a proxy. */
const FORWARDED = [
  'forwarded',
  'via',
  'x-forwarded-for',
  'x-forwarded-host',
  'x-forwarded-proto',
  'x-real-ip',
  'cf-connecting-ip',
  'true-client-ip',
  'x-client-ip',
];

/**
 * Checks the address under which a server was reached. A foreign page whose name points to this machine sends its own name as
 * `Host`, so only known names are accepted, as a whole.
 */
export function createOrigins(options: OriginOptions): (request: ServerRequest) => Addressed {
  const { allowedHosts = [], publicUrl, listens = '' } = options;
  const own = ANY_ADDRESS.includes(listens) ? [] : [listens.includes(':') ? `[${listens}]` : listens];
  const ofPublicUrl = publicUrl === undefined ? [] : [new URL(publicUrl).host];
  const known = new Set([...LOOPBACK_NAMES, ...own, ...allowedHosts, ...ofPublicUrl].map((host) => host.toLowerCase()));
  return (request) => {
    const isTls = request.protocol === 'https';
    const host = HOST.exec(request.host.toLowerCase());
    const isKnown = host !== null && (known.has(host[0]) || known.has(host[1] as string));
    return {
      // Without a port that the scheme implies; undefined for an impossible address.
      origin: isKnown ? URL.parse(`${isTls ? 'https' : 'http'}://${host[0]}`)?.origin : undefined,
      isTls,
      isPrivate: isTls || isOwnMachine(request),
    };
  };
}

/** A request from any proxy came from elsewhere, whatever its headers say. */
function isOwnMachine({ headers, socket: { remoteAddress = '' } }: ServerRequest): boolean {
  const isLoopback = remoteAddress === '::1' || /^(::ffff:)?127\.\d{1,3}\.\d{1,3}\.\d{1,3}$/.test(remoteAddress);
  return isLoopback && !FORWARDED.some((name) => headers[name] !== undefined);
}
