import { connectors } from '../../connectors/registry.ts';
import type { Composition } from '../../daemon/compose.ts';
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

/** The embedded workspace that the demo's deliveries are meant for. */
export interface Stage {
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
export async function countConnectorTasks({ service }: Stage, { http }: Pick<ProcessContext, 'http'>): Promise<number> {
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
