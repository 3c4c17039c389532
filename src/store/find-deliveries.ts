import { type Selectable, sql } from 'kysely';
import type { Delivery, DeliverySource, DeliveryState } from '../model/delivery.ts';
import { piecesOf } from '../platform/lib/pieces.ts';
import type { Store } from './database.ts';
import { CHUNK_SIZE, changeKeysInChunks } from './in-chunks.ts';
import { REPLAYED } from './inbox.ts';
import type { Tables } from './schema/tables.ts';
import type { Scope } from './workspace-scope.ts';

/** A delivery without its body. Times are epoch milliseconds. */
export interface ListedDelivery extends Pick<Delivery, 'id' | 'connection' | 'source' | 'event' | 'receivedAt'> {
  /** The vendor's delivery id, or the hash of its bytes. */
  readonly key: string;
  readonly state: DeliveryState;
  readonly reason: string | null;
  readonly attempts: number;
  /** When reconcile was done with it; null while it is pending. */
  readonly settledAt: number | null;
}

/** Which deliveries are wanted. Absent: any. */
export interface DeliveryFilter {
  readonly states?: readonly DeliveryState[];
  readonly connection?: string;
  readonly sources?: readonly DeliverySource[];
}

/** Where a delivery stands in the order of receipt. */
export interface DeliveryPosition {
  readonly at: number;
  readonly id: number;
}

const COLUMNS = [
  ...(['id', 'connection', 'source', 'event', 'delivery_key', 'state', 'reason', 'attempts'] as const),
  ...(['received_at', 'settled_at'] as const),
] as const;

type Row = Pick<Selectable<Tables['inbox']>, (typeof COLUMNS)[number]>;

function listed({ delivery_key: key, received_at: receivedAt, settled_at: settledAt, ...row }: Row): ListedDelivery {
  return { ...row, key, receivedAt, settledAt };
}

/** The newest first. */
export async function deliveriesByIds(query: Scope, ids: readonly number[]): Promise<ListedDelivery[]> {
  const found: ListedDelivery[] = [];
  const newestFirst = [...new Set(ids)].sort((a, b) => b - a);
  for (const some of piecesOf(newestFirst, CHUNK_SIZE)) {
    const rows = await query
      .selectFrom('inbox')
      .select(COLUMNS)
      .where('id', 'in', some)
      .orderBy('id', 'desc')
      .execute();
    found.push(...rows.map(listed));
  }
  return found;
}

/** Those of these connections that have this key: a vendor's id may come through several. */
export async function deliveriesByKey(
  query: Scope,
  connections: readonly string[],
  key: string,
): Promise<ListedDelivery[]> {
  const rows = await query
    .selectFrom('inbox')
    .select(COLUMNS)
    .where('connection', 'in', connections)
    .where('delivery_key', '=', key)
    .execute();
  return rows.map(listed);
}

/** Keys of a connection that begin so, at most `most`. */
export async function keysWithPrefix(query: Scope, connection: string, start: string, most: number): Promise<string[]> {
  const rows = await query
    .selectFrom('inbox')
    .select('delivery_key')
    .where('connection', '=', connection)
    .where('delivery_key', '>=', start)
    .where('delivery_key', '<', `${start}\uffff`)
    .orderBy('delivery_key')
    .limit(most)
    .execute();
  return rows.map((row) => row.delivery_key);
}

/** The numbers of the deliveries that came last. */
export async function latestDeliveryIds(query: Scope, most: number): Promise<number[]> {
  const rows = await received(query, {}).select('id').limit(most).execute();
  return rows.map(({ id }) => id);
}

export async function deliveryPosition(query: Scope, id: number): Promise<DeliveryPosition | undefined> {
  return query.selectFrom('inbox').select(['id', 'received_at as at']).where('id', '=', id).executeTakeFirst();
}

/** Older than one place, and not older than another. Absent: without such an end. */
interface Stretch {
  readonly before?: DeliveryPosition | undefined;
  readonly end?: DeliveryPosition | undefined;
}

