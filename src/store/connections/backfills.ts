import { type RawBuilder, type Selectable, sql } from 'kysely';
import type { Tables } from '../schema/tables.ts';
import {
  type ByWorkspace,
  changedRows,
  groupByWorkspace,
  type Scope,
  type Sql,
  type Store,
} from '../workspace-scope.ts';
import { ALL_UNITS } from './unit-states.ts';

/**
 * Requested backfills: one row for each unit of the connection. Until the units are known, one row named `*` represents them.
 *
 *   requested (`*`) → one row for each unit, first page → next page … → finished, with an error if the unit was given up
 *
 * A person may pause a backfill: then the time of each unit is `PAUSED`, even if one of its pages is being read.
 *
 * A connection has one backfill at a time. The rows of a finished one stay until the next is requested.
 */
export type BackfillRow = Selectable<Tables['backfills']>;

/** The time before which a unit of a paused backfill is not read. No clock reaches it. */
const PAUSED = Number.MAX_SAFE_INTEGER;

/** The position of a unit when its page was requested. */
export type BackfillPosition = Pick<BackfillRow, 'connection' | 'unit' | 'page' | 'pages' | 'items' | 'started_at'>;

/** Requests a backfill of everything that changed since then. Returns false if one is running, which continues unchanged. */
export async function requestBackfill(
  query: Scope,
  { connection, since, now }: { readonly connection: string; readonly since: string | null; readonly now: number },
): Promise<boolean> {
  const running = await unfinished(query, connection).select('unit').limit(1).executeTakeFirst();
  if (running) return false;
  await dropBackfill(query, connection);
  await query.insertInto('backfills').values({ connection, unit: ALL_UNITS, since, started_at: now }).execute();
  return true;
}

/** Deletes a running backfill. @returns whether one was running */
export async function stopBackfill(query: Scope, connection: string): Promise<boolean> {
  const running = await unfinished(query, connection).select('unit').limit(1).executeTakeFirst();
  if (running) await dropBackfill(query, connection);
  return running !== undefined;
}

/** Stops reading pages until the backfill is resumed. @returns whether one was running */
export function pauseBackfill(query: Scope, connection: string): Promise<boolean> {
  return setUnfinished(query, connection, PAUSED);
}

/** @returns whether an unfinished backfill exists */
export function resumeBackfill(query: Scope, connection: string): Promise<boolean> {
  return setUnfinished(query, connection, 0);
}

async function setUnfinished(
  query: Scope,
  connection: string,
  notBefore: number | RawBuilder<number>,
): Promise<boolean> {
  const own = query.updateTable('backfills').where('connection', '=', connection).where('finished_at', 'is', null);
  return (await changedRows(own.set({ not_before: notBefore }))) > 0;
}

/** Returns the new time of a unit; a unit that was paused while its page was read stays paused. */
function unlessPaused(notBefore: number) {
  return sql<number>`case when not_before = ${PAUSED} then not_before else ${notBefore} end`;
}

async function dropBackfill(query: Scope, connection: string): Promise<void> {
  await query.deleteFrom('backfills').where('connection', '=', connection).execute();
}

function unfinished(query: Scope, connection: string) {
  return query.selectFrom('backfills').where('connection', '=', connection).where('finished_at', 'is', null);
}

function unpaused(query: Scope, connection: string) {
  return unfinished(query, connection).where('not_before', '!=', PAUSED);
}

/**
 * Returns the unit to read next: the one with the fewest pages read, so that the newest items of all units come first.
 * If all units wait after a failure, returns the one whose pause ends first. A paused backfill has none.
 */
export async function nextBackfillUnit(
  query: Scope,
  connection: string,
  now: number,
): Promise<BackfillRow | undefined> {
  const due = await unpaused(query, connection)
    .selectAll()
    .where('not_before', '<=', now)
    .orderBy('pages')
    .orderBy('unit')
    .limit(1)
    .executeTakeFirst();
  return due ?? unpaused(query, connection).selectAll().orderBy('not_before').limit(1).executeTakeFirst();
}

/** Makes waiting units due now. Their times may come from a clock that has since been set back. */
export async function clampBackfillTimes({ query, commit }: Store, connection: string, now: number): Promise<void> {
  const waiting = await unpaused(query, connection).select('unit').where('not_before', '>', now).executeTakeFirst();
  if (waiting) await commit((transaction) => setUnfinished(transaction, connection, unlessPaused(0)));
}

/** Replaces the row of the requested backfill by one row for each unit, once the units are known. */
export async function splitBackfill(query: Scope, requested: BackfillRow, units: readonly string[]): Promise<void> {
  if (units.length === 0) return finishBackfillUnit(query, requested, requested.started_at);
  const current = await unfinished(query, requested.connection)
    .select('not_before')
    .where('unit', '=', requested.unit)
    .where('started_at', '=', requested.started_at)
    .executeTakeFirst();
  if (current === undefined) return;
  await dropBackfill(query, requested.connection);
  for (const unit of units) {
    const not_before = current.not_before === PAUSED ? PAUSED : 0;
    const row = { ...requested, unit, error: null, attempts: 0, not_before };
    await query.insertInto('backfills').values(row).execute();
  }
}

