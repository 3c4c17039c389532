// Design: src/decisions/replicas.md

import type { WebhookRequest } from '../connectors/connector.ts';
import { SyncError } from '../model/errors.ts';
import type { WorkspaceConfig } from '../platform/config/schema.ts';
import { isSameSecret } from '../platform/lib/digest.ts';
import { recordTriageStarts } from '../store/meta.ts';
import { WORKSPACE } from '../store/workspace/workspace-reads.ts';
import { numbersOf } from '../store/workspace-scope.ts';
import { type Collector, createCollector } from '../sync/intake/append.ts';
import type { FindReceiver, Receiver } from '../sync/intake/webhook-routes.ts';
import type { WorkspaceContext } from '../sync/workspace-context.ts';
import { verifyWorkspaceWebhook, type WebhookHeaders, webhookHeadersOf } from '../workspace-api/contract.ts';
import { type DaemonContext, observersOf } from './daemon-context.ts';
import type { Notifications } from './notifications.ts';

/** The configured proofs of the workspace's own webhooks. Each has two values while one replaces the other. */
type Subscription = NonNullable<WorkspaceConfig['workspace']['webhook']>;

/** The receivers of one workspace, by connection. */
export type Receivers = ReadonlyMap<string, Receiver>;

type Received = Pick<Receiver, 'collector' | 'meter' | 'logger' | 'tracer'> &
  Partial<Pick<WorkspaceContext, 'onWrite'>>;

/** Largest size of an event, bytes: a document with all its text, as JSON. */
const LARGEST_EVENT = 4 * 1024 * 1024;
/** Time to answer, milliseconds: the workspace waits 3 s. */
const ANSWER_WITHIN = 2_500;
const NAME = /^[A-Za-z0-9._:-]{1,200}$/;

/** Creates the receivers of the connections of a workspace, and of its own webhooks. */
export function createReceivers(
  { connectors }: DaemonContext,
  { connections, workspace: { webhook } }: WorkspaceConfig,
  received: Received,
): Receivers {
  const { collector, meter, logger, tracer } = received;
  const receivers = new Map<string, Receiver>();
  for (const { name, connector: id, webhookSecrets: secrets } of connections) {
    const connector = connectors.find((each) => each.id === id);
    if (connector) receivers.set(name, { collector, meter, logger, tracer, name, secrets, connector });
  }
  if (webhook) receivers.set(WORKSPACE, workspaceReceiver(webhook, received));
  return receivers;
}

/**
 * Creates the receiver of the workspace's own webhooks at `POST /webhooks/<workspace>/workspace` (W65). `GET` and `HEAD` there
 * verify the shared key.
 */
function workspaceReceiver(
  subscription: Subscription,
  { collector, meter, logger, tracer, onWrite }: Received,
): Receiver {
  const { key, secret } = subscription;
  const names = webhookHeadersOf(subscription.headers);
  const verify = async (request: WebhookRequest) => {
    verifyAny(subscription, names, request);
    return { event: readName(request, names.eventType), deliveryId: readName(request, names.eventId) };
  };
  const matches: NonNullable<Receiver['sharedKey']>['matches'] = (headers) => {
    const given = headers[names.key];
    return typeof given === 'string' && key.filter((each) => isSameSecret(given, each)).length > 0;
  };
  // The workspace has changed in any case, also if its event could not be appended.
  const append: Collector['append'] = (delivery) => collector.append(delivery).finally(onWrite);
  return {
    ...{ meter, logger, tracer },
    name: WORKSPACE,
    secrets: [...key, ...secret],
    connector: { largestDelivery: LARGEST_EVENT, verify },
    source: 'workspace',
    sharedKey: { matches, isOnlyProof: secret.length === 0 },
    answerWithin: ANSWER_WITHIN,
    collector: { ...collector, append },
  };
}

/** Requires each kind that is configured to match one of its live values. Throws what `verifyWorkspaceWebhook` throws. */
function verifyAny(
  { key: keys, secret: secrets }: Subscription,
  names: WebhookHeaders,
  { headers, body }: WebhookRequest,
): void {
  const checks = [keys.map((key) => ({ key })), secrets.map((secret) => ({ secret }))];
  for (const candidates of checks) {
    const failures = candidates.flatMap((credentials) => {
      try {
        verifyWorkspaceWebhook(headers, body, credentials, names);
        return [];
      } catch (error) {
        return [error];
      }
    });
    if (candidates.length > 0 && failures.length === candidates.length) throw failures[0];
  }
}

function readName({ headers }: WebhookRequest, name: string): string {
  const value = headers[name];
  if (typeof value === 'string' && NAME.test(value)) return value;
  throw new SyncError('delivery_malformed', `the request has no usable ${name} header`);
}

/**
 * Creates the receivers for workspaces that another process owns. Every process over one database verifies and stores their
 * deliveries, because that needs no lease, and notifies the owner.
 */
export function createRemoteReceivers(
  daemon: DaemonContext,
  configured: () => readonly WorkspaceConfig[],
  notifications: Notifications,
): FindReceiver {
  // A reload creates new configurations, but the count of pending deliveries must outlive it.
  const collectors = new Map<string, Collector>();
  const created = new WeakMap<WorkspaceConfig, Receivers>();

  function receiversOf(config: WorkspaceConfig): Receivers {
    const { name } = config;
    const collector = collectors.get(name) ?? remoteCollector(daemon, name, () => notifications.notifyOwner(name));
    collectors.set(name, collector);
    const receivers = createReceivers(daemon, config, { ...observersOf(daemon, name), collector });
    created.set(config, receivers);
    return receivers;
  }

  return (name, connection) => {
    const config = configured().find((each) => each.name === name);
    return config && (created.get(config) ?? receiversOf(config)).get(connection);
  };
}

/** Creates a collector that opens the rows of the workspace with the first delivery, and tries again if that fails. */
function remoteCollector(
  { installation, clock, groupCommit }: DaemonContext,
  workspace: string,
  notifyOwner: () => void,
): Collector {
  let opened: Promise<Collector> | undefined;
  async function open(): Promise<Collector> {
    const store = await installation.store(workspace);
    return createCollector({ store, clock }, groupCommit, { notify: notifyOwner });
  }
  return {
    async append(delivery) {
      opened ??= open().catch((error: unknown) => {
        opened = undefined;
        throw error;
      });
      return (await opened).append(delivery);
    },
    isCrowded: groupCommit.isCrowded,
  };
}

/**
 * Records the time from which triage counts: when the first process was configured with it. Every process accepts webhooks from
 * then on, but the owner may open the workspace later. Items that changed in between would otherwise be too old for a task.
 * Never rejects.
 */
export async function recordTriageStart(
  workspaces: readonly WorkspaceConfig[],
  { installation, clock, logger }: DaemonContext,
): Promise<void> {
  const now = clock.now();
  const triaged = workspaces.filter(({ rules }) => rules.triage.length > 0);
  if (triaged.length === 0) return;
  const { query } = installation;
  const names = triaged.map(({ name }) => name);
  try {
    const numbers = await numbersOf(query, names);
    const wanted = triaged.map(({ connections }, index) => ({
      workspace: numbers[index] as number,
      connections: connections.map(({ name }) => name),
    }));
    await recordTriageStarts(query, wanted, now);
  } catch (error) {
    logger.error({ error }, 'triage is switched on only when its workspaces open');
  }
}
