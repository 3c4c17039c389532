import { type SelectQueryBuilder, sql } from 'kysely';
import { CODES } from '../errors/codes.ts';
import type { ChangeState, EntityKind } from '../model/change.ts';
import type { DeliverySource, DeliveryState } from '../model/delivery.ts';
import { LANES, type Lane } from '../model/lane.ts';
import { type BackfillStatus, readBackfills } from './backfills.ts';
import type { Query } from './database.ts';
import { ALL_UNITS } from './polls.ts';
import type { Schema } from './tables.ts';
import { readSweeps, type SweepReports } from './workspace-sweeps.ts';
import { readTurn, type Turn } from './workspace-turn.ts';

/** Rows shown of each list: the page is for a glance, the commands list everything. */
const SHOWN = 20;

/** Deliveries looked through for the last one of each connection; no index orders them by connection. */
const LOOKED_THROUGH = 1_000;

const DAY = 24 * 60 * 60 * 1_000;

/** Code and remedy of a failure, as it was stored. */
export interface Failure {
  readonly code: string;
  readonly message: string;
  readonly hint: string | null;
}

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
  readonly failure: Failure | null;
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
  /** The latest failure that has not been made good. */
  readonly failure: (Failure & { readonly unit: string | null; readonly at: number }) | null;
  /** Objects waiting to be fetched. */
  readonly fetches: number;
  /** The last sweep of a unit that reached its end. */
  readonly lastSweepAt: number | null;
  /** Units that the provider does not know, or does not show us, any more: what is held of them stays as it is. */
  readonly missingUnits: readonly string[];
}

export interface GoneItem {
  readonly key: string;
  readonly connection: string;
  /** When we learnt it. */
  readonly at: number;
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
    readonly quarantine: readonly DeliveryRow[];
    readonly latest: readonly DeliveryRow[];
  };
  readonly changes: {
    readonly byState: Readonly<Record<ChangeState, number>>;
    /** When the oldest unsent difference of each lane appeared; lanes where none waits are left out. */
    readonly oldest: Readonly<Partial<Record<Lane, number>>>;
    /** Changes that wait for a person, or whose fate is not known. */
    readonly stuck: readonly ChangeRow[];
    /** Due first. */
    readonly next: readonly ChangeRow[];
  };
  readonly connections: readonly ConnectionActivity[];
  /** Those that run, and those that ended in the last 24 hours. */
  readonly backfills: readonly BackfillStatus[];
  readonly items: number;
  /** What was compared with the workspace's own lists; and the reading of what stands in none, where there is any. */
  readonly sweep: SweepReports & { readonly turn: Pick<Turn, 'startedAt' | 'endedAt' | 'read'> | null };
  /** Items that their provider no longer has, latest first. They write nothing; their links stay. */
  readonly gone: readonly GoneItem[];
  readonly tasks: number;
  readonly pullRequests: Tally;
  readonly links: Tally;
}

/**
 * Reads what a status shows, cheaply at any size: counts come from indexes, lists are bounded, and no body and no
 * item is read.
 *
 * @param now wall clock, epoch milliseconds
 */
export async function readStatus(query: Query, now: number): Promise<StoredStatus> {
  return {
    deliveries: await readDeliveries(query, now),
    changes: await readChanges(query),
    connections: await readConnections(query),
    backfills: (await readBackfills(query)).filter(({ finishedAt }) => finishedAt === null || finishedAt > now - DAY),
    items: await countRows(query, 'items'),
    sweep: { ...(await readSweeps(query)), turn: await describeTurn(query) },
    gone: await goneItems(query),
    tasks: await countRows(query, 'tasks'),
    pullRequests: await tally(query, 'pull_request'),
    links: await tally(query, 'link'),
  };
}

async function describeTurn(query: Query): Promise<StoredStatus['sweep']['turn']> {
  const turn = await readTurn(query);
  return turn ? { startedAt: turn.startedAt, endedAt: turn.endedAt, read: turn.read } : null;
}

