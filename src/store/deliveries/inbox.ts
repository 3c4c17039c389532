import { sql, type Updateable } from 'kysely';
import { compress, compressSync, uncompressSync } from 'lz4-napi';
import type { Delivery, DeliveryOrigin, DeliveryState } from '../../model/delivery.ts';
import { chunksOf, LARGE } from '../../platform/lib/concurrency.ts';
import type { Tables } from '../schema/tables.ts';
import {
  changedRows,
  changeInChunks,
  changeKeysInChunks,
  compileInScope,
  compileStatement,
  countRows,
  type Scope,
  type Sql,
  type Store,
} from '../workspace-scope.ts';

export interface PendingDelivery extends Delivery {
  readonly attempts: number;
  /** The body as it is stored. */
  readonly stored: StoredBody;
  /** Length of the unpacked body. */
  readonly bytes: number;
  /** The vendor's delivery id, or the hash of its bytes. */
  readonly key?: string;
  /** A person requested that it is evaluated again by the present rules. */
  readonly isReplayed?: boolean;
  /** A first import or a backfill brought it, so nobody waits for its changes: see `importKey`. */
  readonly isImport?: boolean;
}

const IMPORT = 'import:';

/**
 * Returns the key of a delivery that nobody waits for: a page of the first poll of a unit, or an object that is fetched because of
 * such a page or of a backfill. The times of its changes are no lag.
 */
export function importKey(id: string): string {
  return `${IMPORT}${id}`;
}

/** Senders choose the keys of webhooks, so those say nothing. */
function isImport(source: DeliveryOrigin, key: string): boolean {
  return source === 'backfill' || (source !== 'webhook' && key.startsWith(IMPORT));
}

/** A webhook that caused work. */
export interface Webhook {
  /** The id of its delivery. */
  readonly delivery: number;
  /** Epoch milliseconds. */
  readonly receivedAt: number;
}

/** A webhook is live for this time after its receipt. One that waits longer does so for a reason that a person should know. */
const LIVE_FOR_MS = 15 * 60_000;

/** Whether the webhook was received at most 15 minutes before this time. */
export function isLiveAt({ receivedAt }: Webhook, time: number): boolean {
  return time - receivedAt <= LIVE_FOR_MS;
}

/** Returns the key of a fetched object. It names the live webhook that caused the fetch, because the object counts as a part of it. */
export function fetchKey(id: string, webhook: Webhook | undefined): string {
  return webhook === undefined ? `fetch:${id}` : `fetch:${webhook.delivery}@${webhook.receivedAt}:${id}`;
}

const FETCH_OF_WEBHOOK = /^fetch:(\d+)@(\d+):/;

/** Returns the delivery itself if it is a webhook, or the webhook that caused its fetch. */
export function webhookOf(
  delivery: Pick<PendingDelivery, 'id' | 'source' | 'key' | 'receivedAt'>,
): Webhook | undefined {
  const { id, source, key = '', receivedAt } = delivery;
  if (source === 'webhook') return { delivery: id, receivedAt };
  const [, cause, time] = (source === 'fetch' && FETCH_OF_WEBHOOK.exec(key)) || [];
  return cause === undefined ? undefined : { delivery: Number(cause), receivedAt: Number(time) };
}

/** The origin of a delivery that was processed earlier. */
export interface Origin {
  /** A first import or a backfill brought it. */
  readonly isImport: boolean;
  /** The live webhook behind it. Absent if there is none, or if it was processed too late. */
  readonly webhook?: Webhook;
}

/** Returns the origins of the deliveries that are still stored, by their ids. */
export async function originsOf(query: Scope, ids: readonly number[]): Promise<ReadonlyMap<number, Origin>> {
  if (ids.length === 0) return new Map();
  const rows = await query
    .selectFrom('inbox')
    .select(['id', 'source', 'delivery_key', 'received_at', 'settled_at'])
    .where('id', 'in', ids)
    .execute();
  return new Map(
    rows.map(({ id, source, delivery_key: key, received_at: receivedAt, settled_at }): [number, Origin] => {
      const webhook = webhookOf({ id, source, key, receivedAt });
      const isLive = webhook !== undefined && isLiveAt(webhook, settled_at ?? receivedAt);
      return [id, { isImport: isImport(source, key), ...(isLive && { webhook }) }];
    }),
  );
}

