import { sql } from 'kysely';
import type { Delivery, DeliveryState } from '../model/delivery.ts';
import { piecesOf } from '../platform/lib/pieces.ts';
import { packBody, type StoredBody, unpackBody } from './bodies.ts';
import { compileStatement } from './compiled-statement.ts';
import type { Store } from './database.ts';
import { changeInChunks, changeKeysInChunks } from './in-chunks.ts';
import { type Scope, type Sql, scopeOf } from './workspace-scope.ts';

export interface PendingDelivery extends Delivery {
  readonly attempts: number;
  /** The body as it stands in its row, and its length once it is unpacked. */
  readonly stored: StoredBody;
  readonly bytes: number;
  /** The vendor's delivery id, or the hash of its bytes. */
  readonly key?: string;
  /** A person wants it judged again, by the present rules. */
  readonly isReplayed?: boolean;
}

/** The reason of a pending delivery that was settled before. */
export const REPLAYED = 'replayed';

/** Oldest first, at most `most` rows and about `mostBytes` of bodies, but always at least one. */
export async function pendingDeliveries(query: Scope, most: number, mostBytes: number): Promise<PendingDelivery[]> {
  const sizes = await pendingSizes(query.whole, { workspace: query.workspace, most });
  const ids = prefixWithin(sizes, mostBytes);
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
      receivedAt: received_at,
      stored,
      bytes: unpacked_length ?? stored.body.length,
      // Unpacked when it is translated, so that a damaged body is the fault of its delivery alone.
      get body() {
        return unpackBody(stored);
      },
    };
  });
}

const pendingSizes = compileStatement((query, { workspace, most }: { workspace: number; most: number }) =>
  scopeOf(query, workspace)
    .selectFrom('inbox')
    .select(({ fn }) => ['id', fn.coalesce('unpacked_length', fn<number>('length', ['body'])).as('bytes')])
    // In the text: SQLite would look at a value, to know whether the index of pending ones fits, and plan anew each time.
    .where('state', '=', sql.lit('pending'))
    .orderBy('id')
    .limit(most),
);

/** The highest id among the oldest pending deliveries; undefined where none is pending. */
export async function lastPendingId(query: Scope, most: number): Promise<number | undefined> {
  const rows = await query
    .selectFrom('inbox')
    .select('id')
    .where('state', '=', 'pending')
    .orderBy('id')
    .limit(most)
    .execute();
  return rows.at(-1)?.id;
}

const EMPTY = Buffer.alloc(0);

/** The first of them that together have no more than so many bytes, but always one where there is any. */
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

export interface DeliveryOutcome {
  readonly id: number;
  readonly state: Exclude<DeliveryState, 'pending'>;
  readonly reason?: string;
}

/** Moves deliveries to their end. Rows of one state and reason go in one statement. */
export async function settleDeliveries(query: Scope, verdicts: readonly DeliveryOutcome[], now: number): Promise<void> {
  const groups = Map.groupBy(verdicts, ({ state, reason }) => `${state} ${reason ?? ''}`);
  for (const group of groups.values()) {
    const { state, reason } = group[0] as DeliveryOutcome;
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

export async function countAttempt(query: Scope, ids: readonly number[]): Promise<void> {
  await query
    .updateTable('inbox')
    .set(({ eb }) => ({ attempts: eb('attempts', '+', 1) }))
    .where('id', 'in', ids)
    .execute();
}

/** What the reason of a delivery begins with that took more than it may. */
export const COSTLY = 'over_budget: ';

/** One element of a page that could not be read: a delivery of its own, known by what it holds. */
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

/** Which of these elements are in quarantine for what they cost. */
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

/** What could not be read of a page. */
export interface RejectedPage {
  readonly page: Pick<Delivery, 'connection' | 'source' | 'event' | 'receivedAt'>;
  readonly parts: readonly RejectedPart[];
}

/** Puts elements of pages into quarantine. One that stands there already stays as it is. */
export async function quarantineParts(query: Scope, pages: readonly RejectedPage[], now: number): Promise<void> {
  const rows = pages.flatMap(({ page, parts }) => parts.map((part) => rowOfPart(page, part, now)));
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

function rowOfPart(
  { connection, source, event, receivedAt }: RejectedPage['page'],
  { content, body, reason }: RejectedPart,
  now: number,
) {
  return {
    ...{ connection, source, event, reason, delivery_key: keyOfPart(content), received_at: receivedAt },
    ...{ state: 'quarantined' as const, settled_at: now },
    ...packBody(Buffer.from(body)),
  };
}

/** Deliveries in quarantine that are to be tried again: these, or all that took more than they may. @returns how many */
export async function retryQuarantined(
  store: Pick<Store, 'commit'>,
  which: readonly number[] | 'costly' | 'all',
): Promise<number> {
  if (typeof which !== 'string') return changeKeysInChunks(store, which, retry);
  return changeInChunks(store, (query, most) => retry(query, quarantinedIds(query, which, most)));
}

function quarantinedIds(query: Scope, which: 'costly' | 'all', most: number) {
  return query
    .selectFrom('inbox')
    .select('id')
    .where('state', '=', 'quarantined')
    .$if(which === 'costly', (costly) => costly.where('reason', 'like', `${COSTLY}%`))
    .limit(most);
}

async function retry(query: Scope, ids: readonly number[] | ReturnType<typeof quarantinedIds>): Promise<number> {
  const { numUpdatedRows } = await query
    .updateTable('inbox')
    .set({ state: 'pending', attempts: 0, reason: null, settled_at: null })
    .where('state', '=', 'quarantined')
    .where('id', 'in', ids)
    .executeTakeFirstOrThrow();
  return Number(numUpdatedRows);
}

/** A delivery that a person must look at. */
export interface QuarantinedDelivery {
  readonly id: number;
  readonly connection: string;
  readonly event: string;
  /** Epoch milliseconds. */
  readonly receivedAt: number;
  readonly reason: string | null;
}

/** The latest first. */
export async function quarantinedDeliveries(query: Scope, limit: number): Promise<QuarantinedDelivery[]> {
  return query
    .selectFrom('inbox')
    .select(['id', 'connection', 'event', 'received_at as receivedAt', 'reason'])
    .where('state', '=', 'quarantined')
    .orderBy('id', 'desc')
    .limit(limit)
    .execute();
}

/** A delivery as people are told of it. */
export interface DeliverySummary {
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
export async function findDelivery(query: Scope, id: number): Promise<DeliverySummary | undefined> {
  return query
    .selectFrom('inbox')
    .select(['id', 'connection', 'source', 'event', 'delivery_key as key', 'received_at as receivedAt'])
    .where('id', '=', id)
    .executeTakeFirst();
}

/** Deliveries in quarantine: of these, or all. */
export async function countQuarantined(query: Scope, ids?: readonly number[]): Promise<number> {
  const inQuarantine = query
    .selectFrom('inbox')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .where('state', '=', 'quarantined');
  if (ids === undefined) return Number((await inQuarantine.executeTakeFirstOrThrow()).count);
  let count = 0;
  for (const some of piecesOf(ids, 500))
    count += Number((await inQuarantine.where('id', 'in', some).executeTakeFirstOrThrow()).count);
  return count;
}

/** Names of the workspaces that have deliveries waiting: one look at an index for each workspace. */
export async function pendingWorkspaces(query: Sql): Promise<readonly string[]> {
  return (await withPending(query, {})).map(({ name }) => name);
}

const withPending = compileStatement<object, { readonly name: string }>((query) =>
  query
    .selectFrom('workspaces')
    .select('name')
    // As a value: PostgreSQL would turn `exists` into a join that reads all pending deliveries.
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
