import type { IncomingMessage, RequestOptions } from 'node:http';
import { connect } from 'node:net';
import { SyncError } from '../../model/errors.ts';
import { systemClock } from '../lib/clock.ts';

// The client for all other servers, `http-client.ts`, would take several times the time of a short command.

/** The header in which a command sends its user, as `encodeURIComponent` writes it. */
export const USER_HEADER = 'x-worksync-user';

/** Names the version of the replica whose answer a daemon forwards. */
export const VERSION_HEADER = 'x-worksync-version';

/** A request of a command to a daemon: on this machine, or behind the proxy that ends its TLS. */
export interface DaemonRequest {
  readonly method: 'GET' | 'POST';
  readonly url: string;
  /** The token of the file that the daemon left for commands, or a gateway token. */
  readonly token: string;
  /** The user, for the audit. */
  readonly user?: string;
  /** Sent as JSON. */
  readonly body?: unknown;
  /** Milliseconds that everything may take together. */
  readonly patience: number;
}

export interface DaemonAnswer {
  readonly status: number;
  /** The version of the replica that answered; absent: the daemon itself did. */
  readonly version?: string | undefined;
  readonly body: Buffer;
}

/** Bytes of the largest answer to a command. */
const LARGEST_ANSWER = 16 * 1024 * 1024;
/** Bytes of the largest answer of a replica: an answer of the workspace at its largest, in base64. */
const LARGEST_STREAM = 24 * 1024 * 1024;

/**
 * Sends a request to a daemon and reads the whole answer.
 *
 * Throws `unreachable` if no daemon listens, `answer_too_large`, `outcome_unknown` if the answer is incomplete, and
 * `not_answering` if it takes too long.
 */
export async function askDaemon({ method, url, token, user, body, patience }: DaemonRequest): Promise<DaemonAnswer> {
  const payload = method === 'GET' ? undefined : Buffer.from(JSON.stringify(body ?? {}));
  const headers = {
    authorization: `Bearer ${token}`,
    ...(user !== undefined && { [USER_HEADER]: encodeURIComponent(user) }),
    ...(payload && { 'content-type': 'application/json', 'content-length': payload.length }),
  };
  const named = `${method} ${url}`;
  const signal = AbortSignal.timeout(patience);
  try {
    const answer = await open(url, { method, headers, signal }, payload);
    const chunks: Buffer[] = [];
    for await (const chunk of limited(answer, LARGEST_ANSWER, `the answer to ${named}`)) chunks.push(chunk);
    const version = answer.headers[VERSION_HEADER]?.toString();
    return { status: answer.statusCode ?? 0, version, body: Buffer.concat(chunks) };
  } catch (error) {
    throw connectionFault(named, error, signal);
  }
}

/** A request of one replica to another. */
export interface StreamedRequest {
  readonly method: string;
  /** `http://host:port`. */
  readonly origin: string;
  /** Path and query, sent as they are spelled. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: Buffer | undefined;
  /** Fires when the answer is no longer needed. */
  readonly signal?: AbortSignal | undefined;
  /** Milliseconds until the answer must begin. */
  readonly patience: number;
  /** Milliseconds after that until it must have ended. */
  readonly longest: number;
}

export interface StreamedAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** Fails if the answer is cut off, too large or too slow. */
  readonly body: AsyncIterable<Buffer>;
}

/** Milliseconds until there must be a connection to a replica. */
const CONNECT = 2_000;

/**
 * Sends a request to a replica and returns its answer as it arrives. Nothing is repeated.
 *
 * Throws `unreachable` only if it is certain that the request was not sent, `not_answering` if the answer did not begin in time,
 * `outcome_unknown` if there is none.
 */
export async function requestStreamed(wanted: StreamedRequest): Promise<StreamedAnswer> {
  const { method, origin, path, headers, body, signal, patience, longest } = wanted;
  const clock = systemClock();
  const named = `${method} ${origin}`;
  const late = new AbortController();
  const cancel = clock.after(patience, () => late.abort());
  try {
    const ended = signal ? AbortSignal.any([signal, late.signal]) : late.signal;
    const length = body && { 'content-length': body.length };
    const options = { path, method, headers: { ...headers, ...length }, signal: ended };
    const answer = await open(origin, options, body, CONNECT);
    const cancelEnd = clock.after(longest, () => answer.destroy(new DOMException('not ended in time', 'AbortError')));
    // The reader of the answer gets the error.
    answer.on('error', () => undefined).once('close', cancelEnd);
    return {
      status: answer.statusCode ?? 0,
      headers: joined(answer),
      body: limited(answer, LARGEST_STREAM, 'an answer'),
    };
  } catch (error) {
    throw connectionFault(named, error, late.signal);
  } finally {
    cancel();
  }
}

