import { hash } from 'node:crypto';
import type { Server } from '../http/server.ts';
import type { Meter } from '../lib/meter.ts';
import { setGauges } from './gauges.ts';
import { statusPage } from './page.ts';
import type { Status } from './status.ts';
import { STYLE } from './style.ts';

export interface WebDeps {
  /** Names of components and reason codes: all that `/readyz` tells. */
  readonly health: { report(): { readonly ready: boolean; readonly components: Readonly<Record<string, string>> } };
  readonly metrics: {
    readonly meter: Meter;
    forWorkspace(workspace: string): Meter;
    expose(): Promise<string>;
    readonly contentType: string;
  };
  readonly status: () => Promise<Status>;
  /** Replaces the values of secrets: stored error texts may hold what others sent. */
  readonly scrub: (text: string) => string;
}

const STYLE_HASH = hash('sha256', STYLE, 'base64');
const PAGE_POLICY = `default-src 'none'; style-src 'sha256-${STYLE_HASH}'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'`;

/**
 * `/livez` answers 200 as long as the event loop turns; `/readyz` 200 or 503 with reasons; `/metrics` for Prometheus;
 * `/status.json`; and the status page at `/`. Who may see them: `door.ts`.
 */
export function webRoutes(server: Server, deps: WebDeps): void {
  const clean = async (): Promise<Status> => JSON.parse(deps.scrub(JSON.stringify(await deps.status()))) as Status;

  probeRoutes(server, deps);
  server.get('/metrics', async (_request, reply) => {
    const status = await deps.status();
    deps.metrics.meter.gauge('up', status.ready ? 1 : 0);
    for (const workspace of status.workspaces)
      setGauges(deps.metrics.forWorkspace(workspace.name), workspace, status.at);
    return reply.type(deps.metrics.contentType).send(await deps.metrics.expose());
  });
  server.get('/status.json', async () => clean());
  server.get<{ Querystring: { refresh?: string } }>('/', async (request, reply) => {
    const page = statusPage(await clean(), request.query.refresh !== 'off');
    return reply.header('content-security-policy', PAGE_POLICY).type('text/html; charset=utf-8').send(page);
  });
}

/** The public probes alone: for the port of the webhooks, where the pages have a port of their own. */
export function probeRoutes(server: Server, deps: Pick<WebDeps, 'health'>): void {
  server.route({
    method: ['GET', 'HEAD'],
    url: '/livez',
    handler: (_request, reply) => reply.type('text/plain; charset=utf-8').send('ok\n'),
  });
  server.route({
    method: ['GET', 'HEAD'],
    url: '/readyz',
    handler: (_request, reply) => {
      const report = deps.health.report();
      return reply.code(report.ready ? 200 : 503).send(report);
    },
  });
}
