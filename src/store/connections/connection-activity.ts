import { sql } from 'kysely';
import { parseFailure } from '../../model/errors.ts';
import { lastRefusedWebhooks } from '../access/refused-requests.ts';
import { NEVER } from '../deliveries/wanted-fetches.ts';
import { isRefused } from '../items/notices.ts';
import type { Counts } from '../status/counts.ts';
import type { ConnectionActivity } from '../status/status-shape.ts';
import { type ByWorkspace, groupByWorkspace, type Sql } from '../workspace-scope.ts';
import { ALL_UNITS } from './unit-states.ts';

/** Deliveries searched for the last one of each connection, because no index orders them by connection and time. */
const MAX_SEARCHED = 1_000;

interface ConnectionRow {
  readonly connection: string;
}

/**
 * Reads the connections of which anything is stored, in the order of their names.
 *
 * @param isWhole false: reads only problems, so that connections without any may be missing, and counts and times are too low
 */
export async function readConnections(
  query: Sql,
  workspaces: readonly number[],
  counts: ByWorkspace<Counts>,
  isWhole: boolean,
): Promise<ByWorkspace<readonly ConnectionActivity[]>> {
  const ofRecent = groupByWorkspace(isWhole ? await lastDeliveries(query, workspaces) : []);
  const polls = pollRows(query, workspaces).$if(!isWhole, (rows) =>
    rows.where('error', 'is not', null).where('error', 'not like', sql.lit('feature_off:%')),
  );
  const ofPolls = groupByWorkspace(await polls.execute());
  // Only a missing unit makes a sweep a problem of its connection.
  const sweeps = sweepRows(query, workspaces).$if(!isWhole, (rows) =>
    rows.where('sweeps.error', 'like', sql.lit('not_found:%')),
  );
  const ofSweeps = groupByWorkspace(await sweeps.execute());
  const ofRefused = groupByWorkspace(isWhole ? await lastRefusedWebhooks(query, workspaces) : []);
  const ofRefusedFetches = groupByWorkspace(await refusedFetches(query, workspaces).execute());
  const ofRefusedWrites = groupByWorkspace(await refusedWrites(query, workspaces).execute());
  const ofUnverified = groupByWorkspace(isWhole ? await unverifiedCounts(query, workspaces).execute() : []);
  return (workspace) => {
    const [recent, polls, sweeps] = [ofRecent(workspace), ofPolls(workspace), ofSweeps(workspace)];
    const [refused, writes, unverified] = [ofRefused(workspace), ofRefusedWrites(workspace), ofUnverified(workspace)];
    const { fetches } = counts(workspace);
    const rows: readonly ConnectionRow[] = [
      ...recent,
      ...polls,
      ...sweeps,
      ...refused,
      ...fetches,
      ...writes,
      ...unverified,
    ];
    return [...new Set(rows.map(({ connection }) => connection))].sort().map((connection) => {
      const isOwn = (row: ConnectionRow) => row.connection === connection;
      const refusedFetch = ofRefusedFetches(workspace).find(isOwn);
      return {
        connection,
        lastDeliveryAt: recent.find(isOwn)?.at ?? null,
        lastWebhookAt: recent.find(isOwn)?.webhook_at ?? null,
        ...pollActivity(polls.filter(isOwn)),
        fetches: (fetches.find(isOwn)?.count ?? 0) - (refusedFetch?.count ?? 0),
        refusedFetches: refusedFetch?.count ?? 0,
        fetchRefusal: refusedFetch?.error ?? null,
        refusedWrites: writes.find(isOwn)?.count ?? 0,
        writeRefusal: writes.find(isOwn)?.error ?? null,
        unverifiedItems: unverified.find(isOwn)?.count ?? 0,
        lastSweepAt: lastCompletion(sweeps.filter(isOwn)),
        lastRefused:
          refused.filter(isOwn).map(({ at, status, code, count }) => ({ at, status, code, count }))[0] ?? null,
        missingUnits: missingUnits(polls.filter(isOwn), sweeps.filter(isOwn)),
      };
    });
  };
}

/**
 * Reads when each connection last received a delivery, and a webhook, among the last deliveries of its workspace. The names of
 * connections are steps over the index of delivery keys. The walk back from the latest delivery stops at the first one of the
 * connection.
 */
function lastDeliveries(query: Sql, workspaces: readonly number[]) {
  return query
    .withRecursive('named(workspace, connection)', (build) =>
      build
        .selectFrom('workspaces')
        .select(({ selectFrom }) => [
          'workspaces.id as workspace',
          selectFrom('inbox')
            .select(({ fn }) => fn.min('inbox.connection').as('connection'))
            .whereRef('inbox.workspace', '=', 'workspaces.id')
            .as('connection'),
        ])
        .where('workspaces.id', 'in', workspaces)
        .unionAll(
          build
            .selectFrom('named')
            .select(({ selectFrom }) => [
              'named.workspace',
              selectFrom('inbox')
                .select(({ fn }) => fn.min('inbox.connection').as('connection'))
                .whereRef('inbox.workspace', '=', 'named.workspace')
                .whereRef('inbox.connection', '>', 'named.connection')
                .as('connection'),
            ])
            .where('named.connection', 'is not', null),
        ),
    )
    .selectFrom('named')
    .select(({ selectFrom, ref }) => {
      const ofConnection = selectFrom(
        selectFrom('inbox')
          .select(['inbox.connection', 'inbox.received_at', 'inbox.source'])
          .whereRef('inbox.workspace', '=', 'named.workspace')
          .orderBy('inbox.received_at', 'desc')
          .orderBy('inbox.id', 'desc')
          .limit(MAX_SEARCHED)
          .as('recent'),
      )
        .select('recent.received_at')
        .whereRef('recent.connection', '=', 'named.connection')
        .limit(1);
      return [
        'named.workspace',
        ref('named.connection').$notNull().as('connection'),
        ofConnection.as('at'),
        ofConnection.where('recent.source', '=', 'webhook').as('webhook_at'),
      ];
    })
    .where('named.connection', 'is not', null)
    .execute();
}

