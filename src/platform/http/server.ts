import { type IncomingMessage, STATUS_CODES } from 'node:http';
import { Socket } from 'node:net';
import { Readable } from 'node:stream';
import fastify, { type FastifyError, type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import { SyncError } from '../../model/errors/sync-error.ts';
import { MEBIBYTE } from '../lib/quantities.ts';
import { groupOfAddress } from './address-group.ts';
import { type BasePath, basePathOf } from './base-path.ts';
import type { BodyHolder } from './memory-budget.ts';
import { readBody } from './read-body.ts';
import { createTraffic, type Traffic, type TrafficLimits } from './traffic.ts';

/** For folders that add routes: fastify is named here only. */
export type Server = FastifyInstance;
export type ServerRequest = FastifyRequest;
export type ServerReply = FastifyReply;

declare module 'fastify' {
  interface FastifyInstance {
    readonly traffic: Traffic;
  }
  interface FastifyRequest {
    /** What its body takes of the budget. */
    heldBody: BodyHolder | undefined;
    /** Of a request to the gateway: the workspace it is for, and whether that itself gave the answer. */
    passage: { readonly workspace: string; isAnswered?: boolean } | undefined;
  }
}

export interface ServerOptions {
  /** Largest body accepted, bytes; a route may raise its own. */
  readonly bodyLimit?: number;
  /** A request must have arrived whole within this time, milliseconds. */
  readonly requestTimeout?: number;
  /**
   * Addresses and CIDR ranges of reverse proxies: what comes from one of them is taken to come from where its
   * `X-Forwarded-For` and `X-Forwarded-Proto` say. Absent: those headers are not read.
   */
  readonly trustedProxies?: readonly string[];
  /** Where people reach it from outside: its path is accepted before each address, and put before the links of pages. */
  readonly publicUrl?: string | undefined;
  /** What all requests may take together. */
  readonly limits?: TrafficLimits;
  /** Body of an answer to what never reaches a route or hook: malformed HTTP, an address that cannot be decoded. */
  readonly failureBody?: (status: number, message: string) => object;
}

/**
 * The only maker of HTTP servers. Bodies reach the handlers as raw bytes (`Buffer`): signatures are checked over them,
 * and `parseJson` reads them afterwards. Slow senders are cut off, compressed bodies are refused, what all requests take
 * together is bounded (`traffic.ts`), and nothing of a request is logged here.
 */
export function createServer(options: ServerOptions = {}): Server {
  const { requestTimeout = 30_000, bodyLimit = MEBIBYTE } = options;
  const base = basePathOf(options.publicUrl);
  const server = fastify({
    logger: false,
    ...(base && { rewriteUrl: ({ url = '/' }: IncomingMessage) => base.strip(url) }),
    bodyLimit,
    requestTimeout,
    keepAliveTimeout: 72_000,
    http: {
      connectionsCheckingInterval: 250,
      headersTimeout: Math.min(10_000, requestTimeout),
      maxHeaderSize: 16_384,
    },
    exposeHeadRoutes: false,
    forceCloseConnections: 'idle',
    // Requests on open connections are still answered, with a note that the connection ends: a webhook that is
    // refused is lost where its sender does not repeat it.
    return503OnClosing: false,
    trustProxy: options.trustedProxies ? [...options.trustedProxies] : false,
    routerOptions: { maxParamLength: 512 },
    // Bodies come raw and answers are texts: no route has a schema, and what would compile them takes several megabytes.
    schemaController: { compilersFactory: { buildValidator: noCompiler, buildSerializer: noCompiler } },
    ...(options.failureBody && describeFailures(options.failureBody)),
  });
  server.removeAllContentTypeParsers();
  const traffic = createTraffic(server.server, options.limits);
  server.decorate('traffic', traffic);
  server.decorateRequest('heldBody', undefined);
  server.decorateRequest('passage', undefined);
  server.addContentTypeParser('*', (request, payload, done) => {
    const limit = request.routeOptions.bodyLimit ?? bodyLimit;
    request.heldBody = readBody({ payload, limit, budget: traffic.bodies, group: groupOfAddress(request.ip) }, done);
  });
  server.addHook('preHandler', ({ socket, heldBody }, { raw }, done) => {
    traffic.connections.arrived(socket);
    if (heldBody) raw.on('close', () => heldBody.leave());
    done();
  });
  // A stream has its own pace; what was answered whole stays in memory until it is read.
  server.addHook('onSend', (_request, { raw }, payload, done) => {
    const isWhole = typeof payload === 'string' || Buffer.isBuffer(payload);
    if (isWhole && raw.socket instanceof Socket) raw.socket.setTimeout(WRITE_TIMEOUT);
    done();
  });
  if (base) addBasePath(server, base);
  server.addHook('onRequest', (request, _reply, done) => {
    if (repeatsHeader(request.raw.rawHeaders)) return done(new RepeatedHeader());
    // Decompressing an unauthenticated body would let a small body fill the memory.
    done(request.headers['content-encoding'] === undefined ? undefined : new UnsupportedEncoding());
  });
  return server;
}

/**
 * A connection whose sender reads nothing of an answer for so long is closed, milliseconds. Node restarts the time while the sender
 * reads, and sets another one when the answer has left.
 */
const WRITE_TIMEOUT = 30_000;

function addBasePath(server: Server, base: BasePath): void {
  server.addHook('onSend', (request, reply, payload, done) => {
    if (!base.concerns(request.host, request.originalUrl)) return done();
    const location = reply.getHeader('location');
    if (typeof location === 'string') void reply.header('location', base.link(location));
    const type = String(reply.getHeader('content-type'));
    if (payload instanceof Readable && type.startsWith('text/event-stream'))
      return done(null, Readable.from(rewritten(payload, base)));
    if (typeof payload !== 'string' || !type.startsWith('text/html')) return done();
    void reply.removeHeader('content-length');
    done(null, base.page(payload));
  });
}

/** @param events each a whole one */
async function* rewritten(events: Readable, base: BasePath): AsyncGenerator<string> {
  for await (const event of events) yield base.page(String(event));
}

function noCompiler(): never {
  throw new Error('no route has a schema');
}

function describeFailures(failureBody: (status: number, message: string) => object) {
  return {
    frameworkErrors: (error: FastifyError, _request: FastifyRequest, reply: FastifyReply) =>
      void reply.code(400).send(failureBody(400, error.message)),
    clientErrorHandler: (error: NodeJS.ErrnoException, socket: Socket) => {
      if (error.code === 'ECONNRESET' || !socket.writable) return socket.destroy();
      const status = STATUS_OF_CLIENT_ERROR[error.code ?? ''] ?? 400;
      const body = JSON.stringify(failureBody(status, 'the request is not valid HTTP'));
      socket.end(
        `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nConnection: close\r\n` +
          `Content-Type: application/json; charset=utf-8\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
      );
    },
  };
}

const STATUS_OF_CLIENT_ERROR: Readonly<Record<string, number>> = {
  ERR_HTTP_REQUEST_TIMEOUT: 408,
  HPE_HEADER_OVERFLOW: 431,
};

/**
 * Node keeps the first of several headers of these names and drops the rest without a word. A proxy in front may have
 * looked at another one, so neither is taken. Node joins repeated headers of other names, and the joined value matches nothing.
 */
const ONCE = ['authorization', 'proxy-authorization', 'host', 'content-type', 'content-length'];
/** Most other headers differ in length, which is cheaper to compare than lower-case names. */
const LENGTHS = new Set(ONCE.map((name) => name.length));

/** @param rawHeaders names and values in turn */
function repeatsHeader(rawHeaders: readonly string[]): boolean {
  let seen = 0;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] as string;
    if (!LENGTHS.has(name.length)) continue;
    const index = ONCE.indexOf(name.toLowerCase());
    if (index === -1) continue;
    if ((seen & (1 << index)) !== 0) return true;
    seen |= 1 << index;
  }
  return false;
}

class RepeatedHeader extends Error {
  readonly statusCode = 400;
  override readonly message = `a request may carry each of these headers once: ${ONCE.join(', ')}`;
}

class UnsupportedEncoding extends Error {
  readonly statusCode = 415;
  override readonly message = 'compressed bodies are not accepted';
}

/** Opens a server to its callers. Resolves with the address that they use. */
export type Listen = (server: Server, place: { host: string; port: number }) => Promise<string>;

/** A wildcard address is none that anybody can ask. */
export function usable(address: string): string {
  return address.replace('//[::]:', '//[::1]:').replace('//0.0.0.0:', '//127.0.0.1:');
}

/** On a socket. Resolves with the address that callers use. Throws `address_in_use` where the port cannot be had. */
export const listen: Listen = async (server, { host, port }) => {
  try {
    return usable(await server.listen({ host, port }));
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const known = code === 'EADDRINUSE' || code === 'EACCES' || code === 'EADDRNOTAVAIL';
    if (!known) throw error;
    throw new SyncError('address_in_use', `cannot listen on ${host}:${port}: ${message}`, { cause: error });
  }
};
