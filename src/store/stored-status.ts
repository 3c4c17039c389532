import { sql } from 'kysely';
import type { ChangeState, EntityKind } from '../model/change.ts';
import type { DeliverySource, DeliveryState } from '../model/delivery.ts';
import { parseFailure, type StoredFailure } from '../model/errors/sync-error.ts';
import { LANES, type Lane } from '../model/lane.ts';
import { dialectOf, rowsIn, rowsOfSubquery } from '../platform/database/dialect.ts';
import { type BackfillStatus, backfillsOf } from './backfills.ts';
import { type Counts, countsOf, sumOf } from './counts.ts';
import { ALL_UNITS } from './poll-states.ts';
import { lastRefusedWebhooks, type RefusedWebhook } from './refused-requests.ts';
import { type ServerStatus, serversOf } from './server-status.ts';
import { type SweepPosition, sweepPositionsOf } from './sweep-position.ts';
import { NEVER } from './wanted-fetches.ts';
import type { Scope, Sql } from './workspace-scope.ts';
import { type SweepReports, sweepsOf } from './workspace-sweeps.ts';

/** Rows shown of each list: the page is for a glance, the commands list everything. */
const SHOWN = 20;

/** Deliveries searched for the last one of each connection, because no index orders them by connection and time. */
const LOOKED_THROUGH = 1_000;

const DAY = 24 * 60 * 60 * 1_000;

/** All times are epoch milliseconds. */
export interface DeliveryRow {
  readonly id: number;
  readonly connection: string;
  readonly source: DeliverySource;
  readonly event: string;
  readonly receivedAt: number;
  readonly state: DeliveryState;
  readonly reason: string | null;
}

export interface ChangeRow {
  readonly entity: string;
  readonly kind: EntityKind;
  readonly lane: Lane;
  readonly state: ChangeState;
  /** When the difference appeared. */
  readonly since: number;
  /** Not tried before. */
  readonly notBefore: number;
  readonly attempts: number;
  readonly failure: StoredFailure | null;
}

export interface ConnectionActivity {
  readonly connection: string;
  /** Among the last 1 000 deliveries of the workspace; null where none is. */
  readonly lastDeliveryAt: number | null;
  readonly units: number;
  /** Units with a walk that has not reached its last page. */
  readonly walking: number;
  /** The last walk that was completed. */
  readonly lastPollAt: number | null;
  readonly failingUnits: number;
  /** The latest failure that no success has followed. */
  readonly failure: (StoredFailure & { readonly unit: string | null; readonly at: number }) | null;
  /** Objects waiting to be fetched. */
  readonly fetches: number;
  /** Objects that the provider refuses, so that worksync has stopped asking for them. */
  readonly refusedFetches: number;
  /** `code: message` of one of those refusals. */
  readonly fetchRefusal: string | null;
  /** Items that nothing has confirmed since a restore, so that nothing is written about them. */
  readonly unverifiedItems: number;
  /** The last sweep of a unit that reached its end. */
  readonly lastSweepAt: number | null;
  /** The last webhook that was refused; null where none is stored. */
  readonly lastRefused: RefusedWebhook | null;
  /** What is switched off at the vendor, in sentences for people. It is no failure: nothing is missing. */
  readonly switchedOff: readonly string[];
  /** Units that the provider no longer has, or no longer shows to the credential: their records and links stay. */
  readonly missingUnits: readonly string[];
}

export interface GoneItem {
  readonly key: string;
  readonly connection: string;
  /** When worksync detected it. */
  readonly at: number;
}

/** When something was first and last seen. */
interface Seen {
  readonly since: number;
  readonly seenAt: number;
}

/** How many the workspace should hold, and how many of them wait for a request: the others are synced. */
interface Tally {
  readonly total: number;
  readonly waiting: number;
}

