import type { ItemKey } from '../model/item.ts';
import type { Scope } from './workspace-scope.ts';

/** Records a complete sweep of a unit: the number of listed items, and of those that were fetched to check them. */
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

/** Records a failed sweep of a unit. The result of the last complete sweep stays. */
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

/** Deletes the sweeps of units that the connection no longer has. */
export async function forgetOtherSweeps(query: Scope, connection: string, units: readonly string[]): Promise<void> {
  const stored = await query.selectFrom('sweeps').select('unit').where('connection', '=', connection).execute();
  const current = new Set(units);
  for (const { unit } of stored) {
    if (current.has(unit)) continue;
    await query.deleteFrom('sweeps').where('connection', '=', connection).where('unit', '=', unit).execute();
  }
}

/** Keys read by one statement. It is short, so that no other work waits for it. */
const PAGE_SIZE = 1_000;

/** One page of stored items, of which only those of one connection are returned. */
interface ItemPage {
  readonly items: readonly { readonly key: ItemKey; readonly isGone: boolean }[];
  /** The position of the next page; absent on the last page. */
  readonly after?: ItemKey;
}

/** Returns the items of a connection that were read before `seenBefore`, epoch milliseconds, page by page in the order of keys. */
export async function storedItemsAfter(
  query: Scope,
  { connection, seenBefore }: { readonly connection: string; readonly seenBefore: number },
  after: ItemKey,
): Promise<ItemPage> {
  const rows = await query
    .selectFrom('items')
    .select(['key', 'connection', 'gone', 'seen_at'])
    .where('key', '>', after)
    .orderBy('key')
    .limit(PAGE_SIZE)
    .execute();
  const items = rows
    .filter((row) => row.connection === connection && row.seen_at < seenBefore)
    .map(({ key, gone }) => ({ key, isGone: gone === 1 }));
  const last = rows.at(-1)?.key;
  return rows.length < PAGE_SIZE || last === undefined ? { items } : { items, after: last };
}
