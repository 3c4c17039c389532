import type { WebhookRequest } from '../connectors/connector.ts';
import { SyncError } from '../model/errors/sync-error.ts';
import type { Logger } from '../platform/lib/logger.ts';
import type { Meter } from '../platform/lib/meter.ts';
import { isSameSecret } from '../platform/lib/same-secret.ts';
import type { Tracer } from '../platform/lib/tracer.ts';
import { WORKSPACE } from '../store/workspace-answers.ts';
import type { Collector } from '../sync/intake/append.ts';
import type { Receiver } from '../sync/intake/webhook-routes.ts';
import { verifyWorkspaceWebhook, type WebhookHeaders, webhookHeadersOf } from '../workspace-api/contract.ts';

/** The subscription to the workspace's own webhooks. Of each value there are two while one replaces the other. */
interface Subscription {
  readonly key: readonly string[];
  readonly secret: readonly string[];
  /** Prefix of the header names. */
  readonly headers: string;
}

export interface ReceiverParts {
  readonly collector: Collector;
  readonly meter: Meter;
  readonly logger: Logger;
  readonly tracer?: Tracer;
  /** Called after an event was appended, because the workspace has changed. */
  readonly onEvent: () => void;
}

/** A document with all its text, as JSON, bytes. */
const LARGEST_EVENT = 4 * 1024 * 1024;
/** The workspace waits 3 s for an answer, milliseconds. */
const ANSWER_WITHIN = 2_500;
const NAME = /^[A-Za-z0-9._:-]{1,200}$/;

/**
 * Receives the workspace's own webhooks at `POST /webhooks/<workspace>/workspace` (W65). `GET` and `HEAD` there verify the
 * shared key.
 */
export function workspaceReceiver(subscription: Subscription, parts: ReceiverParts): Receiver {
  const { collector, meter, logger, tracer, onEvent } = parts;
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

/**
 * Requires each kind that is configured to match one of its live values. Throws what `verifyWorkspaceWebhook` throws.
 */
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