/** What the database of one workspace says about its work. Plain JSON. */
export interface StoredStatus {
  readonly deliveries: {
    readonly lastReceivedAt: number | null;
    /** Received in the last 24 hours. */
    readonly lastDay: number;
    readonly pending: number;
    readonly quarantined: number;
    /** When the first and the last of these were received; null where there are none. */
    readonly quarantinedSeen: Seen | null;
    readonly quarantine: readonly DeliveryRow[];
    readonly latest: readonly DeliveryRow[];
  };
  readonly changes: {
    readonly byState: Readonly<Record<ChangeState, number>>;
    /** Of the pending ones, those that only a backfill brought. */
    readonly waitingBackfills: number;
    /** When the difference of the oldest and of the newest held change appeared; null where none is held. */
    readonly heldSeen: Seen | null;
    /** When the oldest unsent difference of each lane appeared; lanes where none waits are left out. */
    readonly oldest: Readonly<Partial<Record<Lane, number>>>;
    /** Changes that need approval, or whose outcome is unknown. */
    readonly stuck: readonly ChangeRow[];
    /** Due first. */
    readonly next: readonly ChangeRow[];
  };
  readonly connections: readonly ConnectionActivity[];
  /** Those that run, and those that ended in the last 24 hours. */
  readonly backfills: readonly BackfillStatus[];
  readonly items: number;
  /** The comparison with the workspace's own lists; and the reads of what no list contains, if there are any. */
  readonly sweep: SweepReports & { readonly turn: Pick<SweepPosition, 'startedAt' | 'endedAt' | 'read'> | null };
  /** Items that their provider no longer has, latest first. They write nothing; their links stay. */
  readonly gone: readonly GoneItem[];
  readonly tasks: number;
  readonly pullRequests: Tally;
  readonly links: Tally;
  readonly server: ServerStatus;
}

/** Of one workspace. See `readStatuses`. */
export async function readStatus({ whole, workspace }: Scope, now: number): Promise<StoredStatus> {
  const statuses = await readStatuses(whole, [workspace], now);
  return statuses.get(workspace) as StoredStatus;
}

/**
 * Reads what a status shows, cheaply at any size: counts come from indexes, lists are bounded, and no body and no
 * item is read. The number of statements does not grow with the number of workspaces; what they take does, so that of
 * thousands some are to be read at a time.
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
  const deliveries = await readDeliveries(query, workspaces, now);
  const changes = await readChanges(query, workspaces, counts);
  const connections = await readConnections(query, workspaces, counts);
  const backfills = await backfillsOf(query, workspaces);
  const sweeps = await sweepsOf(query, workspaces);
  const turns = await sweepPositionsOf(query, workspaces);
  const gone = await goneItems(query, workspaces);
  const servers = await serversOf(query, workspaces, now);
  return new Map(
    workspaces.map((workspace) => [
      workspace,
      {
        deliveries: deliveries(workspace),
        changes: changes(workspace),
        connections: connections(workspace),
        backfills: backfills(workspace).filter(isOfLate(now)),
        items: counts(workspace).items,
        sweep: { ...sweeps(workspace), turn: describeTurn(turns(workspace)) },
        gone: gone(workspace).map(withoutOwner),
        tasks: counts(workspace).tasks,
        pullRequests: tally(counts(workspace), 'pull_request'),
        links: tally(counts(workspace), 'link'),
        server: servers(workspace),
      },
    ]),
  );
}

/** One that runs, or that ended in the last 24 hours. */
export function isOfLate(now: number): (backfill: BackfillStatus) => boolean {
  return ({ finishedAt }) => finishedAt === null || finishedAt > now - DAY;
}

/** What belongs to one of the workspaces. */
type Of<Part> = (workspace: number) => Part;

interface Owned {
  readonly workspace: number;
}

export function rowsOf<Row extends Owned>(rows: readonly Row[]): Of<readonly Row[]> {
  const byWorkspace = Map.groupBy(rows, (row) => row.workspace);
  return (workspace) => byWorkspace.get(workspace) ?? [];
}

function numbersOf(rows: readonly (Owned & { readonly count: number })[]): Of<number> {
  const counts = new Map(rows.map(({ workspace, count }) => [workspace, count]));
  return (workspace) => counts.get(workspace) ?? 0;
}

