import PQueue from 'p-queue';
import { type SharedStatus, type Status, verdictOf, type WorkspaceStatus } from '../admin/status/status.ts';
import { REPLICA_PARTS, readOwnStatus, readWholeStatus, type ServedDaemon } from '../admin/status/whole-status.ts';
import { type Access, canAccess } from '../model/caller.ts';
import { LANES } from '../model/change.ts';
import type { Server } from '../platform/http/server.ts';
import { chunksOf, yieldToEventLoop } from '../platform/lib/concurrency.ts';
import type { Labels, Meter } from '../platform/lib/telemetry.ts';
import { callerOf } from './access/access-control.ts';

/** The readers of the status. Tests replace them. */
const READERS = { whole: readWholeStatus, own: readOwnStatus };

/**
 * `/livez` answers 200 while the event loop runs; `/readyz` 200 or 503 with reasons; `/metrics` for Prometheus; and
 * `/status.json`. Access: `access-control.ts`.
 */
export function webRoutes(server: Server, daemon: ServedDaemon, read = READERS): void {
  const { metrics, scrub, sharing } = daemon;
  const scrapes = new PQueue({ concurrency: 1 });

  /** The status of the workspaces that the caller may see, without secrets. */
  async function statusTextFor(caller: Access): Promise<string> {
    const { workspaces, ...rest } = visibleTo(caller, await read.whole(daemon));
    const texts: string[] = [];
    await inChunks(workspaces, (chunk) => texts.push(scrub(JSON.stringify(chunk)).slice(1, -1)));
    return `${scrub(JSON.stringify(rest)).slice(0, -1)},"workspaces":[${texts.join()}]}`;
  }

  async function scrape(of: readonly string[] | null): Promise<string> {
    // Other processes expose their own metrics.
    const status = await read.own(daemon);
    metrics.freshen();
    metrics.meter.gauge('up', status.verdict === 'blocked' ? 0 : 1);
    metrics.meter.gauge('database_bytes', status.databaseBytes);
    metrics.meter.gauge('config_fault', status.configFault ? 1 : 0);
    if (status.shared) setSharedGauges(metrics.meter, status.shared, sharing?.holder.renewedAgo());
    await inChunks(status.workspaces, (chunk) => {
      for (const each of chunk) setGauges(metrics.forWorkspace(each.name), each, status.at);
    });
    for (const { name, code } of status.broken) setBroken(metrics.forWorkspace(name), code);
    return metrics.expose(of);
  }

  probeRoutes(server, daemon);
  server.get('/metrics', { config: { access: 'metrics', filters: true } }, async (request, reply) => {
    const { workspaces } = callerOf(request);
    // All scrapes share the samples: one scrape resets them, and a concurrent one would return half of them.
    return scrapes.add(async () => reply.type(metrics.contentType).send(await scrape(workspaces)));
  });
  server.get('/status.json', { config: READ }, async (request, reply) =>
    reply.type(JSON_TYPE).send(await statusTextFor(callerOf(request))),
  );
}

/** Workspaces per batch: some milliseconds. */
const CHUNK = 100;

async function inChunks<Each>(all: readonly Each[], work: (chunk: readonly Each[]) => void): Promise<void> {
  for (const chunk of chunksOf(all, CHUNK)) {
    work(chunk);
    await yieldToEventLoop();
  }
}

const JSON_TYPE = 'application/json; charset=utf-8';

const READ = { access: 'read', filters: true } as const;

function visibleTo(caller: Access, status: Status): Status {
  const isVisible = ({ name }: { readonly name: string }) => canAccess(caller, name);
  const { workspaces, broken, elsewhere, shared } = status;
  const seen = {
    ...{ workspaces: workspaces.filter(isVisible), broken: broken.filter(isVisible) },
    ...(elsewhere && { elsewhere: elsewhere.filter(isVisible) }),
    // Callers with some workspaces only must not see the state of the processes.
    ...(shared && { shared: caller.workspaces === null ? shared : { replicas: [], causes: [] } }),
  };
  return { ...status, ...seen, verdict: verdictOf({ ...status, ...seen }) };
}

/** The public probes alone: for the port of the webhooks, where the pages have a port of their own. */
export function probeRoutes(server: Server, { health }: Pick<ServedDaemon, 'health'>): void {
  server.route({
    method: ['GET', 'HEAD'],
    url: '/livez',
    config: { access: 'public' },
    handler: (_request, reply) => reply.type('text/plain; charset=utf-8').send('ok\n'),
  });
  server.route({
    method: ['GET', 'HEAD'],
    url: '/readyz',
    config: { access: 'public' },
    handler: (_request, reply) => {
      const report = health.report();
      return reply.code(report.ready ? 200 : 503).send(report);
    },
  });
}

