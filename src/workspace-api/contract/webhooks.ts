import { z } from 'zod';
import { answered, listOf, openEnum, type Route, sent } from './route.ts';

/** Kinds of events (W65). */
const WEBHOOK_EVENTS = [
  'task.created',
  'task.updated',
  'document.created',
  'document.updated',
  'document.deleted',
  'work_item.created',
  'work_item.deleted',
  'pull_request.created',
  'pull_request.updated',
] as const;

export type WebhookEventType = (typeof WEBHOOK_EVENTS)[number];

/** The last attempt: `status` is null where no answer came, and `error` then says why. */
const lastDelivery = z.looseObject({
  eventId: answered.string,
  type: openEnum(WEBHOOK_EVENTS),
  at: answered.time,
  retryNum: z.int().catch(0),
  status: z.int().nullable().catch(null),
  error: answered.text,
});

/** W65. `events` empty: all. `failures`: events that were given up; `active` is false once the address answered 410. */
const webhook = z
  .looseObject({
    webhookId: answered.id,
    workspaceId: answered.string,
    url: answered.string,
    events: z.array(openEnum(WEBHOOK_EVENTS)).catch([]),
    active: z.boolean().catch(true),
    createdAt: answered.time,
    failures: z.int().catch(0),
    lastDelivery: lastDelivery.nullable().catch(null),
  })
  .meta({ id: 'Webhook' });

const newWebhook = z
  .object({ url: sent.url, events: z.array(z.enum(WEBHOOK_EVENTS)).max(WEBHOOK_EVENTS.length).optional() })
  .meta({ id: 'NewWebhook' });

export const webhookRoutes = {
  /** W64, W65. `{webhooks}` without secrets, newest first. OAuth token of an owner or admin. */
  listWebhooks: {
    method: 'GET',
    path: '/workspaces/{workspaceId}/webhooks',
    summary: 'List webhook subscriptions',
    rules: 'W64, W65',
    access: 'admin',
    response: listOf('webhooks', webhook, ['webhookId'], {}),
  },
  /**
   * W64, W65. The subscription with its one-time `key` (sent as `X-Service-Webhook-Key`) and `secret` (signs
   * `X-Service-Signature`; absent if the service does not sign). Errors: 400 for an address that may not be called, 409 at 20
   * subscriptions.
   */
  createWebhook: {
    method: 'POST',
    path: '/workspaces/{workspaceId}/webhooks',
    summary: 'Subscribe to events',
    rules: 'W64, W65',
    access: 'admin',
    body: newWebhook,
    response: webhook.extend({ key: z.string(), secret: z.string().optional() }),
    secrets: ['key', 'secret'],
  },
  /** W65. 204; what waits for it is dropped. Errors: 404. */
  deleteWebhook: {
    method: 'DELETE',
    path: '/workspaces/{workspaceId}/webhooks/{webhookId}',
    summary: 'End a subscription',
    rules: 'W65',
    access: 'admin',
  },
} as const satisfies Record<string, Route>;
