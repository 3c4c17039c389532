import { sql } from 'kysely';
import type { EntityKind } from '../model/change.ts';
import { dialectOf, rowsIn, rowsOfSubquery } from '../platform/database/dialect.ts';
import { type BackfillStatus, backfillsOf } from './backfills.ts';
import { type ByWorkspace, groupByWorkspace, withoutWorkspace } from './by-workspace.ts';
import {
  type ConnectionActivity,
  type ConnectionProblems,
  readConnectionActivity,
  readConnectionProblems,
} from './connection-activity.ts';
import { type Counts, countsOf, sumOf } from './counts.ts';
import { ITEM_NAME } from './items.ts';
import {
  type ChangeCounts,
  countChanges,
  countDeliveries,
  type InboxStatus,
  MAX_LISTED,
  type OutboxStatus,
  readInboxStatus,
  readOutboxStatus,
} from './queue-status.ts';
import type { OptionalRoute, RecordsRoute, RouteStates } from './server-capabilities.ts';
import { serverFactsOf } from './server-facts.ts';
import { type SweepPosition, sweepPositionsOf } from './sweep-position.ts';
import { type CreationTrials, disabledFields } from './task-creations.ts';
import { areStatusesContested, type TaskUpdateFacts } from './task-update-facts.ts';
import { type UnfinishedTasks, unfinishedTasksOf } from './unfinished-tasks.ts';
import type { Scope, Sql } from './workspace-scope.ts';
import { type SweepReports, sweepsOf } from './workspace-sweeps.ts';

const DAY = 24 * 60 * 60 * 1_000;

/** Functions that the server of a workspace is known to lack. Plain JSON; times are epoch milliseconds. */
export interface ServerStatus {
  /** Whether it records pull requests, and its last refusal if it does not. */
  readonly records: { readonly state: RecordsRoute['state']; readonly error: string | null };
  /** Routes that are switched off because the server refuses them. */
  readonly routesOff: readonly { readonly route: OptionalRoute; readonly status: number; readonly until: number }[];
  /** Fields that are left out of creations because the server refuses them. */
  readonly fieldsOff: readonly string[];
  /** Why no task is updated; null while updates are sent. */
  readonly updatesOff: string | null;
  /** Others changed so many statuses back in the last day that further status changes are held. */
  readonly areStatusesContested: boolean;
}

/** How many of one kind the workspace should have, and how many of them have an unsent change. The others are synced. */
interface Tally {
  readonly total: number;
  readonly waiting: number;
}

/** The part of the status that decides whether a workspace is healthy. Plain JSON. */
export interface HealthSummary {
  readonly deliveries: Pick<InboxStatus, 'quarantined'>;
  readonly changes: ChangeCounts;
  /** Connections with a known problem. */
  readonly connections: readonly ConnectionProblems[];
  /** Running ones, and those that ended in the last 24 hours. */
  readonly backfills: readonly BackfillStatus[];
  readonly pullRequests: Tally;
  readonly links: Tally;
  readonly server: ServerStatus;
}

export interface GoneItem {
  readonly key: string;
  /** `acme/app#1`; its key if it has no name. */
  readonly name: string;
  readonly connection: string;
  /** When worksync detected it. */
  readonly at: number;
}

/** The stored state of the work on one workspace. Plain JSON; times are epoch milliseconds. */
export interface StoredStatus extends HealthSummary {
  readonly deliveries: InboxStatus;
  readonly changes: OutboxStatus;
  /** All connections. */
  readonly connections: readonly ConnectionActivity[];
  readonly items: number;
  /** The comparison with the lists of the workspace; and, if there are any, the reads of resources that no list contains. */
  readonly sweep: SweepReports & { readonly turn: Pick<SweepPosition, 'startedAt' | 'endedAt' | 'read'> | null };
  /** Items that their provider no longer has, latest first. They write nothing; their links stay. */
  readonly gone: readonly GoneItem[];
  readonly tasks: number;
  readonly unfinishedTasks: UnfinishedTasks;
}

/** Reads the status of one workspace; see `readStatuses`. */
export async function readStatus({ whole, workspace }: Scope, now: number): Promise<StoredStatus> {
  const statuses = await readStatuses(whole, [workspace], now);
  return statuses.get(workspace) as StoredStatus;
}

