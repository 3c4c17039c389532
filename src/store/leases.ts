import { type Expression, sql } from 'kysely';
import { SyncError } from '../model/errors/sync-error.ts';
import { dialectOf } from '../platform/database/dialect.ts';
import { compileStatement } from './compiled-statement.ts';
import type { Sql } from './workspace-scope.ts';

/**
 * Which of several processes works on a workspace. Each renews one row of `replicas`; a lease names the incarnation that holds
 * it. An incarnation without a row there has expired, for good, and its workspaces are free: a process that judges it expired
 * removes its row, and only then takes its leases. Its last owner detects that by the next renewal, which finds no row, and by
 * its next commit, which the fence refuses.
 */

/** The time by the clock that all processes share: that of the database. Epoch milliseconds. */
export interface StoreTime {
  /** The time in the words of a statement. @param now what `now` says, or a blank for it */
  readonly expression: (now: number) => Expression<number>;
  now(): number;
}

/** Of a process whose clock is the only one. */
export function localTime(clock: { now(): number }): StoreTime {
  return { expression: given, now: () => clock.now() };
}

function given(now: number): Expression<number> {
  return sql<number>`cast(${now} as bigint)`;
}

/** Of a server, which all processes ask. */
export const serverTime: StoreTime = {
  expression: () => sql<number>`(extract(epoch from clock_timestamp()) * 1000)::bigint`,
  now: () => 0,
};

export interface Replica {
  readonly id: string;
  readonly incarnation: string;
  readonly address: string;
  /** Facts that the process reports about itself, as JSON; see `cluster/peers.ts`. */
  readonly about: string;
}

export interface RenewedReplica extends Replica {
  readonly expires_at: number;
}

/** The process takes this incarnation in the place of the one it had. @param ttl milliseconds */
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

/** @returns the time by the clock of the store; undefined where it had expired */
export async function renew(
  query: Sql,
  incarnation: string,
  time: StoreTime,
  ttl: number,
): Promise<number | undefined> {
  const [row] = await renewal(time)(query, { incarnation, ttl, now: time.now() });
  return row?.now;
}

/** What a renewal found. */
export interface Renewed {
  /** The time by the clock of the store; undefined where the incarnation had expired. */
  readonly now: number | undefined;
  /** All processes, in the same order for everybody. */
  readonly replicas: readonly RenewedReplica[];
}

/** Renews, and sees who else does: of a server in one statement, since this is what it is asked most often when nothing happens. */
export async function renewAndList(query: Sql, incarnation: string, time: StoreTime, ttl: number): Promise<Renewed> {
  if (dialectOf(query) === 'sqlite') {
    const renewedAt = await renew(query, incarnation, time, ttl);
    return { now: renewedAt, replicas: await replicasOf(query) };
  }
  const replicas = await renewalAmongAll(time)(query, { incarnation, ttl, now: time.now() });
  return { now: replicas.find((row) => row.now !== null)?.now ?? undefined, replicas };
}

interface Renewal {
  readonly incarnation: string;
  readonly ttl: number;
  readonly now: number;
}

const renewal = inTheWordsOf((time) => compileStatement((query, values: Renewal) => renewalOf(query, time, values)));

