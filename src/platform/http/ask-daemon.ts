import { type IncomingMessage, request as openPlain } from 'node:http';
import { SyncError } from '../../model/errors/sync-error.ts';
import { connectionFault } from './connection-fault.ts';

/** A request to a daemon: on this machine, or behind the proxy that ends its TLS. */
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

/** The header in which a command sends its user, as `encodeURIComponent` writes it. */
export const USER_HEADER = 'x-worksync-user';

/** Names the version of the replica whose answer a daemon forwards. */
export const VERSION_HEADER = 'x-worksync-version';

const LARGEST_ANSWER = 16 * 1024 * 1024;

/**
 * Sends a request to a daemon, over one connection. The client for all other servers (`http-client.ts`) would take several times
 * the time of a short command.
 *
 * Throws `unreachable` if no daemon listens, `answer_too_large`, `outcome_unknown` if the answer is incomplete, and
 * `not_answering` if it takes too long.
 */
export async function askDaemon({ method, url, token, user, body, patience }: DaemonRequest): Promise<DaemonAnswer> {
  const payload = method === 'GET' ? undefined : JSON.stringify(body ?? {});
  const headers = {
    authorization: `Bearer ${token}`,
    ...(user !== undefined && { [USER_HEADER]: encodeURIComponent(user) }),
    ...(payload !== undefined && { 'content-type': 'application/json', 'content-length': Buffer.byteLength(payload) }),
  };
  const named = `${method} ${url}`;
  const open = /^https:/i.test(url) ? (await import('node:https')).request : openPlain;
  return new Promise((resolve, reject) => {
    const signal = AbortSignal.timeout(patience);
    const fail = (error: unknown) => reject(connectionFault(named, error, signal));
    const sent = open(url, { method, headers, agent: false, signal }, (answer) => {
      const { statusCode: status = 0 } = answer;
      const version = answer.headers[VERSION_HEADER]?.toString();
      readWhole(answer, named).then((whole) => resolve({ status, version, body: whole }), fail);
    });
    sent.on('error', fail);
    sent.end(payload);
  });
}

async function readWhole(answer: IncomingMessage, named: string): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of answer as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > LARGEST_ANSWER) throw new SyncError('answer_too_large', `the answer to ${named} exceeds the size limit`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
