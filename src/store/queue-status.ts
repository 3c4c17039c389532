import { sql } from 'kysely';
import type { ChangeState, EntityKind } from '../model/change.ts';
import type { DeliveryOrigin, DeliveryState } from '../model/delivery.ts';
import { entityLabel } from '../model/entity-label.ts';
import { parseFailure, type StoredFailure } from '../model/errors/sync-error.ts';
import { LANES, type Lane } from '../model/lane.ts';
import { dialectOf, rowsIn, rowsOfSubquery } from '../platform/database/dialect.ts';
import { type ByWorkspace, countsByWorkspace, groupByWorkspace, withoutWorkspace } from './by-workspace.ts';
import { type Counts, sumOf } from './counts.ts';
import { ITEM_NAME } from './items.ts';
import { QUEUES } from './schema/tables.ts';
import type { Scope, Sql } from './workspace-scope.ts';

/** Rows of each list: the status page is an overview, and commands list everything. */
export const MAX_LISTED = 20;

const DAY = 24 * 60 * 60 * 1_000;

/** The times of the first and the last of some rows, epoch milliseconds. */
interface TimeRange {
  readonly since: number;
  readonly seenAt: number;
}

export interface DeliveryRow {
  readonly id: number;
  readonly connection: string;
  readonly source: DeliveryOrigin;
  readonly event: string;
  readonly receivedAt: number;
  readonly state: DeliveryState;
  readonly reason: string | null;
}

/** The status of the inbox. Times are epoch milliseconds. */
export interface InboxStatus {
  readonly lastReceivedAt: number | null;
  /** Received from vendors in the last 24 hours, as the page of deliveries lists them: without what the workspace sent. */
  readonly lastDay: number;
  readonly pending: number;
  readonly quarantined: number;
  /** When the first and the last quarantined delivery were received; null without any. */
  readonly quarantinedSeen: TimeRange | null;
  readonly quarantine: readonly DeliveryRow[];
  readonly latest: readonly DeliveryRow[];
}

export interface ChangeRow {
  readonly entity: string;
  /** The name of the entity for people: `record of acme/app#1`. */
  readonly label: string;
  readonly kind: EntityKind;
  readonly lane: Lane;
  readonly state: ChangeState;
  /** When the difference appeared. */
  readonly since: number;
  /** Not sent earlier. */
  readonly notBefore: number;
  readonly attempts: number;
  readonly failure: StoredFailure | null;
}

/** The part of the outbox status that the stored counts give, without a read of the outbox. */
export interface ChangeCounts {
  readonly byState: Readonly<Record<ChangeState, number>>;
  /** Pending changes in the lane of backfills. */
  readonly waitingBackfills: number;
  /** The creations among them that live webhooks caused: they exceeded the limit of `BURST`. */
  readonly waitingBursts: number;
}

/** The status of the outbox. Times are epoch milliseconds. */
export interface OutboxStatus extends ChangeCounts {
  /** When the differences of the oldest and of the newest held change appeared; null without any. */
  readonly heldSeen: TimeRange | null;
  /**
   * When the oldest pending difference of each lane appeared, without those of first imports; without the lanes in which nothing else is
   * pending.
   */
  readonly oldest: Readonly<Partial<Record<Lane, number>>>;
  /** The time at which every pending change is due, regardless of the quota; null if none is pending. */
  readonly lastDueAt: number | null;
  /** Changes that need approval, or whose outcome is unknown. */
  readonly stuck: readonly ChangeRow[];
  /** Due first. */
  readonly next: readonly ChangeRow[];
}

/** @param now wall clock, epoch milliseconds */
export async function readInboxStatus(
  query: Sql,
  workspaces: readonly number[],
  now: number,
): Promise<ByWorkspace<InboxStatus>> {
  const latest = groupByWorkspace(await deliveryRows(query, workspaces, 'latest'));
  const lastDay = countsByWorkspace(
    await query
      .selectFrom('inbox')
      .select((build) => ['workspace', build.fn.countAll<number>().as('count')])
      .where('workspace', 'in', workspaces)
      .where('received_at', '>', now - DAY)
      .where('source', 'not in', ['answer', 'workspace'])
      .groupBy('workspace')
      .execute(),
  );
  const pending = await countDeliveries(query, workspaces, 'pending');
  const quarantined = await countDeliveries(query, workspaces, 'quarantined');
  const quarantine = groupByWorkspace(await deliveryRows(query, workspaces, 'quarantined'));
  const quarantinedSeen = await quarantineTimes(
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
        .map(withoutWorkspace),
      latest: shown.map(withoutWorkspace),
    };
  };
}

