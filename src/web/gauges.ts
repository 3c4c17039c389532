import type { SharedStatus } from '../admin/replica-status.ts';
import type { QuotaStatus, WorkspaceStatus } from '../admin/status.ts';
import { LANES } from '../model/lane.ts';
import type { Labels, Meter } from '../platform/lib/meter.ts';

/** Sets the gauges of one workspace from its status, so that a scrape shows the same as the page. */
export function setGauges(meter: Meter, workspace: WorkspaceStatus, now: number): void {
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
export function setSharedGauges(meter: Meter, { replicas }: SharedStatus, renewedAgo: number | undefined): void {
  meter.gauge('replicas', replicas.length);
  meter.gauge('leases', replicas.find(({ isOwn }) => isOwn)?.holds?.length ?? 0);
  if (renewedAgo !== undefined) meter.gauge('lease_renewal_age_seconds', renewedAgo / 1_000);
}

/** The gauges of a workspace whose state is unknown. */
export function setBroken(meter: Meter, code: string): void {
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

function setQuotaGauges(meter: Meter, quota: QuotaStatus, now: number): void {
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
