import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { drained } from '../../admin/installation/once.ts';
import { compose } from '../../daemon/compose.ts';
import { SyncError } from '../../model/errors.ts';
import type { Session } from '../session.ts';
import { countConnectorTasks, findStage, playDeliveries, seedTasks } from './demo-play.ts';

/** The results of the demo, counted from the rows and the requests of the service. The last line of `demo --json`. */
export interface DemoResult {
  readonly deliveries: number;
  readonly pullRequestsMirrored: number;
  readonly linksCreated: number;
  readonly tasksCreated: number;
  /** Requests received with the daemon's key; the seeded tasks are not among them. */
  readonly requests: number;
  readonly rateLimited: number;
  readonly pending: number;
  /** Time from a delivery's 2xx to the answer of its write. */
  readonly lagMs: { readonly p50: number; readonly p95: number };
}

/** `worksync demo`: the embedded default on fresh data, from the first delivery to the last write. */
export async function demo(session: Session): Promise<DemoResult> {
  const data = mkdtempSync(join(tmpdir(), 'worksync-demo-'));
  const lags: number[] = [];
  const options = { ...session.options, data, port: 0, adminPort: undefined, store: undefined, host: '127.0.0.1' };
  const { parts, demoSecret } = session;
  const composition = await compose({ ...session, options, onLag: (lag) => lags.push(lag) }, parts);
  try {
    const stage = findStage(composition, demoSecret);
    if (!stage) throw new SyncError('config_invalid', 'the demo needs the connection of config/default.yaml');
    await seedTasks(stage, parts);
    const daemon = await composition.serve();
    const { sent } = await playDeliveries(stage, daemon.address, demoSecret, parts);
    const pending = await drained(stage.partition, parts.clock);
    const held = await stage.service.statistics();
    return {
      deliveries: sent,
      pullRequestsMirrored: held.pullRequests,
      linksCreated: held.links,
      tasksCreated: await countConnectorTasks(stage, parts),
      requests: held.requests,
      rateLimited: held.rateLimited,
      pending,
      lagMs: { p50: quantile(lags, 0.5), p95: quantile(lags, 0.95) },
    };
  } finally {
    await composition.close();
    rmSync(data, { recursive: true, force: true });
  }
}

export function describeDemo(result: DemoResult): string {
  return [
    `${result.deliveries} signed deliveries received`,
    `${result.pullRequestsMirrored} pull requests mirrored, ${result.linksCreated} links to tasks created`,
    `${result.requests} requests to the workspace, ${result.rateLimited} refused, ${result.pending} changes pending`,
    `from delivery to write: half within ${result.lagMs.p50} ms, 95 % within ${result.lagMs.p95} ms`,
  ].join('\n');
}

/** Nearest rank; 0 without values. */
function quantile(values: readonly number[], part: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return Math.round(sorted[Math.max(0, Math.ceil(part * sorted.length) - 1)] ?? 0);
}
