import type { PageTrail } from '../platform/lib/page-trail.ts';
import type { Scope } from './workspace-scope.ts';

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
  const row = {
    watermark: state.watermark ?? null,
    walk: state.walk ? JSON.stringify(state.walk) : null,
    etag: state.etag ?? null,
    digest: state.digest ?? null,
    error: null,
    failed_at: null,
    ...(completedAt === undefined ? {} : { completed_at: completedAt }),
  };
  await query
    .insertInto('polls')
    .values({ connection, unit, ...row })
    .onConflict((conflict) => conflict.columns(['workspace', 'connection', 'unit']).doUpdateSet(row))
    .execute();
}

/** Stores the failure of a poll. The position stays as it is. */
export async function recordPollFailure(
  query: Scope,
  connection: string,
  unit: string,
  error: string,
  now: number,
): Promise<void> {
  const row = { error, failed_at: now };
  await query
    .insertInto('polls')
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
  const failed = await query
    .selectFrom('polls')
    .select('unit')
    .where('connection', '=', connection)
    .where('error', 'is not', null)
    .execute();
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