/** The reason of a pending delivery that is replayed. */
export const REPLAYED = 'replayed';

/**
 * Returns pending deliveries, the oldest first: at most `most`, and at most `mostBytes` of unpacked bodies. The first one is
 * returned whatever its size.
 *
 * @param skipped ids of deliveries to leave out
 */
export async function pendingDeliveries(
  query: Scope,
  most: number,
  mostBytes: number,
  skipped: ReadonlySet<number> = new Set(),
): Promise<PendingDelivery[]> {
  const sizes = await pendingSizes(query, { most: most + skipped.size });
  const wanted = sizes.filter(({ id }) => !skipped.has(id)).slice(0, most);
  const ids = prefixWithin(wanted, mostBytes);
  if (ids.length === 0) return [];
  const rows = await query
    .selectFrom('inbox')
    .select([
      'id',
      'connection',
      'source',
      'event',
      'body',
      'unpacked_length',
      'received_at',
      'attempts',
      'reason',
      'delivery_key',
    ])
    .where('id', 'in', ids)
    .orderBy('id')
    .execute();
  return rows.map(({ received_at, body, unpacked_length, reason, delivery_key: key, ...row }) => {
    const stored = { body: body ?? EMPTY, unpacked_length };
    return {
      ...row,
      key,
      isReplayed: reason === REPLAYED,
      isImport: isImport(row.source, key),
      receivedAt: received_at,
      stored,
      bytes: unpacked_length ?? stored.body.length,
      // Unpacked during its translation, so that a damaged body fails only its own delivery.
      get body() {
        return unpackBody(stored);
      },
    };
  });
}

const pendingSizes = compileInScope((query, { most }: { readonly most: number }) =>
  query
    .selectFrom('inbox')
    .select(({ fn }) => ['id', fn.coalesce('unpacked_length', fn<number>('length', ['body'])).as('bytes')])
    // A literal: with a parameter, SQLite has to inspect the value to use the partial index, and plans the statement each time.
    .where('state', '=', sql.lit('pending'))
    .orderBy('id')
    .limit(most),
);

/** So many pending deliveries are looked at. */
const MOST_PENDING = 1_000;

/**
 * Returns the connections with pending deliveries that were received since then, epoch milliseconds; undefined if too many deliveries
 * are pending to tell.
 */
export async function pendingConnections(query: Scope, since: number): Promise<ReadonlySet<string> | undefined> {
  const rows = await query
    .selectFrom('inbox')
    .select(['connection', 'received_at'])
    .where('state', '=', sql.lit('pending'))
    .orderBy('id', 'desc')
    .limit(MOST_PENDING)
    .execute();
  const recent = rows.filter(({ received_at }) => received_at >= since);
  return recent.length === MOST_PENDING ? undefined : new Set(recent.map(({ connection }) => connection));
}

/** Returns the ids and the counted attempts of the `most` oldest pending deliveries. */
export async function oldestPending(query: Scope, most: number) {
  return query
    .selectFrom('inbox')
    .select(['id', 'attempts'])
    .where('state', '=', 'pending')
    .orderBy('id')
    .limit(most)
    .execute();
}

const EMPTY = Buffer.alloc(0);

/** Returns the ids of the first rows that together have at most `mostBytes`, but at least the first id. */
export function prefixWithin(sizes: readonly { id: number; bytes: number | null }[], mostBytes: number): number[] {
  const ids: number[] = [];
  let bytes = 0;
  for (const row of sizes) {
    bytes += row.bytes ?? 0;
    if (ids.length > 0 && bytes > mostBytes) break;
    ids.push(row.id);
  }
  return ids;
}

/** The final state of a delivery. */
export interface DeliveryOutcome {
  readonly id: number;
  readonly state: Exclude<DeliveryState, 'pending'>;
  readonly reason?: string;
}

