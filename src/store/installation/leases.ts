import { type Expression, sql } from 'kysely';
import { SyncError } from '../../model/errors.ts';
import { dialectOf } from '../../platform/database/database-schema.ts';
import { compileStatement, type Sql } from '../workspace-scope.ts';

/**
 * Leases decide which of several processes works on a workspace. Each process renews one row of `replicas`, and a lease names the
 * incarnation that owns it.
 *
 * An incarnation without a row has expired for good, and its workspaces are free. A process that considers an incarnation expired
 * first removes its row, and only then takes its leases. The previous owner detects this by its next renewal, which finds no row,
 * and by its next commit, which the fence rejects.
 */

/** The clock that all processes share. */
export interface StoreTime {
  /** Returns the SQL expression of the current time, epoch milliseconds. @param now the result of `now()`, or a placeholder for it */
  readonly expression: (now: number) => Expression<number>;
  now(): number;
}

/** The clock of this process, which is the only one. */
export function localTime(clock: { now(): number }): StoreTime {
  return { expression: literalTime, now: () => clock.now() };
}

function literalTime(now: number): Expression<number> {
  return sql<number>`cast(${now} as bigint)`;
}

/** The clock of the database server. */
export const serverTime: StoreTime = {
  expression: () => sql<number>`(extract(epoch from clock_timestamp()) * 1000)::bigint`,
  now: () => 0,
};

export interface Replica {
  /** Id of the process. */
  readonly id: string;
  readonly incarnation: string;
  readonly address: string;
  /** Facts that the process reports about itself, as JSON; see `cluster/lease-holder.ts`. */
  readonly about: string;
}

export interface RenewedReplica extends Replica {
  readonly expires_at: number;
}

/** Registers an incarnation in place of the previous one of the process. @param ttl milliseconds */
export async function register(query: Sql, replica: Replica, time: StoreTime, ttl: number): Promise<void> {
  const { incarnation, address, about } = replica;
  const expiresAt = sql<number>`${time.expression(time.now())} + ${ttl}`;
  const renewed = { incarnation, address, about, expires_at: expiresAt };
  await query
    .insertInto('replicas')
    .values({ ...replica, expires_at: expiresAt })
    .onConflict((conflict) => conflict.column('id').doUpdateSet(renewed))
    .execute();
}

/** Renews an incarnation. @returns the time of the store, or undefined if the incarnation has expired */
export async function renew(
  query: Sql,
  incarnation: string,
  time: StoreTime,
  ttl: number,
): Promise<number | undefined> {
  const [row] = await renewal(time)(query, { incarnation, ttl, now: time.now() });
  return row?.now;
}

/**
 * Renews an incarnation and lists all processes by id. A server does both in one statement, because idle processes do little else.
 *
 * @returns the time of the store, which is undefined if the incarnation has expired, and the processes
 */
export async function renewAndList(query: Sql, incarnation: string, time: StoreTime, ttl: number) {
  if (dialectOf(query) === 'sqlite') {
    const now = await renew(query, incarnation, time, ttl);
    return { now, replicas: await replicasOf(query) };
  }
  const replicas = await renewalWithList(time)(query, { incarnation, ttl, now: time.now() });
  return { now: replicas.find((row) => row.now !== null)?.now ?? undefined, replicas };
}

interface Renewal {
  readonly incarnation: string;
  readonly ttl: number;
  readonly now: number;
}

const renewal = perExpression((time) => compileStatement((query, values: Renewal) => renewalOf(query, time, values)));

const renewalWithList = perExpression((time) =>
  compileStatement((query, values: Renewal) =>
    query
      .with('renewed', () => renewalOf(query, time, values))
      .selectFrom('replicas')
      .leftJoin('renewed', 'renewed.incarnation', 'replicas.incarnation')
      .selectAll('replicas')
      .select('renewed.now')
      .orderBy('replicas.id'),
  ),
);

function renewalOf(query: Sql, { expression }: StoreTime, { incarnation, ttl, now }: Renewal) {
  const time = expression(now);
  const next = sql<number>`${time} + ${ttl}`;
  // The value changes with each renewal, also when the clock is set back: other processes judge by the change.
  const later = sql<number>`case when ${next} > expires_at then ${next} else expires_at + 1 end`;
  return query
    .updateTable('replicas')
    .set({ expires_at: later })
    .where('incarnation', '=', incarnation)
    .returning(['incarnation', sql<number>`${time}`.as('now')]);
}

/** Creates one statement for all clocks with the same expression. */
function perExpression<Statement>(create: (time: StoreTime) => Statement): (time: StoreTime) => Statement {
  const statements = new Map<StoreTime['expression'], Statement>();
  return (time) => {
    const statement = statements.get(time.expression) ?? create(time);
    statements.set(time.expression, statement);
    return statement;
  };
}

/** Updates the address of a process, and the facts that it reports about itself. */
export async function updateReplica(query: Sql, { incarnation, address, about }: Omit<Replica, 'id'>): Promise<void> {
  await query.updateTable('replicas').set({ address, about }).where('incarnation', '=', incarnation).execute();
}

/** Lists all processes by id, so that each process sees them in the same order. */
export function replicasOf(query: Sql): Promise<readonly RenewedReplica[]> {
  return allReplicas(query, {});
}

const allReplicas = compileStatement((query) => query.selectFrom('replicas').selectAll().orderBy('id'));

/** Removes expired processes that were not renewed meanwhile. This frees their workspaces. */
export async function removeExpired(query: Sql, expired: readonly RenewedReplica[]): Promise<void> {
  for (const { incarnation, expires_at } of expired) {
    const own = query.deleteFrom('replicas').where('incarnation', '=', incarnation);
    await own.where('expires_at', '=', expires_at).execute();
  }
}

