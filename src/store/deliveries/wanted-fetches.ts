import { sql } from 'kysely';
import type { ItemReference } from '../../model/item.ts';
import { newRow } from '../unit-of-work/cached-tables.ts';
import { rowsWhere, saveRows } from '../unit-of-work/unit-of-work.ts';
import { changedRows, changeInChunks, type Scope, type Store } from '../workspace-scope.ts';
import { type Origin, originsOf } from './inbox.ts';

/**
 * An object to fetch from a provider. Level-triggered: one row for each object, however often it is requested. `asks` counts the
 * requests, so that one that arrives during the fetch is not lost.
 */
export interface WantedFetch extends Pick<Origin, 'isImport' | 'webhook'> {
  /** The primary key: the reference as JSON. */
  readonly key: string;
  readonly reference: ItemReference;
  readonly connection: string;
  readonly deliveryId: number;
  readonly attempts: number;
  readonly asks: number;
}

export interface FetchRequest {
  /** The connection that fetches the object. */
  readonly connection: string;
  readonly reference: ItemReference;
  /** The delivery that caused the request, for correlation. */
  readonly deliveryId: number;
  readonly now: number;
  /** Whether a fetch that was requested earlier suffices. */
  readonly isCovered?: boolean;
  /** A live webhook caused the request. */
  readonly isLive?: boolean;
}

/**
 * The value of `since` and `not_before` of a fetch that the vendor refused. The fetch is not tried again until the object is
 * requested again, or until the stage starts with another configuration. This is the last time that a date can represent, so that
 * the fetch sorts behind all others.
 */
export const NEVER = 8_640_000_000_000_000;

/**
 * Requests the fetch of an object. A repeated request keeps the earliest time and the backoff; the object is fetched once more.
 * A refused fetch becomes due at once. A live webhook replaces the earlier cause of the fetch.
 */
export async function requestFetch(query: Scope, request: FetchRequest): Promise<void> {
  const { connection, reference, deliveryId, now, isCovered, isLive } = request;
  const [existing] = await rowsWhere(query, 'fetches', 'reference', [keyOf(reference)]);
  const isRefused = existing?.not_before === NEVER;
  const isRepeated = !isCovered || isRefused;
  if (existing && !isRepeated && !isLive) return;
  const row = existing
    ? {
        ...existing,
        delivery_id: isLive ? deliveryId : existing.delivery_id,
        asks: existing.asks + (isRepeated ? 1 : 0),
        since: Math.min(existing.since, now),
        not_before: isRefused ? now : existing.not_before,
      }
    : newRow('fetches', {
        reference: keyOf(reference),
        connection,
        since: now,
        not_before: now,
        delivery_id: deliveryId,
      });
  await saveRows(query, 'fetches', [row]);
}

/** Reads the fetches of these objects into the unit of work at once, so that later reads of single ones need no statement. */
export async function prefetchFetches(query: Scope, references: readonly ItemReference[]): Promise<void> {
  await rowsWhere(query, 'fetches', 'reference', references.map(keyOf));
}

/** Returns the reference as JSON. Equal references give equal text, because the parts of the locator are sorted. */
function keyOf({ kind, key, locator }: ItemReference): string {
  const sorted = Object.fromEntries(Object.entries(locator).sort(([a], [b]) => (a < b ? -1 : 1)));
  return JSON.stringify({ kind, key, locator: sorted });
}

/** Half of the longest backoff after the first failure, milliseconds. The backoff doubles with each further failure. */
export const FIRST_PAUSE = 1_000;

/**
 * Returns the fetches of a connection that may be tried, the oldest request first. A time further in the future than the longest
 * backoff after as many failures comes from a clock that has since been set back, and counts as reached.
 *
 * @param furthest upper limit of a backoff, milliseconds; with 0, all fetches may be tried
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
  const deliveries = rows.map((row) => row.delivery_id);
  const origins = await originsOf(query, deliveries);
  return rows.map((row) => ({
    key: row.reference,
    reference: JSON.parse(row.reference) as ItemReference,
    connection: row.connection,
    deliveryId: row.delivery_id,
    isImport: false,
    ...origins.get(row.delivery_id),
    attempts: row.attempts,
    asks: row.asks,
  }));
}

/** Returns when the next waiting fetch may be tried; undefined if none waits. */
export async function nextFetchTime(query: Scope, now: number): Promise<number | undefined> {
  const row = await query
    .selectFrom('fetches')
    .select(({ fn }) => fn.min('not_before').as('time'))
    .where('not_before', '>', now)
    .where('not_before', '<', NEVER)
    .executeTakeFirst();
  return row?.time ?? undefined;
}

/** Removes a completed fetch. If the object was requested again since `fetch` was read, it stays and is due at once. */
export async function settleFetch(query: Scope, fetch: Pick<WantedFetch, 'key' | 'asks'>): Promise<void> {
  const same = query.deleteFrom('fetches').where('reference', '=', fetch.key).where('asks', '=', fetch.asks);
  if ((await changedRows(same)) > 0) return;
  await query.updateTable('fetches').set({ attempts: 0, error: null }).where('reference', '=', fetch.key).execute();
}

/** Records a failure. A fetch that was requested again meanwhile is not given up, because the state of the object may have changed. */
export async function postponeFetch(
  query: Scope,
  { key, asks }: Pick<WantedFetch, 'key' | 'asks'>,
  error: string,
  notBefore: number,
): Promise<void> {
  await query
    .updateTable('fetches')
    .set(({ eb }) => ({
      attempts: eb('attempts', '+', 1),
      error,
      not_before: notBefore,
      ...(notBefore === NEVER && { since: NEVER }),
    }))
    .where('reference', '=', key)
    .$if(notBefore === NEVER, (given) => given.where('asks', '=', asks))
    .execute();
}

/**
 * Makes fetches due again that were refused, because the credential or its rights may have changed, and those that failed at least
 * `lasting` times, so that the process learns of these failures.
 */
export async function reviveFetches(store: Pick<Store, 'commit'>, now: number, lasting: number): Promise<void> {
  await changeInChunks(store, async (query, most) => {
    const some = query
      .selectFrom('fetches')
      .select('reference')
      .where('not_before', '>', now)
      .where(({ or, eb }) => or([eb('not_before', '=', NEVER), eb('attempts', '>=', lasting)]))
      .limit(most);
    const since = sql<number>`case when since > ${now} then ${now} else since end`;
    return changedRows(query.updateTable('fetches').set({ since, not_before: now }).where('reference', 'in', some));
  });
}

/** Removes the fetches of connections that are no longer configured, and returns the names of these connections. */
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
