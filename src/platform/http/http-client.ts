import { Agent, type Dispatcher, errors } from 'undici';
import { SyncError } from '../../model/errors.ts';
import { type Clock, systemClock } from '../lib/clock.ts';
import type { Shape } from '../lib/shape.ts';
import { type Meter, type Steps, silentMeter } from '../lib/telemetry.ts';
import type { AnswerRoom } from './admission.ts';
import {
  createConnector,
  createOutboundProxy,
  METADATA_RANGES,
  type OutboundProxies,
  type OutboundProxy,
  REFUSED_FOR,
  unreachableHint,
} from './connect.ts';

export interface HttpRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE' | 'HEAD';
  /** Absolute; built from configured origins and ids, never from a payload. */
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Buffer;
  readonly signal?: AbortSignal;
  /** Largest answer accepted, bytes; 16 MiB by default. */
  readonly largestAnswer?: number;
  /** The part of a budget that the answer takes; the server has to wait if there is no room. */
  readonly room?: AnswerRoom | undefined;
  /**
   * The fields that the caller needs of a JSON answer. A large answer then comes parsed, as `content`, by another thread;
   * without such a thread this is ignored.
   */
  readonly keep?: Shape | true | undefined;
  /** The name of the server in metrics: `workspace`, or the connection's name. */
  readonly target: string;
}

export interface HttpAnswer {
  readonly status: number;
  /** Names in lower case; a repeated header is joined with `, `. */
  readonly headers: Readonly<Record<string, string>>;
  /** Empty if there is a `content`. */
  readonly body: Buffer;
  /** The JSON of the body, limited to the fields in `keep`, with long texts set apart: see `platform/lib/shape.ts`. */
  readonly content?: unknown;
}

export interface HttpClient {
  /**
   * Sends one request and returns the answer with any status. Redirects are not followed, nothing is repeated.
   *
   * Throws
   * - `unreachable`: it is certain that no byte of the request was sent (name, connection, TLS, waiting for a socket);
   * - `address_blocked`: as certain, because the address lies in a blocked range;
   * - `proxy_refused`: as certain, because the proxy requires other credentials, or did within the last minutes;
   * - `outcome_unknown`: the request may have arrived, and its whole answer did not;
   * - `answer_too_large`: the answer was cut off; the request was carried out;
   * - `answer_malformed`: the answer to a read is no HTTP;
   * - `aborted`: the signal fired before the first byte was sent, or the request only reads. A write that is aborted
   *   later is `outcome_unknown`: the server may have carried it out.
   */
  request(request: HttpRequest): Promise<HttpAnswer>;
  close(): Promise<void>;
}

/** Milliseconds. `body` is the longest pause between two pieces of an answer; `total` bounds everything together. */
type Timeouts = Readonly<Record<'connect' | 'headers' | 'body' | 'total', number>>;

export interface HttpClientOptions {
  /** Network time is real time: only a test of this file needs another clock. */
  readonly clock?: Clock;
  readonly steps?: Steps | undefined;
  readonly meter?: Meter | undefined;
  /** Called with every credential before it is sent: the server may repeat it in its answer. */
  readonly onSecret?: (secret: string) => void;
  /** Further address ranges to refuse, in CIDR notation, for example `10.0.0.0/8`. */
  readonly blockedRanges?: readonly string[];
  readonly timeouts?: Partial<Timeouts>;
  /** Absent: every server is reached directly. */
  readonly proxies?: OutboundProxies | undefined;
}

const TIMEOUTS: Timeouts = { connect: 5_000, headers: 15_000, body: 15_000, total: 30_000 };
const LARGEST_ANSWER = 16 * 1024 * 1024;
/** Bytes from which on an answer has a buffer of its own. */
const LARGE_ANSWER = 256 * 1024;
/** HTTP has no classes of statuses beyond 5xx (RFC 9110, section 15). */
const LAST_STATUS = 599;
/** Connections to one host, of all workspaces together, so that no server mistakes them for an attack. */
const MOST_CONNECTIONS = 64;

/**
 * The only user of undici. HTTP/1.1 only, one request per connection at a time: that is what makes "not sent" provable.
 * undici calls `onRequestStart` in the tick in which it writes the head, so a failure before it sent nothing.
 */
