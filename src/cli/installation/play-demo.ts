import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { drained } from '../../admin/installation/once.ts';
import { connectors } from '../../connectors/registry.ts';
import { type Composition, compose } from '../../daemon/compose.ts';
import type { ProcessContext } from '../../daemon/daemon-context.ts';
import type { Embedded } from '../../daemon/embedded.ts';
import type { Partition } from '../../daemon/partition.ts';
import { SyncError } from '../../model/errors.ts';
import type { HttpClient } from '../../platform/http/http-client.ts';
import { signedDeliveries } from '../../reference-service/demo/bundled-deliveries.ts';
import { TASKS } from '../../reference-service/demo/story.ts';
import { readMeta, writeMeta } from '../../store/meta.ts';
import { webhookUrlOf } from '../../sync/intake/webhook-routes.ts';
import { createSend, createWorkspaceClient } from '../../workspace-api/typed-client.ts';
import type { Session } from '../session.ts';

/** The embedded workspace that the demo's deliveries are meant for. */
interface Stage {
  readonly partition: Partition;
  readonly service: Embedded;
  readonly connection: string;
}

/** Finds the workspace with a connection that has the demo's secret; undefined if there is none. */
export function findStage(composition: Composition, secret: string): Stage | undefined {
  for (const partition of composition.workspaces.partitions()) {
    const service = composition.workspaces.service(partition.name);
    const connection = partition.connections.find(({ secrets }) => secrets.includes(secret));
    if (service && connection) return { partition, service, connection: connection.name };
  }
  return undefined;
}

const SEEDED = 'demo_tasks_seeded';

/** Creates the tasks that the demo's pull requests name, once, through the API with a user's token. */
export async function seedTasks({ partition, service }: Stage, { http }: Pick<ProcessContext, 'http'>): Promise<void> {
  if (await readMeta(partition.store.query, SEEDED)) return;
  const client = asOwner(service, http);
  for (const { kind, title } of TASKS) {
    await (kind === 'bug' ? client.createBug({ body: { title } }, {}) : client.createIdea({ body: { title } }, {}));
  }
  await writeMeta(partition.store.query, SEEDED, 'yes');
}

/** Counts the tasks of the service whose source names a connector: the daemon created those. */
async function countConnectorTasks({ service }: Stage, { http }: Pick<ProcessContext, 'http'>): Promise<number> {
  const { body } = await asOwner(service, http).listTasks({ query: { all: true } }, {});
  return body.tasks.filter(({ source }) => connectors.some(({ id }) => source.startsWith(`${id}:`))).length;
}

/** With a person's token, which counts in no quota window (W73). */
function asOwner(service: Embedded, http: HttpClient) {
  const send = createSend({ http, baseUrl: service.url, apiKey: () => service.oauthToken });
  return createWorkspaceClient({ send, workspaceId: 'current' });
}

/** Sends the bundled deliveries to the daemon's own webhook address, as GitHub would. Returns how many were new. */
export async function playDeliveries(
  { partition, connection }: Stage,
  address: string,
  secret: string,
  { http }: Pick<ProcessContext, 'http'>,
): Promise<{ readonly sent: number; readonly fresh: number }> {
  const url = webhookUrlOf(address, partition.name, connection);
  const deliveries = await signedDeliveries(secret);
  let fresh = 0;
  for (const { headers, body } of deliveries) {
    const answer = await http.request({ method: 'POST', url, headers, body, target: 'demo' });
    if (answer.status !== 202) throw new SyncError('internal', `a demo delivery was answered with ${answer.status}`);
    if (answer.body.includes('"new"')) fresh++;
  }
  return { sent: deliveries.length, fresh };
}

/** The results of the demo, counted from the rows and the requests of the service. The last line of `demo --json`. */
interface DemoResult {
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
