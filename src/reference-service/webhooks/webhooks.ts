import { asSyncError } from '../../model/errors.ts';
import { isPrivateHost } from '../../platform/http/addresses.ts';
import { type HttpClient, isSuccess } from '../../platform/http/http-client.ts';
import type { Cancel } from '../../platform/lib/clock.ts';
import type { Stage } from '../../platform/lib/scheduler.ts';
import { LIMITS, ROUTES, signWebhook, webhookHeadersOf } from '../../workspace-api/contract.ts';
import { ApiError, invalid, notFound } from '../http/api-error.ts';
import type { Call, Service } from '../http/call.ts';
import { newId, type Row, shownBy, timeNow, writeStrings } from '../storage/rows.ts';
import type { Write } from '../storage/transactions.ts';

/** The last attempt for a subscription, as stored in its row. */
type LastDelivery = {
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
function webhookPlace(webhookId: string, column: 'key' | 'secret'): string {
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
async function dropDeliveries(write: Write, webhookId: string): Promise<void> {
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

/** Pause before each further attempt, milliseconds (W65): at once, after 1 and after 5 minutes; then it is given up. */
const PAUSES = [0, 60_000, 300_000] as const;
/** Subscriptions that are served at the same time. */
const MOST_AT_ONCE = 16;
/** Milliseconds of the pause after a failure of the service itself, such as of its disk, which counts as no attempt. */
const AFTER_FAULT = 5_000;
const LARGEST_ANSWER = 65_536;

/**
 * Delivers the events of the outbox. One request per subscription at a time, the oldest event that is due first: the
 * order is kept as long as the receiver accepts each event. A row ends with the commit after the answer, so a kill
 * before it sends the same event once more, under the same id: at least once.
 *
 * @param http gives up after 3 s; refuses private addresses unless they are allowed
 */
export function createWebhookDelivery(service: Service, http: HttpClient): Stage {
  const { clock, logger, wakeSignal } = service;
  const busy = new Map<string, Promise<void>>();
  let cancel: Cancel = () => undefined;
  let stopping = false;
  let running: Promise<void> | undefined;

  const serveDue = async () => {
    cancel();
    const now = clock.now();
    const waiting = (await dueTimes(service)).filter(({ webhook_id }) => !busy.has(webhook_id));
    for (const { webhook_id } of waiting.filter(({ due_at }) => due_at <= now)) {
      if (stopping || busy.size >= MOST_AT_ONCE) return;
      busy.set(webhook_id, serve(webhook_id));
    }
    const next = waiting.find(({ due_at }) => due_at > now);
    if (next) wakeAfter(next.due_at - now);
  };

  const wakeAfter = (pause: number) => {
    cancel = clock.after(pause, () => wakeSignal.notify());
  };

  /** Delivers what is due for one subscription. */
  const serve = async (webhookId: string) => {
    try {
      for (;;) {
        const due = stopping ? undefined : await nextDue(service, webhookId);
        if (due === undefined) break;
        await settle(service, due, await attempt(service, http, due));
      }
      busy.delete(webhookId);
      wakeSignal.notify();
    } catch (error) {
      logger.error({ err: error, webhookId }, 'an error of this service stopped the delivery of a webhook');
      clock.after(AFTER_FAULT, () => {
        busy.delete(webhookId);
        wakeSignal.notify();
      });
    }
  };

  const run = async () => {
    while (!stopping) {
      try {
        await serveDue();
      } catch (error) {
        logger.error({ err: error }, 'the outbox of webhooks could not be read');
        wakeAfter(AFTER_FAULT);
      }
      await wakeSignal.wait();
    }
    cancel();
    await Promise.all(busy.values());
  };

  return {
    start() {
      running ??= run();
    },
    async stop() {
      stopping = true;
      wakeSignal.notify();
      await running;
    },
  };
}

/** Returns the subscriptions with pending deliveries and their earliest due times, in the order of these times. */
function dueTimes({ database }: Service) {
  return database.query
    .selectFrom('webhook_deliveries')
    .select(['webhook_id', (row) => row.fn.min<number>('due_at').as('due_at')])
    .groupBy('webhook_id')
    .orderBy('due_at')
    .execute();
}

type Due = NonNullable<Awaited<ReturnType<typeof nextDue>>>;

function nextDue({ database, clock }: Service, webhookId: string) {
  return database.query
    .selectFrom('webhook_deliveries as delivery')
    .innerJoin('webhook_events as event', 'event.event_id', 'delivery.event_id')
    .innerJoin('webhooks as webhook', 'webhook.webhook_id', 'delivery.webhook_id')
    .select(['delivery.seq', 'delivery.webhook_id', 'delivery.event_id', 'delivery.attempts', 'event.type'])
    .select(['event.body', 'webhook.url', 'webhook.sealed_key', 'webhook.sealed_secret'])
    .where('delivery.webhook_id', '=', webhookId)
    .where('delivery.due_at', '<=', clock.now())
    .orderBy('delivery.seq')
    .limit(1)
    .executeTakeFirst();
}

type Outcome = Pick<LastDelivery, 'status' | 'error'>;

async function attempt({ secrets, variant }: Service, http: HttpClient, due: Due): Promise<Outcome> {
  const secret = secrets.open(due.sealed_secret, webhookPlace(due.webhook_id, 'secret'));
  const names = webhookHeadersOf(variant.headerPrefix);
  const headers = {
    'content-type': `application/cloudevents+json${variant.isLiteral ? '; charset=utf-8' : ''}`,
    'user-agent': 'worksync-workspace-service',
    [names.eventId]: due.event_id,
    [names.eventType]: due.type,
    [names.retry]: String(due.attempts),
    [names.key]: secrets.open(due.sealed_key, webhookPlace(due.webhook_id, 'key')),
    ...(!variant.isLiteral && { [names.signature]: signWebhook(due.body, secret) }),
  };
  const request = { method: 'POST', url: due.url, headers, body: due.body, target: 'webhook' } as const;
  try {
    const { status } = await http.request({ ...request, largestAnswer: LARGEST_ANSWER });
    const taken = isSuccess(status);
    return { status, error: taken ? null : 'refused' };
  } catch (error) {
    return { status: null, error: asSyncError(error).code };
  }
}

const GONE = 410;

async function settle({ commits, clock }: Service, due: Due, outcome: Outcome): Promise<void> {
  const now = clock.now();
  const pause = PAUSES[due.attempts];
  const last: LastDelivery = {
    eventId: due.event_id,
    type: due.type,
    at: new Date(now).toISOString(),
    retryNum: due.attempts,
    ...outcome,
  };
  await commits.run(async (write) => {
    const change = write.updateTable('webhooks').where('webhook_id', '=', due.webhook_id);
    await change.set({ last_delivery: JSON.stringify(last) }).execute();
    // The receiver says that it is gone for good (RFC 9110, 410): nothing more is sent there.
    if (outcome.status === GONE) {
      await change.set({ active: 0 }).execute();
      return dropDeliveries(write, due.webhook_id);
    }
    if (outcome.error === null) return endDelivery(write, due);
    if (pause === undefined) {
      await change.set((row) => ({ failures: row('failures', '+', 1) })).execute();
      return endDelivery(write, due);
    }
    await write
      .updateTable('webhook_deliveries')
      .set({ attempts: due.attempts + 1, due_at: now + pause })
      .where('seq', '=', due.seq)
      .execute();
  });
}

async function endDelivery(write: Write, due: Due): Promise<void> {
  await write.deleteFrom('webhook_deliveries').where('seq', '=', due.seq).execute();
  const elsewhere = await write
    .selectFrom('webhook_deliveries')
    .select('seq')
    .where('event_id', '=', due.event_id)
    .limit(1)
    .executeTakeFirst();
  if (elsewhere === undefined) await write.deleteFrom('webhook_events').where('event_id', '=', due.event_id).execute();
}