function describeTurn(turn: SweepPosition | undefined): StoredStatus['sweep']['turn'] {
  return turn ? { startedAt: turn.startedAt, endedAt: turn.endedAt, read: turn.read } : null;
}

async function readDeliveries(
  query: Sql,
  workspaces: readonly number[],
  now: number,
): Promise<Of<StoredStatus['deliveries']>> {
  const latest = rowsOf(await deliveryRows(query, workspaces, 'latest'));
  const lastDay = numbersOf(
    await query
      .selectFrom('inbox')
      .select((build) => ['workspace', build.fn.countAll<number>().as('count')])
      .where('workspace', 'in', workspaces)
      .where('received_at', '>', now - DAY)
      .groupBy('workspace')
      .execute(),
  );
  const pending = await countDeliveries(query, workspaces, 'pending');
  const quarantined = await countDeliveries(query, workspaces, 'quarantined');
  const quarantine = rowsOf(await deliveryRows(query, workspaces, 'quarantined'));
  const quarantinedSeen = await quarantinedSeenOf(
    query,
    workspaces.filter((each) => quarantined(each) > 0),
  );
  return (workspace) => {
    const shown = latest(workspace).toSorted((a, b) => b.receivedAt - a.receivedAt || b.id - a.id);
    return {
      lastReceivedAt: shown[0]?.receivedAt ?? null,
      lastDay: lastDay(workspace),
      pending: pending(workspace),
      quarantined: quarantined(workspace),
      quarantinedSeen: quarantinedSeen(workspace),
      quarantine: quarantine(workspace)
        .toSorted((a, b) => b.id - a.id)
        .map(withoutOwner),
      latest: shown.map(withoutOwner),
    };
  };
}

function withoutOwner<Row extends Owned>(row: Row): Omit<Row, 'workspace'> {
  const { workspace: _workspace, ...rest } = row;
  return rest;
}

/** The first rows of each workspace in the order of an index. Their cost does not depend on how many other rows there are. */
async function deliveryRows(query: Sql, workspaces: readonly number[], which: 'latest' | 'quarantined') {
  const rows = await query
    .selectFrom('workspaces')
    .select(({ selectFrom }) => {
      const own = selectFrom('inbox')
        .select(['inbox.workspace', 'inbox.id', 'inbox.connection', 'inbox.source', 'inbox.event'])
        .select(['inbox.received_at as receivedAt', 'inbox.state', 'inbox.reason'])
        .whereRef('inbox.workspace', '=', 'workspaces.id')
        .limit(SHOWN);
      const shown =
        which === 'latest'
          ? own.orderBy('inbox.received_at', 'desc').orderBy('inbox.id', 'desc')
          : own.where('inbox.state', '=', sql.lit('quarantined')).orderBy('inbox.id', 'desc');
      return rowsOfSubquery(dialectOf(query), shown).as('shown');
    })
    .where('workspaces.id', 'in', workspaces)
    .execute();
  return rows.flatMap(({ shown }) => rowsIn(shown));
}

export async function countDeliveries(
  query: Sql,
  workspaces: readonly number[],
  state: DeliveryState,
): Promise<Of<number>> {
  const rows = await query
    .selectFrom('inbox')
    .select((build) => ['workspace', build.fn.countAll<number>().as('count')])
    .where('workspace', 'in', workspaces)
    .where('state', '=', sql.lit(state))
    .groupBy('workspace')
    .execute();
  return numbersOf(rows);
}

async function readChanges(
  query: Sql,
  workspaces: readonly number[],
  counts: Of<Counts>,
): Promise<Of<StoredStatus['changes']>> {
  const oldest = await agesOfLanes(query, workspaces, { state: 'pending', first: 'oldest' });
  const heldSeen = await heldSeenOf(query, workspaces, counts);
  const pending = rowsOf(await changeRows(query, workspaces, 'pending'));
  const held = rowsOf(await changeRows(query, workspaces, 'held'));
  const unknown = rowsOf(await changeRows(query, workspaces, 'unknown'));
  return (workspace) => ({
    byState: byState(counts(workspace)),
    waitingBackfills: waitingBackfills(counts(workspace)),
    heldSeen: heldSeen(workspace),
    oldest: oldest(workspace),
    stuck: [...toChanges(held(workspace)), ...toChanges(unknown(workspace))],
    next: toChanges(pending(workspace)),
  });
}

