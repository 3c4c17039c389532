import type { WebhookEventType } from '../../workspace-api/contract.ts';
import type { Caller } from '../access/caller-rights.ts';
import { newId, readStrings, timeNow } from '../storage/rows.ts';
import type { Foundation, Write } from '../storage/transactions.ts';

/** One change, to be sent to the subscribers (W64, W65). */
interface ServiceEvent {
  readonly type: WebhookEventType;
  readonly workspaceId: string;
  /** The author of the change. */
  readonly caller: Pick<Caller, 'kind' | 'credentialId' | 'userId'>;
  /** The ids of the resource and of its parents. */
  readonly resource: { readonly id: string } & Readonly<Record<string, string | null>>;
  /** The resource as the API returns it, after the change; a deleted one as it was. */
  readonly body: object;
}

export type Events = ReturnType<typeof createEvents>;

/**
 * The outbox of webhooks. An event is written in the transaction of its change, so that both are stored, or neither. Without
 * subscribers, nothing is written.
 */
export function createEvents({ clock, random, wakeSignal, variant }: Foundation) {
  const subscriptionsOf = subscriptionReader();
  const describe = variant.isLiteral ? publicCloudEvent : cloudEvent;
  return {
    async record(write: Write, event: ServiceEvent): Promise<void> {
      // No public payload has a pull request.
      if (variant.isLiteral && event.type.startsWith('pull_request.')) return;
      const subscriptions = await subscriptionsOf(write, event.workspaceId);
      const subscribers = subscriptions
        .filter(({ events }) => events === '[]' || readStrings(events).includes(event.type))
        .map((row) => row.webhook_id);
      if (subscribers.length === 0) return;
      const eventId = newId(random, 'evt');
      const body = JSON.stringify(describe(eventId, event, timeNow(clock)));
      await write.insertInto('webhook_events').values({ event_id: eventId, type: event.type, body }).execute();
      await queue(write, eventId, subscribers, clock.now());
      wakeSignal.notify();
    },
  };
}

/** A subscription that ended in this transaction gets no more events. */
async function queue(write: Write, eventId: string, subscribers: readonly string[], due: number): Promise<void> {
  await write
    .insertInto('webhook_deliveries')
    .columns(['webhook_id', 'event_id', 'attempts', 'due_at'])
    .expression((row) =>
      row
        .selectFrom('webhooks')
        .select(['webhook_id', row.val(eventId).as('event_id'), row.val(0).as('attempts'), row.val(due).as('due_at')])
        .where('webhook_id', 'in', subscribers)
        .where('active', '=', 1)
        .orderBy('seq'),
    )
    .execute();
}

type Subscription = { readonly webhook_id: string; readonly events: string };

/**
 * Reads a workspace's subscriptions once in a transaction, however many writes share it: a subscription that was answered before
 * a write is in a later transaction.
 */
function subscriptionReader() {
  const read = new WeakMap<Write, Map<string, Promise<Subscription[]>>>();
  return (write: Write, workspaceId: string): Promise<Subscription[]> => {
    const known = read.get(write) ?? new Map<string, Promise<Subscription[]>>();
    read.set(write, known);
    const found = known.get(workspaceId) ?? readSubscriptions(write, workspaceId);
    known.set(workspaceId, found);
    return found;
  };
}

function readSubscriptions(write: Write, workspaceId: string): Promise<Subscription[]> {
  return write
    .selectFrom('webhooks')
    .select(['webhook_id', 'events'])
    .where('workspace_id', '=', workspaceId)
    .where('active', '=', 1)
    .orderBy('seq')
    .execute();
}

/** CloudEvents 1.0, structured JSON. `data` holds the resource under the name that is its `type`. */
function cloudEvent(id: string, event: ServiceEvent, time: string) {
  const kind = kindOf(event);
  const { resource, body } = event;
  return {
    ...envelope(id, event, time),
    source: `/workspaces/${event.workspaceId}`,
    data: { resource: { type: kind, ...resource }, actor: actorOf(event.caller), [kind]: body },
  };
}

/**
 * The public form (W75): the resource has a name in camelCase, and `data.resource` names the resource, its workspace and its
 * task.
 */
function publicCloudEvent(id: string, event: ServiceEvent, time: string) {
  const name = kindOf(event).replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase());
  const { workspaceId, resource, body } = event;
  return {
    ...envelope(id, event, time),
    source: `workspaces/${workspaceId}`,
    data: {
      resource: { type: name, workspaceId, ...resource, [`${name}Id`]: resource.id },
      actor: actorOf(event.caller),
      [name]: body,
    },
  };
}

function envelope(id: string, event: ServiceEvent, time: string) {
  return {
    specversion: '1.0',
    id,
    type: event.type,
    subject: `${kindOf(event)}/${event.resource.id}`,
    time,
    datacontenttype: 'application/json',
    workspaceid: event.workspaceId,
  };
}

function kindOf({ type }: ServiceEvent): string {
  return type.split('.', 1)[0]!;
}

function actorOf({ kind, credentialId, userId }: ServiceEvent['caller']) {
  return kind === 'key' ? { type: 'api_key', id: credentialId } : { type: 'user', id: userId };
}
