import type { Selectable, Updateable } from 'kysely';
import type { ChangeState, Effect } from '../../model/change.ts';
import { chunksOf } from '../../platform/lib/concurrency.ts';
import type { Tables } from '../schema/tables.ts';
import { readCounts, sumOf } from '../status/counts.ts';
import { type CachedRow, newRow } from '../unit-of-work/cached-tables.ts';
import { removeRows, rowsWhere, saveRows } from '../unit-of-work/unit-of-work.ts';
import { CHUNK_SIZE, compileInScope, countRows, type Scope } from '../workspace-scope.ts';

export type OutboxRow = CachedRow<'outbox'>;
export type OutboxUpdate = Updateable<Tables['outbox']>;

/** A delivery that waits for a change. Stored to measure the lag, and to follow one delivery through the log. */
export interface WaitingDelivery {
  readonly id: number;
  /** When it was received, epoch milliseconds; null if a first import brought it, because its lag is not measured. */
  readonly at: number | null;
}

/** A difference between the desired and the known state of an entity. Times are epoch milliseconds. */
export interface Difference {
  readonly entity: string;
  readonly kind: OutboxRow['kind'];
  readonly lane: OutboxRow['lane'];
  /** When the first unsent difference appeared. */
  readonly since: number;
  readonly due: number;
  /** Upper limit of the debounce after `since`, milliseconds: a renewed change is postponed no further. */
  readonly maxWait?: number;
  readonly weight: number;
  readonly notBefore?: number;
  /** The content to send has changed, which gives a held change a new chance. */
  readonly renewed?: boolean;
  readonly effect?: Effect | null;
  /** A person requested it, so the mass-change guard does not count it. */
  readonly confirmed?: boolean;
  /** Empty if no live delivery brought it. */
  readonly waiting: readonly WaitingDelivery[];
  /** A live webhook caused it. */
  readonly isLive?: boolean;
}

/** Waiting deliveries that are stored with one change. */
const MAX_WAITING = 100;

export async function findChange(query: Scope, entity: string): Promise<OutboxRow | undefined> {
  const [row] = await findChanges(query, [entity]);
  return row;
}

/** Returns the changes of those of these entities that have one. */
export async function findChanges(query: Scope, entities: readonly string[]): Promise<readonly OutboxRow[]> {
  return rowsWhere(query, 'outbox', 'entity', entities);
}

/** Returns the changes that are in flight, or were when the process died. */
export async function changesInFlight(query: Scope): Promise<readonly Selectable<Tables['outbox']>[]> {
  return query.selectFrom('outbox').selectAll().where('state', '=', 'sending').execute();
}

/**
 * Returns the next writes after the name of an entity, each with its entity row. Writes in the state `unknown` are left out.
 * Other writes may have an unknown outcome too: see the table in `model/change.ts`.
 */
export async function writesAfter(query: Scope, after: string, limit: number) {
  return query
    .selectJoined(['outbox', 'entity'], ['entities', 'entity'])
    .selectAll('entities')
    .select(['outbox.state', 'outbox.guard', 'outbox.sent', 'outbox.due'])
    .where('outbox.entity', '>', after)
    .where('outbox.kind', '!=', 'read')
    .where('outbox.state', '!=', 'unknown')
    .orderBy('outbox.entity')
    .limit(limit)
    .execute();
}

/** Returns the names of the next writes after the name of an entity, in any state. */
export async function changesAfter(query: Scope, after: string, limit: number): Promise<readonly string[]> {
  const rows = await query
    .selectFrom('outbox')
    .select('entity')
    .where('entity', '>', after)
    .where('kind', '!=', 'read')
    .orderBy('entity')
    .limit(limit)
    .execute();
  return rows.map(({ entity }) => entity);
}

/** Returns whether one of these changes is not held: it is pending, in flight, or waits for the list that settles it. */
export async function areUnderWay(query: Scope, entities: readonly string[]): Promise<boolean> {
  return (await findChanges(query, entities)).some(({ state }) => state !== 'held');
}