interface BackfilledPage {
  /** Number of items on the page. */
  readonly items: number;
  /** Number of items of the unit, if the provider reports it. */
  readonly total: number | undefined;
  /** The next page; absent on the last page. */
  readonly next: string | undefined;
  /** Why the unit is given up after this page. */
  readonly error: string | undefined;
}

/** Advances the position by a page. @returns false if the backfill was stopped or replaced: then the page must not be stored */
export async function advanceBackfill(
  query: Scope,
  position: BackfillPosition,
  { items, total, next, error }: BackfilledPage,
  now: number,
): Promise<boolean> {
  const advanced = rowAt(query, position).set({
    page: next ?? null,
    pages: position.pages + 1,
    items: position.items + items,
    error: error ?? null,
    attempts: 0,
    not_before: unlessPaused(0),
    finished_at: next === undefined || error !== undefined ? now : null,
    ...(total !== undefined && { total }),
  });
  return (await changedRows(advanced)) > 0;
}

/** Records a failure. The page is read again, but not before `notBefore`. */
export async function postponeBackfill(
  query: Scope,
  position: BackfillPosition,
  { error, notBefore }: { readonly error: string; readonly notBefore: number },
): Promise<void> {
  await rowAt(query, position)
    .set(({ eb }) => ({ error, not_before: unlessPaused(notBefore), attempts: eb('attempts', '+', 1) }))
    .execute();
}

/** Finishes a unit: everything is read, or `error` is the reason why it is given up. */
export async function finishBackfillUnit(
  query: Scope,
  position: BackfillPosition,
  now: number,
  error: string | null = null,
): Promise<void> {
  await rowAt(query, position).set({ finished_at: now, error }).execute();
}

function rowAt(query: Scope, { connection, unit, page, started_at }: BackfillPosition) {
  return query
    .updateTable('backfills')
    .where('connection', '=', connection)
    .where('unit', '=', unit)
    .where('started_at', '=', started_at)
    .where('page', 'is', page)
    .where('finished_at', 'is', null);
}

/** Numbers of unprocessed rows at which a backfill pauses. */
export interface BackfillBounds {
  readonly deliveries: number;
  readonly fetches: number;
  readonly changes: number;
}

/** Returns whether the backfill should pause, so that live deliveries never wait behind many old ones. */
export async function isBackfillAhead(query: Scope, connection: string, bounds: BackfillBounds): Promise<boolean> {
  const pending = query.selectFrom('inbox').select('id').where('state', '=', 'pending').limit(bounds.deliveries);
  const fetches = query.selectFrom('fetches').select('reference').where('connection', '=', connection);
  const inLane = query.selectFrom('outbox').select('entity').where('lane', '=', 'backfill');
  const changes = inLane.where('state', '=', 'pending');
  return (
    (await pending.execute()).length >= bounds.deliveries ||
    (await fetches.limit(bounds.fetches).execute()).length >= bounds.fetches ||
    (await changes.limit(bounds.changes).execute()).length >= bounds.changes
  );
}

/** The backfill of one connection: the sum of its units. Times are epoch milliseconds. */
export interface BackfillStatus {
  readonly connection: string;
  readonly since: string | null;
  /** False until the units are known. */
  readonly listed: boolean;
  readonly units: number;
  readonly unitsDone: number;
  readonly pages: number;
  readonly items: number;
  /** Null until it is known for every unit. */
  readonly total: number | null;
  readonly startedAt: number;
  /** When the last page was read; null while the backfill runs. */
  readonly finishedAt: number | null;
  /** A person paused it. */
  readonly isPaused: boolean;
  /** Units that are retried or were given up; `error` is `code: message`. */
  readonly failures: readonly { readonly unit: string | null; readonly error: string; readonly givenUp: boolean }[];
}

/** Failures shown for one backfill. */
const MAX_FAILURES = 10;

/** Reads the running or the last backfill of each connection, or of one connection. */
export async function readBackfills({ whole, workspace }: Scope, connection?: string): Promise<BackfillStatus[]> {
  const backfills = await backfillsOf(whole, [workspace]);
  return backfills(workspace).filter((each) => connection === undefined || each.connection === connection);
}

/** Reads the running or the last backfill of each connection of several workspaces. */
export async function backfillsOf(
  query: Sql,
  workspaces: readonly number[],
): Promise<ByWorkspace<readonly BackfillStatus[]>> {
  const rows = await query
    .selectFrom('backfills')
    .selectAll()
    .where('workspace', 'in', workspaces)
    .orderBy('workspace')
    .orderBy('connection')
    .orderBy('unit')
    .execute();
  const backfills = groupByWorkspace(rows);
  return (workspace) => [...Map.groupBy(backfills(workspace), (row) => row.connection).values()].map(statusOf);
}

function statusOf(rows: readonly BackfillRow[]): BackfillStatus {
  const [first] = rows as [BackfillRow];
  const listed = first.unit !== ALL_UNITS;
  const sum = (part: (row: BackfillRow) => number) => rows.reduce((total, row) => total + part(row), 0);
  const done = rows.filter(({ finished_at }) => finished_at !== null);
  // The size of a finished unit is known even if the provider did not report a total.
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
    failures: rows.flatMap(failureOf).slice(0, MAX_FAILURES),
  };
}

function failureOf({ unit, error, finished_at }: BackfillRow): BackfillStatus['failures'] {
  return error === null ? [] : [{ unit: unit === ALL_UNITS ? null : unit, error, givenUp: finished_at !== null }];
}
