import fastify, { type FastifyInstance } from 'fastify';

/** For folders that add routes: fastify is named here only. */
export type Server = FastifyInstance;

export interface ServerOptions {
  /** Largest body accepted, bytes; a route may raise its own. */
  readonly bodyLimit?: number;
  /** A request must have arrived whole within this time, milliseconds. */
  readonly requestTimeout?: number;
}

const MEBIBYTE = 1024 * 1024;

/** Open connections: each costs memory, and one that stays silent is closed after 10 s. */
const MOST_CONNECTIONS = 2_000;

/**
 * The only maker of HTTP servers. Bodies reach the handlers as raw bytes (`Buffer`): signatures are checked over them,
 * and `parseJson` reads them afterwards. Slow senders are cut off, compressed bodies are refused, and nothing of a
 * request is logged here.
 */
export function createServer(options: ServerOptions = {}): Server {
  const requestTimeout = options.requestTimeout ?? 30_000;
  const server = fastify({
    logger: false,
    bodyLimit: options.bodyLimit ?? MEBIBYTE,
    requestTimeout,
    keepAliveTimeout: 72_000,
    http: {
      connectionsCheckingInterval: 250,
      headersTimeout: Math.min(10_000, requestTimeout),
      maxHeaderSize: 16_384,
    },
    exposeHeadRoutes: false,
    forceCloseConnections: 'idle',
    return503OnClosing: true,
    trustProxy: false,
    routerOptions: { maxParamLength: 512 },
  });
  server.removeAllContentTypeParsers();
  server.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body));
  server.server.maxConnections = MOST_CONNECTIONS;
  server.addHook('onRequest', async (request) => {
    // Unpacking what nobody has authenticated is how a small body fills the memory.
    if (request.headers['content-encoding'] !== undefined) throw new UnsupportedEncoding();
  });
  return server;
}

class UnsupportedEncoding extends Error {
  readonly statusCode = 415;
  override readonly message = 'compressed bodies are not accepted';
}