/**
 * Enqueues a difference, or merges it into the existing change of the entity:
 *
 * - A pending change is postponed only if its content has changed, and at most to its maximal wait.
 * - A change in flight is sent once more after its answer.
 * - A held change becomes pending if its content has changed. One that the guard holds also does if its effect has changed.
 * - A change of a backfill moves to the lane of a live delivery with the same difference.
 */
export async function addDifference(query: Scope, difference: Difference): Promise<void> {
  const present = await findChange(query, difference.entity);
  await saveRows(query, 'outbox', [present === undefined ? changeOf(difference) : merged(present, difference)]);
}

function merged(present: OutboxRow, difference: Difference): OutboxRow {
  // The first ones stay, because a request in flight counts the deliveries that it serves from the start.
  const waiting = JSON.stringify([...readWaiting(present), ...difference.waiting].slice(0, MAX_WAITING));
  const effect = difference.effect ?? null;
  const weight = Math.max(present.weight, difference.weight);
  const moved = moveToLiveLane(present, difference);
  const next = { ...present, waiting, effect, weight, ...moved };
  if (present.state === 'pending') {
    // Live changes are in the lane of backfills after a burst. Whether this one still exceeds its limit is decided again.
    const isDecided = present.effect === effect && !(moved && present.guard === 'live');
    const guard = isDecided ? present.guard : freshGuard(difference);
    return {
      ...next,
      due: moved?.due ?? dueOf(present, difference),
      not_before: notBeforeOf(present, difference),
      guard,
    };
  }
  if (present.state !== 'held') return { ...next, next_since: present.next_since ?? difference.since };
  // The outcome of this creation is unknown: only a person or a list of tasks decides whether it is sent again.
  const isUnknownCreation = present.kind === 'task' && present.sent !== null;
  if (isUnknownCreation || !isRenewed(present, difference)) return next;
  const { since, due } = difference;
  const renewed = { state: 'pending', since, due, attempts: 0, not_before: 0, awaits: null, error: null } as const;
  return { ...next, ...renewed, guard: freshGuard(difference) };
}

/** Postpones a renewed change, at most to its maximal wait and never to an earlier time; others keep the earlier due time. */
function dueOf(present: OutboxRow, { due, maxWait, renewed = false }: Difference): number {
  if (!renewed || maxWait === undefined) return Math.min(present.due, due);
  return Math.max(present.due, Math.min(present.since + maxWait, due));
}

/**
 * Returns the earliest of the requested times for a read, because a caller that needs a later read requests it again. A changed
 * update of a task replaces its earliest time. A pause after a failure stays.
 */
function notBeforeOf({ kind, attempts, not_before }: OutboxRow, { notBefore = 0, renewed }: Difference): number {
  if (attempts > 0) return not_before;
  if (kind === 'task_update' && renewed) return notBefore;
  return kind === 'read' ? Math.min(not_before, notBefore) : not_before;
}

function isRenewed(present: OutboxRow, { renewed = false, effect = null }: Difference): boolean {
  return renewed || (present.guard === 'held' && present.effect !== effect);
}

/**
 * Moves a change of a backfill to the lane of a live difference, with its times; a change never moves back. A difference is live
 * if a delivery waits for it, or if it is a read of another lane. A live change is in the lane of backfills after a burst: only
 * another live webhook moves it.
 */
function moveToLiveLane(present: OutboxRow, { kind, lane, waiting, since, due, isLive }: Difference) {
  const isWaitedFor = waiting.length > 0 || (kind === 'read' && lane !== 'backfill');
  const isMoved = present.guard === 'live' ? isLive : isWaitedFor;
  return present.lane === 'backfill' && isMoved ? { lane, since, due } : undefined;
}

function freshGuard({ confirmed }: Difference): OutboxRow['guard'] {
  return confirmed ? 'confirmed' : null;
}

function changeOf(difference: Difference): OutboxRow {
  const { entity, kind, lane, since, due, weight, notBefore, waiting, effect = null } = difference;
  return newRow('outbox', {
    entity,
    kind,
    lane,
    since,
    due,
    weight,
    effect,
    guard: freshGuard(difference),
    not_before: notBefore ?? 0,
    state: 'pending',
    waiting: JSON.stringify(waiting),
  });
}

