import type { ItemKey } from '../model/item.ts';
import type { Scope } from './workspace-scope.ts';

/** The last sweep of a unit that reached its end. */
export async function recordSweep(
  query: Scope,
  { connection, unit }: { readonly connection: string; readonly unit: string },
  result: { readonly at: number; readonly listed: number; readonly asked: number },
): Promise<void> {
  const row = { completed_at: result.at, listed: result.listed, asked: result.asked, error: null, failed_at: null };
  await query
    .insertInto('sweeps')
    .values({ connection, unit, ...row })
    .onConflict((conflict) => conflict.columns(['workspace', 'connection', 'unit']).doUpdateSet(row))
    .execute();
}

/** Why a sweep failed. The result of the last complete one stays. */
export async function recordSweepFailure(
  query: Scope,
  { connection, unit }: { readonly connection: string; readonly unit: string },
  error: string,
  now: number,
): Promise<void> {
  const row = { error, failed_at: now };
  await query
    .insertInto('sweeps')
    .values({ connection, unit, ...row })
    .onConflict((conflict) => conflict.columns(['workspace', 'connection', 'unit']).doUpdateSet(row))
    .execute();
}

/** Forgets units that the connection has no longer. */
export async function forgetOtherSweeps(query: Scope, connection: string, units: readonly string[]): Promise<void> {
  const known = await query.selectFrom('sweeps').select('unit').where('connection', '=', connection).execute();
  const present = new Set(units);
  for (const { unit } of known) {
    if (present.has(unit)) continue;
    await query.deleteFrom('sweeps').where('connection', '=', connection).where('unit', '=', unit).execute();
  }
}

/** Keys read in one statement: few enough that nobody waits for it. */
const LOOKED_AT = 1_000;

/** A part of all items: those of the connection that were there before, and where to go on. */
interface ItemPart {
  readonly items: readonly { readonly key: ItemKey; readonly isGone: boolean }[];
  /** Absent after the last part. */
  readonly after?: ItemKey;
}

/** The items of a connection, part by part, in the order of keys. */
export async function storedItemsAfter(
  query: Scope,
  { connection, seenBefore }: { readonly connection: string; readonly seenBefore: number },
  after: ItemKey,
): Promise<ItemPart> {
  const rows = await query
    .selectFrom('items')
    .select(['key', 'connection', 'gone', 'seen_at'])
    .where('key', '>', after)
    .orderBy('key')
    .limit(LOOKED_AT)
    .execute();
  const items = rows
    .filter((row) => row.connection === connection && row.seen_at < seenBefore)
    .map(({ key, gone }) => ({ key, isGone: gone === 1 }));
  const last = rows.at(-1)?.key;
  return rows.length < LOOKED_AT || last === undefined ? { items } : { items, after: last };
}
