import { connect } from 'node:net';
import { connectionFault } from './connection-fault.ts';

const STATUS_LINE = /^HTTP\/1\.[01] (\d{3})[ \r]/;
/** A status line is shorter: what sends more without one is no HTTP server. */
const LONGEST = 4_096;

/**
 * The status that an address of a daemon on this machine answers with; its answer is not read any further. Node's own HTTP
 * client alone takes more memory than a container's health check may, so this one reads the status line from the socket.
 *
 * @param patience milliseconds for everything
 *
 * Throws `unreachable` where no daemon listens, `not_answering` where none answers within the patience,
 * `outcome_unknown` where one answers, and not in HTTP.
 */
export function signOfLife(address: string, patience: number): Promise<number> {
  const url = new URL(address);
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  const signal = AbortSignal.timeout(patience);
  const fail = (error: unknown) => reject(connectionFault(`GET ${address}`, error, signal));
  const socket = connect({ host: url.hostname.replace(/^\[|\]$/g, ''), port: Number(url.port || 80), signal });
  const request = `GET ${url.pathname} HTTP/1.1\r\nHost: ${url.host}\r\nConnection: close\r\n\r\n`;
  let heard = '';
  socket
    .on('connect', () => socket.write(request))
    .on('data', (chunk) => {
      heard += chunk.toString('latin1');
      const status = STATUS_LINE.exec(heard)?.[1];
      if (status !== undefined) resolve(Number(status));
      else if (heard.length > LONGEST) fail(new Error('the answer is not HTTP'));
    })
    .on('end', () => fail(new Error('the connection ended')))
    .on('error', fail);
  return promise.finally(() => socket.destroy());
}
