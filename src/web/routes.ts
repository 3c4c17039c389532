import type { Server } from '../http/server.ts';
import type { Meter } from '../lib/meter.ts';
import { type Access, reaches } from '../model/access.ts';
import { sendPage } from './document.ts';
import { callerOf } from './door.ts';
import { setGauges } from './gauges.ts';
import { statusPage } from './page.ts';
import type { Status } from './status.ts';

export interface WebDeps {
  /** Names of components and reason codes: all that `/readyz` tells. */
  readonly health: { report(): { readonly ready: boolean; readonly components: Readonly<Record<string, string>> } };
  readonly metrics: {
    readonly meter: Meter;
    forWorkspace(workspace: string): Meter;
    /** @param workspaces names; null: everything */
    expose(workspaces: readonly string[] | null): Promise<string>;
    readonly contentType: string;
  };
  readonly status: () => Promise<Status>;
  /** Replaces the values of secrets: stored error texts may hold what others sent. */
  readonly scrub: (text: string) => string;
}

/**
 * `/livez` answers 200 as long as the event loop turns; `/readyz` 200 or 503 with reasons; `/metrics` for Prometheus;
 * `/status.json`; and the status page at `/`. Who may see them: `door.ts`.
 */
export function webRoutes(server: Server, deps: WebDeps): void {
  const clean = async (): Promise<Status> => JSON.parse(deps.scrub(JSON.stringify(await deps.status()))) as Status;

  probeRoutes(server, deps);
  server.get('/metrics', { config: { door: 'metrics', filters: true } }, async (request, reply) => {
    const status = await deps.status();
    deps.metrics.meter.gauge('up', status.ready ? 1 : 0);
    for (const workspace of status.workspaces)
      setGauges(deps.metrics.forWorkspace(workspace.name), workspace, status.at);
    const { workspaces } = callerOf(request);
    return reply.type(deps.metrics.contentType).send(await deps.metrics.expose(workspaces));
  });
  server.get('/status.json', { config: READ }, async (request) => visibleTo(callerOf(request), await clean()));
  server.get<{ Querystring: { refresh?: string } }>('/', { config: READ }, async (request, reply) => {
    const caller = callerOf(request);
    const status = visibleTo(caller, await clean());
    return sendPage(reply, statusPage(status, request.query.refresh !== 'off', caller.session?.pageToken));
  });
}

const READ = { door: 'read', filters: true } as const;

/** What the caller may know of. */
function visibleTo(caller: Access, status: Status): Status {
  const isHidden = (component: string) =>
    status.workspaces.some(({ name }) => component === `workspace:${name}` && !reaches(caller, name));
  return {
    ...status,
    components: Object.fromEntries(Object.entries(status.components).filter(([name]) => !isHidden(name))),
    workspaces: status.workspaces.filter(({ name }) => reaches(caller, name)),
  };
}

/** The public probes alone: for the port of the webhooks, where the pages have a port of their own. */
export function probeRoutes(server: Server, deps: Pick<WebDeps, 'health'>): void {
  server.route({
    method: ['GET', 'HEAD'],
    url: '/livez',
    config: { door: 'public' },
    handler: (_request, reply) => reply.type('text/plain; charset=utf-8').send('ok\n'),
  });
  server.route({
    method: ['GET', 'HEAD'],
    url: '/readyz',
    config: { door: 'public' },
    handler: (_request, reply) => {
      const report = deps.health.report();
      return reply.code(report.ready ? 200 : 503).send(report);
    },
  });
}