/** Reads the first rows of each workspace in the order of an index, so that the cost does not depend on the number of rows. */
async function deliveryRows(query: Sql, workspaces: readonly number[], list: 'latest' | 'quarantined') {
  const rows = await query
    .selectFrom('workspaces')
    .select(({ selectFrom }) => {
      const own = selectFrom('inbox')
        .select(['inbox.workspace', 'inbox.id', 'inbox.connection', 'inbox.source', 'inbox.event'])
        .select(['inbox.received_at as receivedAt', 'inbox.state', 'inbox.reason'])
        .whereRef('inbox.workspace', '=', 'workspaces.id')
        .limit(MAX_LISTED);
      const shown =
        list === 'latest'
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
): Promise<ByWorkspace<number>> {
  const rows = await query
    .selectFrom('inbox')
    .select((build) => ['workspace', build.fn.countAll<number>().as('count')])
    .where('workspace', 'in', workspaces)
    .where('state', '=', sql.lit(state))
    .groupBy('workspace')
    .execute();
  return countsByWorkspace(rows);
}

/** Deliveries are numbered in the order of their receipt, so the first and the last id give the range. */
async function quarantineTimes(query: Sql, workspaces: readonly number[]): Promise<ByWorkspace<TimeRange | null>> {
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
  const times = new Map(rows.map((row) => [row.workspace, row]));
  return (workspace) => {
    const { since = null, seenAt = null } = times.get(workspace) ?? {};
    return since === null || seenAt === null ? null : { since, seenAt };
  };
}

export async function readOutboxStatus(
  query: Sql,
  workspaces: readonly number[],
  counts: ByWorkspace<Counts>,
): Promise<ByWorkspace<OutboxStatus>> {
  const oldest = await oldestPending(query, workspaces);
  const lastDueAt = await lastDueTimes(query, workspaces);
  const heldSeen = await heldTimes(
    query,
    workspaces.filter((each) => countChanges(counts(each)).byState.held > 0),
  );
  const pending = groupByWorkspace(await changeRows(query, workspaces, 'pending'));
  const held = groupByWorkspace(await changeRows(query, workspaces, 'held'));
  const unknown = groupByWorkspace(await changeRows(query, workspaces, 'unknown'));
  return (workspace) => ({
    ...countChanges(counts(workspace)),
    heldSeen: heldSeen(workspace),
    oldest: oldest(workspace),
    lastDueAt: lastDueAt(workspace),
    stuck: [...toChanges(held(workspace)), ...toChanges(unknown(workspace))],
    next: toChanges(pending(workspace)),
  });
}

export function countChanges({ changes }: Counts): ChangeCounts {
  const inState = (state: ChangeState) => sumOf(changes, (each) => each.state === state);
  const waitingLast = changes.filter(({ state, lane }) => state === 'pending' && lane === 'backfill');
  return {
    byState: {
      pending: inState('pending'),
      sending: inState('sending'),
      unknown: inState('unknown'),
      held: inState('held'),
    },
    waitingBackfills: sumOf(waitingLast),
    waitingBursts: sumOf(waitingLast, ({ guard }) => guard === 'live'),
  };
}

type TimesByLane = Readonly<Partial<Record<Lane, number>>>;

/** Reads when the oldest pending difference of each lane appeared. First imports do not count: nobody waits for their changes. */
async function oldestPending(query: Sql, workspaces: readonly number[]): Promise<ByWorkspace<TimesByLane>> {
  const live = LANES.map((lane) => ({ name: lane, lane, imported: 0 }) as const);
  return timesByLane(query, workspaces, { state: 'pending', lanes: live, first: 'oldest' });
}

/** Reads the time at which every pending change is due, regardless of the quota; null if none is pending. */
export async function readLastDueAt({ whole, workspace }: Scope): Promise<number | null> {
  return (await lastDueTimes(whole, [workspace]))(workspace);
}

/** Reads the latest due time and the latest `not_before` of each queue, with one index lookup each. */
async function lastDueTimes(query: Sql, workspaces: readonly number[]): Promise<ByWorkspace<number | null>> {
  if (workspaces.length === 0) return () => null;
  const rows = await query
    .selectFrom('workspaces')
    .select('id as workspace')
    .select(({ selectFrom }) => {
      const pending = selectFrom('outbox')
        .whereRef('outbox.workspace', '=', 'workspaces.id')
        .where('state', '=', sql.lit('pending'))
        .limit(1);
      return [
        pending.select('due').orderBy('due', 'desc').as('due'),
        ...QUEUES.map((queue) =>
          pending
            .select('not_before')
            .where('send_queue', '=', sql.lit(queue))
            .orderBy('not_before', 'desc')
            .as(`${queue}_pause`),
        ),
      ];
    })
    .where('id', 'in', workspaces)
    .execute();
  const times = new Map(
    rows.map(({ workspace, ...found }) => [workspace, Object.values(found).filter((time) => time !== null)]),
  );
  return (workspace) => {
    const own = times.get(workspace) ?? [];
    return own.length === 0 ? null : Math.max(...own);
  };
}

async function heldTimes(query: Sql, workspaces: readonly number[]): Promise<ByWorkspace<TimeRange | null>> {
  const lanes = LANES.flatMap((lane) => [
    { name: lane, lane, imported: 0 } as const,
    { name: `imported_${lane}`, lane, imported: 1 } as const,
  ]);
  const oldest = await timesByLane(query, workspaces, { state: 'held', lanes, first: 'oldest' });
  const newest = await timesByLane(query, workspaces, { state: 'held', lanes, first: 'newest' });
  return (workspace) => {
    const since = Object.values(oldest(workspace));
    return since.length === 0
      ? null
      : { since: Math.min(...since), seenAt: Math.max(...Object.values(newest(workspace))) };
  };
}

interface TimesQuery {
  readonly state: ChangeState;
  /** The changes whose times are read, each under its name. */
  readonly lanes: readonly { readonly name: string; readonly lane: Lane; readonly imported: 0 | 1 }[];
  readonly first: 'oldest' | 'newest';
}

/**
 * Reads when the oldest or the newest difference appeared, by one index lookup for each lane. The rows that are due first do not
 * suffice, because the oldest difference may be due last.
 */
async function timesByLane(
  query: Sql,
  workspaces: readonly number[],
  { state, lanes, first }: TimesQuery,
): Promise<ByWorkspace<Readonly<Record<string, number>>>> {
  if (workspaces.length === 0) return () => ({});
  const rows = await query
    .selectFrom('workspaces')
    .select('id as workspace')
    .select(({ selectFrom }) =>
      lanes.map(({ name, lane, imported }) =>
        selectFrom('outbox')
          .select('since')
          .whereRef('outbox.workspace', '=', 'workspaces.id')
          .where('state', '=', state)
          .where('lane', '=', lane)
          .where('imported', '=', imported)
          .orderBy('since', first === 'oldest' ? 'asc' : 'desc')
          .limit(1)
          .as(name),
      ),
    )
    .where('id', 'in', workspaces)
    .execute();
  const found = new Map(
    rows.map(({ workspace, ...times }) => [
      workspace,
      Object.entries(times).flatMap(([name, since]) => (since === null ? [] : [[name, since] as const])),
    ]),
  );
  return (workspace) => Object.fromEntries(found.get(workspace) ?? []);
}

/** Reads the changes of one state: only then the index gives them in due order, whatever their number. */
async function changeRows(query: Sql, workspaces: readonly number[], state: ChangeState) {
  const rows = await query
    .selectFrom('workspaces')
    .select(({ selectFrom }) => {
      const shown = selectFrom('outbox')
        .select(['outbox.workspace', 'outbox.entity', 'outbox.kind', 'outbox.lane', 'outbox.state', 'outbox.since'])
        .select(['outbox.due', 'outbox.not_before', 'outbox.attempts', 'outbox.error'])
        .select((of) => {
          const own = of
            .selectFrom('entities')
            .whereRef('entities.workspace', '=', 'outbox.workspace')
            .whereRef('entities.entity', '=', 'outbox.entity');
          const item = own.leftJoin('items', (join) =>
            join.onRef('items.workspace', '=', 'entities.workspace').onRef('items.key', '=', 'entities.item_key'),
          );
          const task = own.leftJoin('tasks', (join) =>
            join.onRef('tasks.workspace', '=', 'entities.workspace').onRef('tasks.task_id', '=', 'entities.task_id'),
          );
          return [
            item.select(({ fn }) => fn.coalesce(ITEM_NAME, 'entities.item_key').as('name')).as('item'),
            task.select(({ fn }) => fn.coalesce('tasks.key', 'entities.task_id').as('name')).as('task'),
          ];
        })
        .whereRef('outbox.workspace', '=', 'workspaces.id')
        .where('outbox.state', '=', state)
        .orderBy('outbox.due')
        .limit(MAX_LISTED);
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
      const { workspace: _workspace, due: _due, not_before, error, item, task, ...rest } = row;
      return {
        ...rest,
        label: entityLabel({ ...rest, item, task }),
        notBefore: not_before,
        failure: error === null ? null : parseFailure(error),
      };
    });
}
