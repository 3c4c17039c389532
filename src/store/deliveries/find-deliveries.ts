import { sql } from 'kysely';
import type { DeliveryOrigin, DeliveryState } from '../../model/delivery.ts';
import { chunksOf } from '../../platform/lib/concurrency.ts';
import { CHUNK_SIZE, changedRows, changeKeysInChunks, type Scope, type Store } from '../workspace-scope.ts';
import { REPLAYED } from './inbox.ts';

/** The deliveries to find. An absent property does not filter. */
export interface DeliveryFilter {
  readonly states?: readonly DeliveryState[];
  readonly connection?: string;
  readonly sources?: readonly DeliveryOrigin[];
}

/** The position of a delivery in the order of receipt. */
export interface DeliveryPosition {
  /** Epoch milliseconds. */
  readonly at: number;
  readonly id: number;
}

/**
 * The columns of a delivery without its body. The key is the vendor's delivery id, or the hash of its bytes. Times are epoch
 * milliseconds; a pending delivery was not settled yet.
 */
const COLUMNS = [
  ...(['id', 'connection', 'source', 'event', 'delivery_key as key', 'state', 'reason', 'attempts'] as const),
  ...(['received_at as receivedAt', 'settled_at as settledAt'] as const),
] as const;

export type ListedDelivery = Awaited<ReturnType<typeof deliveriesByKey>>[number];

/** Returns the deliveries with these ids, the newest first. */
export async function deliveriesByIds(query: Scope, ids: readonly number[]): Promise<ListedDelivery[]> {
  const newestFirst = query.selectFrom('inbox').select(COLUMNS).orderBy('id', 'desc');
  const found: ListedDelivery[] = [];
  for (const some of chunksOf(
    [...new Set(ids)].sort((a, b) => b - a),
    CHUNK_SIZE,
  ))
    found.push(...(await newestFirst.where('id', 'in', some).execute()));
  return found;
}

/** Returns the deliveries with this key. Several connections may receive a delivery with the same vendor id. */
export async function deliveriesByKey(query: Scope, connections: readonly string[], key: string) {
  const ofConnections = query.selectFrom('inbox').select(COLUMNS).where('connection', 'in', connections);
  return ofConnections.where('delivery_key', '=', key).execute();
}

/** Returns at most `most` delivery keys of a connection that begin with the prefix. */
export async function keysWithPrefix(
  query: Scope,
  connection: string,
  prefix: string,
  most: number,
): Promise<string[]> {
  const rows = await query
    .selectFrom('inbox')
    .select('delivery_key')
    .where('connection', '=', connection)
    .where('delivery_key', '>=', prefix)
    .where('delivery_key', '<', `${prefix}\uffff`)
    .orderBy('delivery_key')
    .limit(most)
    .execute();
  return rows.map((row) => row.delivery_key);
}

/** Returns the ids of the deliveries that were received last. */
export async function latestDeliveryIds(query: Scope, most: number): Promise<number[]> {
  const rows = await received(query, {}).select('id').limit(most).execute();
  return rows.map(({ id }) => id);
}

export async function deliveryPosition(query: Scope, id: number): Promise<DeliveryPosition | undefined> {
  return query.selectFrom('inbox').select(['id', 'received_at as at']).where('id', '=', id).executeTakeFirst();
}

/** A range of deliveries. An absent bound does not limit the range. */
interface DeliveryRange {
  /** Only deliveries older than this one. */
  readonly before?: DeliveryPosition | undefined;
  /** This delivery and newer ones. */
  readonly end?: DeliveryPosition | undefined;
}

/** Selects the deliveries of a range, the newest first, by the index of receipt. */
function received(query: Scope, { before, end }: DeliveryRange) {
  return query
    .selectFrom('inbox')
    .$if(before !== undefined, (inbox) => {
      const { at, id } = before as DeliveryPosition;
      return inbox
        .where('received_at', '<=', at)
        .where(({ eb, or }) => or([eb('received_at', '<', at), eb('id', '<', id)]));
    })
    .$if(end !== undefined, (inbox) => {
      const { at, id } = end as DeliveryPosition;
      return inbox
        .where('received_at', '>=', at)
        .where(({ eb, or }) => or([eb('received_at', '>', at), eb('id', '>=', id)]));
    })
    .orderBy('received_at', 'desc')
    .orderBy('id', 'desc');
}