/** Stores the outcomes of deliveries, with one statement for each state and reason. */
export async function settleDeliveries(query: Scope, verdicts: readonly DeliveryOutcome[], now: number): Promise<void> {
  const groups = Map.groupBy(verdicts, ({ state, reason }) => `${state} ${reason ?? ''}`);
  for (const group of groups.values()) {
    const { state, reason } = group[0] as DeliveryOutcome;
    const ids = group.map(({ id }) => id);
    const settled = { state, reason: reason ?? null, settled_at: now };
    await query.updateTable('inbox').set(settled).where('id', 'in', ids).execute();
  }
}

export async function countAttempt(query: Scope, ids: readonly number[]): Promise<void> {
  const counted = query.updateTable('inbox').set(({ eb }) => ({ attempts: eb('attempts', '+', 1) }));
  await counted.where('id', 'in', ids).execute();
}

/** Prefix of the reason of a delivery that exceeded its time or memory. */
export const COSTLY = 'over_budget: ';

/** One unreadable element of a page. It becomes a delivery of its own, whose key is the digest of its content. */
export interface RejectedPart {
  /** SHA-256 of the element, hexadecimal. */
  readonly content: string;
  /** A page with this element alone. */
  readonly body: Uint8Array;
  readonly reason: string;
}

function keyOfPart(content: string): string {
  return `part:${content}`;
}

/** Returns the digests of those elements that are in quarantine for their cost. */
export async function costlyParts(
  query: Scope,
  connection: string,
  contents: readonly string[],
): Promise<ReadonlySet<string>> {
  const rows = await query
    .selectFrom('inbox')
    .select('delivery_key')
    .where('connection', '=', connection)
    .where('delivery_key', 'in', contents.map(keyOfPart))
    .where('state', '=', 'quarantined')
    .where('reason', 'like', `${COSTLY}%`)
    .execute();
  const found = new Set(rows.map((row) => row.delivery_key));
  return new Set(contents.filter((content) => found.has(keyOfPart(content))));
}

/** A page and its unreadable elements. */
export interface RejectedPage {
  readonly page: Pick<Delivery, 'connection' | 'source' | 'event' | 'receivedAt'>;
  readonly parts: readonly RejectedPart[];
}

/** Puts elements of pages into quarantine. An element that is stored already keeps its body and gets the new reason. */
export async function quarantineParts(query: Scope, pages: readonly RejectedPage[], now: number): Promise<void> {
  const rows = pages.flatMap(({ page: { connection, source, event, receivedAt }, parts }) =>
    parts.map(({ content, body, reason }) => ({
      connection,
      source,
      event,
      reason,
      delivery_key: keyOfPart(content),
      received_at: receivedAt,
      state: 'quarantined' as const,
      settled_at: now,
      ...packBody(Buffer.from(body)),
    })),
  );
  if (rows.length === 0) return;
  await query
    .insertInto('inbox')
    .values(rows)
    .onConflict((conflict) =>
      conflict
        .columns(['workspace', 'connection', 'delivery_key'])
        .doUpdateSet(({ ref }) => ({ state: 'quarantined', reason: ref('excluded.reason'), settled_at: now })),
    )
    .execute();
}

/** Makes quarantined deliveries pending: those with these ids, those quarantined for their cost, or all. @returns how many */
export function retryQuarantined(
  store: Pick<Store, 'commit'>,
  which: readonly number[] | 'costly' | 'all',
): Promise<number> {
  return updateQuarantined(store, which, { state: 'pending', attempts: 0, reason: null, settled_at: null });
}

/**
 * Ignores quarantined deliveries: those with these ids, or all. They stay until retention deletes them, and can be replayed.
 *
 * @param now epoch milliseconds
 * @returns how many
 */
export function dismissQuarantined(
  store: Pick<Store, 'commit'>,
  which: readonly number[] | 'all',
  now: number,
): Promise<number> {
  return updateQuarantined(store, which, { state: 'ignored', attempts: 0, reason: 'dismissed', settled_at: now });
}

