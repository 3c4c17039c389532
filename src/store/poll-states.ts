import type { PageTrail } from '../platform/lib/page-trail.ts';
import type { Scope } from './workspace-scope.ts';

/** An unfinished walk. */
export interface Walk {
  /** The page to read next; absent while not even the first one was read. */
  readonly page?: string;
  /** Highest time seen on its pages so far: the watermark when the last page is in. */
  readonly candidate?: string;
  /** RFC 3339, by our clock. */
  readonly startedAt: string;
  /** When its last page came in; its start before that. RFC 3339, by our clock. */
  readonly readAt: string;
  /** The validator of its first page, kept until the walk is complete. */
  readonly etag?: string;
  /** Absent before the first page. */
  readonly trail?: PageTrail;
}

/** Where the polling of one unit stands between two requests. */
export interface PollState {
  readonly watermark?: string;
  readonly walk?: Walk;
  /** Validator of the first page of the last complete walk. */
  readonly etag?: string;
  /** SHA-256 of the last complete walk where that was a single page. */
  readonly digest?: string;
}

/** Failures that concern a whole connection, such as a list of units that cannot be read, are kept under this name. */
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

/** Saves where a walk stands after a page. A page that came in ends an earlier failure; `completedAt` with the last. */
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

/** Records why a poll failed; the position stays as it is. */
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

/** Units that failed last and that the connection no longer has, among them the whole connection. */
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

/** Takes back the failures of these units. Where a unit was read up to stays, in case that it comes back. */
export async function clearFailures(query: Scope, connection: string, units: readonly string[]): Promise<void> {
  for (const unit of units) {
    const row = query.updateTable('polls').where('connection', '=', connection).where('unit', '=', unit);
    await row.set({ error: null, failed_at: null }).execute();
  }
  await query.deleteFrom('polls').where('connection', '=', connection).where('unit', '=', ALL_UNITS).execute();
}
