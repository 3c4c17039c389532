import type { WebhookRequest } from '../connectors/connector.ts';
import { SyncError } from '../errors/sync-error.ts';
import type { Collector } from '../intake/collector.ts';
import type { Receiver } from '../intake/webhook-routes.ts';
import type { Logger } from '../lib/logger.ts';
import type { Meter } from '../lib/meter.ts';
import type { Tracer } from '../lib/tracer.ts';
import { WORKSPACE } from '../store/workspace-answers.ts';
import { verifyWorkspaceWebhook, WEBHOOK_HEADERS } from '../workspace/contract.ts';

/** Live values of a subscription to the workspace's own webhooks; of each two while one replaces the other. */
interface Subscription {
  readonly key: readonly string[];
  readonly secret: readonly string[];
}

export interface ReceiverParts {
  readonly collector: Collector;
  readonly meter: Meter;
  readonly logger: Logger;
  readonly tracer?: Tracer;
  /** Called when something was appended: somebody changed the workspace. */
  readonly onEvent: () => void;
}

/** A document with all its text, as JSON, bytes. */
const LARGEST_EVENT = 4 * 1024 * 1024;
const NAME = /^[A-Za-z0-9._:-]{1,200}$/;

/** Where the workspace's own webhooks go: `POST /webhooks/<workspace>/workspace` (W65). */
export function workspaceReceiver(subscription: Subscription, parts: ReceiverParts): Receiver {
  const { collector, meter, logger, tracer, onEvent } = parts;
  const verify = async (request: WebhookRequest) => {
    verifyAny(subscription, request);
    return {
      event: readName(request, WEBHOOK_HEADERS.eventType),
      deliveryId: readName(request, WEBHOOK_HEADERS.eventId),
    };
  };
  return {
    active: {
      name: WORKSPACE,
      secrets: [...subscription.key, ...subscription.secret],
      connector: { largestDelivery: LARGEST_EVENT, verify },
    },
    source: 'workspace',
    collector: {
      ...collector,
      append: (delivery) => collector.append(delivery).finally(onEvent),
    },
    meter,
    logger,
    tracer,
  };
}

/** Whatever kind is configured must be right, by one of its live values. Throws what `verifyWorkspaceWebhook` throws. */
function verifyAny({ key: keys, secret: secrets }: Subscription, { headers, body }: WebhookRequest): void {
  const checks = [keys.map((key) => ({ key })), secrets.map((secret) => ({ secret }))];
  for (const candidates of checks) {
    const failures = candidates.flatMap((credentials) => {
      try {
        verifyWorkspaceWebhook(headers, body, credentials);
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