/** Sets the gauges of one workspace from its status, so that a scrape shows the same as the page. */
function setGauges(meter: Meter, workspace: WorkspaceStatus, now: number): void {
  meter.gauge('workspace_up', workspace.verdict === 'blocked' ? 0 : 1);
  for (const { code, count } of workspace.causes) meter.gauge('problems', count, { code });
  meter.gauge('inbox_pending', workspace.deliveries.pending);
  meter.gauge('quarantined_deliveries', workspace.deliveries.quarantined);
  for (const [state, count] of Object.entries(workspace.changes.byState)) meter.gauge('outbox_depth', count, { state });
  meter.gauge('held_changes', workspace.changes.byState.held);
  for (const lane of LANES) {
    const since = workspace.changes.oldest[lane] ?? now;
    meter.gauge('oldest_pending_seconds', Math.max(0, (now - since) / 1_000), { lane });
  }
  for (const [reason, count] of Object.entries(workspace.unfinishedTasks))
    meter.gauge('unfinished_tasks', count, { reason });
  for (const connection of workspace.connections) setConnectionGauges(meter, connection);
  setSweepGauges(meter, workspace.sweep, now);
  setQuotaGauges(meter, workspace.quota, now);
}

/** Sets the gauges of a process that shares the workspaces with others. @param renewedAgo milliseconds */
function setSharedGauges(meter: Meter, { replicas }: SharedStatus, renewedAgo: number | undefined): void {
  meter.gauge('replicas', replicas.length);
  meter.gauge('leases', replicas.find(({ isOwn }) => isOwn)?.holds?.length ?? 0);
  if (renewedAgo !== undefined) meter.gauge('lease_renewal_age_seconds', renewedAgo / 1_000);
}

function setBroken(meter: Meter, code: string): void {
  meter.gauge('workspace_up', 0);
  meter.gauge('problems', 1, { code });
}

function setConnectionGauges(
  meter: Meter,
  { name: connection, failure, missingUnits, lastPollAt, lastSweepAt }: WorkspaceStatus['connections'][number],
): void {
  meter.gauge('provider_up', failure ? 0 : 1, { connection });
  meter.gauge('missing_units', missingUnits.length, { connection });
  setLastSuccess(meter, lastPollAt, { activity: 'poll', connection });
  setLastSuccess(meter, lastSweepAt, { activity: 'sweep', connection });
}

function setLastSuccess(meter: Meter, at: number | null, labels: Labels): void {
  if (at !== null) meter.gauge('last_success_timestamp_seconds', at / 1_000, labels);
}

function setSweepGauges(meter: Meter, { running, last }: WorkspaceStatus['sweep'], now: number): void {
  setLastSuccess(meter, last?.finishedAt ?? null, { activity: 'workspace_sweep', connection: '' });
  const report = last ?? running;
  if (!report) return;
  if (last?.finishedAt != null)
    meter.gauge('workspace_sweep_age_seconds', Math.max(0, (now - last.finishedAt) / 1_000));
  for (const [what, count] of Object.entries(report.found)) meter.gauge('workspace_sweep_found', count, { what });
  meter.gauge('workspace_sweep_repairs_waiting', report.repairs.waiting + report.repairs.held);
}

function setQuotaGauges(meter: Meter, quota: WorkspaceStatus['quota'], now: number): void {
  for (const window of ['long', 'burst'] as const) {
    const { cap, used } = quota[window];
    const limit = cap ?? Number.POSITIVE_INFINITY;
    meter.gauge('quota_limit', limit, { window });
    meter.gauge('quota_used', used, { window });
    meter.gauge('quota_remaining', Math.max(0, limit - used), { window });
  }
  meter.gauge('quota_share', quota.effectiveShare);
  meter.gauge('quota_paused_seconds', quota.paused ? Math.max(0, (quota.paused.until - now) / 1_000) : 0);
}

/**
 * The routes by which replicas read each other's own state, see `REPLICA_PARTS`. The requests are signed.
 */
export function replicaRoutes(server: Server, daemon: ServedDaemon): void {
  const { sharing, scrub } = daemon;
  if (!sharing) return;
  for (const [path, read] of Object.entries(REPLICA_PARTS))
    server.get(path, { config: { access: 'replica' } }, async (_request, reply) =>
      reply.type(JSON_TYPE).send(scrub(JSON.stringify(await read(daemon)))),
    );
}