/** Removes an unsent change, because the difference vanished. A request that was sent settles its own row. */
export async function dropDifference(query: Scope, entity: string): Promise<void> {
  const row = await findChange(query, entity);
  if (row && row.sent === null && (row.state === 'pending' || row.state === 'held')) await removeChange(query, entity);
}

/** Counts the changes that are pending or in flight. */
export async function countWaiting(query: Scope): Promise<{ reads: number; writes: number }> {
  const { changes } = await readCounts(query);
  const waiting = changes.filter(({ state }) => state === 'pending' || state === 'sending');
  const reads = sumOf(waiting, ({ kind }) => kind === 'read');
  return { reads, writes: sumOf(waiting) - reads };
}

/** Counts the pending changes of each lane, without empty lanes. */
export async function waitingByLane(query: Scope): Promise<{ lane: OutboxRow['lane']; count: number }[]> {
  const { changes } = await readCounts(query);
  const waiting = Map.groupBy(
    changes.filter(({ state }) => state === 'pending'),
    ({ lane }) => lane,
  );
  return [...waiting].map(([lane, counts]) => ({ lane, count: sumOf(counts) }));
}

/** Counts the pages of backfills that are not processed yet, and the unsettled changes of backfills except held ones. */
export async function countBackfilled(query: Scope): Promise<{ pending: number; changes: number }> {
  const pages = query.selectFrom('inbox').where('state', '=', 'pending').where('source', '=', 'backfill');
  const { changes } = await readCounts(query);
  const unsettled = sumOf(changes, ({ state, lane }) => state !== 'held' && lane === 'backfill');
  return { pending: await countRows(pages), changes: unsettled };
}

/** Makes changes due now and confirmed, at the request of a person. Changes that the guard holds become pending. */
export async function expedite(query: Scope, entities: readonly string[]): Promise<void> {
  for (const some of chunksOf(entities, CHUNK_SIZE)) {
    await query
      .updateTable('outbox')
      .set(({ ref }) => ({ state: 'pending', guard: 'confirmed', due: ref('since'), error: null }))
      .where('entity', 'in', some)
      .where(({ or, eb }) => or([eb('state', '=', 'pending'), eb('guard', '=', 'held')]))
      .execute();
  }
}

/** Updates columns of a change without reading it. */
export async function updateChange(query: Scope, entity: string, set: OutboxUpdate): Promise<void> {
  await updateStatement(query, { ...set, entity });
}

const updateStatement = compileInScope((query, { entity, ...set }: OutboxUpdate & Pick<OutboxRow, 'entity'>) =>
  query.updateTable('outbox').set(set).where('entity', '=', entity),
);

export async function saveChange(query: Scope, row: OutboxRow): Promise<void> {
  await saveRows(query, 'outbox', [row]);
}

export async function removeChange(query: Scope, entity: string): Promise<void> {
  await removeRows(query, 'outbox', [{ entity }]);
}

export function readWaiting(row: Pick<OutboxRow, 'waiting'>): WaitingDelivery[] {
  return JSON.parse(row.waiting) as WaitingDelivery[];
}

/** Returns at most `limit` changes in a state, due first. */
export async function changesInState(query: Scope, state: ChangeState, limit: number): Promise<readonly OutboxRow[]> {
  const due = query.selectFrom('outbox').select('entity').where('state', '=', state);
  const first = await due.orderBy('due').orderBy('entity').limit(limit).execute();
  const names = first.map(({ entity }) => entity);
  const rows = await findChanges(query, names);
  return rows.toSorted((a, b) => a.due - b.due || (a.entity < b.entity ? -1 : 1));
}

/** Returns the changes of these items: records, links, tasks and documents. */
export async function changesOfItems(query: Scope, keys: readonly string[]): Promise<readonly OutboxRow[]> {
  const entities = (await rowsWhere(query, 'entities', 'item_key', keys)).map(({ entity }) => entity);
  return findChanges(query, entities);
}

/** Retries a change without the pause after its failures. A held change becomes pending and confirmed. */
export async function retryChange(query: Scope, row: OutboxRow): Promise<void> {
  const retried = { ...row, error: null, attempts: 0, not_before: 0, awaits: null };
  await saveChange(query, row.state === 'held' ? { ...retried, state: 'pending', guard: 'confirmed' } : retried);
}