export function createHttpClient(options: HttpClientOptions = {}): HttpClient {
  const meter = options.meter ?? silentMeter;
  const clock = options.clock ?? systemClock();
  const timeouts = { ...TIMEOUTS, ...options.timeouts };
  const blockedRanges = options.blockedRanges ?? [];
  const settings = {
    connect: createConnector(blockedRanges, timeouts.connect),
    allowH2: false,
    connections: MOST_CONNECTIONS,
    pipelining: 1,
    headersTimeout: timeouts.headers,
    bodyTimeout: timeouts.body,
  };
  const agent = new Agent(settings);
  const proxy =
    options.proxies &&
    createOutboundProxy({
      ...{ proxies: options.proxies, clock, blockedRanges: [...METADATA_RANGES, ...blockedRanges] },
      agent: { ...settings, connectTimeout: timeouts.connect },
    });
  return {
    async request(request) {
      const started = clock.monotonic();
      let status = 'none';
      options.steps?.reached('request', 'before');
      if (options.onSecret) for (const secret of secretsOf(request)) options.onSecret(secret);
      try {
        const dispatcher = proxy ? await throughProxy(proxy, request, agent) : agent;
        const answer = await exchange(dispatcher, request, clock, timeouts.total);
        status = String(answer.status);
        return answer;
      } catch (error) {
        status = error instanceof SyncError ? error.code : status;
        if (status === 'proxy_refused') proxy?.refused();
        throw error;
      } finally {
        const seconds = (clock.monotonic() - started) / 1_000;
        meter.count('http_requests_total', { target: request.target, status });
        meter.observe('http_request_seconds', seconds, { target: request.target });
        options.steps?.reached('request', 'after');
      }
    },
    async close() {
      await Promise.all([agent.destroy(), proxy?.close()]);
    },
  };
}

/** Throws `address_blocked`, `proxy_refused`. */
async function throughProxy(proxy: OutboundProxy, request: HttpRequest, direct: Dispatcher): Promise<Dispatcher> {
  const route = await proxy.routeTo(new URL(request.url));
  if (route === undefined) return direct;
  if (route === 'blocked')
    throw new SyncError('address_blocked', `${describe(request)} was not sent: its address is blocked`);
  if (route === 'refused') throw proxyRefused(request);
  return route.dispatcher;
}

function proxyRefused(request: HttpRequest, cause?: Error): SyncError {
  const message = `${describe(request)} was not sent: the proxy refuses the credentials`;
  return new SyncError('proxy_refused', message, { cause, retryAfter: REFUSED_FOR });
}

async function exchange(agent: Dispatcher, request: HttpRequest, clock: Clock, total: number): Promise<HttpAnswer> {
  const { method, headers, body, signal } = request;
  const { origin, pathname, search } = new URL(request.url);
  const receiver = new Receiver(request);
  const abort = () => receiver.abort(isTimeout(signal?.reason) ? 'timeout' : 'aborted');
  const cancel = clock.after(total, () => receiver.abort('timeout'));
  signal?.addEventListener('abort', abort, { once: true });
  try {
    if (signal?.aborted) abort();
    else agent.dispatch({ origin, path: pathname + search, method, headers, body }, receiver);
  } catch (error) {
    receiver.onResponseError(undefined, error as Error);
  }
  try {
    return await receiver.answer;
  } finally {
    cancel();
    signal?.removeEventListener('abort', abort);
  }
}

/** Names of headers that carry credentials, at every vendor. */
const CREDENTIAL = /(?:^|-)(?:authorization|token|api-?key|secret|password|cookie)$/i;
/** A shorter value is no credential, and occurs in ordinary words. */
const SHORTEST_CREDENTIAL = 8;

/** The credentials of a request: each value, the part after its scheme, and the password of HTTP Basic. */
function secretsOf({ headers = {} }: HttpRequest): readonly string[] {
  const given = Object.entries(headers).flatMap(([name, value]) => (CREDENTIAL.test(name) ? credentialsIn(value) : []));
  return given.filter((secret) => secret.length >= SHORTEST_CREDENTIAL);
}

function credentialsIn(value: string): readonly string[] {
  const [scheme = '', credential] = value.split(' ', 2);
  if (credential === undefined) return [value];
  if (scheme.toLowerCase() !== 'basic') return [credential];
  const decoded = Buffer.from(credential, 'base64').toString();
  return [credential, decoded.slice(decoded.indexOf(':') + 1)];
}

/** Collects one answer, and always knows whether the request may have left. */
class Receiver implements Dispatcher.DispatchHandler {
  readonly #request: HttpRequest;
  readonly #outcome = Promise.withResolvers<HttpAnswer>();
  readonly #chunks: Buffer[] = [];
  #controller: Dispatcher.DispatchController | undefined;
  #started = false;
  #done = false;
  #size = 0;
  /** A buffer of the announced length: joining the pieces of a large answer would take the length twice. */
  #whole: Buffer | undefined;
  #status = 0;
  #headers: Record<string, string> = {};