/** Sends a request over a connection of its own. Resolves when the answer begins. @param connectMs absent: no limit */
async function open(
  url: string,
  options: RequestOptions,
  body: Buffer | undefined,
  connectMs?: number,
): Promise<IncomingMessage> {
  // Loaded here, because `signOfLife` does without.
  const { request } = await (/^https:/i.test(url) ? import('node:https') : import('node:http'));
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  const sent = request(url, { ...options, agent: false });
  sent.on('response', resolve).on('error', reject);
  if (connectMs !== undefined) {
    const fault = () => new SyncError('unreachable', `${options.method} ${url}: no connection in time`);
    const cancel = systemClock().after(connectMs, () => sent.destroy(fault()));
    sent.on('socket', (socket) => socket.once('connect', cancel)).once('close', cancel);
  }
  sent.end(body);
  return promise;
}

async function* limited(answer: IncomingMessage, largest: number, what: string): AsyncIterable<Buffer> {
  let size = 0;
  for await (const chunk of answer as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > largest) throw new SyncError('answer_too_large', `${what} exceeds the size limit`);
    yield chunk;
  }
}

function joined({ headers }: IncomingMessage): Record<string, string> {
  const given = Object.entries(headers).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, [value].flat().join(', ')] as const],
  );
  return Object.fromEntries(given);
}

const STATUS_LINE = /^HTTP\/1\.[01] (\d{3})[ \r]/;
/** Characters. A status line is shorter, so a sender of more without one does not speak HTTP. */
const LONGEST_STATUS_LINE = 4_096;

/**
 * Returns the status with which an address of a daemon on this machine answers, and reads no more. Node's own HTTP client alone
 * takes more memory than a container's health check may, so this function reads from the socket.
 *
 * @param patience milliseconds for everything
 *
 * Throws `unreachable` if no daemon listens, `not_answering` if none answers in time, `outcome_unknown` if the answer is no HTTP.
 */
export function signOfLife(address: string, patience: number): Promise<number> {
  const url = new URL(address);
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  const signal = AbortSignal.timeout(patience);
  const fail = (error: unknown) => reject(connectionFault(`GET ${address}`, error, signal));
  const socket = connect({ host: url.hostname.replace(/^\[|\]$/g, ''), port: Number(url.port || 80), signal });
  const request = `GET ${url.pathname} HTTP/1.1\r\nHost: ${url.host}\r\nConnection: close\r\n\r\n`;
  let received = '';
  socket
    .on('connect', () => socket.write(request))
    .on('data', (chunk) => {
      received += chunk.toString('latin1');
      const status = STATUS_LINE.exec(received)?.[1];
      if (status !== undefined) resolve(Number(status));
      else if (received.length > LONGEST_STATUS_LINE) fail(new Error('the answer is not HTTP'));
    })
    .on('end', () => fail(new Error('the connection ended')))
    .on('error', fail);
  return promise.finally(() => socket.destroy());
}

/** Codes of faults before there was a connection, so nothing was sent. */
const NOT_SENT: ReadonlySet<unknown> = new Set([
  'ECONNREFUSED',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'EADDRNOTAVAIL',
  'ENOTFOUND',
]);

/** Returns the error of a request without an answer: `unreachable` only if it was not sent, `not_answering` if its time was over. */
function connectionFault(request: string, thrown: unknown, { aborted }: AbortSignal): SyncError {
  if (thrown instanceof SyncError) return thrown;
  if (aborted) return new SyncError('not_answering', `${request} got no answer in time`, { cause: thrown });
  const { code, message } = thrown as NodeJS.ErrnoException;
  if (NOT_SENT.has(code)) return new SyncError('unreachable', `${request}: ${message}`, { cause: thrown });
  return new SyncError('outcome_unknown', `${request} got no answer: ${message}`, { cause: thrown });
}