export function waitingBackfills({ changes }: Counts): number {
  return sumOf(changes, ({ state, lane }) => state === 'pending' && lane === 'backfill');
}

export function byState({ changes }: Counts): StoredStatus['changes']['byState'] {
  const of = (state: ChangeState) => sumOf(changes, (each) => each.state === state);
  return { pending: of('pending'), sending: of('sending'), unknown: of('unknown'), held: of('held') };
}

type Ages = Readonly<Partial<Record<Lane, number>>>;

/** Over all rows, not those due first: what waits longest may be due last. One look at an index for each lane. */
async function agesOfLanes(
  query: Sql,
  workspaces: readonly number[],
  { state, first }: { readonly state: ChangeState; readonly first: 'oldest' | 'newest' },
): Promise<Of<Ages>> {
  if (workspaces.length === 0) return () => ({});
  const rows = await query
    .selectFrom('workspaces')
    .select('id as workspace')
    .select(({ selectFrom }) =>
      LANES.map((lane) =>
        selectFrom('outbox')
          .select('since')
          .whereRef('outbox.workspace', '=', 'workspaces.id')
          .where('state', '=', state)
          .where('lane', '=', lane)
          .orderBy('since', first === 'oldest' ? 'asc' : 'desc')
          .limit(1)
          .as(lane),
      ),
    )
    .where('id', 'in', workspaces)
    .execute();
  const found = new Map(rows.map(({ workspace, ...ages }) => [workspace, Object.entries(ages)]));
  return (workspace) => Object.fromEntries((found.get(workspace) ?? []).filter(([, since]) => since !== null));
}

/** Asks only where anything is held at all. */
async function heldSeenOf(query: Sql, workspaces: readonly number[], counts: Of<Counts>): Promise<Of<Seen | null>> {
  const some = workspaces.filter((each) => byState(counts(each)).held > 0);
  const oldest = await agesOfLanes(query, some, { state: 'held', first: 'oldest' });
  const newest = await agesOfLanes(query, some, { state: 'held', first: 'newest' });
  return (workspace) => {
    const since = Object.values(oldest(workspace));
    return since.length === 0
      ? null
      : { since: Math.min(...since), seenAt: Math.max(...Object.values(newest(workspace))) };
  };
}

/** Asks only where there is any. The order of their numbers is that of their coming. */
async function quarantinedSeenOf(query: Sql, workspaces: readonly number[]): Promise<Of<Seen | null>> {
  if (workspaces.length === 0) return () => null;
  const rows = await query
    .selectFrom('workspaces')
    .select('id as workspace')
    .select(({ selectFrom }) => {
      const times = selectFrom('inbox')
        .select('received_at')
        .whereRef('inbox.workspace', '=', 'workspaces.id')
        .where('state', '=', sql.lit('quarantined'))
        .limit(1);
      return [times.orderBy('id').as('since'), times.orderBy('id', 'desc').as('seenAt')];
    })
    .where('id', 'in', workspaces)
    .execute();
  const seen = new Map(rows.map((row) => [row.workspace, row]));
  return (workspace) => {
    const { since = null, seenAt = null } = seen.get(workspace) ?? {};
    return since === null || seenAt === null ? null : { since, seenAt };
  };
}

/** One state at a time: then the index is in due order already, however many there are. */
async function changeRows(query: Sql, workspaces: readonly number[], state: ChangeState) {
  const rows = await query
    .selectFrom('workspaces')
    .select(({ selectFrom }) => {
      const shown = selectFrom('outbox')
        .select(['outbox.workspace', 'outbox.entity', 'outbox.kind', 'outbox.lane', 'outbox.state', 'outbox.since'])
        .select(['outbox.due', 'outbox.not_before', 'outbox.attempts', 'outbox.error'])
        .whereRef('outbox.workspace', '=', 'workspaces.id')
        .where('outbox.state', '=', state)
        .orderBy('outbox.due')
        .limit(SHOWN);
      return rowsOfSubquery(dialectOf(query), shown).as('shown');
    })
    .where('workspaces.id', 'in', workspaces)
    .execute();
  return rows.flatMap(({ shown }) => rowsIn(shown));
}

