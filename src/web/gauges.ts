import type { Meter } from '../lib/meter.ts';
import { LANES } from '../model/lane.ts';
import type { QuotaStatus, WorkspaceStatus } from './status.ts';

/** Sets the gauges of one workspace from its status, so that a scrape tells the same as the page. */
export function setGauges(meter: Meter, workspace: WorkspaceStatus, now: number): void {
  meter.gauge('inbox_pending', workspace.deliveries.pending);
  meter.gauge('quarantined_deliveries', workspace.deliveries.quarantined);
  for (const [state, count] of Object.entries(workspace.changes.byState)) meter.gauge('outbox_depth', count, { state });
  meter.gauge('held_changes', workspace.changes.byState.held);
  for (const lane of LANES) {
    const ages = workspace.changes.next.filter((row) => row.lane === lane).map((row) => (now - row.since) / 1_000);
    meter.gauge('oldest_pending_seconds', Math.max(0, ...ages), { lane });
  }
  for (const { name, missingUnits } of workspace.connections)
    meter.gauge('missing_units', missingUnits.length, { connection: name });
  meter.gauge('database_bytes', workspace.databaseBytes);
  setQuotaGauges(meter, workspace.quota, now);
}

function setQuotaGauges(meter: Meter, quota: QuotaStatus, now: number): void {
  for (const window of ['long', 'burst'] as const) {
    meter.gauge('quota_limit', quota[window].cap ?? Number.POSITIVE_INFINITY, { window });
    meter.gauge('quota_used', quota[window].used, { window });
  }
  meter.gauge('quota_share', quota.effectiveShare);
  meter.gauge('quota_paused_seconds', quota.paused ? Math.max(0, (quota.paused.until - now) / 1_000) : 0);
}