async function readDeliveries(query: Query, now: number): Promise<StoredStatus['deliveries']> {
  const latest = await latestFirst(deliveryRows(query)).limit(SHOWN).execute();
  const quarantine = await deliveryRows(query)
    .where('state', '=', 'quarantined')
    .orderBy('id', 'desc')
    .limit(SHOWN)
    .execute();
  const lastDay = await query
    .selectFrom('inbox')
    .select((build) => build.fn.countAll<number>().as('count'))
    .where('received_at', '>', now - DAY)
    .executeTakeFirstOrThrow();
  return {
    lastReceivedAt: latest[0]?.receivedAt ?? null,
    lastDay: lastDay.count,
    pending: await countDeliveries(query, 'pending'),
    quarantined: await countDeliveries(query, 'quarantined'),
    quarantine,
    latest,
  };
}

function deliveryRows(query: Query) {
  return query
    .selectFrom('inbox')
    .select(['id', 'connection', 'source', 'event', 'received_at as receivedAt', 'state', 'reason']);
}

/** As the index `inbox_received` has them. */
function latestFirst<Row>(deliveries: SelectQueryBuilder<Schema, 'inbox', Row>) {
  return deliveries.orderBy('received_at', 'desc').orderBy('id', 'desc');
}

async function countDeliveries(query: Query, state: DeliveryState): Promise<number> {
  const row = await query
    .selectFrom('inbox')
    .select((build) => build.fn.countAll<number>().as('count'))
    .where('state', '=', state)
    .executeTakeFirstOrThrow();
  return row.count;
}

async function readChanges(query: Query): Promise<StoredStatus['changes']> {
  const counted = await query
    .selectFrom('outbox')
    .select((build) => ['state', build.fn.countAll<number>().as('count')])
    .groupBy('state')
    .execute();
  const next = await changeRows(query, 'pending');
  const stuck = [...(await changeRows(query, 'held')), ...(await changeRows(query, 'unknown'))];
  return {
    byState: {
      pending: 0,
      sending: 0,
      unknown: 0,
      held: 0,
      ...Object.fromEntries(counted.map((row) => [row.state, row.count])),
    },
    oldest: await oldestOfLanes(query),
    stuck: stuck.map(toChange),
    next: next.map(toChange),
  };
}

/** Over all rows, not those due first: what waits longest may be due last. One look at an index for each lane. */
async function oldestOfLanes(query: Query): Promise<Partial<Record<Lane, number>>> {
  const oldest: Partial<Record<Lane, number>> = {};
  for (const lane of LANES) {
    const row = await query
      .selectFrom('outbox')
      .select('since')
      .where('state', '=', 'pending')
      .where('lane', '=', lane)
      .orderBy('since')
      .limit(1)
      .executeTakeFirst();
    if (row) oldest[lane] = row.since;
  }
  return oldest;
}

/** One state at a time: then the index is in due order already, however many there are. */
function changeRows(query: Query, state: ChangeState) {
  return query
    .selectFrom('outbox')
    .select(['entity', 'kind', 'lane', 'state', 'since', 'not_before', 'attempts', 'error'])
    .where('state', '=', state)
    .orderBy('due')
    .limit(SHOWN)
    .execute();
}

type StoredChange = Awaited<ReturnType<typeof changeRows>>[number];

function toChange({ not_before, error, ...row }: StoredChange): ChangeRow {
  return { ...row, notBefore: not_before, failure: error === null ? null : failureOf(error) };
}

async function readConnections(query: Query): Promise<ConnectionActivity[]> {
  const recent = await query
    .selectOver(
      latestFirst(query.selectFrom('inbox').select(['connection', 'received_at']))
        .limit(LOOKED_THROUGH)
        .as('recent'),
    )
    .select((build) => ['connection', build.fn.max('received_at').as('at')])
    .groupBy('connection')
    .execute();
  const polls = await query
    .selectFrom('polls')
    .select(['connection', 'unit', 'walk', 'completed_at', 'error', 'failed_at'])
    .execute();
  const sweeps = await query.selectFrom('sweeps').select(['connection', 'unit', 'completed_at', 'error']).execute();
  const fetches = await query
    .selectFrom('fetches')
    .select((build) => ['connection', build.fn.countAll<number>().as('count')])
    .groupBy('connection')
    .execute();
  const names = new Set([...recent, ...polls, ...sweeps, ...fetches].map((row) => row.connection));
  return [...names].sort().map((connection) => ({
    connection,
    lastDeliveryAt: recent.find((row) => row.connection === connection)?.at ?? null,
    ...pollActivity(polls.filter((row) => row.connection === connection)),
    fetches: fetches.find((row) => row.connection === connection)?.count ?? 0,
    lastSweepAt: latest(sweeps.filter((row) => row.connection === connection)),
    missingUnits: missingOf([...polls, ...sweeps].filter((row) => row.connection === connection)),
  }));
}