/**
 * Reads the statuses of several workspaces, cheaply at any size: counts come from indexes, lists are bounded, and no body
 * and no item is read. The number of statements does not depend on the number of workspaces, but their duration does.
 * A caller with thousands of workspaces reads them in portions.
 *
 * @param workspaces their numbers
 * @param now wall clock, epoch milliseconds
 */
export async function readStatuses(
  query: Sql,
  workspaces: readonly number[],
  now: number,
): Promise<ReadonlyMap<number, StoredStatus>> {
  const counts = await countsOf(query, workspaces);
  const deliveries = await readInboxStatus(query, workspaces, now);
  const changes = await readOutboxStatus(query, workspaces, counts);
  const connections = await readConnectionActivity(query, workspaces, counts);
  const backfills = await recentBackfillsOf(query, workspaces, now);
  const sweeps = await sweepsOf(query, workspaces);
  const sweepPositions = await sweepPositionsOf(query, workspaces);
  const gone = await goneItems(query, workspaces);
  const servers = await serverStatusesOf(query, workspaces, now);
  const unfinishedTasks = await unfinishedTasksOf(query, workspaces);
  return new Map(
    workspaces.map((workspace) => [
      workspace,
      {
        deliveries: deliveries(workspace),
        changes: changes(workspace),
        connections: connections(workspace),
        backfills: backfills(workspace),
        items: counts(workspace).items,
        sweep: { ...sweeps(workspace), turn: describePosition(sweepPositions(workspace)) },
        gone: gone(workspace).map(withoutWorkspace),
        tasks: counts(workspace).tasks,
        unfinishedTasks: unfinishedTasks(workspace),
        pullRequests: tally(counts(workspace), 'pull_request'),
        links: tally(counts(workspace), 'link'),
        server: servers(workspace),
      },
    ]),
  );
}

/**
 * Reads the health of thousands of workspaces. The values agree with those of `readStatuses`, at a fraction of the cost:
 * no delivery, no change, and nothing of connections without problems is read.
 *
 * @param workspaces their numbers
 * @param now wall clock, epoch milliseconds
 */
export async function readHealthSummaries(
  query: Sql,
  workspaces: readonly number[],
  now: number,
): Promise<ReadonlyMap<number, HealthSummary>> {
  const counts = await countsOf(query, workspaces);
  const quarantined = await countDeliveries(query, workspaces, 'quarantined');
  const connections = await readConnectionProblems(query, workspaces);
  const backfills = await recentBackfillsOf(query, workspaces, now);
  const servers = await serverStatusesOf(query, workspaces, now);
  return new Map(
    workspaces.map((workspace) => [
      workspace,
      {
        deliveries: { quarantined: quarantined(workspace) },
        changes: countChanges(counts(workspace)),
        connections: connections(workspace),
        backfills: backfills(workspace),
        pullRequests: tally(counts(workspace), 'pull_request'),
        links: tally(counts(workspace), 'link'),
        server: servers(workspace),
      },
    ]),
  );
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

async function goneItems(query: Sql, workspaces: readonly number[]) {
  const rows = await query
    .selectFrom('workspaces')
    .select(({ selectFrom }) => {
      const shown = selectFrom('items')
        .select(['items.workspace', 'items.key', 'items.connection', 'items.seen_at as at'])
        .select(({ fn }) => fn.coalesce(ITEM_NAME, 'items.key').as('name'))
        .whereRef('items.workspace', '=', 'workspaces.id')
        .where('items.gone', '=', sql.lit(1))
        .orderBy('items.seen_at', 'desc')
        .limit(MAX_LISTED);
      return rowsOfSubquery(dialectOf(query), shown).as('shown');
    })
    .where('workspaces.id', 'in', workspaces)
    .execute();
  return groupByWorkspace(rows.flatMap(({ shown }) => rowsIn(shown)).toSorted((a, b) => b.at - a.at));
}

/** Counts entities and changes of one kind. Links that a person removed do not count, because worksync does not add them again. */
function tally({ entities, changes }: Counts, kind: EntityKind): Tally {
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