/** The deliveries of a stretch, the newest first. The index of receipt finds them, whatever the workspace holds. */
function received(query: Scope, { before, end }: Stretch) {
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

/** The same of those in a state that has an index of its own: it finds them all, however many others there are. */
function inState(state: 'pending' | 'quarantined') {
  return (query: Scope, { before, end }: Stretch) =>
    query
      .selectFrom('inbox')
      .where('state', '=', sql.lit(state))
      .$if(before !== undefined, (inbox) => inbox.where('id', '<', (before as DeliveryPosition).id))
      .$if(end !== undefined, (inbox) => inbox.where('id', '>=', (end as DeliveryPosition).id))
      .orderBy('id', 'desc');
}

/** What one look found. */
export interface DeliverySearch {
  readonly found: readonly ListedDelivery[];
  /** Where the next look begins; undefined where there is nothing older. */
  readonly next: DeliveryPosition | undefined;
}

/**
 * Looks at the next `most` deliveries before a place, and takes those that are wanted, at most `wanted`: what is rare is found
 * by several looks, none of which takes longer than the others.
 */
export async function searchDeliveries(
  query: Scope,
  filter: DeliveryFilter,
  {
    before,
    most,
    wanted,
  }: { readonly before: DeliveryPosition | undefined; readonly most: number; readonly wanted: number },
): Promise<DeliverySearch> {
  const { states, connection, sources } = filter;
  const [state, ...others] = states ?? [];
  const hasIndex = (state === 'quarantined' || state === 'pending') && others.length === 0;
  const look = hasIndex ? inState(state) : received;
  const end = await look(query, { before })
    .select(['id', 'received_at as at'])
    .offset(most - 1)
    .limit(1)
    .executeTakeFirst();
  const rows = await look(query, { before, end })
    .select(COLUMNS)
    .$if(states !== undefined, (inbox) => inbox.where('state', 'in', states as DeliveryState[]))
    .$if(connection !== undefined, (inbox) => inbox.where('connection', '=', connection as string))
    .$if(sources !== undefined, (inbox) => inbox.where('source', 'in', sources as DeliverySource[]))
    .limit(wanted)
    .execute();
  const last = rows.at(-1);
  const next = rows.length === wanted && last ? { at: last.received_at, id: last.id } : end;
  return { found: rows.map(listed), next };
}

/** Whether anything has come through this connection that is still there: one look at an index. */
export async function hasDeliveries(query: Scope, connection: string): Promise<boolean> {
  const one = query.selectFrom('inbox').select('id').where('connection', '=', connection).limit(1);
  return (await one.executeTakeFirst()) !== undefined;
}

/** A body as it is stored; undefined where it was purged, or the delivery is gone. */
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

/** States that a replay leads out of. Quarantined ones are retried instead. */
const REPLAYABLE = ['applied', 'superseded', 'ignored'] as const;

/** Whether reconcile may read it again: what the workspace said some time ago is no news, and stays read. */
export function isReplayable({ source, state }: Pick<ListedDelivery, 'source' | 'state'>): boolean {
  const isOfVendor = source !== 'answer' && source !== 'workspace';
  return isOfVendor && (REPLAYABLE as readonly string[]).includes(state);
}

/** Which of these still have a body. */
export async function deliveriesWithBody(query: Scope, ids: readonly number[]): Promise<number[]> {
  if (ids.length === 0) return [];
  const rows = await query
    .selectFrom('inbox')
    .select('id')
    .where('id', 'in', ids)
    .where('body', 'is not', null)
    .execute();
  return rows.map(({ id }) => id);
}

/** Makes these pending, to be judged again by the present rules. @returns how many: one that is pending stays as it is */
export async function replayDeliveries(store: Pick<Store, 'commit'>, ids: readonly number[]): Promise<number> {
  return changeKeysInChunks(store, ids, async (query, some) => {
    const { numUpdatedRows } = await query
      .updateTable('inbox')
      .set({ state: 'pending', attempts: 0, reason: REPLAYED, settled_at: null })
      .where('id', 'in', some)
      .where('state', 'in', REPLAYABLE)
      .where('source', 'not in', ['answer', 'workspace'])
      .where('body', 'is not', null)
      .executeTakeFirstOrThrow();
    return Number(numUpdatedRows);
  });
}
