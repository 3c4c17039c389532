import { sql } from 'kysely';
import type { ItemReference } from '../model/item.ts';
import type { Store } from './database.ts';
import { changeInChunks } from './in-chunks.ts';
import { rowsWhere, saveRows } from './unit-of-work/unit-of-work.ts';
import type { Scope } from './workspace-scope.ts';

/**
 * Objects to fetch from a provider: level-triggered, one row for each object however often it is asked for. `asks`
 * counts, so that an ask that arrives while the fetch is under way is not lost.
 */
export interface WantedFetch {
  /** The primary key: the reference as JSON. */
  readonly key: string;
  readonly reference: ItemReference;
  readonly connection: string;
  readonly deliveryId: number;
  readonly attempts: number;
  readonly asks: number;
}

export interface FetchRequest {
  /** Fetched through this connection. */
  readonly connection: string;
  readonly reference: ItemReference;
  /** The delivery that asks, for correlation. */
  readonly deliveryId: number;
  readonly now: number;
  /** Whether a fetch that was asked for already is enough. */
  readonly isCovered?: boolean;
}

/**
 * `since` and `not_before` of a fetch that the vendor refuses for good. It is not tried again before somebody asks for the object
 * anew, or the stage starts with another configuration. It sorts behind all others. The last time that a date can hold.
 */
export const NEVER = 8_640_000_000_000_000;

/**
 * Asks for an object. Asked again, the earliest time stays and a back-off goes on; the object is fetched once more. One that was
 * refused for good is due at once.
 */
export async function requestFetch(query: Scope, request: FetchRequest): Promise<void> {
  const { connection, reference, deliveryId, now, isCovered } = request;
  const [present] = await rowsWhere(query, 'fetches', 'reference', [keyOf(reference)]);
  const isRefused = present?.not_before === NEVER;
  if (present && isCovered && !isRefused) return;
  const asked = present
    ? {
        ...{ ...present, asks: present.asks + 1, since: Math.min(present.since, now) },
        ...(isRefused && { not_before: now }),
      }
    : {
        ...{ reference: keyOf(reference), connection, since: now, not_before: now, delivery_id: deliveryId },
        ...{ attempts: 0, error: null, asks: 1 },
      };
  await saveRows(query, 'fetches', [asked]);
}

/** Reads at once what is known of the fetches of these, for those who will ask for them. */
export async function prefetchFetches(query: Scope, references: readonly ItemReference[]): Promise<void> {
  await rowsWhere(query, 'fetches', 'reference', references.map(keyOf));
}

/** Equal references give equal text, in whatever order their parts were built. */
function keyOf({ kind, key, locator }: ItemReference): string {
  const sorted = Object.fromEntries(Object.entries(locator).sort(([a], [b]) => (a < b ? -1 : 1)));
  return JSON.stringify({ kind, key, locator: sorted });
}

/** The back-off after a first failure is twice this at most, milliseconds, and doubles with each failure that follows. */
export const FIRST_PAUSE = 1_000;
/**
 * The fetches of a connection that may be tried, oldest ask first. A time further ahead than a back-off after so many failures
 * puts it, `furthest` at most, can only come from a clock that has since been set back, and counts as reached: with 0 each of them.
 */
export async function dueFetches(
  query: Scope,
  connection: string,
  now: number,
  furthest: number,
  most: number,
): Promise<WantedFetch[]> {
  const doublings = Math.max(-1, Math.floor(Math.log2(furthest / FIRST_PAUSE)));
  const doubled = sql`${sql.lit(FIRST_PAUSE)} * (1 << cast(attempts as integer))`;
  const longest = sql`case when attempts <= ${sql.lit(doublings)} then ${doubled} else ${sql.lit(furthest)} end`;
  const rows = await query
    .selectFrom('fetches')
    .select(['reference', 'connection', 'delivery_id', 'attempts', 'asks'])
    .where('connection', '=', connection)
    .where('since', '<', NEVER)
    .where(({ or, eb }) => or([eb('not_before', '<=', now), sql<boolean>`not_before - ${longest} > ${now}`]))
    .orderBy('since')
    .limit(most)
    .execute();
  return rows.map((row) => ({
    key: row.reference,
    reference: JSON.parse(row.reference) as ItemReference,
    connection: row.connection,
    deliveryId: row.delivery_id,
    attempts: row.attempts,
    asks: row.asks,
  }));
}

/** When the next fetch that waits may be tried; undefined where none waits. */
export async function nextFetchTime(query: Scope, now: number): Promise<number | undefined> {
  const row = await query
    .selectFrom('fetches')
    .select(({ fn }) => fn.min('not_before').as('time'))
    .where('not_before', '>', now)
    .where('not_before', '<', NEVER)
    .executeTakeFirst();
  return row?.time ?? undefined;
}

/** Removes a fetch that is done, unless it was asked for again since `fetch` was read: then it is due at once. */
export async function settleFetch(query: Scope, fetch: WantedFetch): Promise<void> {
  const { numDeletedRows } = await query
    .deleteFrom('fetches')
    .where('reference', '=', fetch.key)
    .where('asks', '=', fetch.asks)
    .executeTakeFirst();
  if (numDeletedRows > 0n) return;
  await query.updateTable('fetches').set({ attempts: 0, error: null }).where('reference', '=', fetch.key).execute();
}

/** Records a failure. One that was asked for again meanwhile is not given up: a newer delivery may tell of another state. */
export async function postponeFetch(
  query: Scope,
  { key, asks }: Pick<WantedFetch, 'key' | 'asks'>,
  error: string,
  notBefore: number,
): Promise<void> {
  await query
    .updateTable('fetches')
    .set(({ eb }) => ({
      ...{ attempts: eb('attempts', '+', 1), error, not_before: notBefore },
      ...(notBefore === NEVER && { since: NEVER }),
    }))
    .where('reference', '=', key)
    .$if(notBefore === NEVER, (given) => given.where('asks', '=', asks))
    .execute();
}

/** Has fetches that were refused for good tried again: a credential or its rights may be other ones now. */
export async function reviveFetches(store: Pick<Store, 'commit'>, now: number): Promise<void> {
  await changeInChunks(store, async (query, most) => {
    const some = query.selectFrom('fetches').select('reference').where('not_before', '=', NEVER).limit(most);
    const { numUpdatedRows } = await query
      .updateTable('fetches')
      .set({ since: now, not_before: now })
      .where('reference', 'in', some)
      .executeTakeFirstOrThrow();
    return Number(numUpdatedRows);
  });
}

/** Removes fetches of connections that are no longer configured, and says which connections those were. */
export async function dropOrphanFetches(query: Scope, connections: readonly string[]): Promise<string[]> {
  const orphans = await query
    .selectFrom('fetches')
    .select('connection')
    .distinct()
    .where('connection', 'not in', ['', ...connections])
    .execute();
  const names = orphans.map(({ connection }) => connection);
  if (names.length > 0) await query.deleteFrom('fetches').where('connection', 'in', names).execute();
  return names;
}