function pollRows(query: Sql, workspaces: readonly number[]) {
  return query
    .selectFrom('polls')
    .select(['workspace', 'connection', 'unit', 'walk', 'completed_at', 'error', 'failed_at'])
    .where('workspace', 'in', workspaces);
}

/** Each sweep, and when a poll last read the same unit. */
function sweepRows(query: Sql, workspaces: readonly number[]) {
  return query
    .selectFrom('sweeps')
    .leftJoin('polls', (join) =>
      join
        .onRef('polls.workspace', '=', 'sweeps.workspace')
        .onRef('polls.connection', '=', 'sweeps.connection')
        .onRef('polls.unit', '=', 'sweeps.unit'),
    )
    .select(['sweeps.workspace', 'sweeps.connection', 'sweeps.unit', 'sweeps.completed_at', 'sweeps.error'])
    .select(['sweeps.failed_at', 'polls.completed_at as read_at'])
    .where('sweeps.workspace', 'in', workspaces);
}

/** Fetches that are not repeated because the provider refuses them, by connection. */
function refusedFetches(query: Sql, workspaces: readonly number[]) {
  return query
    .selectFrom('fetches')
    .select(({ fn }) => ['workspace', 'connection', fn.countAll<number>().as('count'), fn.max('error').as('error')])
    .where('workspace', 'in', workspaces)
    .where('not_before', '=', NEVER)
    .groupBy(['workspace', 'connection']);
}

/** Writes to the provider that it refuses, by connection. */
function refusedWrites(query: Sql, workspaces: readonly number[]) {
  return query
    .selectFrom('notices')
    .select(({ fn }) => ['workspace', 'connection', fn.countAll<number>().as('count'), fn.max('error').as('error')])
    .where('workspace', 'in', workspaces)
    .where(isRefused)
    .groupBy(['workspace', 'connection']);
}

/** Counts by connection. The index `items_unverified`, which is empty except after a restore, suffices. */
function unverifiedCounts(query: Sql, workspaces: readonly number[]) {
  return query
    .selectFrom('items')
    .select(({ fn }) => ['workspace', 'connection', fn.countAll<number>().as('count')])
    .where('workspace', 'in', workspaces)
    .where('unverified', '=', sql.lit(1))
    .groupBy(['workspace', 'connection']);
}

type PollRow = Awaited<ReturnType<ReturnType<typeof pollRows>['execute']>>[number];
type SweepRow = Awaited<ReturnType<ReturnType<typeof sweepRows>['execute']>>[number];

function pollActivity(rows: readonly PollRow[]) {
  const off = rows.filter(isFeatureOff);
  const failing = rows
    .filter((row) => row.error !== null && !isFeatureOff(row))
    .sort((a, b) => (b.failed_at ?? 0) - (a.failed_at ?? 0));
  const lastFailure = failing[0];
  const units = rows.filter((row) => row.unit !== ALL_UNITS);
  return {
    units: units.length,
    walking: units.filter((row) => row.walk !== null).length,
    lastPollAt: lastCompletion(rows),
    failingUnits: failing.length,
    switchedOff: off.map(({ error }) => parseFailure(error ?? '').message).sort(),
    failure: lastFailure
      ? {
          ...parseFailure(lastFailure.error ?? ''),
          unit: lastFailure.unit === ALL_UNITS ? null : lastFailure.unit,
          at: lastFailure.failed_at ?? 0,
        }
      : null,
  };
}

function isFeatureOff({ error }: Pick<PollRow, 'error'>): boolean {
  return error?.startsWith('feature_off:') ?? false;
}

function lastCompletion(rows: readonly { readonly completed_at: number | null }[]): number | null {
  return rows.reduce<number | null>((last, row) => Math.max(last ?? 0, row.completed_at ?? 0) || last, null);
}

/**
 * Units that their provider did not know when they were last read. A failed sweep does not count if a poll has read the unit
 * since, because the last sweep may be a day old.
 */
function missingUnits(polls: readonly PollRow[], sweeps: readonly SweepRow[]): string[] {
  const current = sweeps.filter(({ failed_at, read_at }) => (read_at ?? 0) <= (failed_at ?? 0));
  const missing = [...polls, ...current].filter(
    ({ unit, error }) => unit !== ALL_UNITS && error?.startsWith('not_found:'),
  );
  return [...new Set(missing.map(({ unit }) => unit))].sort();
}
