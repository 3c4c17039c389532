import { type Expression, sql } from 'kysely';
import { SyncError } from '../errors/sync-error.ts';
import type { Sql } from './workspace-scope.ts';

/**
 * Which of several processes works on a workspace. Each renews one row of `replicas`; a lease names the incarnation that holds
 * it. An incarnation without a row there has expired, for good, and its workspaces are free: a process that judges it expired
 * removes its row, and only then takes its leases. Its last owner detects that by the next renewal, which finds no row, and by
 * its next commit, which the fence refuses.
 */

/** The time by the clock that all processes share: that of the database. Epoch milliseconds. */
export type StoreTime = () => Expression<number>;

/** Of a process whose clock is the only one. */
export function timeOf(clock: { now(): number }): StoreTime {
  return () => sql<number>`${clock.now()}`;
}

export interface Replica {
  readonly id: string;
  readonly incarnation: string;
  readonly address: string;
}

export interface RenewedReplica extends Replica {
  readonly expires_at: number;
}

/** The process takes this incarnation in the place of the one it had. @param ttl milliseconds */
export async function register(query: Sql, replica: Replica, now: StoreTime, ttl: number): Promise<void> {
  const { incarnation, address } = replica;
  const renewed = { incarnation, address, expires_at: expiry(now, ttl) };
  await query
    .insertInto('replicas')
    .values({ ...replica, expires_at: expiry(now, ttl) })
    .onConflict((conflict) => conflict.column('id').doUpdateSet(renewed))
    .execute();
}

/** @returns whether it had not expired yet */
export async function renew(query: Sql, incarnation: string, now: StoreTime, ttl: number): Promise<boolean> {
  const next = expiry(now, ttl);
  // Another value each time, also where the clock is set back: by that the others see that it lives.
  const later = sql<number>`case when ${next} > expires_at then ${next} else expires_at + 1 end`;
  const { numUpdatedRows } = await query
    .updateTable('replicas')
    .set({ expires_at: later })
    .where('incarnation', '=', incarnation)
    .executeTakeFirstOrThrow();
  return numUpdatedRows > 0n;
}

function expiry(now: StoreTime, ttl: number) {
  return sql<number>`${now()} + ${ttl}`;
}

/** In the same order for everybody. */
export function replicasOf(query: Sql): Promise<readonly RenewedReplica[]> {
  return query.selectFrom('replicas').selectAll().orderBy('id').execute();
}

/** Where they were not renewed meanwhile. Their workspaces are free then. */
export async function removeLapsed(query: Sql, lapsed: readonly RenewedReplica[]): Promise<void> {
  for (const { incarnation, expires_at } of lapsed) {
    await query
      .deleteFrom('replicas')
      .where('incarnation', '=', incarnation)
      .where('expires_at', '=', expires_at)
      .execute();
  }
}

/** Of these workspaces, those that nobody owns. */
export async function freeOf(query: Sql, workspaces: readonly number[]): Promise<readonly number[]> {
  const held = await query
    .selectFrom('leases')
    .innerJoin('replicas', 'replicas.incarnation', 'leases.incarnation')
    .select('leases.workspace')
    .execute();
  const isHeld = new Set(held.map(({ workspace }) => workspace));
  return workspaces.filter((workspace) => !isHeld.has(workspace));
}

/**
 * Takes those of them that nobody owns. In one transaction with a renewal of the incarnation.
 *
 * @returns the epochs of those that were taken, by workspace
 */
export async function takeLeases(
  query: Sql,
  incarnation: string,
  workspaces: readonly number[],
): Promise<ReadonlyMap<number, number>> {
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
  return new Map(rows.map(({ workspace, epoch }) => [workspace, epoch]));
}

/** Those of them that it still owns are free at once. */
export async function giveBack(query: Sql, incarnation: string, workspaces: readonly number[]): Promise<void> {
  await query
    .updateTable('leases')
    .set({ incarnation: null })
    .where('incarnation', '=', incarnation)
    .where('workspace', 'in', workspaces)
    .execute();
}

/** The process ends: its workspaces are free at once. */
export async function unregister(query: Sql, incarnation: string): Promise<void> {
  await query.deleteFrom('replicas').where('incarnation', '=', incarnation).execute();
}

/** What a commit of a workspace begins with. */
export type Fence = (transaction: Sql) => Promise<void>;

/** Throws `lease_lost` where the workspace has been taken over since. */
export function fenceOf(lease: {
  readonly workspace: number;
  readonly incarnation: string;
  readonly epoch: number;
}): Fence {
  const { workspace, incarnation, epoch } = lease;
  return async (transaction) => {
    const row = await transaction
      .selectFrom('leases')
      .select('epoch')
      .where('workspace', '=', workspace)
      .where('incarnation', '=', incarnation)
      .where('epoch', '=', epoch)
      .executeTakeFirst();
    if (row === undefined)
      throw new SyncError('lease_lost', `workspace ${workspace} was taken over by another process`);
  };
}