  constructor(request: HttpRequest) {
    this.#request = request;
  }

  get answer(): Promise<HttpAnswer> {
    return this.#outcome.promise;
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    if (this.#done) {
      controller.abort(new Error('cancelled before it was sent'));
      return;
    }
    this.#controller = controller;
    this.#started = true;
  }

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    status: number,
    headers: Readonly<Record<string, string | string[] | undefined>>,
  ): void {
    // 1xx answers only announce the final one.
    if (status < 200) return;
    if (status > LAST_STATUS) {
      this.#fail(this.#malformed(new Error(`there is no status ${status}`)));
      return;
    }
    this.#status = status;
    this.#headers = joined(headers);
    const length = Number(this.#headers['content-length'] ?? 0);
    this.#refuseOver(length);
    if (this.#done || this.#request.method === 'HEAD') return;
    this.#request.room?.announce(length);
    // Unwritten memory takes no space.
    if (length > LARGE_ANSWER) this.#whole = Buffer.allocUnsafeSlow(length);
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#done) return;
    if (this.#whole && this.#size + chunk.length <= this.#whole.length) chunk.copy(this.#whole, this.#size);
    else this.#chunks.push(chunk);
    this.#size += chunk.length;
    this.#refuseOver(this.#size);
    const room = this.#done ? undefined : this.#request.room?.take(chunk.length);
    if (!room) return;
    controller.pause();
    room.then(
      () => controller.resume(),
      (error: SyncError) => this.#fail(error),
    );
  }

  onResponseEnd(): void {
    if (this.#done) return;
    this.#done = true;
    const body = this.#whole?.subarray(0, this.#size) ?? Buffer.concat(this.#chunks);
    this.#outcome.resolve({ status: this.#status, headers: this.#headers, body });
  }

  onResponseError(_controller: unknown, error: Error): void {
    if (!this.#started) this.#fail(notSent(this.#request, error));
    else this.#fail(isNoHttp(error) ? this.#malformed(error) : this.#unknown(error));
  }

  /** Gives up now. */
  abort(why: 'aborted' | 'timeout'): void {
    const { method } = this.#request;
    if (why === 'aborted' && (!this.#started || isSafe(method)))
      this.#fail(new SyncError('aborted', `${describe(this.#request)} was aborted`));
    else if (this.#started) this.#fail(this.#unknown(new Error(why === 'timeout' ? 'out of time' : 'aborted')));
    else this.#fail(new SyncError('unreachable', `${describe(this.#request)}: no connection in time`));
  }

  #refuseOver(size: number): void {
    if (this.#request.method === 'HEAD') return;
    if (size <= (this.#request.largestAnswer ?? LARGEST_ANSWER)) return;
    this.#fail(
      new SyncError('answer_too_large', `the answer to ${describe(this.#request)} exceeds the size limit`, {
        status: this.#status,
      }),
    );
  }

  /** A write may have been carried out, whatever its answer contains. */
  #malformed(cause: Error): SyncError {
    if (!isSafe(this.#request.method)) return this.#unknown(cause);
    return new SyncError('answer_malformed', `the answer to ${describe(this.#request)} is no HTTP: ${reason(cause)}`, {
      cause,
    });
  }

  #unknown(cause: Error): SyncError {
    const heard = this.#status === 0 ? 'got no answer' : `got only a part of its answer (status ${this.#status})`;
    const details = this.#status === 0 ? { cause } : { cause, status: this.#status };
    // The usual hint is about writes: a read changes nothing on the server.
    const hint = isSafe(this.#request.method) ? { hint: UNANSWERED_READ_HINT } : {};
    return new SyncError('outcome_unknown', `${describe(this.#request)} ${heard}: ${reason(cause)}`, {
      ...details,
      ...hint,
    });
  }

  #fail(error: SyncError): void {
    if (this.#done) return;
    this.#done = true;
    this.#chunks.length = 0;
    this.#whole = undefined;
    this.#outcome.reject(error);
    this.#controller?.abort(error);
  }
}

const UNANSWERED_READ_HINT =
  'The connection was accepted, but it was closed, or no answer came in time: check host and port, and whether the server or a proxy in front of it is overloaded.';

/** Whether a signal of `AbortSignal.timeout` ended the request. */
function isTimeout(reason: unknown): boolean {
  return reason instanceof Error && reason.name === 'TimeoutError';
}

/** Whether the answer violates HTTP. A truncated one does not. */
function isNoHttp(error: Error): boolean {
  return error instanceof errors.HTTPParserError && !/\bEOF\b/.test(error.message);
}

function notSent(request: HttpRequest, cause: Error): SyncError {
  const message = `${describe(request)} was not sent: ${reason(cause)}`;
  if (isBlocked(cause)) return new SyncError('address_blocked', message, { cause });
  const [, answered] = /^Proxy response \((\d+)\)/.exec(cause.message) ?? [];
  if (answered === '407') return proxyRefused(request, cause);
  if (answered !== undefined) {
    const refusal = `${describe(request)} was not sent: the proxy answered ${answered}`;
    return new SyncError('unreachable', refusal, { cause, hint: PROXY_HINT });
  }
  const hint = unreachableHint(cause);
  return new SyncError('unreachable', message, hint === undefined ? { cause } : { cause, hint });
}

const PROXY_HINT =
  'The proxy opens no connection to this server: allow the server there, or list it in NO_PROXY. The request was not sent.';

/** Node wraps the failures of all addresses of one name; an address that is only down may come back. */
function isBlocked(error: Error): boolean {
  if (error instanceof AggregateError) return error.errors.every(isBlocked);
  return (error as NodeJS.ErrnoException).code === 'ERR_IP_BLOCKED';
}

/** Messages of OpenSSL and undici can be long and contain addresses; the code is enough. The cause has the rest. */
function reason(error: Error): string {
  return (error as NodeJS.ErrnoException).code ?? error.message;
}

/** Omits the query, because it may contain search terms. */
function describe(request: HttpRequest): string {
  const url = new URL(request.url);
  return `${request.method} ${url.origin}${url.pathname}`;
}

function joined(headers: Readonly<Record<string, string | string[] | undefined>>): Record<string, string> {
  const result: Record<string, string> = Object.create(null);
  for (const [name, value] of Object.entries(headers))
    if (value !== undefined) result[name.toLowerCase()] = Array.isArray(value) ? value.join(', ') : value;
  return result;
}

/** Whether a request with this method changes nothing (RFC 9110, section 9.2.1), of those that are used here. */
export function isSafe(method: string): boolean {
  return method === 'GET' || method === 'HEAD';
}

/** Whether the request was carried out (RFC 9110, section 15.3). */
export function isSuccess(status: number): boolean {
  return status >= 200 && status <= 299;
}

/** The difference between the clock of a server and ours. */
export interface Skew {
  /** Host and port. */
  readonly server: string;
  /** Milliseconds that its clock is ahead of ours; negative: behind. */
  readonly ahead: number;
}

export type ServerClocks = ReturnType<typeof createServerClocks>;

/** The header has whole seconds. */
const SECOND = 1_000;
/** Limit above the number of servers of any installation. */
const MOST_SERVERS = 1_000;

/** Compares our clock with the `Date` of each answer. */
export function createServerClocks(http: HttpClient, clock: Clock) {
  const known = new Map<string, { readonly ahead: number; readonly receivedAt: number }>();

  function note(url: string, { headers }: HttpAnswer, sentAt: number): void {
    const date = Date.parse(headers['date'] ?? '');
    // A cache in between repeats the time at which it stored the answer.
    if (Number.isNaN(date) || headers['age'] !== undefined) return;
    const { host } = new URL(url);
    known.delete(host);
    if (known.size >= MOST_SERVERS) known.clear();
    known.set(host, { ahead: distance(date, sentAt, clock.now()), receivedAt: clock.monotonic() });
  }

  const observing: HttpClient = {
    async request(request) {
      const sentAt = clock.now();
      const answer = await http.request(request);
      note(request.url, answer, sentAt);
      return answer;
    },
    close: () => http.close(),
  };
  return {
    /** An HTTP client that observes the answers. */
    http: observing,
    /** Returns the clocks of servers that have answered since that time of the monotonic clock. */
    since: (monotonic: number): readonly Skew[] =>
      [...known]
        .filter(([, { receivedAt }]) => receivedAt >= monotonic)
        .map(([server, { ahead }]) => ({ server, ahead })),
  };
}

/** Returns 0 if the second of the answer overlaps our two times. */
function distance(date: number, sentAt: number, receivedAt: number): number {
  if (date > receivedAt) return date - receivedAt;
  return date + SECOND < sentAt ? date + SECOND - sentAt : 0;
}
