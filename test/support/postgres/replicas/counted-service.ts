import { Agent, request as ask, createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { setTimeout as pause } from 'node:timers/promises';
import type { Quota } from '../../../../src/reference-service/http/quota-log.ts';
import { startWorkspaceService } from '../../fakes/workspace-service.ts';
import { listenLocally } from '../../harness/listen.ts';

interface Arrival {
  /** Milliseconds of a clock that nobody sets. */
  readonly at: number;
  readonly key: string;
  readonly method: string;
  readonly path: string;
  body: string;
  /** Undefined before the service has answered. */
  status?: number;
  /** Whether nobody waits for the answer any more. */
  isOver: boolean;
}

export interface CountedWorkspace {
  readonly name: string;
  readonly key: string;
  readonly url: string;
  readonly door: Door;
  readonly quota: Quota;
  arrivals(): readonly Arrival[];
  /** Titles of the records and tasks that people find there, by what a title begins with; one for each of them. */
  titles(): Promise<ReadonlyMap<string, readonly string[]>>;
}

/** How long a request is on its way at least, milliseconds: so that some are, whenever something happens. */
const DELAY = 60;

export async function startCountedService(names: readonly string[], quota: Quota) {
  const { service, url: own, client, close } = await startWorkspaceService({ quota });
  const door = await openDoor(own);
  const workspaces: CountedWorkspace[] = [];
  for (const name of names) {
    const workspaceId = await service.addWorkspace();
    const userId = await service.addUser({ workspaceId, name: 'Owner', role: 'owner' });
    const { secret: key } = await service.mintKey({ workspaceId, userId, description: name });
    const { secret: token } = await service.mintToken({ workspaceId, userId, role: 'owner', ttl: null });
    const people = client(token);
    workspaces.push({
      ...{ name, key, url: door.url, door, quota },
      arrivals: () => door.arrivals.filter((arrival) => arrival.key === key),
      async titles() {
        const pulls = await all(async (query) => {
          const { pullRequests: rows, nextCursor } = (await people.listPullRequests({ query }, {})).body;
          return { rows, nextCursor };
        });
        const tasks = await all(async (query) => {
          const { tasks: rows, nextCursor } = (await people.listTasks({ query }, {})).body;
          return { rows, nextCursor };
        });
        return Map.groupBy([...pulls, ...tasks], subjectOf);
      },
    });
  }
  return {
    workspaces: workspaces as readonly CountedWorkspace[],
    async close() {
      await door.close();
      await close();
    },
  };
}

/** Constant part of a title such as `Change 3, version 17`. */
export function subjectOf(title: string): string {
  return title.split(',')[0] as string;
}

/** Whether its quota is not what the test is about. */
export function isAmple({ quota }: CountedWorkspace): boolean {
  return quota.requests > 200;
}

interface Page {
  readonly rows: readonly { readonly title: string }[];
  readonly nextCursor?: string | null;
}

async function all(read: (query: { limit: number; cursor?: string }) => Promise<Page>): Promise<readonly string[]> {
  const titles: string[] = [];
  let cursor: string | undefined;
  do {
    const page = await read({ limit: 100, ...(cursor !== undefined && { cursor }) });
    titles.push(...page.rows.map(({ title }) => title));
    cursor = page.nextCursor ?? undefined;
  } while (cursor !== undefined);
  return titles;
}

type Door = Awaited<ReturnType<typeof openDoor>>;

/** Stands before a workspace service and writes down what comes, before the service sees it. */
async function openDoor(service: string) {
  const arrivals: Arrival[] = [];
  let swallowed: ServerResponse[] | undefined;
  const { port, host, pathname } = new URL(service);
  const agent = new Agent({ keepAlive: true, maxSockets: 64 });
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const { method = '', url: path = '' } = request;
    const key = request.headers.authorization?.replace('Bearer ', '') ?? '';
    const arrival: Arrival = { at: performance.now(), key, method, path, body: '', isOver: false };
    arrivals.push(arrival);
    response.once('close', () => void (arrival.isOver = true));
    const body = await buffer(request).catch(() => undefined);
    if (body === undefined) return;
    arrival.body = body.toString();
    if (swallowed) return void swallowed.push(response);
    const onward = ask({ agent, port, host: '127.0.0.1', method, path, headers: { ...request.headers, host } });
    onward.on('error', () => response.destroy());
    const passBack = async (answered: IncomingMessage): Promise<void> => {
      const bytes = await buffer(answered);
      arrival.status = answered.statusCode;
      await pause(DELAY);
      response.writeHead(answered.statusCode ?? 502, answered.headers).end(bytes);
    };
    onward.on('response', (answered) => void passBack(answered));
    onward.end(body);
  };
  const server = createServer((request, response) => void answer(request, response));
  // Longer than any test: a connection that the service had closed would keep a late request from arriving.
  server.keepAliveTimeout = 600_000;
  return {
    /** In place of the address of the service. */
    url: `${await listenLocally(server)}${pathname}`,
    arrivals: arrivals as readonly Arrival[],
    /** From now on requests come to the door, and no further: nobody answers them. */
    swallow: () => void (swallowed ??= []),
    /** The connections of what was swallowed end, and what comes from now on passes. */
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
