import { sql } from 'kysely';
import type { EntityKind } from '../../model/change.ts';
import { type BackfillStatus, backfillsOf } from '../connections/backfills.ts';
import { readConnections } from '../connections/connection-activity.ts';
import { ITEM_NAME } from '../items/items.ts';
import { areStatusesContested, type TaskUpdateFacts, unfinishedTasksOf } from '../tasks/stored-tasks.ts';
import { type CreationTrials, disabledFields } from '../tasks/task-creations.ts';
import type { OptionalRoute, RecordsRoute, RouteStates } from '../workspace/server-capabilities.ts';
import { serverFactsOf } from '../workspace/server-facts.ts';
import { type SweepPosition, sweepPositionsOf, sweepsOf } from '../workspace/workspace-sweeps.ts';
import { type ByWorkspace, rowsOfEach, type Scope, type Sql, withoutWorkspace } from '../workspace-scope.ts';
import { type Counts, countsOf, sumOf } from './counts.ts';
import { countChanges, countDeliveries, MAX_LISTED, readInboxStatus, readOutboxStatus } from './queue-status.ts';
import { complete, type ServerStatus, STORED, type StatusDepth, type StoredStatus } from './status-shape.ts';

const DAY = 24 * 60 * 60 * 1_000;

/** Reads the status of one workspace; see `readStatuses`. */
export async function readStatus({ whole, workspace }: Scope, now: number): Promise<StoredStatus> {
  const statuses = await readStatuses(whole, [workspace], now);
  return statuses.get(workspace) as StoredStatus;
}

const NO_ROWS = complete({}, STORED);

/**
 * Reads the statuses of several workspaces, cheaply at any size: counts come from indexes, lists are bounded, and no body
 * and no item is read. The number of statements does not depend on the number of workspaces, but their duration does.
 * A caller with thousands of workspaces reads them in chunks.
 *
 * @param workspaces their numbers
 * @param now wall clock, epoch milliseconds
 */
export async function readStatuses(
  query: Sql,
  workspaces: readonly number[],
  now: number,
  depth: StatusDepth = 'whole',
): Promise<ReadonlyMap<number, StoredStatus>> {
  const isWhole = depth === 'whole';
  const counts = await countsOf(query, workspaces);
  const details = isWhole
    ? await readDetails(query, workspaces, counts, now)
    : await readQueueCounts(query, workspaces, counts);
  const connections = await readConnections(query, workspaces, counts, isWhole);
  const backfills = await recentBackfillsOf(query, workspaces, now);
  const servers = await serverStatusesOf(query, workspaces, now);
  return new Map(
    workspaces.map((workspace) => [
      workspace,
      {
        ...NO_ROWS,
        ...details(workspace),
        connections: connections(workspace),
        backfills: backfills(workspace),
        items: counts(workspace).items,
        tasks: counts(workspace).tasks,
        pullRequests: tally(counts(workspace), 'pull_request'),
        links: tally(counts(workspace), 'link'),
        server: servers(workspace),
      },
    ]),
  );
}

/** Reads what only a page of one workspace shows. */
async function readDetails(
  query: Sql,
  workspaces: readonly number[],
  counts: ByWorkspace<Counts>,
  now: number,
): Promise<ByWorkspace<Partial<StoredStatus>>> {
  const deliveries = await readInboxStatus(query, workspaces, now);
  const changes = await readOutboxStatus(query, workspaces, counts);
  const sweeps = await sweepsOf(query, workspaces);
  const sweepPositions = await sweepPositionsOf(query, workspaces);
  const gone = await goneItems(query, workspaces);
  const unfinishedTasks = await unfinishedTasksOf(query, workspaces);
  return (workspace) => ({
    deliveries: deliveries(workspace),
    changes: changes(workspace),
    sweep: { ...sweeps(workspace), turn: describePosition(sweepPositions(workspace)) },
    gone: gone(workspace),
    unfinishedTasks: unfinishedTasks(workspace),
  });
}

async function readQueueCounts(
  query: Sql,
  workspaces: readonly number[],
  counts: ByWorkspace<Counts>,
): Promise<ByWorkspace<Partial<StoredStatus>>> {
  const quarantined = await countDeliveries(query, workspaces, 'quarantined');
  return (workspace) => ({
    deliveries: { ...NO_ROWS.deliveries, quarantined: quarantined(workspace) },
    changes: { ...NO_ROWS.changes, ...countChanges(counts(workspace)) },
  });
}

/** Reads the backfills that run, and those that ended in the last 24 hours. */
async function recentBackfillsOf(
  query: Sql,
  workspaces: readonly number[],
  now: number,
): Promise<ByWorkspace<readonly BackfillStatus[]>> {
  const backfills = await backfillsOf(query, workspaces);
  return (workspace) => backfills(workspace).filter(({ finishedAt }) => finishedAt === null || finishedAt > now - DAY);
}

function describePosition(position: SweepPosition | undefined): StoredStatus['sweep']['turn'] {
  return position ? { startedAt: position.startedAt, endedAt: position.endedAt, read: position.read } : null;
}

async function goneItems(query: Sql, workspaces: readonly number[]): Promise<ByWorkspace<StoredStatus['gone']>> {
  const rows = await rowsOfEach(query, workspaces, ({ selectFrom }) =>
    selectFrom('items')
      .select(['items.workspace', 'items.key', 'items.connection', 'items.seen_at as at'])
      .select(({ fn }) => fn.coalesce(ITEM_NAME, 'items.key').as('name'))
      .whereRef('items.workspace', '=', 'workspaces.id')
      .where('items.gone', '=', sql.lit(1))
      .orderBy('items.seen_at', 'desc')
      .limit(MAX_LISTED),
  );
  return (workspace) =>
    rows(workspace)
      .toSorted((a, b) => b.at - a.at)
      .map(withoutWorkspace);
}

/** Counts entities and changes of one kind. Links that a person removed do not count, because worksync does not add them again. */
function tally({ entities, changes }: Counts, kind: EntityKind): StoredStatus['links'] {
  return {
    total: sumOf(entities, (each) => each.kind === kind && each.hand !== 'removed' && each.hand !== 'gone'),
    waiting: sumOf(changes, (each) => each.kind === kind),
  };
}

export async function serverStatusesOf(
  query: Sql,
  workspaces: readonly number[],
  now: number,
): Promise<ByWorkspace<ServerStatus>> {
  const facts = await serverFactsOf(query, workspaces);
  return (workspace) => {
    const { records, routes, creation, taskUpdate } = facts(workspace);
    const { state = 'unknown', error = null } = (records ?? {}) as Partial<RecordsRoute>;
    const updateFacts = (taskUpdate ?? {}) as TaskUpdateFacts;
    const routesOff = Object.entries((routes ?? {}) as RouteStates).flatMap(([route, { refused }]) =>
      refused?.offUntil !== undefined && refused.offUntil > now
        ? [{ route: route as OptionalRoute, status: refused.status, until: refused.offUntil }]
        : [],
    );
    return {
      records: { state, error },
      routesOff: routesOff.filter(({ route }) => route !== 'updateTask'),
      updatesOff:
        updateFacts.off ??
        (routesOff.some(({ route }) => route === 'updateTask') ? 'the workspace has no route for task updates' : null),
      areStatusesContested: areStatusesContested(updateFacts, now),
      fieldsOff: creation === undefined ? [] : disabledFields(creation as CreationTrials, now),
    };
  };
}