const renewalAmongAll = inTheWordsOf((time) =>
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

function renewalOf(query: Sql, { expression: inWords }: StoreTime, { incarnation, ttl, now }: Renewal) {
  const time = inWords(now);
  const next = sql<number>`${time} + ${ttl}`;
  // Another value each time, also where the clock is set back: by that the others see that it lives.
  const later = sql<number>`case when ${next} > expires_at then ${next} else expires_at + 1 end`;
  return query
    .updateTable('replicas')
    .set({ expires_at: later })
    .where('incarnation', '=', incarnation)
    .returning(['incarnation', sql<number>`${time}`.as('now')]);
}

/** Made once for all clocks that statements ask in the same words. */
function inTheWordsOf<Made>(make: (time: StoreTime) => Made): (time: StoreTime) => Made {
  const known = new Map<StoreTime['expression'], Made>();
  return (time) => {
    const made = known.get(time.expression) ?? make(time);
    known.set(time.expression, made);
    return made;
  };
}

/** What the process tells of itself has changed. */
export async function updateReplica(query: Sql, { incarnation, address, about }: Omit<Replica, 'id'>): Promise<void> {
  await query.updateTable('replicas').set({ address, about }).where('incarnation', '=', incarnation).execute();
}

/** In the same order for everybody. */
export function replicasOf(query: Sql): Promise<readonly RenewedReplica[]> {
  return allReplicas(query, {});
}

const allReplicas = compileStatement<object, RenewedReplica>((query) =>
  query.selectFrom('replicas').selectAll().orderBy('id'),
);

/** Where they were not renewed meanwhile. Their workspaces are free then. */
export async function removeExpired(query: Sql, lapsed: readonly RenewedReplica[]): Promise<void> {
  for (const { incarnation, expires_at } of lapsed) {
    await query
      .deleteFrom('replicas')
      .where('incarnation', '=', incarnation)
      .where('expires_at', '=', expires_at)
      .execute();
  }
}

/** Of these workspaces, those that nobody owns. */
export async function unownedOf(query: Sql, workspaces: readonly number[]): Promise<readonly number[]> {
  const held = await allHeld(query, {});
  const isHeld = new Set(held.map(({ workspace }) => workspace));
  return workspaces.filter((workspace) => !isHeld.has(workspace));
}

const allHeld = compileStatement<object, { readonly workspace: number }>((query) =>
  query
    .selectFrom('leases')
    .innerJoin('replicas', 'replicas.incarnation', 'leases.incarnation')
    .select('leases.workspace'),
);

/** Any number: of the lock that one process of a schema holds while it takes leases. */
const TAKING = 8_117_346_251_904_340n;

/**
 * Until the end of the transaction nobody else takes leases. Without it a statement that began before another process had
 * registered would not know that it lives, and take from it what it has just got. A file has one writer anyway.
 */
export async function lockLeases(transaction: Sql): Promise<void> {
  if (dialectOf(transaction) === 'postgres')
    await sql`select pg_advisory_xact_lock(${sql.lit(TAKING)} # hashtext(current_schema()))`.execute(transaction);
}

/** A process, as it tells about itself. */
export type LeaseOwner = Pick<Replica, 'id' | 'address' | 'about'>;

/**
 * The owner of a workspace; undefined where nobody owns it.
 *
 * @param livingAt time of the store: one that has expired by then counts for nobody; absent: until somebody removes it
 */
export function ownerOf(query: Sql, workspace: string, livingAt?: number): Promise<LeaseOwner | undefined> {
  return owned(query)
    .where('workspaces.name', '=', workspace)
    .$if(livingAt !== undefined, (owners) => owners.where('replicas.expires_at', '>', livingAt ?? 0))
    .executeTakeFirst();
}

/** The owners of all workspaces that have one. */
export function ownersOf(query: Sql): Promise<readonly (LeaseOwner & { readonly workspace: string })[]> {
  return owned(query).orderBy('workspaces.name').execute();
}

function owned(query: Sql) {
  return query
    .selectFrom('workspaces')
    .innerJoin('leases', 'leases.workspace', 'workspaces.id')
    .innerJoin('replicas', 'replicas.incarnation', 'leases.incarnation')
    .select(['workspaces.name as workspace', 'replicas.id', 'replicas.address', 'replicas.about']);
}

export interface TakenLease {
  readonly epoch: number;
  /** Its last owner did not give it back: it was silent for a TTL. */
  readonly isTakeover: boolean;
}

/**
 * Takes those of them that nobody owns. In one transaction with a renewal of the incarnation.
 *
 * @returns those that were taken, by workspace
 */
export async function takeLeases(
  query: Sql,
  incarnation: string,
  workspaces: readonly number[],
): Promise<ReadonlyMap<number, TakenLease>> {
  const notGivenBack = await query
    .selectFrom('leases')
    .select('workspace')
    .where('workspace', 'in', workspaces)
    .where('incarnation', 'is not', null)
    .execute();
  const isTakeover = new Set(notGivenBack.map(({ workspace }) => workspace));
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

/** Those of them that it still owns are free at once. */
export async function releaseLeases(query: Sql, incarnation: string, workspaces: readonly number[]): Promise<void> {
  await query
    .updateTable('leases')
    .set({ incarnation: null })
    .where('incarnation', '=', incarnation)
    .where('workspace', 'in', workspaces)
    .execute();
}

/** The process ends: its workspaces are given back, and free at once. */
export async function unregister(query: Sql, incarnation: string): Promise<void> {
  await query.updateTable('leases').set({ incarnation: null }).where('incarnation', '=', incarnation).execute();
  await query.deleteFrom('replicas').where('incarnation', '=', incarnation).execute();
}

/** A row of `leases`, as its holder knows it. */
interface LeaseRow {
  readonly workspace: number;
  readonly incarnation: string;
  readonly epoch: number;
}

/** What a commit of a workspace begins with. */
export type Fence = (transaction: Sql) => Promise<void>;

/** Throws `lease_lost` where the workspace has been taken over since. */
export function fenceOf(lease: LeaseRow): Fence {
  return async (transaction) => {
    const rows = await present(transaction, lease);
    if (rows.length === 0)
      throw new SyncError('lease_lost', `workspace ${lease.workspace} was taken over by another process`);
  };
}

const present = compileStatement((query, { workspace, incarnation, epoch }: LeaseRow) =>
  query
    .selectFrom('leases')
    .select('epoch')
    .where('workspace', '=', workspace)
    .where('incarnation', '=', incarnation)
    .where('epoch', '=', epoch)
    // Whoever takes it over waits for the end of this transaction. A file has one writer anyway.
    .$if(dialectOf(query) === 'postgres', (locking) => locking.forShare()),
);
