import type { Selectable, Updateable } from 'kysely';
import type { ChangeState, Effect } from '../model/change.ts';
import { piecesOf } from '../platform/lib/pieces.ts';
import { compileNamedStatement } from './compiled-statement.ts';
import { readCounts, sumOf } from './counts.ts';
import { CHUNK_SIZE } from './in-chunks.ts';
import type { Tables } from './schema/tables.ts';
import type { CachedRow } from './unit-of-work/cached-tables.ts';
import { removeRows, rowsWhere, saveRows } from './unit-of-work/unit-of-work.ts';
import { type Scope, scopeOf } from './workspace-scope.ts';

export type OutboxRow = CachedRow<'outbox'>;
export type OutboxUpdate = Updateable<Tables['outbox']>;

/** A delivery that waits for a change: for lag, and to follow one delivery through the log. */
export interface WaitingDelivery {
  readonly id: number;
  /** When it was received, epoch milliseconds. */
  readonly at: number;
}

export interface Difference {
  readonly entity: string;
  readonly kind: OutboxRow['kind'];
  readonly lane: OutboxRow['lane'];
  /** When the first unsent difference came in. */
  readonly since: number;
  readonly due: number;
  /** What would be sent has changed: that may push a change back which waits, to so much after its first event, milliseconds. */
  readonly maxWait?: number;
  readonly weight: number;
  readonly notBefore?: number;
  /** What would be sent is no longer what it was: then a held change gets a new chance. */
  readonly renewed?: boolean;
  readonly effect?: Effect | null;
  /** A person asked for it: the mass-change guard does not count it. */
  readonly confirmed?: boolean;
  /** Empty where no delivery brought it that anybody waits for. */
  readonly waiting: readonly WaitingDelivery[];
}

/** More than this many waiting deliveries of one change are not remembered one by one. */
const MOST_WAITING = 100;

export async function findChange(query: Scope, entity: string): Promise<OutboxRow | undefined> {
  const [row] = await findChanges(query, [entity]);
  return row;
}

/** Those of these entities that differ. */
export async function findChanges(query: Scope, entities: readonly string[]): Promise<readonly OutboxRow[]> {
  return rowsWhere(query, 'outbox', 'entity', entities);
}

/** Those that are in flight, or were when the process died. */
export async function changesInFlight(query: Scope): Promise<readonly Selectable<Tables['outbox']>[]> {
  return query.selectFrom('outbox').selectAll().where('state', '=', 'sending').execute();
}

/** Writes without an unknown outcome, each with its entity: the first of those whose names come after this one. */
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

/** Whether one of these is to be sent, or was sent with unknown outcome. A held one is not. */
export async function areUnderWay(query: Scope, entities: readonly string[]): Promise<boolean> {
  return (await findChanges(query, entities)).some(({ state }) => state !== 'held');
}

/**
 * Says that desired and known differ. A change that waits is put off only by what changes it, and not for long; one in flight is
 * told that it is not the end; a held one gets a new chance where what it would send has changed, and one that the guard holds
 * also where it is no longer what the guard held it for. A change of a backfill goes to the lane of the live delivery that says
 * it too.
 */
export async function addDifference(query: Scope, difference: Difference): Promise<void> {
  const present = await findChange(query, difference.entity);
  await saveRows(query, 'outbox', [present === undefined ? changeOf(difference) : merged(present, difference)]);
}

function merged(present: OutboxRow, difference: Difference): OutboxRow {
  // The first ones are kept: a request in flight counts those that it serves from the start.
  const waiting = JSON.stringify([...readWaiting(present), ...difference.waiting].slice(0, MOST_WAITING));
  const effect = difference.effect ?? null;
  const weight = Math.max(present.weight, difference.weight);
  const lifted = lift(present, difference);
  const next = { ...present, waiting, effect, weight, ...lifted };
  if (present.state === 'pending') {
    const guard = present.effect === effect ? present.guard : freshGuard(difference);
    return {
      ...next,
      due: lifted?.due ?? dueOf(present, difference),
      not_before: notBeforeOf(present, difference),
      guard,
    };
  }
  if (present.state !== 'held') return { ...next, next_since: present.next_since ?? difference.since };
  // Nobody knows whether it was carried out: only a person, or a list, decides whether it is sent again.
  const isOpenCreation = present.kind === 'task' && present.sent !== null;
  if (isOpenCreation || !isRenewed(present, difference)) return next;
  const { since, due } = difference;
  const anew = { state: 'pending', since, due, attempts: 0, not_before: 0, error: null } as const;
  return { ...next, ...anew, guard: freshGuard(difference) };
}

/** Never later than the patience with it lasts, and never pulled back from where an earlier event has put it. */
function dueOf(present: OutboxRow, { due, maxWait, renewed = false }: Difference): number {
  if (!renewed || maxWait === undefined) return Math.min(present.due, due);
  return Math.max(present.due, Math.min(present.since + maxWait, due));
}

/** A read is sent as early as anybody can use it. Those who need a later one request it again. A pause after a failure stays. */
function notBeforeOf({ kind, attempts, not_before }: OutboxRow, { notBefore = 0 }: Difference): number {
  return kind === 'read' && attempts === 0 ? Math.min(not_before, notBefore) : not_before;
}

