import { type CompiledQuery, type Selectable, sql } from 'kysely';
import type { DeliverySource } from '../model/delivery.ts';
import { dialectOf } from '../platform/database/dialect.ts';
import { packBody, type StoredBody } from './bodies.ts';
import { COSTLY } from './inbox.ts';
import type { Schema } from './schema/tables.ts';
import type { Scope, Sql } from './workspace-scope.ts';

/** A delivery that has no row yet. */
export interface NewDelivery {
  readonly connection: string;
  /** Unique within the connection: the vendor's delivery id, or the SHA-256 of the bytes. */
  readonly key: string;
  readonly source: DeliverySource;
  readonly event: string;
  readonly body: Buffer;
  /** The body as its row will store it, if it is compressed already. */
  readonly packed?: StoredBody;
}

/**
 * What became of an append: `new` row; `repeated`: it was there and stays as it is; `revived`: it was there in quarantine and is
 * pending again, with the bytes of the repeat. A delivery that was quarantined for its cost stays there, unless its bytes have
 * changed.
 */
export type Appended = 'new' | 'repeated' | 'revived';

/** With the number of the row, which a repeat does not tell. */
export interface AppendedRow {
  readonly appended: Appended;
  readonly id?: number;
}

/**
 * Appends deliveries, in their order. Repeats are found by key alone, so they are recognised as long as the row stands,
 * also when its body was purged. Within one call the first of equal keys counts.
 * One statement where nothing is repeated; then it needs no transaction around it.
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

type Addressed = NewDelivery & { readonly workspace: number };

/** The same for deliveries of any workspaces. */
export async function appendForWorkspaces(
  sql: Sql,
  deliveries: readonly Addressed[],
  now: number,
): Promise<AppendedRow[]> {
  if (deliveries.length === 0) return [];
  const rows = await insertUnknown(sql, deliveries, now);
  const inserted = new Map(rows.map(({ id, delivery_key: key, ...row }) => [nameOf({ ...row, key }), id]));
  const appended: AppendedRow[] = [];
  for (const delivery of deliveries) {
    const name = nameOf(delivery);
    const id = inserted.get(name);
    // `delete` is true once: a second delivery with the same key in this batch is a repeat.
    if (inserted.delete(name)) appended.push({ appended: 'new', id });
    else appended.push(await revive(sql, delivery, now));
  }
  return appended;
}

/** @returns the deliveries that were new */
async function insertUnknown(sql: Sql, deliveries: readonly Addressed[], now: number): Promise<InsertedRow[]> {
  const parameters = deliveries.flatMap((delivery) => Object.values(rowOf(delivery, now)));
  const { rows } = await sql.executeQuery<InsertedRow>({ ...insertOf(sql, deliveries.length), parameters });
  return rows;
}

type InsertedRow = Pick<Selectable<Schema['inbox']>, 'id' | 'workspace' | 'connection' | 'delivery_key'>;

/** Always with the same columns in the same order: the statement is built of one row, and executed with others. */
function rowOf({ workspace, connection, key, source, event, body, packed }: Addressed, now: number) {
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

const BLANK: Addressed = {
  workspace: 0,
  connection: '',
  key: '',
  source: 'webhook',
  event: '',
  body: Buffer.alloc(0),
};

/**
 * By the number of rows, of which there are as many as fit into a commit. To build it takes a seventh of a delivery in a burst.
 */
const inserts = {
  sqlite: new Map<number, CompiledQuery<InsertedRow>>(),
  postgres: new Map<number, CompiledQuery<InsertedRow>>(),
};

function insertOf(sql: Sql, count: number): CompiledQuery<InsertedRow> {
  const known = inserts[dialectOf(sql)];
  const built = known.get(count);
  if (built) return built;
  const insert = sql
    .insertInto('inbox')
    .values(Array.from({ length: count }, () => rowOf(BLANK, 0)))
    .onConflict((conflict) => conflict.columns(['workspace', 'connection', 'delivery_key']).doNothing())
    .returning(['id', 'workspace', 'connection', 'delivery_key'])
    .compile();
  known.set(count, insert);
  return insert;
}

/** Only a row in quarantine is revived. */
async function revive(sql: Sql, delivery: Addressed, now: number): Promise<AppendedRow> {
  const packed = delivery.packed ?? packBody(delivery.body);
  const revived = await sql
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

/** Header values and names of connections hold no line break. */
function nameOf({ workspace, connection, key }: Pick<Addressed, 'workspace' | 'connection' | 'key'>): string {
  return `${workspace}\n${connection}\n${key}`;
}

/** How many deliveries are pending, counted no further than `most`. */
export async function countPending(query: Scope, most: number): Promise<number> {
  const { count } = await query
    .selectOver(
      query.selectFrom('inbox').select('id').where('state', '=', sql.lit('pending')).limit(most).as('pending'),
    )
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .executeTakeFirstOrThrow();
  return Number(count);
}
