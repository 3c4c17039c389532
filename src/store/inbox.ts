import type { Delivery, DeliveryState } from '../model/delivery.ts';
import { unpackBody } from './bodies.ts';
import type { Query } from './database.ts';

export interface PendingDelivery extends Delivery {
  readonly attempts: number;
}

/** Oldest first, at most `most` rows and about `mostBytes` of bodies, but always at least one. */
export async function pendingDeliveries(query: Query, most: number, mostBytes: number): Promise<PendingDelivery[]> {
  const sizes = await query
    .selectFrom('inbox')
    .select(({ fn }) => ['id', fn.coalesce('unpacked_length', fn<number>('length', ['body'])).as('bytes')])
    .where('state', '=', 'pending')
    .orderBy('id')
    .limit(most)
    .execute();
  const ids = prefixWithin(sizes, mostBytes);
  if (ids.length === 0) return [];
  const rows = await query
    .selectFrom('inbox')
    .select(['id', 'connection', 'source', 'event', 'body', 'unpacked_length', 'received_at', 'attempts'])
    .where('id', 'in', ids)
    .orderBy('id')
    .execute();
  return rows.map(({ received_at, body, unpacked_length, ...row }) => ({
    ...row,
    receivedAt: received_at,
    // Unpacked when it is translated, so that a damaged body is the fault of its delivery alone.
    get body() {
      return body === null ? EMPTY : unpackBody({ body, unpacked_length });
    },
  }));
}

const EMPTY = Buffer.alloc(0);

function prefixWithin(sizes: readonly { id: number; bytes: number | null }[], mostBytes: number): number[] {
  const ids: number[] = [];
  let bytes = 0;
  for (const row of sizes) {
    bytes += row.bytes ?? 0;
    if (ids.length > 0 && bytes > mostBytes) break;
    ids.push(row.id);
  }
  return ids;
}

export interface Verdict {
  readonly id: number;
  readonly state: Exclude<DeliveryState, 'pending'>;
  readonly reason?: string;
}

/** Moves deliveries to their end. Rows of one state and reason go in one statement. */
export async function settleDeliveries(query: Query, verdicts: readonly Verdict[], now: number): Promise<void> {
  const groups = Map.groupBy(verdicts, ({ state, reason }) => `${state} ${reason ?? ''}`);
  for (const group of groups.values()) {
    const { state, reason } = group[0] as Verdict;
    await query
      .updateTable('inbox')
      .set({ state, reason: reason ?? null, settled_at: now })
      .where(
        'id',
        'in',
        group.map(({ id }) => id),
      )
      .execute();
  }
}

export async function countAttempt(query: Query, ids: readonly number[]): Promise<void> {
  await query
    .updateTable('inbox')
    .set(({ eb }) => ({ attempts: eb('attempts', '+', 1) }))
    .where('id', 'in', ids)
    .execute();
}

/** A delivery as people are told of it. */
export interface ToldDelivery {
  readonly id: number;
  readonly connection: string;
  readonly source: Delivery['source'];
  readonly event: string;
  /** The vendor's delivery id, or the hash of its bytes. */
  readonly key: string;
  /** Epoch milliseconds. */
  readonly receivedAt: number;
}

/** Undefined once it has been purged. */
export async function findDelivery(query: Query, id: number): Promise<ToldDelivery | undefined> {
  return query
    .selectFrom('inbox')
    .select(['id', 'connection', 'source', 'event', 'delivery_key as key', 'received_at as receivedAt'])
    .where('id', '=', id)
    .executeTakeFirst();
}
