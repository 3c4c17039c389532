import { entity } from '../model/change.ts';
import type { ItemKey } from '../model/item.ts';
import { forgetMeta, readMeta, writeMeta } from './meta.ts';
import { findChanges, type OutboxRow } from './outbox-rows.ts';
import { readServerFact, writeServerFact } from './server-facts.ts';
import type { Scope } from './workspace-scope.ts';

/** A task list that does not come for so long is waited for no longer, milliseconds. */
const LONGEST_HOLD = 900_000;

/**
 * Tasks that are to be made of these items wait for the next list of tasks: one that they name may have been made by
 * hand, or theirs by somebody else, and then they need none. They are due no earlier, so that they delay nobody meanwhile.
 *
 * @returns whether there are any
 */
export async function holdCreates(query: Scope, items: readonly ItemKey[], now: number): Promise<boolean> {
  if (items.length === 0) return false;
  const { numUpdatedRows } = await waitingCreates(query)
    .set({ not_before: now + LONGEST_HOLD, due: now + LONGEST_HOLD })
    .where('entity', 'in', items.map(entity.task))
    .executeTakeFirst();
  return numUpdatedRows > 0n;
}

/** Name of a fact: since when nobody has read which tasks there are, epoch milliseconds. */
const UNSURE_SINCE = 'tasks_unsure_since';

/**
 * The process begins to work on the workspace: what it knows of tasks may be old, however it came to its rows, and others may have made
 * some. Until a list was read that was requested since then, tasks to be made wait for it.
 *
 * @returns whether there are any
 */
export async function doubtTasks(query: Scope, now: number): Promise<boolean> {
  await writeMeta(query, UNSURE_SINCE, String(now));
  const held = waitingCreates(query).set({ not_before: now + LONGEST_HOLD, due: now + LONGEST_HOLD });
  return (await held.executeTakeFirst()).numUpdatedRows > 0n;
}

export async function tasksAreUnsure(query: Scope): Promise<boolean> {
  return (await readMeta(query, UNSURE_SINCE)) !== undefined;
}

/** A list has come. @param sentAt when it was requested */
export async function trustTasks(query: Scope, sentAt: number): Promise<void> {
  const since = await readMeta(query, UNSURE_SINCE);
  if (since !== undefined && sentAt >= Number(since)) await forgetMeta(query, UNSURE_SINCE);
}

/** A list that is requested from now on is new enough. */
export async function redateDoubt(query: Scope, now: number): Promise<void> {
  const since = await readMeta(query, UNSURE_SINCE);
  if (Number(since ?? 0) > now) await writeMeta(query, UNSURE_SINCE, String(now));
}

/**
 * Called for each list that has come: creations that have waited since before its request wait no longer. The others wait for a
 * list that is requested from now on.
 *
 * @param sentAt when the list was requested
 * @returns whether there are others
 */
export async function releaseCreates(query: Scope, sentAt: number, now: number): Promise<boolean> {
  await waitingCreates(query)
    .set(({ ref }) => ({ not_before: 0, due: ref('since') }))
    .where('not_before', '>', 0)
    .where('not_before', '<=', sentAt + LONGEST_HOLD)
    .execute();
  const { numUpdatedRows } = await waitingCreates(query)
    .set({ not_before: now + LONGEST_HOLD, due: now + LONGEST_HOLD })
    .where('not_before', '>', sentAt + LONGEST_HOLD)
    .executeTakeFirst();
  return numUpdatedRows > 0n;
}

/** Creations with unknown outcome, also those on which a person has to decide. */
export async function unknownCreates(query: Scope): Promise<readonly OutboxRow[]> {
  const rows = await query
    .selectFrom('outbox')
    .select('entity')
    .where('kind', '=', 'task')
    .where('state', 'in', ['unknown', 'held'])
    .where('sent', 'is not', null)
    .execute();
  return findChanges(
    query,
    rows.map((row) => row.entity),
  );
}

/**
 * How worksync recognises a task of its own in the list of tasks: by its `source`, or by the line of its description that
 * names the item.
 */
export interface TaskMarks {
  readonly source: boolean;
  readonly description: boolean;
}

/** The marks that a list has shown on a task that worksync made. */
export async function taskMarks(query: Scope): Promise<TaskMarks> {
  return (await readServerFact<TaskMarks>(query, 'marks')) ?? { source: false, description: false };
}

export async function marksWereSeen(query: Scope): Promise<boolean> {
  const { source, description } = await taskMarks(query);
  return source || description;
}

export async function saveTaskMarks(query: Scope, marks: TaskMarks): Promise<void> {
  await writeServerFact(query, 'marks', marks);
}

/** Creations that are in flight, or of which nobody knows yet whether they were carried out. */
export async function creationsUnderWay(query: Scope): Promise<readonly string[]> {
  const rows = await query
    .selectFrom('outbox')
    .select('entity')
    .where('kind', '=', 'task')
    .where('state', 'in', ['sending', 'unknown'])
    .execute();
  return rows.map(({ entity }) => entity);
}

/** The longest wait for another creation, milliseconds. */
const LONGEST_TURN = 60_000;

/** All creations that wait do so until the one in flight has ended. @returns until when at most */
export async function holdForCreation(query: Scope, now: number): Promise<number> {
  const until = now + LONGEST_TURN;
  await waitingCreates(query).set({ not_before: until }).where('not_before', '<', until).execute();
  return until;
}

/** A creation has ended: the next one may go. */
export async function endCreation(query: Scope, now: number): Promise<void> {
  await waitingCreates(query)
    .set({ not_before: 0 })
    .where('not_before', '>', 0)
    .where('not_before', '<=', now + LONGEST_TURN)
    .execute();
}

/** Never tried: those that failed have pauses of their own. */
function waitingCreates(query: Scope) {
  return query
    .updateTable('outbox')
    .where('kind', '=', 'task')
    .where('state', '=', 'pending')
    .where('attempts', '=', 0)
    .where('sent', 'is', null);
}