async function updateQuarantined(
  store: Pick<Store, 'commit'>,
  which: readonly number[] | 'costly' | 'all',
  row: Updateable<Tables['inbox']>,
): Promise<number> {
  const update = (query: Scope) => query.updateTable('inbox').set(row).where('state', '=', 'quarantined');
  if (typeof which !== 'string')
    return changeKeysInChunks(store, which, (query, ids) => changedRows(update(query).where('id', 'in', ids)));
  return changeInChunks(store, (query, most) => {
    const some = query
      .selectFrom('inbox')
      .select('id')
      .where('state', '=', 'quarantined')
      .$if(which === 'costly', (costly) => costly.where('reason', 'like', `${COSTLY}%`))
      .limit(most);
    return changedRows(update(query).where('id', 'in', some));
  });
}

/** Returns quarantined deliveries, which a person has to examine, the latest first. Times are epoch milliseconds. */
export async function quarantinedDeliveries(query: Scope, limit: number) {
  return query
    .selectFrom('inbox')
    .select(['id', 'connection', 'event', 'received_at as receivedAt', 'reason'])
    .where('state', '=', 'quarantined')
    .orderBy('id', 'desc')
    .limit(limit)
    .execute();
}

export type DeliverySummary = Awaited<ReturnType<typeof findDelivery>>;

/** Returns the description of a delivery for people; undefined if its row was deleted. */
export async function findDelivery(query: Scope, id: number) {
  return query
    .selectFrom('inbox')
    .select(['id', 'connection', 'source', 'event', 'delivery_key as key', 'received_at as receivedAt'])
    .where('id', '=', id)
    .executeTakeFirst();
}

/** Counts the quarantined deliveries among these ids, or all. */
export async function countQuarantined(query: Scope, ids?: readonly number[]): Promise<number> {
  const inQuarantine = query.selectFrom('inbox').where('state', '=', 'quarantined');
  if (ids === undefined) return countRows(inQuarantine);
  let count = 0;
  for (const some of chunksOf(ids, 500)) count += await countRows(inQuarantine.where('id', 'in', some));
  return count;
}

/** Returns the names of the workspaces with pending deliveries, by one index lookup for each workspace. */
export async function pendingWorkspaces(query: Sql): Promise<readonly string[]> {
  return (await withPending(query, {})).map(({ name }) => name);
}

const withPending = compileStatement((query) =>
  query
    .selectFrom('workspaces')
    .select('name')
    // A scalar subquery, because PostgreSQL would turn `exists` into a join that reads all pending deliveries.
    .where(({ eb, selectFrom }) =>
      eb(
        selectFrom('inbox')
          .select('inbox.id')
          .whereRef('inbox.workspace', '=', 'workspaces.id')
          .where('inbox.state', '=', sql.lit('pending'))
          .limit(sql.lit(1)),
        'is not',
        null,
      ),
    ),
);

/**
 * A body in the inbox: as received, or as an LZ4 block with its original length. JSON shrinks to an eighth. Compressing it takes less
 * time than writing and syncing all of it before the answer to the sender. LZ4 takes a third of the time of zstd.
 */
export interface StoredBody {
  readonly body: Buffer;
  /** Original length in bytes; null if the body is stored as received. */
  readonly unpacked_length: number | null;
}

/** A body that fits into the row's own page is not worth compressing. */
const MIN_COMPRESSED = 4_096;

export function packBody(body: Buffer): StoredBody {
  if (body.length < MIN_COMPRESSED) return { body, unpacked_length: null };
  return { body: compressSync(body), unpacked_length: body.length };
}

/** Compresses a large body in another thread, so that the main thread is not blocked. */
export async function packBodyAsync(body: Buffer): Promise<StoredBody> {
  if (body.length <= LARGE) return packBody(body);
  return { body: await compress(body), unpacked_length: body.length };
}

export function unpackBody({ body, unpacked_length: length }: StoredBody): Buffer {
  if (length === null) return body;
  // The block starts with its original length, and that much memory will be allocated, so it must be the stored length.
  if (body.length < 4 || body.readUInt32LE(0) !== length) throw new Error('the stored body is damaged');
  return uncompressSync(body);
}