function isRenewed(present: OutboxRow, { renewed = false, effect = null }: Difference): boolean {
  return renewed || (present.guard === 'held' && present.effect !== effect);
}

/**
 * What somebody waits for leaves the lane of backfills, as new as what brought it, and never goes back there. A read that was
 * requested in another lane has somebody who waits for it.
 */
function lift(present: OutboxRow, { kind, lane, waiting, since, due }: Difference) {
  const isWaitedFor = waiting.length > 0 || (kind === 'read' && lane !== 'backfill');
  return present.lane === 'backfill' && isWaitedFor ? { lane, since, due } : undefined;
}

function freshGuard({ confirmed }: Difference): OutboxRow['guard'] {
  return confirmed ? 'confirmed' : null;
}

function changeOf(difference: Difference): OutboxRow {
  const { notBefore, renewed: _, confirmed: __, maxWait: ___, waiting, effect = null, ...columns } = difference;
  return {
    ...columns,
    effect,
    guard: freshGuard(difference),
    not_before: notBefore ?? 0,
    state: 'pending',
    waiting: JSON.stringify(waiting),
    attempts: 0,
    sent: null,
    sent_at: null,
    next_since: null,
    error: null,
  };
}

/** The difference vanished before it was sent. A request in flight, or with unknown outcome, settles its own row. */
export async function dropDifference(query: Scope, entity: string): Promise<void> {
  const row = await findChange(query, entity);
  if (row && row.sent === null && (row.state === 'pending' || row.state === 'held')) await removeChange(query, entity);
}

/** Requests that wait or are in flight. */
export async function countWaiting(query: Scope): Promise<{ reads: number; writes: number }> {
  const { changes } = await readCounts(query);
  const waiting = changes.filter(({ state }) => state === 'pending' || state === 'sending');
  const reads = sumOf(waiting, ({ kind }) => kind === 'read');
  return { reads, writes: sumOf(waiting) - reads };
}

/** How many wait in each lane, of those in which any does. */
export async function waitingByLane(query: Scope): Promise<{ lane: OutboxRow['lane']; count: number }[]> {
  const { changes } = await readCounts(query);
  const waiting = Map.groupBy(
    changes.filter(({ state }) => state === 'pending'),
    ({ lane }) => lane,
  );
  return [...waiting].map(([lane, counts]) => ({ lane, count: sumOf(counts) }));
}

/** Pages of backfills that are not taken over yet, and changes of backfills that are not settled and are not held. */
export async function countBackfilled(query: Scope): Promise<{ pending: number; changes: number }> {
  const pages = await query
    .selectFrom('inbox')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .where('state', '=', 'pending')
    .where('source', '=', 'backfill')
    .executeTakeFirstOrThrow();
  const { changes } = await readCounts(query);
  const unsettled = sumOf(changes, ({ state, lane }) => state !== 'held' && lane === 'backfill');
  return { pending: pages.count, changes: unsettled };
}

/** A person wants these sent: now, and whatever the mass-change guard says. */
export async function expedite(query: Scope, entities: readonly string[]): Promise<void> {
  for (const some of piecesOf(entities, CHUNK_SIZE)) {
    await query
      .updateTable('outbox')
      .set(({ ref }) => ({ state: 'pending', guard: 'confirmed', due: ref('since'), error: null }))
      .where('entity', 'in', some)
      .where(({ or, eb }) => or([eb('state', '=', 'pending'), eb('guard', '=', 'held')]))
      .execute();
  }
}

/** Without a look at it. */
export async function updateChange(query: Scope, entity: string, set: OutboxUpdate): Promise<void> {
  await updating(query.whole, { ...set, workspace: query.workspace, entity });
}

type Updated = OutboxUpdate & { readonly workspace: number; readonly entity: string };

const updating = compileNamedStatement((query, { workspace, entity, ...set }: Updated) =>
  scopeOf(query, workspace).updateTable('outbox').set(set).where('entity', '=', entity),
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

/** Those of a state, due first. */
export async function changesInState(query: Scope, state: ChangeState, limit: number): Promise<readonly OutboxRow[]> {
  const due = query.selectFrom('outbox').select('entity').where('state', '=', state);
  const names = await due.orderBy('due').orderBy('entity').limit(limit).execute();
  const rows = await findChanges(
    query,
    names.map(({ entity }) => entity),
  );
  return rows.toSorted((a, b) => a.due - b.due || (a.entity < b.entity ? -1 : 1));
}

/** What waits to be written of these items: records, links, tasks and documents. */
export async function changesOfItems(query: Scope, keys: readonly string[]): Promise<readonly OutboxRow[]> {
  const entities = await rowsWhere(query, 'entities', 'item_key', keys);
  return findChanges(
    query,
    entities.map(({ entity }) => entity),
  );
}

/** Tries it again without the pause after its failures; a held one whatever the limits say. */
export async function retryChange(query: Scope, row: OutboxRow): Promise<void> {
  const anew = { ...row, error: null, attempts: 0, not_before: 0 };
  await saveChange(query, row.state === 'held' ? { ...anew, state: 'pending', guard: 'confirmed' } : anew);
}
