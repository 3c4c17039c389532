import { type CompiledQuery, type Selectable, sql } from 'kysely';
import type { DeliveryOrigin } from '../../model/delivery.ts';
import { dialectOf } from '../../platform/database/database-schema.ts';
import type { Schema } from '../schema/tables.ts';
import { countRows, type Scope, type Sql } from '../workspace-scope.ts';
import { COSTLY, packBody, type StoredBody } from './inbox.ts';

/** A delivery that has no row yet. */
export interface NewDelivery {
  readonly connection: string;
  /** Unique within the connection: the vendor's delivery id, or the SHA-256 of the bytes. */
  readonly key: string;
  readonly source: DeliveryOrigin;
  readonly event: string;
  readonly body: Buffer;
  /** The body as its row will store it, if it is compressed already. */
  readonly packed?: StoredBody;
}

/**
 * The effect of an append. `new`: a row was added. `repeated`: the delivery was stored already, and its row did not change.
 * `revived`: it was in quarantine and is pending again, with the bytes of the repeat. A delivery that was quarantined for its
 * cost stays in quarantine unless its bytes have changed.
 */
export type Appended = 'new' | 'repeated' | 'revived';

/** The effect of an append, and the id of the row unless it was repeated. */
export interface AppendedRow {
  readonly appended: Appended;
  readonly id?: number;
}

/**
 * Appends deliveries in their order. Repeats are recognised by their key alone, as long as the row exists, even after its body
 * was purged. Of equal keys within one call, the first counts.
 * Without repeats this is a single statement, which needs no transaction.
 */
export async function appendDeliveries(
  query: Scope,
  deliveries: readonly NewDelivery[],
  now: number,
): Promise<AppendedRow[]> {
  const { workspace, whole } = query;
  return appendForWorkspaces(
    whole,
    deliveries.map((delivery) => ({ ...delivery, workspace })),
    now,
  );
}

type OwnedDelivery = NewDelivery & { readonly workspace: number };

/** Appends deliveries of several workspaces; otherwise like `appendDeliveries`. */
export async function appendForWorkspaces(
  database: Sql,
  deliveries: readonly OwnedDelivery[],
  now: number,
): Promise<AppendedRow[]> {
  if (deliveries.length === 0) return [];
  const rows = await insertNew(database, deliveries, now);
  const inserted = new Map(rows.map(({ id, delivery_key: key, ...row }) => [identityOf({ ...row, key }), id]));
  const appended: AppendedRow[] = [];
  for (const delivery of deliveries) {
    const identity = identityOf(delivery);
    const id = inserted.get(identity);
    // `delete` is true once: a second delivery with the same key in this batch is a repeat.
    if (inserted.delete(identity)) appended.push({ appended: 'new', id });
    else appended.push(await revive(database, delivery, now));
  }
  return appended;
}

/** Inserts the deliveries that are not stored yet, and returns their rows. */
async function insertNew(database: Sql, deliveries: readonly OwnedDelivery[], now: number): Promise<InsertedRow[]> {
  const parameters = deliveries.flatMap((delivery) => Object.values(rowOf(delivery, now)));
  const { rows } = await database.executeQuery<InsertedRow>({
    ...insertStatement(database, deliveries.length),
    parameters,
  });
  return rows;
}

type InsertedRow = Pick<Selectable<Schema['inbox']>, 'id' | 'workspace' | 'connection' | 'delivery_key'>;

/** Returns the same columns in the same order for each delivery, because the statement is built from an empty one. */
function rowOf({ workspace, connection, key, source, event, body, packed }: OwnedDelivery, now: number) {
  const stored = packed ?? packBody(body);
  return {
    workspace,
    connection,
    delivery_key: key,
    source,
    event,
    received_at: now,
    state: 'pending' as const,
    unpacked_length: stored.unpacked_length,
    body: stored.body,
  };
}

const EMPTY_DELIVERY: OwnedDelivery = {
  workspace: 0,
  connection: '',
  key: '',
  source: 'webhook',
  event: '',
  body: Buffer.alloc(0),
};

/** Compiled statements by dialect and number of rows, which a commit limits. Building one takes a seventh of a delivery in a burst. */
const statements = new Map<string, CompiledQuery<InsertedRow>>();

function insertStatement(database: Sql, count: number): CompiledQuery<InsertedRow> {
  const key = `${dialectOf(database)} ${count}`;
  const existing = statements.get(key);
  if (existing) return existing;
  const insert = database
    .insertInto('inbox')
    .values(Array.from({ length: count }, () => rowOf(EMPTY_DELIVERY, 0)))
    .onConflict((conflict) => conflict.columns(['workspace', 'connection', 'delivery_key']).doNothing())
    .returning(['id', 'workspace', 'connection', 'delivery_key'])
    .compile();
  statements.set(key, insert);
  return insert;
}

/** Makes a quarantined delivery pending again, with the bytes of the repeat. */
async function revive(database: Sql, delivery: OwnedDelivery, now: number): Promise<AppendedRow> {
  const packed = delivery.packed ?? packBody(delivery.body);
  const revived = await database
    .updateTable('inbox')
    .set({
      state: 'pending',
      attempts: 0,
      reason: null,
      settled_at: null,
      received_at: now,
      event: delivery.event,
      ...packed,
    })
    .where('workspace', '=', delivery.workspace)
    .where('connection', '=', delivery.connection)
    .where('delivery_key', '=', delivery.key)
    .where('state', '=', 'quarantined')
    .where((eb) =>
      eb.or([eb('reason', 'is', null), eb('reason', 'not like', `${COSTLY}%`), eb('body', '!=', packed.body)]),
    )
    .returning('id')
    .executeTakeFirst();
  return revived ? { appended: 'revived', id: revived.id } : { appended: 'repeated' };
}

/** Returns the unique identity of a delivery. Header values and names of connections contain no line break. */
function identityOf({ workspace, connection, key }: Pick<OwnedDelivery, 'workspace' | 'connection' | 'key'>): string {
  return `${workspace}\n${connection}\n${key}`;
}

/** Returns the number of pending deliveries, at most `most`. */
export async function countPending(query: Scope, most: number): Promise<number> {
  const pending = query.selectFrom('inbox').select('id').where('state', '=', sql.lit('pending')).limit(most);
  return countRows(query.selectOver(pending.as('pending')));
}
