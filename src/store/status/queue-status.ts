import { type ExpressionBuilder, sql } from 'kysely';
import { type ChangeState, entityLabel, LANES, type Lane } from '../../model/change.ts';
import type { DeliveryState } from '../../model/delivery.ts';
import { parseFailure } from '../../model/errors.ts';
import { ITEM_NAME } from '../items/items.ts';
import { QUEUES, type Schema } from '../schema/tables.ts';
import {
  type ByWorkspace,
  countsByWorkspace,
  rowsOfEach,
  type Scope,
  type Sql,
  valuesOfEach,
  withoutWorkspace,
} from '../workspace-scope.ts';
import { type Counts, sumOf } from './counts.ts';
import type { InboxStatus, OutboxStatus, TimeRange } from './status-shape.ts';

/** Rows of each list: the status page is an overview, and commands list everything. */
export const MAX_LISTED = 20;

const DAY = 24 * 60 * 60 * 1_000;

type EachWorkspace = ExpressionBuilder<Schema, 'workspaces'>;

/** @param now wall clock, epoch milliseconds */
export async function readInboxStatus(
  query: Sql,
  workspaces: readonly number[],
  now: number,
): Promise<ByWorkspace<InboxStatus>> {
  const latest = await rowsOfEach(query, workspaces, (build) =>
    deliveriesOf(build).orderBy('inbox.received_at', 'desc').orderBy('inbox.id', 'desc').limit(MAX_LISTED),
  );
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
  const quarantine = await rowsOfEach(query, workspaces, (build) =>
    deliveriesOf(build).where('inbox.state', '=', sql.lit('quarantined')).orderBy('inbox.id', 'desc').limit(MAX_LISTED),
  );
  const quarantineTimes = await valuesOfEach(
    query,
    workspaces.filter((each) => quarantined(each) > 0),
    ({ selectFrom }) => {
      const times = selectFrom('inbox')
        .select('received_at')
        .whereRef('inbox.workspace', '=', 'workspaces.id')
        .where('state', '=', sql.lit('quarantined'))
        .limit(1);
      return [times.orderBy('id').as('first'), times.orderBy('id', 'desc').as('last')];
    },
  );
  return (workspace) => {
    const shown = latest(workspace).toSorted((a, b) => b.receivedAt - a.receivedAt || b.id - a.id);
    return {
      lastReceivedAt: shown[0]?.receivedAt ?? null,
      lastDay: lastDay(workspace),
      pending: pending(workspace),
      quarantined: quarantined(workspace),
      quarantinedSeen: rangeOf(quarantineTimes(workspace)),
      quarantine: quarantine(workspace)
        .toSorted((a, b) => b.id - a.id)
        .map(withoutWorkspace),
      latest: shown.map(withoutWorkspace),
    };
  };
}

function deliveriesOf({ selectFrom }: EachWorkspace) {
  return selectFrom('inbox')
    .select(['inbox.workspace', 'inbox.id', 'inbox.connection', 'inbox.source', 'inbox.event'])
    .select(['inbox.received_at as receivedAt', 'inbox.state', 'inbox.reason'])
    .whereRef('inbox.workspace', '=', 'workspaces.id');
}

function rangeOf(values: Readonly<Record<string, number>>): TimeRange | null {
  const times = Object.values(values);
  return times.length === 0 ? null : { since: Math.min(...times), seenAt: Math.max(...times) };
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

export async function readOutboxStatus(
  query: Sql,
  workspaces: readonly number[],
  counts: ByWorkspace<Counts>,
): Promise<ByWorkspace<OutboxStatus>> {
  // First imports do not count: nobody waits for their changes.
  const oldest = await valuesOfEach(query, workspaces, (build) =>
    LANES.map((lane) => sinceOf(build, 'pending', lane, 0).orderBy('since').as(lane)),
  );
  const lastDueAt = await lastDueTimes(query, workspaces);
  const heldTimes = await valuesOfEach(
    query,
    workspaces.filter((each) => countChanges(counts(each)).byState.held > 0),
    (build) =>
      LANES.flatMap((lane) =>
        ([0, 1] as const).flatMap((imported) => {
          const since = sinceOf(build, 'held', lane, imported);
          return [
            since.orderBy('since').as(`${lane}_${imported}_oldest`),
            since.orderBy('since', 'desc').as(`${lane}_${imported}_newest`),
          ];
        }),
      ),
  );
  const pending = await readChanges(query, workspaces, 'pending');
  const held = await readChanges(query, workspaces, 'held');
  const unknown = await readChanges(query, workspaces, 'unknown');
  return (workspace) => ({
    ...countChanges(counts(workspace)),
    heldSeen: rangeOf(heldTimes(workspace)),
    oldest: oldest(workspace),
    lastDueAt: lastDueAt(workspace),
    stuck: [...held(workspace), ...unknown(workspace)],
    next: pending(workspace),
  });
}

/** Selects when one difference appeared. The rows that are due first do not suffice, because the oldest difference may be due last. */
function sinceOf({ selectFrom }: EachWorkspace, state: ChangeState, lane: Lane, imported: 0 | 1) {
  return selectFrom('outbox')
    .select('since')
    .whereRef('outbox.workspace', '=', 'workspaces.id')
    .where('state', '=', state)
    .where('lane', '=', lane)
    .where('imported', '=', imported)
    .limit(1);
}

/** Returns the part of the outbox status that the stored counts give, without a read of the outbox. */
export function countChanges({
  changes,
}: Counts): Pick<OutboxStatus, 'byState' | 'waitingBackfills' | 'waitingBursts'> {
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

/** Reads the time at which every pending change is due, regardless of the quota; null if none is pending. */
export async function readLastDueAt({ whole, workspace }: Scope): Promise<number | null> {
  return (await lastDueTimes(whole, [workspace]))(workspace);
}

/** Reads the latest due time and the latest `not_before` of each queue. */
async function lastDueTimes(query: Sql, workspaces: readonly number[]): Promise<ByWorkspace<number | null>> {
  const times = await valuesOfEach(query, workspaces, ({ selectFrom }) => {
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
  });
  return (workspace) => rangeOf(times(workspace))?.seenAt ?? null;
}

/** Reads the changes of one state, due first: only then the index gives them in this order, whatever their number. */
async function readChanges(
  query: Sql,
  workspaces: readonly number[],
  state: ChangeState,
): Promise<ByWorkspace<OutboxStatus['next']>> {
  const rows = await rowsOfEach(query, workspaces, ({ selectFrom }) =>
    selectFrom('outbox')
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
      .limit(MAX_LISTED),
  );
  return (workspace) =>
    rows(workspace)
      .toSorted((a, b) => a.due - b.due)
      .map(({ workspace: _workspace, due: _due, not_before, error, item, task, ...rest }) => ({
        ...rest,
        label: entityLabel({ ...rest, item, task }),
        notBefore: not_before,
        failure: error === null ? null : parseFailure(error),
      }));
}
