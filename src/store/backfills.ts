import { type RawBuilder, type Selectable, sql } from 'kysely';
import type { Store } from './database.ts';
import { ALL_UNITS } from './poll-states.ts';
import type { Tables } from './schema/tables.ts';
import type { Scope, Sql } from './workspace-scope.ts';

/**
 * Backfills that somebody asked for, one row for each unit of the connection. While the units are not known yet, one row
 * named `*` stands for all of them.
 *
 *   asked (`*`) → one row for each unit, first page → next page … → finished, with an error where it had to be given up
 *
 * Somebody may pause it: then its units wait for no time (`PAUSED`), also one whose page is being read.
 *
 * A connection has one backfill at a time; the rows of a finished one stay until the next is asked for.
 */
export type BackfillRow = Selectable<Tables['backfills']>;

/** The time before which a unit of a paused backfill is not tried: none that a clock shows. */
const PAUSED = Number.MAX_SAFE_INTEGER;

/** Where a unit stood when its page was asked for. */
export type BackfillPosition = Pick<BackfillRow, 'connection' | 'unit' | 'page' | 'pages' | 'items' | 'started_at'>;

/** Asks for a backfill of everything that changed since then. False where one runs: that one goes on as it is. */
export async function requestBackfill(
  query: Scope,
  wish: { readonly connection: string; readonly since: string | null; readonly now: number },
): Promise<boolean> {
  const { connection, since, now } = wish;
  const running = await unfinished(query, connection).select('unit').limit(1).executeTakeFirst();
  if (running) return false;
  await dropBackfill(query, connection);
  await query
    .insertInto('backfills')
    .values({
      connection,
      unit: ALL_UNITS,
      since,
      page: null,
      total: null,
      started_at: now,
      finished_at: null,
      error: null,
    })
    .execute();
  return true;
}

/** Ends it where it stands. @returns whether one was running */
export async function stopBackfill(query: Scope, connection: string): Promise<boolean> {
  const running = await unfinished(query, connection).select('unit').limit(1).executeTakeFirst();
  if (running) await dropBackfill(query, connection);
  return running !== undefined;
}

/** Reads no further page until it is resumed. @returns whether one was running */
export async function pauseBackfill(query: Scope, connection: string): Promise<boolean> {
  return setUnfinished(query, connection, PAUSED);
}

/** @returns whether there is one that is not finished */
export async function resumeBackfill(query: Scope, connection: string): Promise<boolean> {
  return setUnfinished(query, connection, 0);
}

async function setUnfinished(
  query: Scope,
  connection: string,
  notBefore: number | RawBuilder<number>,
): Promise<boolean> {
  const { numUpdatedRows } = await query
    .updateTable('backfills')
    .set({ not_before: notBefore })
    .where('connection', '=', connection)
    .where('finished_at', 'is', null)
    .executeTakeFirstOrThrow();
  return numUpdatedRows > 0n;
}

/** A unit that was paused while its page was read stays so. */
function unlessPaused(notBefore: number) {
  return sql<number>`case when not_before = ${PAUSED} then not_before else ${notBefore} end`;
}

async function dropBackfill(query: Scope, connection: string): Promise<void> {
  await query.deleteFrom('backfills').where('connection', '=', connection).execute();
}

function unfinished(query: Scope, connection: string) {
  return query.selectFrom('backfills').where('connection', '=', connection).where('finished_at', 'is', null);
}

function going(query: Scope, connection: string) {
  return unfinished(query, connection).where('not_before', '!=', PAUSED);
}

/**
 * The unit to go on with: the one of which least was read, so that what is newest everywhere comes first.
 * Of those that wait after a failure, the one that may be tried first. None of a paused backfill.
 */
export async function nextBackfillUnit(
  query: Scope,
  connection: string,
  now: number,
): Promise<BackfillRow | undefined> {
  const due = await going(query, connection)
    .selectAll()
    .where('not_before', '<=', now)
    .orderBy('pages')
    .orderBy('unit')
    .limit(1)
    .executeTakeFirst();
  return due ?? going(query, connection).selectAll().orderBy('not_before').limit(1).executeTakeFirst();
}

/** Times ahead may be of a clock that has since been set back: what waits for one is tried now. */
export async function clampBackfillTimes({ query, commit }: Store, connection: string, now: number): Promise<void> {
  const waiting = await going(query, connection).select('unit').where('not_before', '>', now).executeTakeFirst();
  if (waiting) await commit((transaction) => setUnfinished(transaction, connection, unlessPaused(0)));
}

/** The units are known: the backfill goes on with each of them. */
export async function splitBackfill(query: Scope, asked: BackfillRow, units: readonly string[]): Promise<void> {
  if (units.length === 0) return finishBackfillUnit(query, asked, asked.started_at);
  const present = await unfinished(query, asked.connection)
    .select('not_before')
    .where('unit', '=', asked.unit)
    .where('started_at', '=', asked.started_at)
    .executeTakeFirst();
  if (present === undefined) return;
  await dropBackfill(query, asked.connection);
  for (const unit of units) {
    const not_before = present.not_before === PAUSED ? PAUSED : 0;
    const row = { ...asked, unit, error: null, attempts: 0, not_before };
    await query.insertInto('backfills').values(row).execute();
  }
}

interface BackfilledPage {
  /** Items on it. */
  readonly items: number;
  readonly total: number | undefined;
  /** Absent on the last one. */
  readonly next: string | undefined;
}

/**
 * Moves on by the page that was read.
 *
 * @returns false where the backfill was stopped meanwhile, or another one asked for: then the page is not to be kept
 */