type StoredChange = Awaited<ReturnType<typeof changeRows>>[number];

/** Due first. */
function toChanges(rows: readonly StoredChange[]): ChangeRow[] {
  return rows
    .toSorted((a, b) => a.due - b.due)
    .map((row) => {
      const { workspace: _workspace, due: _due, not_before, error, ...rest } = row;
      return { ...rest, notBefore: not_before, failure: error === null ? null : parseFailure(error) };
    });
}

async function readConnections(
  query: Sql,
  workspaces: readonly number[],
  counts: Of<Counts>,
): Promise<Of<readonly ConnectionActivity[]>> {
  const ofRecent = rowsOf(await lastOfConnections(query, workspaces));
  const ofPolls = rowsOf(
    await query
      .selectFrom('polls')
      .select(['workspace', 'connection', 'unit', 'walk', 'completed_at', 'error', 'failed_at'])
      .where('workspace', 'in', workspaces)
      .execute(),
  );
  const ofSweeps = rowsOf(await sweepRows(query, workspaces).execute());
  const ofRefused = rowsOf(await lastRefusedWebhooks(query, workspaces));
  const ofRefusedFetches = rowsOf(await refusedFetches(query, workspaces).execute());
  const ofUnverified = rowsOf(await unverifiedCounts(query, workspaces).execute());
  return (workspace) => {
    const [recent, polls, sweeps] = [ofRecent(workspace), ofPolls(workspace), ofSweeps(workspace)];
    const refused = ofRefused(workspace);
    const { fetches } = counts(workspace);
    const unverified = ofUnverified(workspace);
    const all = [...recent, ...polls, ...sweeps, ...refused, ...fetches, ...unverified];
    const names = new Set(all.map((row) => row.connection));
    return [...names].sort().map((connection) => {
      const ofIt = (row: { readonly connection: string }) => row.connection === connection;
      const given = ofRefusedFetches(workspace).find(ofIt);
      return {
        connection,
        lastDeliveryAt: recent.find(ofIt)?.at ?? null,
        ...pollActivity(polls.filter(ofIt)),
        fetches: (fetches.find(ofIt)?.count ?? 0) - (given?.count ?? 0),
        refusedFetches: given?.count ?? 0,
        fetchRefusal: given?.error ?? null,
        unverifiedItems: unverified.find(ofIt)?.count ?? 0,
        lastSweepAt: latest(sweeps.filter(ofIt)),
        lastRefused: refusedWebhook(refused.find(ofIt)),
        missingUnits: missingOf(polls.filter(ofIt), sweeps.filter(ofIt)),
      };
    });
  };
}

/** Fetches that were given up, by connection. */
export function refusedFetches(query: Sql, workspaces: readonly number[]) {
  return query
    .selectFrom('fetches')
    .select(({ fn }) => ['workspace', 'connection', fn.countAll<number>().as('count'), fn.max('error').as('error')])
    .where('workspace', 'in', workspaces)
    .where('not_before', '=', NEVER)
    .groupBy(['workspace', 'connection']);
}

/** By connection; answered by the index `items_unverified` alone, which is empty except after a restore. */
function unverifiedCounts(query: Sql, workspaces: readonly number[]) {
  return query
    .selectFrom('items')
    .select(({ fn }) => ['workspace', 'connection', fn.countAll<number>().as('count')])
    .where('workspace', 'in', workspaces)
    .where('unverified', '=', sql.lit(1))
    .groupBy(['workspace', 'connection']);
}

function refusedWebhook(row: RefusedWebhook | undefined): RefusedWebhook | null {
  if (!row) return null;
  const { at, status, code, count } = row;
  return { at, status, code, count };
}