/** Returns those of these workspaces that have no owner. */
export async function unownedOf(query: Sql, workspaces: readonly number[]): Promise<readonly number[]> {
  const owned = await allOwned(query, {});
  const isOwned = new Set(owned.map(({ workspace }) => workspace));
  return workspaces.filter((workspace) => !isOwned.has(workspace));
}

const allOwned = compileStatement((query) =>
  query
    .selectFrom('leases')
    .innerJoin('replicas', 'replicas.incarnation', 'leases.incarnation')
    .select('leases.workspace'),
);

/** An arbitrary number: the advisory lock of a schema, which one process holds while it takes leases. */
const LEASE_LOCK = 8_117_346_251_904_340n;

/**
 * Prevents other processes from taking leases until the transaction ends. Otherwise a statement that began before another process
 * had registered would treat that process as expired, and take leases that it has just acquired. A file has one writer anyway.
 */
export async function lockLeases(transaction: Sql): Promise<void> {
  if (dialectOf(transaction) === 'postgres')
    await sql`select pg_advisory_xact_lock(${sql.lit(LEASE_LOCK)} # hashtext(current_schema()))`.execute(transaction);
}

/** A process that owns a workspace. */
export type LeaseOwner = Pick<Replica, 'id' | 'address' | 'about'>;

/**
 * Returns the owner of a workspace, or undefined if it has none.
 *
 * @param livingAt time of the store: an owner that has expired by then is not returned; absent: an expired owner counts until its
 * row is removed
 */
export function ownerOf(query: Sql, workspace: string, livingAt?: number): Promise<LeaseOwner | undefined> {
  return owners(query)
    .where('workspaces.name', '=', workspace)
    .$if(livingAt !== undefined, (found) => found.where('replicas.expires_at', '>', livingAt ?? 0))
    .executeTakeFirst();
}

/** Returns the owners of all workspaces that have one, by the name of the workspace. */
export function ownersOf(query: Sql): Promise<readonly (LeaseOwner & { readonly workspace: string })[]> {
  return owners(query).orderBy('workspaces.name').execute();
}

function owners(query: Sql) {
  return query
    .selectFrom('workspaces')
    .innerJoin('leases', 'leases.workspace', 'workspaces.id')
    .innerJoin('replicas', 'replicas.incarnation', 'leases.incarnation')
    .select(['workspaces.name as workspace', 'replicas.id', 'replicas.address', 'replicas.about']);
}

/**
 * Takes the leases of those workspaces that have no owner. Call it in one transaction with a renewal of the incarnation.
 *
 * @returns the leases that were taken, by workspace. It was a takeover if the previous owner did not release the lease, but was silent
 * for a TTL.
 */
export async function takeLeases(query: Sql, incarnation: string, workspaces: readonly number[]) {
  const unreleased = await query
    .selectFrom('leases')
    .select('workspace')
    .where('workspace', 'in', workspaces)
    .where('incarnation', 'is not', null)
    .execute();
  const isTakeover = new Set(unreleased.map(({ workspace }) => workspace));
  const living = query.selectFrom('replicas').select('replicas.incarnation');
  const rows = await query
    .insertInto('leases')
    .values(workspaces.map((workspace) => ({ workspace, incarnation, epoch: 1 })))
    .onConflict((conflict) =>
      conflict
        .column('workspace')
        .doUpdateSet({ incarnation, epoch: sql<number>`leases.epoch + 1` })
        .where(({ or, eb }) => or([eb('leases.incarnation', 'is', null), eb('leases.incarnation', 'not in', living)])),
    )
    .returning(['workspace', 'epoch'])
    .execute();
  return new Map(rows.map(({ workspace, epoch }) => [workspace, { epoch, isTakeover: isTakeover.has(workspace) }]));
}

/** Releases those of these leases that the incarnation still owns. Their workspaces are free at once. */
export async function releaseLeases(query: Sql, incarnation: string, workspaces: readonly number[]): Promise<void> {
  await query
    .updateTable('leases')
    .set({ incarnation: null })
    .where('incarnation', '=', incarnation)
    .where('workspace', 'in', workspaces)
    .execute();
}

/** Removes a process that ends, and releases all its leases. */
export async function unregister(query: Sql, incarnation: string): Promise<void> {
  await query.updateTable('leases').set({ incarnation: null }).where('incarnation', '=', incarnation).execute();
  await query.deleteFrom('replicas').where('incarnation', '=', incarnation).execute();
}

/** The lease of a workspace, as its owner took it. */
interface OwnedLease {
  readonly workspace: number;
  readonly incarnation: string;
  readonly epoch: number;
}

/** Runs at the start of each commit of a workspace. */
export type Fence = (transaction: Sql) => Promise<void>;

/** Returns a fence that throws `lease_lost` if another process has taken the workspace over. */
export function fenceOf(lease: OwnedLease): Fence {
  return async (transaction) => {
    const rows = await currentLease(transaction, lease);
    if (rows.length === 0)
      throw new SyncError('lease_lost', `workspace ${lease.workspace} was taken over by another process`);
  };
}

const currentLease = compileStatement((query, { workspace, incarnation, epoch }: OwnedLease) =>
  query
    .selectFrom('leases')
    .select('epoch')
    .where('workspace', '=', workspace)
    .where('incarnation', '=', incarnation)
    .where('epoch', '=', epoch)
    // A process that takes the lease over waits for the end of this transaction. A file has one writer anyway.
    .$if(dialectOf(query) === 'postgres', (locking) => locking.forShare()),
);
