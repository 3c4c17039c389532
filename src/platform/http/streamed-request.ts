import { type IncomingMessage, request as openPlain } from 'node:http';
import { Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { SyncError } from '../../model/errors/sync-error.ts';
import { systemClock } from '../lib/clock.ts';
import { connectionFault } from './connection-fault.ts';

export interface StreamedRequest {
  readonly method: string;
  /** `http://host:port`. */
  readonly origin: string;
  /** Path and query, sent as they are spelled. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: Buffer | undefined;
  /** Nobody waits for the answer any more. */
  readonly signal?: AbortSignal | undefined;
  /** Milliseconds until the answer must begin. */
  readonly patience: number;
  /** Milliseconds after that until it must have ended. */
  readonly longest: number;
}

export interface StreamedAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** Fails where the answer is cut off, too large or too slow. */
  readonly body: AsyncIterable<Buffer>;
}

/** Milliseconds until there must be a connection. */
const CONNECT = 2_000;
/** Bytes: an answer of the workspace at its largest, in base64. */
const LARGEST = 24 * 1024 * 1024;

/**
 * Sends one request over a connection of its own, and gives the answer on as it comes. Nothing is repeated.
 *
 * Throws `unreachable` only where it is certain that the request was not sent, `not_answering` where the answer did not begin
 * in time, `outcome_unknown` where there is none.
 */
export async function requestStreamed(wanted: StreamedRequest): Promise<StreamedAnswer> {
  const { method, origin, path, headers, body, signal, patience, longest } = wanted;
  const clock = systemClock();
  const named = `${method} ${origin}`;
  const open = /^https:/i.test(origin) ? (await import('node:https')).request : openPlain;
  const late = new AbortController();
  const ended = signal ? AbortSignal.any([signal, late.signal]) : late.signal;
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  let isConnected = false;
  const length = body === undefined ? {} : { 'content-length': String(body.length) };
  const sent = open(origin, { path, method, headers: { ...headers, ...length }, agent: false, signal: ended });
  const cancelConnect = clock.after(CONNECT, () => {
    if (!isConnected) sent.destroy(new SyncError('unreachable', `${named}: no connection in time`));
  });
  const cancel = clock.after(patience, () => late.abort());
  sent.on('socket', (socket) =>
    socket.once('connect', () => {
      isConnected = true;
    }),
  );
  sent.on('response', resolve);
  sent.on('error', (error) => reject(connectionFault(named, error, late.signal)));
  sent.end(body);
  try {
    const answer = await promise;
    return { status: answer.statusCode ?? 0, headers: joined(answer), body: bounded(answer, longest) };
  } finally {
    cancelConnect();
    cancel();
  }
}

function joined({ headers }: IncomingMessage): Record<string, string> {
  const given = Object.entries(headers).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, [value].flat().join(', ')] as const],
  );
  return Object.fromEntries(given);
}

function bounded(answer: IncomingMessage, longest: number): Transform {
  let size = 0;
  const checked = new Transform({
    transform(piece: Buffer, _encoding, done) {
      size += piece.length;
      if (size > LARGEST) done(new SyncError('answer_too_large', 'an answer exceeds the size limit'));
      else done(null, piece);
    },
  });
  const late = new AbortController();
  const cancel = systemClock().after(longest, () => late.abort());
  // Whoever reads it sees how it ended.
  void pipeline(answer, checked, { signal: late.signal })
    .catch(() => undefined)
    .finally(cancel);
  return checked;
}
