import { Agent, request as ask, createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import { listenLocally } from '../../harness/listen.ts';

/** A request as it came to the door of a workspace service. */
export interface Arrival {
  /** Milliseconds of a clock that nobody sets. */
  readonly at: number;
  /** The credential that it came with. */
  readonly key: string;
  readonly method: string;
  readonly path: string;
  body: string;
  /** Undefined before the service has answered. */
  status?: number;
  /** Whether nobody waits for the answer any more. */
  isOver: boolean;
}

/** Stands before a workspace service and writes down what comes, before the service sees it. */
export interface CountingDoor {
  /** In place of the address of the service. */
  readonly url: string;
  readonly arrivals: readonly Arrival[];
  /** Most requests with this credential within any span of so many milliseconds. */
  mostWithin(key: string, span: number): number;
  /** From now on requests come to the door, and no further: nobody answers them. */
  swallow(): void;
  /** The connections of what was swallowed end, and what comes from now on passes. */
  release(): void;
  close(): Promise<void>;
}

/** @param delay added to each answer, milliseconds: the shortest time that a request is in flight */
export async function openDoor(service: string, delay: number): Promise<CountingDoor> {
  const arrivals: Arrival[] = [];
  let swallowed: ServerResponse[] | undefined;
  const { port, host, pathname } = new URL(service);
  const agent = new Agent({ keepAlive: true, maxSockets: 64 });
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const at = performance.now();
    const key = request.headers.authorization?.replace('Bearer ', '') ?? '';
    const arrival: Arrival = {
      at,
      key,
      method: request.method ?? '',
      path: request.url ?? '',
      body: '',
      isOver: false,
    };
    arrivals.push(arrival);
    response.once('close', () => {
      arrival.isOver = true;
    });
    const body = await bodyOf(request).catch(() => undefined);
    if (body === undefined) return;
    arrival.body = body.toString();
    if (swallowed) return void swallowed.push(response);
    const headers = { ...request.headers, host };
    const onward = ask({ agent, port, host: '127.0.0.1', method: arrival.method, path: arrival.path, headers });
    onward.on('error', () => response.destroy());
    const passBack = async (answered: IncomingMessage): Promise<void> => {
      const bytes = await bodyOf(answered);
      arrival.status = answered.statusCode;
      await pause(delay);
      response.writeHead(answered.statusCode ?? 502, answered.headers).end(bytes);
    };
    onward.on('response', (answered) => void passBack(answered));
    onward.end(body);
  };
  const server = createServer((request, response) => void answer(request, response));
  // Longer than any test: a connection that the service had closed would keep a late request from arriving.
  server.keepAliveTimeout = 600_000;
  const own = await listenLocally(server);
  return {
    url: `${own}${pathname}`,
    arrivals,
    mostWithin(key, span) {
      const times = arrivals.filter((arrival) => arrival.key === key).map(({ at }) => at);
      times.sort((a, b) => a - b);
      let first = 0;
      let most = 0;
      for (const [last, at] of times.entries()) {
        while (at - (times[first] as number) >= span) first++;
        most = Math.max(most, last - first + 1);
      }
      return most;
    },
    swallow() {
      swallowed ??= [];
    },
    release() {
      for (const response of swallowed ?? []) response.destroy();
      swallowed = undefined;
    },
    async close() {
      agent.destroy();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

async function bodyOf(message: IncomingMessage): Promise<Buffer> {
  const pieces: Buffer[] = [];
  for await (const piece of message) pieces.push(piece as Buffer);
  return Buffer.concat(pieces);
}
