import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import type { SignedBody } from './deliveries.ts';

export interface Target {
  readonly port: number;
  readonly path: string;
}

export interface Request {
  readonly method: string;
  readonly path: string;
  readonly body?: string;
}

/** Connections kept alive, each with one delivery on the way. */
const CONNECTIONS = 20;

/**
 * Sends deliveries for `ms` milliseconds, each under an id of its own, and waits for the last answers. Sockets are
 * written and read directly: an HTTP client would take as much of the machine as the server that is measured.
 *
 * @param target its paths get deliveries in turn
 * @param run makes the ids of this call different from those of any other
 */
export function sendDeliveries(
  { port, paths }: { readonly port: number; readonly paths: readonly string[] },
  bodies: readonly SignedBody[],
  run: string,
  ms: number,
) {
  let sent = 0;
  return repeat({ port, connections: CONNECTIONS }, ms, () => {
    const id = `${run}-${sent++}`;
    const { body, signature } = bodies[sent % bodies.length] as SignedBody;
    const path = paths[sent % paths.length] as string;
    return [headOf({ port, path }, { id, signature, length: body.length }), body];
  });
}

/** One request again and again for `ms` milliseconds, with the key of somebody, one on the way on each connection. */
export function repeatRequest(
  { port, key, connections }: { readonly port: number; readonly key: string; readonly connections: number },
  { method, path, body = '' }: Request,
  ms: number,
) {
  const head =
    `${method} ${path} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nAuthorization: Bearer ${key}\r\n` +
    `X-Service-Api-Version: 2\r\nAccept: application/json\r\n` +
    (body === '' ? '\r\n' : `Content-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n`);
  const request = [Buffer.from(head), Buffer.from(body)] as const;
  return repeat({ port, connections }, ms, () => request);
}

async function repeat(
  { port, connections }: { readonly port: number; readonly connections: number },
  ms: number,
  request: () => readonly [Buffer, Buffer],
) {
  const sockets = await Promise.all(Array.from({ length: connections }, () => open(port)));
  const begin = performance.now();
  const next = () => (performance.now() - begin >= ms ? undefined : request());
  const counts = await Promise.all(sockets.map((socket) => converse(socket, next)));
  const answered = counts.reduce((sum, count) => sum + count, 0);
  // `answered`: with 2xx, which is all that were sent, since any other answer is an error.
  return { answered, perSecond: answered / ((performance.now() - begin) / 1_000) };
}

export async function startPeer(name: string, told: object = {}): Promise<{ port: number; child: ChildProcess }> {
  const child = fork(join(import.meta.dirname, 'peers', `${name}.ts`));
  child.send(told);
  const [{ port }] = (await once(child, 'message')) as [{ port: number }];
  return { port, child };
}

export function open(port: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: '127.0.0.1', port, noDelay: true }, () => resolve(socket)).on('error', reject);
  });
}

export function headOf(
  target: Target,
  { id, signature, length }: { id: string; signature: string; length: number },
): Buffer {
  return Buffer.from(
    `POST ${target.path} HTTP/1.1\r\nHost: 127.0.0.1:${target.port}\r\nUser-Agent: GitHub-Hookshot/044aadd\r\n` +
      `Accept: */*\r\nContent-Type: application/json\r\nContent-Length: ${length}\r\nX-GitHub-Delivery: ${id}\r\n` +
      `X-GitHub-Event: pull_request\r\nX-GitHub-Hook-ID: 292430182\r\nX-Hub-Signature-256: ${signature}\r\n\r\n`,
  );
}

export function converse(
  socket: Socket,
  next: () => readonly [Buffer, Buffer] | undefined,
  isAccepted = (answer: string) => answer[9] === '2',
): Promise<number> {
  return new Promise((resolve, reject) => {
    let answered = 0;
    let received = '';
    const sendNext = () => {
      const request = next();
      if (!request) {
        socket.removeAllListeners('close').destroy();
        return resolve(answered);
      }
      socket.cork();
      socket.write(request[0]);
      socket.write(request[1]);
      socket.uncork();
    };
    socket.setEncoding('latin1');
    socket.on('data', (text: string) => {
      received += text;
      if (!isWhole(received)) return;
      if (!isAccepted(received)) return reject(new Error(`refused: ${received.slice(0, 400)}`));
      received = '';
      answered++;
      sendNext();
    });
    socket.once('error', reject);
    socket.once('close', () => reject(new Error('the server closed a connection')));
    sendNext();
  });
}

function isWhole(received: string): boolean {
  const end = received.indexOf('\r\n\r\n');
  if (end < 0) return false;
  const length = /\r\ncontent-length: (\d+)/i.exec(received)?.[1];
  if (length !== undefined) return received.length >= end + 4 + Number(length);
  return received.endsWith('\r\n0\r\n\r\n');
}

/** One delivery on a connection of its own. @returns milliseconds until its 2xx, from the moment it is sent */
export async function deliver(target: Target, { body, signature }: SignedBody, id: string): Promise<number> {
  const begin = performance.now();
  const requests: (readonly [Buffer, Buffer])[] = [[headOf(target, { id, signature, length: body.length }), body]];
  await converse(await open(target.port), () => requests.pop());
  return performance.now() - begin;
}
