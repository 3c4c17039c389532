import type { Translation } from '../../connectors/connector.ts';
import { asSyncError } from '../../model/errors.ts';
import type { Item } from '../../model/item.ts';
import { LARGE } from '../../platform/lib/concurrency.ts';
import type { ListedDelivery } from '../../store/deliveries/find-deliveries.ts';
import { type StoredBody, unpackBody } from '../../store/deliveries/inbox.ts';
import { type Answer, readAnswer } from '../../store/workspace/workspace-reads.ts';
import type { ReconcileConnection, ReconcileConnections } from '../../sync/reconcile/context.ts';
import { translateEvent } from '../../sync/reconcile/workspace-events.ts';

/** The content of a stored delivery, read again from its body with the present connectors and options. */
export type ReadDelivery =
  | { readonly outcome: 'items'; readonly items: readonly Item[]; readonly references: readonly string[] }
  | { readonly outcome: 'answer'; readonly answer: Answer }
  | { readonly outcome: 'ignored'; readonly reason: string }
  | { readonly outcome: 'failed'; readonly code: string; readonly message: string };

type Stored = Pick<ListedDelivery, 'id' | 'connection' | 'source' | 'event' | 'receivedAt' | 'state' | 'attempts'>;

/** Changes nothing. Never rejects. */
export async function readDelivery(
  sources: ReconcileConnections,
  delivery: Stored,
  stored: StoredBody,
): Promise<ReadDelivery> {
  try {
    if (delivery.source === 'answer') return { outcome: 'answer', answer: readAnswer(unpackBody(stored)) };
    if (delivery.source === 'workspace') return readEvent(delivery, stored);
    const connection = sources.get(delivery.connection);
    if (connection) return contentOf(await translate(connection.inspection ?? connection, delivery, stored));
    return failed('connection_unknown', `no connection "${delivery.connection}" is configured any more`);
  } catch (error) {
    const { code, message } = asSyncError(error);
    return failed(code, message);
  }
}

function failed(code: string, message: string): ReadDelivery {
  return { outcome: 'failed', code, message };
}

function readEvent(delivery: Stored, stored: StoredBody): ReadDelivery {
  const event = translateEvent({ ...delivery, body: unpackBody(stored) });
  return event.outcome === 'answer' ? event : contentOf(event);
}

/** A large body, or one that failed before, is read in another thread within a budget. */
async function translate(
  { translate: atOnce, worker }: Pick<ReconcileConnection, 'translate' | 'worker'>,
  delivery: Stored,
  stored: StoredBody,
): Promise<Translation> {
  const bytes = stored.unpacked_length ?? stored.body.length;
  const isSuspect = delivery.attempts > 0 || delivery.state === 'quarantined';
  if (worker && (bytes > LARGE || isSuspect)) return worker.translate({ ...delivery, stored });
  return atOnce({ ...delivery, body: unpackBody(stored) });
}

function contentOf(translation: Translation): ReadDelivery {
  if (translation.outcome === 'ignored') return translation;
  const references = (translation.references ?? []).map(({ key }) => key);
  const items = translation.outcome === 'items' ? translation.items : (translation.partialItems ?? []);
  return { outcome: 'items', items, references };
}

/** Returns the keys of the items that it contains or refers to, each once. */
export function keysIn(read: ReadDelivery): readonly string[] {
  if (read.outcome !== 'items') return [];
  return [...new Set([...read.items.map(({ key }) => key), ...read.references])];
}
