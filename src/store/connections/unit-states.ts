import type { ItemKey } from '../../model/item.ts';
import type { PageTrail } from '../../platform/lib/page-trail.ts';
import type { NewRow, Scope } from '../workspace-scope.ts';

/** An unfinished walk. */
export interface Walk {
  /** The page to read next; absent until the first page is read. */
  readonly page?: string;
  /** Highest time on the pages that were read; the watermark once the last page is stored. */
  readonly candidate?: string;
  /** RFC 3339, by our clock. */
  readonly startedAt: string;
  /** When the last page so far was read; before the first page, the start. RFC 3339, by our clock. */
  readonly readAt: string;
  /** Validator of the first page, stored until the walk is complete. */
  readonly etag?: string;
  /** Absent before the first page. */
  readonly trail?: PageTrail;
}

/** The progress of the poll of one unit between two requests. */
export interface PollState {
  readonly watermark?: string;
  readonly walk?: Walk;
  /** Validator of the first page of the last complete walk. */
  readonly etag?: string;
  /** SHA-256 of the last complete walk if that was a single page. */
  readonly digest?: string;
}

/** The unit of failures that concern a whole connection, such as a list of units that cannot be read. */
export const ALL_UNITS = '*';

export async function loadPollState(query: Scope, connection: string, unit: string): Promise<PollState> {
  const row = await query
    .selectFrom('polls')
    .select(['watermark', 'walk', 'etag', 'digest'])
    .where('connection', '=', connection)
    .where('unit', '=', unit)
    .executeTakeFirst();
  return {
    watermark: row?.watermark ?? undefined,
    walk: row?.walk ? (JSON.parse(row.walk) as Walk) : undefined,
    etag: row?.etag ?? undefined,
    digest: row?.digest ?? undefined,
  };
}

/** Saves the state after a page, which also clears an earlier failure. @param completedAt only after the last page of a walk */
export async function savePollState(
  query: Scope,
  connection: string,
  unit: string,
  state: PollState,
  completedAt?: number,
): Promise<void> {
  await saveUnit(query, 'polls', connection, unit, {
    watermark: state.watermark ?? null,
    walk: state.walk ? JSON.stringify(state.walk) : null,
    etag: state.etag ?? null,
    digest: state.digest ?? null,
    error: null,
    failed_at: null,
    ...(completedAt === undefined ? {} : { completed_at: completedAt }),
  });
}

/** Records a complete sweep of a unit: the number of listed items, and of those that were fetched to check them. */
export async function recordSweep(
  query: Scope,
  connection: string,
  unit: string,
  { at, listed, asked }: { readonly at: number; readonly listed: number; readonly asked: number },
): Promise<void> {
  await saveUnit(query, 'sweeps', connection, unit, { completed_at: at, listed, asked, error: null, failed_at: null });
}

/** Stores the failure of a poll or a sweep. The position of the poll, and the result of the last complete sweep, stay. */
export async function recordUnitFailure(
  query: Scope,
  table: 'polls' | 'sweeps',
  connection: string,
  unit: string,
  error: string,
  now: number,
): Promise<void> {
  await saveUnit(query, table, connection, unit, { error, failed_at: now });
}

async function saveUnit<Table extends 'polls' | 'sweeps'>(
  query: Scope,
  table: Table,
  connection: string,
  unit: string,
  state: Omit<NewRow<Table>, 'connection' | 'unit'>,
): Promise<void> {
  // The types of both tables cannot be inferred at once; the columns named here exist in both.
  const row = state as Omit<NewRow<'polls'>, 'connection' | 'unit'>;
  await query
    .insertInto(table as 'polls')
    .values({ connection, unit, ...row })
    .onConflict((conflict) => conflict.columns(['workspace', 'connection', 'unit']).doUpdateSet(row))
    .execute();
}

/** Returns the units with a stored failure that the connection no longer has, including `ALL_UNITS`. */
export async function outdatedFailures(
  query: Scope,
  connection: string,
  units: readonly string[],
): Promise<readonly string[]> {
  const polls = query.selectFrom('polls').select('unit').where('connection', '=', connection);
  const failed = await polls.where('error', 'is not', null).execute();
  const present = new Set(units);
  return failed.map(({ unit }) => unit).filter((unit) => !present.has(unit));
}

/** Clears the failures of these units. Their positions stay, in case the units return. */
export async function clearFailures(query: Scope, connection: string, units: readonly string[]): Promise<void> {
  for (const unit of units) {
    const row = query.updateTable('polls').where('connection', '=', connection).where('unit', '=', unit);
    await row.set({ error: null, failed_at: null }).execute();
  }
  await query.deleteFrom('polls').where('connection', '=', connection).where('unit', '=', ALL_UNITS).execute();
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

/**
 * Returns the items of a connection that were read before `seenBefore`, epoch milliseconds, page by page in the order of keys. `after`
 * is the position of the next page; undefined on the last page.
 */
export async function storedItemsAfter(
  query: Scope,
  { connection, seenBefore }: { readonly connection: string; readonly seenBefore: number },
  after: ItemKey,
) {
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
  return { items, after: rows.length < PAGE_SIZE ? undefined : rows.at(-1)?.key };
}