function latest(rows: readonly { readonly completed_at: number | null }[]): number | null {
  return rows.reduce<number | null>((last, row) => Math.max(last ?? 0, row.completed_at ?? 0) || last, null);
}

function missingOf(rows: readonly { readonly unit: string; readonly error: string | null }[]): string[] {
  const missing = rows.filter(({ unit, error }) => unit !== ALL_UNITS && error?.startsWith('not_found:'));
  return [...new Set(missing.map(({ unit }) => unit))].sort();
}

interface PollRow {
  readonly unit: string;
  readonly walk: string | null;
  readonly completed_at: number | null;
  readonly error: string | null;
  readonly failed_at: number | null;
}

function pollActivity(rows: readonly PollRow[]) {
  const failing = rows.filter((row) => row.error !== null).sort((a, b) => (b.failed_at ?? 0) - (a.failed_at ?? 0));
  const lastFailure = failing[0];
  const units = rows.filter((row) => row.unit !== ALL_UNITS);
  return {
    units: units.length,
    walking: units.filter((row) => row.walk !== null).length,
    lastPollAt: latest(rows),
    failingUnits: failing.length,
    failure: lastFailure
      ? {
          ...failureOf(lastFailure.error ?? ''),
          unit: lastFailure.unit === ALL_UNITS ? null : lastFailure.unit,
          at: lastFailure.failed_at ?? 0,
        }
      : null,
  };
}

/** Stored as `code: message`; what has no code of the registry is shown as it is. */
function failureOf(stored: string): Failure {
  const [, code = '', message = ''] = /^([a-z_]+): ?([\s\S]*)$/.exec(stored) ?? [];
  const known = CODES[code as keyof typeof CODES] as { hint: string } | undefined;
  return known ? { code, message, hint: known.hint } : { code: 'internal', message: stored, hint: null };
}

function goneItems(query: Query): Promise<GoneItem[]> {
  return query
    .selectFrom('items')
    .select(['key', 'connection', 'seen_at as at'])
    .where('gone', '=', sql.lit(1))
    .orderBy('seen_at', 'desc')
    .limit(SHOWN)
    .execute();
}

async function countRows(query: Query, table: 'items' | 'tasks'): Promise<number> {
  const row = await query
    .selectFrom(table)
    .select((build) => build.fn.countAll<number>().as('count'))
    .executeTakeFirstOrThrow();
  return row.count;
}

async function tally(query: Query, kind: EntityKind): Promise<Tally> {
  const total = (await countKind(query, 'entities', kind)) - (await countRemoved(query, kind));
  return { total, waiting: await countKind(query, 'outbox', kind) };
}

/** Links that a person removed: wanted by their item, and added by nobody. */
async function countRemoved(query: Query, kind: EntityKind): Promise<number> {
  const row = await query
    .selectFrom('entities')
    .select((build) => build.fn.countAll<number>().as('count'))
    .where('entity', '>=', `${kind}:`)
    .where('entity', '<', `${kind};`)
    .where('hand', '=', sql.lit('removed'))
    .executeTakeFirstOrThrow();
  return row.count;
}

/** The kind is the prefix of the key, so the key's own index answers; `;` follows `:` in the order of characters. */
async function countKind(query: Query, table: 'entities' | 'outbox', kind: EntityKind): Promise<number> {
  const row = await query
    .selectFrom(table)
    .select((build) => build.fn.countAll<number>().as('count'))
    .where('entity', '>=', `${kind}:`)
    .where('entity', '<', `${kind};`)
    .executeTakeFirstOrThrow();
  return row.count;
}