/** Like `received`, for a state with its own index, so that the cost does not depend on deliveries in other states. */
function inState(state: 'pending' | 'quarantined') {
  return (query: Scope, { before, end }: DeliveryRange) =>
    query
      .selectFrom('inbox')
      .where('state', '=', sql.lit(state))
      .$if(before !== undefined, (inbox) => inbox.where('id', '<', (before as DeliveryPosition).id))
      .$if(end !== undefined, (inbox) => inbox.where('id', '>=', (end as DeliveryPosition).id))
      .orderBy('id', 'desc');
}

/**
 * Searches the next `most` deliveries before a position, and returns those that match, at most `wanted`. Rare deliveries need
 * several steps, so that no single step takes long. `next` is where the next step starts; undefined without older deliveries.
 */
export async function searchDeliveries(
  query: Scope,
  filter: DeliveryFilter,
  step: { readonly before: DeliveryPosition | undefined; readonly most: number; readonly wanted: number },
) {
  const { before, most, wanted } = step;
  const { states, connection, sources } = filter;
  const [state, ...others] = states ?? [];
  const hasIndex = (state === 'quarantined' || state === 'pending') && others.length === 0;
  const select = hasIndex ? inState(state) : received;
  const end = await select(query, { before })
    .select(['id', 'received_at as at'])
    .offset(most - 1)
    .limit(1)
    .executeTakeFirst();
  const rows = await select(query, { before, end })
    .select(COLUMNS)
    .$if(states !== undefined, (inbox) => inbox.where('state', 'in', states as DeliveryState[]))
    .$if(connection !== undefined, (inbox) => inbox.where('connection', '=', connection as string))
    .$if(sources !== undefined, (inbox) => inbox.where('source', 'in', sources as DeliveryOrigin[]))
    .limit(wanted)
    .execute();
  const last = rows.at(-1);
  const next = rows.length === wanted && last ? { at: last.receivedAt, id: last.id } : end;
  return { found: rows, next };
}

/** Returns whether any delivery of this connection is stored, by one index lookup. */
export async function hasDeliveries(query: Scope, connection: string): Promise<boolean> {
  const one = query.selectFrom('inbox').select('id').where('connection', '=', connection).limit(1);
  return (await one.executeTakeFirst()) !== undefined;
}

/** Returns the stored bodies of these deliveries, except purged ones and those larger than `mostBytes`. */
export async function storedBodies(query: Scope, ids: readonly number[], mostBytes: number) {
  if (ids.length === 0) return [];
  return query
    .selectFrom('inbox')
    .select(['id', 'body', 'unpacked_length'])
    .where('id', 'in', ids)
    .where('body', 'is not', null)
    .where(({ eb, fn }) => eb(fn.coalesce('unpacked_length', fn<number>('length', ['body'])), '<=', mostBytes))
    .execute();
}

/** States from which a delivery can be replayed. Quarantined deliveries are retried instead. */
const REPLAYABLE = ['applied', 'superseded', 'ignored'] as const;

/** Returns whether a delivery can be replayed. An old answer of the workspace cannot, because it may no longer be true. */
export function isReplayable({ source, state }: Pick<ListedDelivery, 'source' | 'state'>): boolean {
  const isOfVendor = source !== 'answer' && source !== 'workspace';
  return isOfVendor && (REPLAYABLE as readonly string[]).includes(state);
}

/** Returns the ids of those deliveries whose body is stored. */
export async function deliveriesWithBody(query: Scope, ids: readonly number[]): Promise<number[]> {
  if (ids.length === 0) return [];
  const stored = query.selectFrom('inbox').select('id').where('id', 'in', ids).where('body', 'is not', null);
  return (await stored.execute()).map(({ id }) => id);
}

/** Makes deliveries pending, so that they are evaluated again by the present rules. @returns how many were not pending */
export async function replayDeliveries(store: Pick<Store, 'commit'>, ids: readonly number[]): Promise<number> {
  return changeKeysInChunks(store, ids, (query, some) =>
    changedRows(
      query
        .updateTable('inbox')
        .set({ state: 'pending', attempts: 0, reason: REPLAYED, settled_at: null })
        .where('id', 'in', some)
        .where('state', 'in', REPLAYABLE)
        .where('source', 'not in', ['answer', 'workspace'])
        .where('body', 'is not', null),
    ),
  );
}
