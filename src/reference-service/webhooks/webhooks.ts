import { isPrivateHost } from '../../platform/http/private-ranges.ts';
import { LIMITS, ROUTES } from '../../workspace-api/contract.ts';
import { ApiError, invalid, notFound } from '../http/api-error.ts';
import type { Call, Service } from '../http/call.ts';
import { newId, type Row, shownBy, timeNow, writeStrings } from '../storage/rows.ts';
import type { Write } from '../storage/transactions.ts';

/** The last attempt for a subscription, as stored in its row. */
export type LastDelivery = {
  readonly eventId: string;
  readonly type: string;
  readonly at: string;
  readonly retryNum: number;
  /** Null without an answer. */
  readonly status: number | null;
  /** The reason of the failure; null for a success. */
  readonly error: string | null;
};

export const webhookHandlers = { listWebhooks, createWebhook, deleteWebhook };

/** The place that a sealed text of a subscription is bound to. */
export function webhookPlace(webhookId: string, column: 'key' | 'secret'): string {
  return `webhook:${webhookId}:${column}`;
}

const shown = shownBy(ROUTES.createWebhook);

/** Without key and secret, which are shown once and stored encrypted. */
function webhookOf(row: Row<'webhooks'>) {
  return shown({ ...row, last_delivery: row.last_delivery && (JSON.parse(row.last_delivery) as LastDelivery) });
}

async function listWebhooks(service: Service, { workspaceId }: Call<'listWebhooks'>) {
  const rows = await service.database.query
    .selectFrom('webhooks')
    .selectAll()
    .where('workspace_id', '=', workspaceId)
    .orderBy('seq', 'desc')
    .execute();
  return { webhooks: rows.map(webhookOf) };
}

const SECRET_BYTES = 32;

async function createWebhook(service: Service, { workspaceId, caller, body }: Call<'createWebhook'>) {
  checkWebhookTarget(body.url, service.allowPrivateWebhooks);
  const webhookId = newId(service.random, 'whk');
  const key = `whk_${service.random.bytes(SECRET_BYTES).toString('base64url')}`;
  const secret = `whs_${service.random.bytes(SECRET_BYTES).toString('base64url')}`;
  const row: Row<'webhooks'> = {
    webhook_id: webhookId,
    workspace_id: workspaceId,
    url: body.url,
    events: writeStrings([...new Set(body.events)]),
    sealed_key: service.secrets.seal(key, webhookPlace(webhookId, 'key')),
    sealed_secret: service.secrets.seal(secret, webhookPlace(webhookId, 'secret')),
    created_by_user_id: caller.userId,
    created_at: timeNow(service.clock),
    active: 1,
    failures: 0,
    last_delivery: null,
  };
  await service.commits.run(async (write) => {
    await refuseTooMany(write, workspaceId);
    await write.insertInto('webhooks').values(row).execute();
  });
  // The literal service does not sign, so a secret would mislead.
  return { ...webhookOf(row), key, ...(!service.variant.isLiteral && { secret }) };
}

/** Each change is sent to every subscription, so their number is bounded. */
async function refuseTooMany(write: Write, workspaceId: string): Promise<void> {
  const { present } = await write
    .selectFrom('webhooks')
    .select((expression) => expression.fn.countAll<number>().as('present'))
    .where('workspace_id', '=', workspaceId)
    .executeTakeFirstOrThrow();
  if (present < LIMITS.webhooks) return;
  throw new ApiError('conflict', `a workspace has at most ${LIMITS.webhooks} webhook subscriptions`);
}

/** Deletes a subscription with its pending deliveries. */
async function deleteWebhook(service: Service, { workspaceId, ids }: Call<'deleteWebhook'>): Promise<undefined> {
  await service.commits.run(async (write) => {
    const deleted = await write
      .deleteFrom('webhooks')
      .where('workspace_id', '=', workspaceId)
      .where('webhook_id', '=', ids.webhookId)
      .executeTakeFirst();
    if (deleted.numDeletedRows === 0n) throw notFound('webhook');
    await dropDeliveries(write, ids.webhookId);
  });
}

/** Deletes the pending deliveries of a subscription, and the events without another delivery. */
export async function dropDeliveries(write: Write, webhookId: string): Promise<void> {
  await write.deleteFrom('webhook_deliveries').where('webhook_id', '=', webhookId).execute();
  await write
    .deleteFrom('webhook_events')
    .where(({ not, exists, selectFrom }) =>
      not(
        exists(
          selectFrom('webhook_deliveries')
            .select('seq')
            .whereRef('webhook_deliveries.event_id', '=', 'webhook_events.event_id'),
        ),
      ),
    )
    .execute();
}

/** Which addresses may be subscribed. What their names resolve to is checked once more when they are called. Throws 400. */
function checkWebhookTarget(url: string, allowPrivate: boolean): void {
  const { username, password } = new URL(url);
  if (username !== '' || password !== '') throw invalid('url: must hold no user name and no password');
  if (!allowPrivate && isPrivateHost(url)) throw invalid('url: must not lead to a private address');
}
