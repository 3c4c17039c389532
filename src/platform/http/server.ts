import { type IncomingMessage, STATUS_CODES } from 'node:http';
import { Socket } from 'node:net';
import { Readable } from 'node:stream';
import fastify, { type FastifyError, type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import { SyncError } from '../../model/errors.ts';
import { MEBIBYTE } from '../lib/quantities.ts';
import { groupOfAddress } from './addresses.ts';
import {
  type BodyHolder,
  createTraffic,
  crowdedOut,
  type MemoryBudget,
  RequestError,
  type Traffic,
  type TrafficLimits,
} from './admission.ts';

/** The types of fastify for folders that add routes; only this file imports fastify. */
export type Server = FastifyInstance;
export type ServerRequest = FastifyRequest;
export type ServerReply = FastifyReply;

declare module 'fastify' {
  interface FastifyInstance {
    readonly traffic: Traffic;
  }
  interface FastifyRequest {
    /** The part of the budget that its body takes. */
    heldBody: BodyHolder | undefined;
    /** The workspace of a request to the gateway, and whether the workspace itself answered. */
    passage: { readonly workspace: string; isAnswered?: boolean } | undefined;
  }
}

export interface ServerOptions {
  /** Largest body accepted, bytes; a route may raise its own. */
  readonly bodyLimit?: number;
  /** A request must have arrived whole within this time, milliseconds. */
  readonly requestTimeout?: number;
  /**
   * Addresses and CIDR ranges of reverse proxies: their `X-Forwarded-For` and `X-Forwarded-Proto` decide where a request comes
   * from. Absent: those headers are not read.
   */
  readonly trustedProxies?: readonly string[];
  /** The public address: its path is accepted before each address, and added to the links of pages. */
  readonly publicUrl?: string | undefined;
  /** The limits of all requests together. */
  readonly limits?: TrafficLimits;
  /** Body of an answer to requests that reach no route or hook: malformed HTTP, an address that cannot be decoded. */
  readonly failureBody?: (status: number, message: string) => object;
}

/**
 * The only maker of HTTP servers. Handlers receive raw bytes (`Buffer`): signatures are checked over them, and `parseJson` reads
 * them afterwards. Slow senders are cut off, compressed bodies are refused, the resources of all requests together are bounded
 * (`admission.ts`), and nothing of a request is logged here.
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
    // Requests on open connections are still answered, with a note that the connection ends: a refused webhook is lost if its
    // sender does not repeat it.
    return503OnClosing: false,
    trustProxy: options.trustedProxies ? [...options.trustedProxies] : false,
    routerOptions: { maxParamLength: 512 },
    // Bodies are raw and answers are texts: no route has a schema, and the compilers of schemas take several megabytes.
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
    const group = groupOfAddress(request.ip);
    request.heldBody = readBody(payload, { limit, budget: traffic.bodies, group }, done);
  });
  server.addHook('preHandler', ({ socket, heldBody }, { raw }, done) => {
    traffic.arrived(socket);
    if (heldBody) raw.on('close', () => heldBody.leave());
    done();
  });
  // A stream has its own pace; a complete answer stays in memory until it is read.
  server.addHook('onSend', (_request, { raw }, payload, done) => {
    const isWhole = typeof payload === 'string' || Buffer.isBuffer(payload);
    if (isWhole && raw.socket instanceof Socket) raw.socket.setTimeout(WRITE_TIMEOUT);
    done();
  });
  if (base) addBasePath(server, base);
  server.addHook('onRequest', (request, _reply, done) => {
    if (repeatsHeader(request.raw.rawHeaders))
      return done(new RequestError(400, `a request may carry each of these headers once: ${ONCE.join(', ')}`));
    // Decompressing an unauthenticated body would let a small body fill the memory.
    if (request.headers['content-encoding'] === undefined) return done();
    done(new RequestError(415, 'compressed bodies are not accepted'));
  });
  return server;
}

/**
 * Milliseconds after which a connection is closed whose sender reads nothing of an answer. Node restarts the time while the
 * sender reads, and sets another one when the answer has left.
 */
const WRITE_TIMEOUT = 30_000;

type BasePath = NonNullable<ReturnType<typeof basePathOf>>;

/**
 * The path of a server behind a proxy: `/worksync` of `https://host/worksync/`. The proxy may forward the path or strip it. Links
 * of pages are written without it, and get it in requests to the public host. Undefined if the public address has no path.
 */
function basePathOf(publicUrl: string | undefined) {
  if (publicUrl === undefined) return undefined;
  const { pathname, host: publicHost } = new URL(publicUrl);
  const base = pathname.replace(/(?<!\/)\/+$/, '');
  if (base === '') return undefined;
  const isBelow = (url: string) => url === base || url.startsWith(`${base}/`) || url.startsWith(`${base}?`);
  return {
    /** Removes the path from the address of a request. */
    strip: (url: string) => (isBelow(url) ? url.slice(base.length).replace(/^(?!\/)/, '/') : url),
    /** Whether links of an answer need the path. @param host as the request names it */
    concerns: (host: string, url: string) => host.toLowerCase() === publicHost || isBelow(url),
    /** Adds the path to a path of ours, for the browser. */
    link: (path: string) => (/^\/(?!\/)/.test(path) && !isBelow(path) ? base + path : path),
    /**
     * Adds the path to all links of a page, or of an event that contains a part of one as JSON. Foreign texts cannot look like this,
     * because their quotes are escaped.
     */
    page: (html: string) => html.replace(/ (href|src|action|data-live)=(\\?")(?=\/(?!\/))/g, ` $1=$2${base}`),
  };
}

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

/** @param events each of them complete */
async function* rewritten(events: Readable, base: BasePath): AsyncGenerator<string> {
  for await (const event of events) yield base.page(String(event));
}

/**
 * Reads a whole body within the budget. A body in one piece, as most are, is used without a copy. Otherwise its bytes are copied
 * into one buffer, because many small pieces would take many times their length.
 *
 * @param limit largest body accepted, bytes
 * @param group the address group whose share of the budget the body uses
 * @returns its part of the budget: `leave` it when the request was answered
 */
function readBody(
  payload: IncomingMessage,
  { limit, budget, group }: { readonly limit: number; readonly budget: MemoryBudget; readonly group: string },
  done: (error: Error | null, body?: Buffer) => void,
): BodyHolder | undefined {
  const header = payload.headers['content-length'];
  const most = header === undefined ? limit : Number(header);
  if (most > limit) {
    done(new RequestError(413, TOO_LARGE));
    return undefined;
  }
  const body = new BodyBuffer(most);
  // Node's parser returns each piece as a copy of its own.
  const isOurs = payload.socket instanceof Socket;
  let isOver = false;
  const end = (error: Error | null) => {
    if (isOver) return;
    isOver = true;
    payload.off('data', take).off('end', finish).off('error', fail);
    if (!error) return done(null, body.whole());
    holder.leave();
    body.free();
    done(error);
  };
  const holder = budget.enter(group, most, (isSuspect) => end(crowdedOut(isSuspect)));
  const add = (piece: Buffer) =>
    body.add(piece, isOurs && piece.length === piece.buffer.byteLength, piece.length === most);
  const take = (piece: Buffer) => {
    if (body.length + piece.length > limit) return end(new RequestError(413, TOO_LARGE));
    const room = holder.take(piece.length);
    if (!room) return add(piece);
    payload.pause();
    void room.then(() => {
      if (isOver) return;
      add(piece);
      payload.resume();
    });
  };
  const finish = () => {
    if (header !== undefined && body.length !== most)
      return end(new RequestError(400, 'the body is shorter than announced'));
    holder.complete();
    end(null);
  };
  const fail = () => end(new RequestError(400, 'the body was cut off'));
  payload.on('data', take).on('end', finish).on('error', fail);
  payload.resume();
  return holder;
}

const TOO_LARGE = 'the body is too large';
const SMALLEST_BUFFER = 64 * 1024;
const GROWTH = 4;

/** One buffer that grows, and frees the outgrown one at once: garbage of this size waits long for its collection. */
class BodyBuffer {
  readonly #most: number;
  #buffer: Buffer = Buffer.alloc(0);
  length = 0;

  constructor(most: number) {
    this.#most = most;
  }

  /** @param isAlone whether the piece has its memory to itself, so that it can be used or freed */
  add(piece: Buffer, isAlone: boolean, isWhole: boolean): void {
    const length = this.length + piece.length;
    if (isAlone && isWhole) this.#buffer = piece;
    else {
      if (length > this.#buffer.length) this.#grow(length);
      piece.copy(this.#buffer, this.length);
      if (isAlone) free(piece);
    }
    this.length = length;
  }

  #grow(needed: number): void {
    const capacity = Math.min(this.#most, Math.max(SMALLEST_BUFFER, this.#buffer.length * GROWTH, needed));
    // Unwritten memory takes no space.
    const larger = Buffer.allocUnsafeSlow(capacity);
    this.#buffer.copy(larger, 0, 0, this.length);
    free(this.#buffer);
    this.#buffer = larger;
  }

  whole(): Buffer {
    return this.#buffer.subarray(0, this.length);
  }

  free(): void {
    free(this.#buffer);
  }
}

/** Only for buffers without other references, and that are no part of another. */
function free(buffer: Buffer): void {
  if (buffer.length > 0) (buffer.buffer as ArrayBuffer).transfer(0);
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
 * Node keeps the first of several headers of these names and silently drops the rest. A proxy in front may have used another one,
 * so none is accepted. Node joins repeated headers of other names, and the joined value matches nothing.
 */
const ONCE = ['authorization', 'proxy-authorization', 'host', 'content-type', 'content-length'];
/** Most other headers differ in length, which is cheaper to compare than lower-case names. */
const LENGTHS = new Set(ONCE.map((name) => name.length));

/** @param rawHeaders names and values alternately */
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

/** Opens a server to its callers. Resolves with the address that they use. */
export type Listen = (server: Server, place: { host: string; port: number }) => Promise<string>;

/** A wildcard address cannot be used by a client. */
export function usable(address: string): string {
  return address.replace('//[::]:', '//[::1]:').replace('//0.0.0.0:', '//127.0.0.1:');
}

/** Listens on a socket. Resolves with the address that callers use. Throws `address_in_use` if the port is not free. */
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
