import { hash, timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import type { Server } from '../http/server.ts';
import type { Logger } from '../lib/logger.ts';

export interface DoorOptions {
  /** Absent: only loopback gets in. */
  readonly adminToken?: string;
  /** Host names, without port, under which people open the pages, besides the names of loopback. */
  readonly allowedHosts?: readonly string[];
  readonly logger: Logger;
}

const LOOPBACK_NAMES = ['localhost', '127.0.0.1', '[::1]'];

/** Sent by reverse proxies. With one of them on loopback, every visitor of the world would look like loopback. */
const FORWARDED = ['forwarded', 'x-forwarded-for', 'x-forwarded-host', 'x-real-ip', 'via'];

const WEBHOOKS = '/webhooks/';

const HEADERS = {
  'cache-control': 'no-store',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
} as const;

/**
 * Guards every route of the server, also those that do not exist, except the public ones: `/webhooks/*` and
 * `/api/v1/*`, which check their callers themselves, `/livez` and `/readyz`.
 *
 * A guarded route answers to the admin token (`Authorization: Bearer`), or to loopback: the socket's own address, no
 * sign of a proxy, a `Host` that is a name of this machine (a page that rebinds its DNS name to 127.0.0.1 sends its
 * own), and no foreign `Origin`. There is no CORS. Otherwise 401, or 403 where the host is foreign.
 */
export function guardDoors(server: Server, options: DoorOptions): void {
  const hosts = new Set([...LOOPBACK_NAMES, ...(options.allowedHosts ?? [])].map((host) => host.toLowerCase()));
  const token = options.adminToken === undefined ? undefined : digest(options.adminToken);
  server.addHook('onRequest', (request, reply, done) => {
    const route = request.is404 ? addressOf(request.url) : request.routeOptions.url;
    // No browser asks here, and each delivery pays for what its answer carries.
    if (route?.startsWith(WEBHOOKS)) return done();
    reply.headers(HEADERS);
    if (isPublic(route)) return done();
    const given = bearer(request.headers);
    if (given !== undefined) {
      if (token !== undefined && timingSafeEqual(digest(given), token)) return done();
      return reply.code(401).send({ error: 'unauthorized' });
    }
    if (!isOurs(request.headers, hosts)) return reply.code(403).send({ error: 'forbidden' });
    if (isLoopback(request.socket.remoteAddress) && !isForwarded(request.headers)) return done();
    return reply.code(401).header('www-authenticate', 'Bearer').send({ error: 'unauthorized' });
  });
  answerErrors(server, options.logger);
}

/** What a fault says stays in the log: it may hold anything. */
function answerErrors(server: Server, logger: Logger): void {
  server.setNotFoundHandler((_request, reply) => reply.code(404).send({ error: 'not_found' }));
  server.setErrorHandler((error, request, reply) => {
    const status = (error as { statusCode?: number }).statusCode ?? 500;
    if (status < 500) return reply.code(status).send({ error: 'refused' });
    logger.error({ error, route: request.routeOptions.url }, 'request failed');
    return reply.code(status).send({ error: 'internal' });
  });
}

/** Where no route was matched, nothing but 404 stands behind the address. */
function addressOf(url: string): string | undefined {
  return url.startsWith('/api/v1/') ? url : undefined;
}

/** By the route that was matched, not by the text of the address: there are many spellings of a path. */
function isPublic(route: string | undefined): boolean {
  if (route === undefined) return false;
  return route === '/livez' || route === '/readyz' || route.startsWith(WEBHOOKS) || route.startsWith('/api/v1/');
}

function bearer(headers: IncomingHttpHeaders): string | undefined {
  if (headers.authorization === undefined) return undefined;
  return /^Bearer +(\S+) *$/i.exec(headers.authorization)?.[1] ?? '';
}

/** Digests have one length, so that the comparison takes one time. */
function digest(text: string): Buffer {
  return hash('sha256', text, 'buffer');
}

function isOurs(headers: IncomingHttpHeaders, hosts: ReadonlySet<string>): boolean {
  if (!hosts.has(hostOf(`http://${headers.host ?? ''}`))) return false;
  return headers.origin === undefined || hosts.has(hostOf(headers.origin));
}

function hostOf(address: string): string {
  return URL.canParse(address) ? new URL(address).hostname : '';
}

function isForwarded(headers: IncomingHttpHeaders): boolean {
  return FORWARDED.some((name) => headers[name] !== undefined);
}

function isLoopback(address: string | undefined): boolean {
  if (address === undefined) return false;
  return address === '::1' || /^(::ffff:)?127\.\d{1,3}\.\d{1,3}\.\d{1,3}$/.test(address);
}