export async function advanceBackfill(
  query: Scope,
  mark: BackfillPosition,
  { items, total, next }: BackfilledPage,
  now: number,
): Promise<boolean> {
  const moved = { page: next ?? null, pages: mark.pages + 1, items: mark.items + items };
  const { numUpdatedRows } = await rowOf(query, mark)
    .set({
      ...{ ...moved, error: null, attempts: 0, not_before: unlessPaused(0) },
      finished_at: next === undefined ? now : null,
    })
    .$if(total !== undefined, (update) => update.set({ total: total as number }))
    .executeTakeFirstOrThrow();
  return numUpdatedRows > 0n;
}

/** It is tried again, not before then. */
export async function postponeBackfill(
  query: Scope,
  mark: BackfillPosition,
  { error, notBefore }: { readonly error: string; readonly notBefore: number },
): Promise<void> {
  await rowOf(query, mark)
    .set(({ eb }) => ({ error, not_before: unlessPaused(notBefore), attempts: eb('attempts', '+', 1) }))
    .execute();
}

/** There is nothing more to read, or `error` says why it cannot be. */
export async function finishBackfillUnit(
  query: Scope,
  mark: BackfillPosition,
  now: number,
  error: string | null = null,
): Promise<void> {
  await rowOf(query, mark).set({ finished_at: now, error }).execute();
}

function rowOf(query: Scope, { connection, unit, page, started_at }: BackfillPosition) {
  return query
    .updateTable('backfills')
    .where('connection', '=', connection)
    .where('unit', '=', unit)
    .where('started_at', '=', started_at)
    .where('page', 'is', page)
    .where('finished_at', 'is', null);
}

/** How much may wait of what a backfill brought before it reads on. */
export interface BackfillBounds {
  readonly deliveries: number;
  readonly fetches: number;
  readonly changes: number;
}

/** Whether it should wait, so that live deliveries never wait behind many old ones. */
export async function isBackfillAhead(query: Scope, connection: string, bounds: BackfillBounds): Promise<boolean> {
  const pending = query.selectFrom('inbox').select('id').where('state', '=', 'pending').limit(bounds.deliveries);
  const fetches = query.selectFrom('fetches').select('reference').where('connection', '=', connection);
  const changes = query
    .selectFrom('outbox')
    .select('entity')
    .where('lane', '=', 'backfill')
    .where('state', '=', 'pending');
  return (
    (await pending.execute()).length >= bounds.deliveries ||
    (await fetches.limit(bounds.fetches).execute()).length >= bounds.fetches ||
    (await changes.limit(bounds.changes).execute()).length >= bounds.changes
  );
}

/** The backfill of one connection, its units added up. Times are epoch milliseconds. */
export interface BackfillStatus {
  readonly connection: string;
  readonly since: string | null;
  /** False until the provider has told which units there are. */
  readonly listed: boolean;
  readonly units: number;
  readonly unitsDone: number;
  readonly pages: number;
  readonly items: number;
  /** Null while it is not known of every unit. */
  readonly total: number | null;
  readonly startedAt: number;
  /** When the last page was read; null while it runs. */
  readonly finishedAt: number | null;
  /** Somebody paused it. */
  readonly isPaused: boolean;
  /** Units that it waits for, or that had to be given up: `code: message`. */
  readonly failures: readonly { readonly unit: string | null; readonly error: string; readonly givenUp: boolean }[];
}

/** Failures named of one backfill. */
const NAMED = 10;

/** Backfills that run, and the last one of each connection. */
export async function readBackfills(query: Scope, connection?: string): Promise<BackfillStatus[]> {
  const rows = await query
    .selectFrom('backfills')
    .selectAll()
    .$if(connection !== undefined, (all) => all.where('connection', '=', connection as string))
    .orderBy('connection')
    .orderBy('unit')
    .execute();
  return byConnection(rows);
}

/** The same of several workspaces. */
export async function backfillsOf(
  query: Sql,
  workspaces: readonly number[],
): Promise<(workspace: number) => readonly BackfillStatus[]> {
  const rows = await query
    .selectFrom('backfills')
    .selectAll()
    .where('workspace', 'in', workspaces)
    .orderBy('workspace')
    .orderBy('connection')
    .orderBy('unit')
    .execute();
  const byWorkspace = Map.groupBy(rows, (row) => row.workspace);
  return (workspace) => byConnection(byWorkspace.get(workspace) ?? []);
}

function byConnection(rows: readonly BackfillRow[]): BackfillStatus[] {
  return [...Map.groupBy(rows, (row) => row.connection).values()].map(sumUp);
}

function sumUp(rows: readonly BackfillRow[]): BackfillStatus {
  const [first] = rows as [BackfillRow];
  const listed = first.unit !== ALL_UNITS;
  const sum = (part: (row: BackfillRow) => number) => rows.reduce((total, row) => total + part(row), 0);
  const done = rows.filter(({ finished_at }) => finished_at !== null);
  // What has been read to its end needs nobody to say how much it is.
  const sizes = rows.map((row) => (row.finished_at === null ? row.total : row.items));
  return {
    connection: first.connection,
    since: first.since,
    listed,
    units: listed ? rows.length : 0,
    unitsDone: listed ? done.length : 0,
    pages: sum(({ pages }) => pages),
    items: sum(({ items }) => items),
    total: sizes.every((size) => size !== null) ? sizes.reduce((all, size) => all + size, 0) : null,
    startedAt: first.started_at,
    finishedAt: done.length < rows.length ? null : Math.max(...done.map((row) => row.finished_at as number)),
    isPaused: rows.some((row) => row.finished_at === null && row.not_before === PAUSED),
    failures: rows.flatMap(failureOf).slice(0, NAMED),
  };
}

function failureOf({ unit, error, finished_at }: BackfillRow): BackfillStatus['failures'] {
  return error === null ? [] : [{ unit: unit === ALL_UNITS ? null : unit, error, givenUp: finished_at !== null }];
}