/**
 * When each connection last received something, among the last deliveries of its workspace. The names of connections are steps
 * over the index of delivery keys, and the walk back from the latest delivery stops at the first one of the connection.
 */
function lastOfConnections(query: Sql, workspaces: readonly number[]) {
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
    .select(({ selectFrom, ref }) => [
      'named.workspace',
      ref('named.connection').$notNull().as('connection'),
      selectFrom(
        selectFrom('inbox')
          .select(['inbox.connection', 'inbox.received_at'])
          .whereRef('inbox.workspace', '=', 'named.workspace')
          .orderBy('inbox.received_at', 'desc')
          .orderBy('inbox.id', 'desc')
          .limit(LOOKED_THROUGH)
          .as('recent'),
      )
        .select('recent.received_at')
        .whereRef('recent.connection', '=', 'named.connection')
        .limit(1)
        .as('at'),
    ])
    .where('named.connection', 'is not', null)
    .execute();
}

function latest(rows: readonly { readonly completed_at: number | null }[]): number | null {
  return rows.reduce<number | null>((last, row) => Math.max(last ?? 0, row.completed_at ?? 0) || last, null);
}

/** Each sweep, and when a poll read the same unit last. */
export function sweepRows(query: Sql, workspaces: readonly number[]) {
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

interface Read {
  readonly unit: string;
  readonly error: string | null;
}

interface Swept extends Read {
  readonly failed_at: number | null;
  readonly read_at: number | null;
}

/** Units that their provider did not know when they were read last. A sweep may be a day ago: what a poll has read since is there. */
export function missingOf(polls: readonly Read[], sweeps: readonly Swept[]): string[] {
  const unread = sweeps.filter(({ failed_at, read_at }) => (read_at ?? 0) <= (failed_at ?? 0));
  const missing = [...polls, ...unread].filter(
    ({ unit, error }) => unit !== ALL_UNITS && error?.startsWith('not_found:'),
  );
  return [...new Set(missing.map(({ unit }) => unit))].sort();
}

interface PollRow {
  readonly unit: string;
  readonly walk: string | null;
  readonly completed_at: number | null;
  readonly error: string | null;
  readonly failed_at: number | null;
}

function isOff({ error }: Pick<PollRow, 'error'>): boolean {
  return error?.startsWith('feature_off:') ?? false;
}

export function pollActivity(rows: readonly PollRow[]) {
  const off = rows.filter(isOff);
  const failing = rows
    .filter((row) => row.error !== null && !isOff(row))
    .sort((a, b) => (b.failed_at ?? 0) - (a.failed_at ?? 0));
  const lastFailure = failing[0];
  const units = rows.filter((row) => row.unit !== ALL_UNITS);
  return {
    units: units.length,
    walking: units.filter((row) => row.walk !== null).length,
    lastPollAt: latest(rows),
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

async function goneItems(query: Sql, workspaces: readonly number[]): Promise<Of<readonly (Owned & GoneItem)[]>> {
  const rows = await query
    .selectFrom('workspaces')
    .select(({ selectFrom }) => {
      const shown = selectFrom('items')
        .select(['items.workspace', 'items.key', 'items.connection', 'items.seen_at as at'])
        .whereRef('items.workspace', '=', 'workspaces.id')
        .where('items.gone', '=', sql.lit(1))
        .orderBy('items.seen_at', 'desc')
        .limit(SHOWN);
      return rowsOfSubquery(dialectOf(query), shown).as('shown');
    })
    .where('workspaces.id', 'in', workspaces)
    .execute();
  return rowsOf(rows.flatMap(({ shown }) => rowsIn(shown)).toSorted((a, b) => b.at - a.at));
}

/** Without the links that a person removed: their item desires them, and nobody adds them. */
export function tally({ entities, changes }: Counts, kind: EntityKind): Tally {
  return {
    total: sumOf(entities, (each) => each.kind === kind && each.hand !== 'removed' && each.hand !== 'gone'),
    waiting: sumOf(changes, (each) => each.kind === kind),
  };
}
