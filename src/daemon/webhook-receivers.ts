// Design: src/decisions/replicas.md

import type { WebhookRequest } from '../connectors/connector.ts';
import { SyncError } from '../model/errors/sync-error.ts';
import type { WorkspaceConfig } from '../platform/config/schema.ts';
import { isSameSecret } from '../platform/lib/digest.ts';
import type { WakeSignal } from '../platform/lib/wake-signal.ts';
import { recordTriageStarts } from '../store/meta.ts';
import { WORKSPACE } from '../store/workspace-answers.ts';
import { numbersOf } from '../store/workspace-numbers.ts';
import { type Collector, createCollector } from '../sync/intake/append.ts';
import type { Receiver } from '../sync/intake/webhook-routes.ts';
import { verifyWorkspaceWebhook, type WebhookHeaders, webhookHeadersOf } from '../workspace-api/contract.ts';
import type { DaemonContext } from './daemon-context.ts';

/** The configured proofs of the workspace's own webhooks. Each has two values while one replaces the other. */
interface Subscription {
  readonly key: readonly string[];
  readonly secret: readonly string[];
  /** Prefix of the header names. */
  readonly headers: string;
}

interface ReceiverDeps extends Pick<Receiver, 'collector' | 'meter' | 'logger' | 'tracer'> {
  /** Called after each append of an event, also a failed one, because the workspace has changed in any case. */
  readonly onEvent: () => void;
}

/** Largest size of an event, bytes: a document with all its text, as JSON. */
const LARGEST_EVENT = 4 * 1024 * 1024;
/** Time to answer, milliseconds: the workspace waits 3 s. */
const ANSWER_WITHIN = 2_500;
const NAME = /^[A-Za-z0-9._:-]{1,200}$/;

/**
 * Creates the receiver of the workspace's own webhooks at `POST /webhooks/<workspace>/workspace` (W65). `GET` and `HEAD` there
 * verify the shared key.
 */
export function workspaceReceiver(subscription: Subscription, deps: ReceiverDeps): Receiver {
  const { collector, meter, logger, tracer, onEvent } = deps;
  const { key, secret } = subscription;
  const names = webhookHeadersOf(subscription.headers);
  const verify = async (request: WebhookRequest) => {
    verifyAny(subscription, names, request);
    return { event: readName(request, names.eventType), deliveryId: readName(request, names.eventId) };
  };
  const matchesKey: NonNullable<Receiver['sharedKey']>['matches'] = (headers) => {
    const given = headers[names.key];
    return typeof given === 'string' && key.filter((each) => isSameSecret(given, each)).length > 0;
  };
  return {
    active: {
      name: WORKSPACE,
      secrets: [...key, ...secret],
      connector: { largestDelivery: LARGEST_EVENT, verify },
    },
    source: 'workspace',
    sharedKey: { matches: matchesKey, isOnlyProof: secret.length === 0 },
    answerWithin: ANSWER_WITHIN,
    collector: {
      ...collector,
      append: (delivery) => collector.append(delivery).finally(onEvent),
    },
    meter,
    logger,
    tracer,
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

/** Returns the receiver for a connection of a workspace; undefined if none is configured. */
export type FindReceiver = (workspace: string, connection: string) => Receiver | undefined;

interface RemoteReceiversDeps {
  /** Returns the configured workspaces. */
  readonly configured: () => readonly WorkspaceConfig[];
  /** Notifies the process that owns the workspace of a new delivery. */
  readonly notifyOwner: (workspace: string) => void;
}

/**
 * Creates the receivers for workspaces that another process owns. Every process over one database verifies and stores their
 * deliveries, because that needs no lease, and notifies the owner.
 */
export function createRemoteReceivers(
  daemon: DaemonContext,
  { configured, notifyOwner }: RemoteReceiversDeps,
): FindReceiver {
  const collectors = new Map<string, Collector>();

  function collectorOf(workspace: string): Collector {
    const existing = collectors.get(workspace);
    if (existing) return existing;
    const created = remoteCollector(daemon, workspace, () => notifyOwner(workspace));
    collectors.set(workspace, created);
    return created;
  }

  return (name, connectionName) => {
    const workspace = configured().find((each) => each.name === name);
    if (!workspace) return undefined;
    const received = {
      collector: collectorOf(name),
      meter: daemon.metrics.forWorkspace(name),
      logger: daemon.logger.child({ workspace: name }),
      tracer: daemon.tracer?.child({ 'worksync.workspace': name }),
    };
    const { webhook } = workspace.workspace;
    if (connectionName === WORKSPACE)
      return webhook && workspaceReceiver(webhook, { ...received, onEvent: () => undefined });
    const connection = workspace.connections.find((each) => each.name === connectionName);
    const connector = daemon.connectors.find(({ id }) => id === connection?.connector);
    if (!connection || !connector) return undefined;
    return { active: { name: connection.name, secrets: connection.webhookSecrets, connector }, ...received };
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
    const wakeSignal: WakeSignal = { notify: notifyOwner, wait: () => new Promise<void>(() => undefined) };
    return createCollector({ store, clock, groupCommit, wakeSignal });
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
  { installation, clock, logger }: Pick<DaemonContext, 'installation' | 'clock' | 'logger'>,
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
