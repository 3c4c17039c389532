import { createHash } from 'node:crypto';
import { entity } from '../model/change.ts';
import type { ItemKey } from '../model/item.ts';
import { OPTIONAL_TASK_FIELDS, type OptionalTaskField } from '../model/task.ts';
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
export async function delayCreations(query: Scope, items: readonly ItemKey[], now: number): Promise<boolean> {
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
export async function markTasksUnverified(query: Scope, now: number): Promise<boolean> {
  await writeMeta(query, UNSURE_SINCE, String(now));
  const held = waitingCreates(query).set({ not_before: now + LONGEST_HOLD, due: now + LONGEST_HOLD });
  return (await held.executeTakeFirst()).numUpdatedRows > 0n;
}

export async function areTasksUnverified(query: Scope): Promise<boolean> {
  return (await readMeta(query, UNSURE_SINCE)) !== undefined;
}

/** A list has come. @param sentAt when it was requested */
export async function markTasksVerified(query: Scope, sentAt: number): Promise<void> {
  const since = await readMeta(query, UNSURE_SINCE);
  if (since !== undefined && sentAt >= Number(since)) await forgetMeta(query, UNSURE_SINCE);
}

/** A list that is requested from now on is new enough. */
export async function clampUnverifiedSince(query: Scope, now: number): Promise<void> {
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
export async function resumeCreations(query: Scope, sentAt: number, now: number): Promise<boolean> {
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
export async function unknownCreations(query: Scope): Promise<readonly OutboxRow[]> {
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

export async function areMarksKnown(query: Scope): Promise<boolean> {
  const { source, description } = await taskMarks(query);
  return source || description;
}

export async function saveTaskMarks(query: Scope, marks: TaskMarks): Promise<void> {
  await writeServerFact(query, 'marks', marks);
}

/** Creations that are in flight, or of which nobody knows yet whether they were carried out. */
export async function creationsInFlight(query: Scope): Promise<readonly string[]> {
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
export async function delayOtherCreations(query: Scope, now: number): Promise<number> {
  const until = now + LONGEST_TURN;
  await waitingCreates(query).set({ not_before: until }).where('not_before', '<', until).execute();
  return until;
}

/** A creation has ended: the next one may go. */
export async function resumeAfterCreation(query: Scope, now: number): Promise<void> {
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

interface FieldTrial {
  /** A creation with it passed. */
  readonly passed?: boolean;
  /** Digests of values that were refused. */
  readonly refused?: readonly string[];
  /** Since when it is left out, epoch milliseconds. */
  readonly offSince?: number;
}

/**
 * Fields that the server refuses in creations. A creation that is refused with 400 is sent once more without any optional
 * field. If that passes, the fields are tried one at a time on later creations.
 */
export interface CreationTrials {
  /** A short form passed where the long one was refused: the fields are tried one at a time. */
  readonly isTrying?: boolean;
  readonly fields: Readonly<Partial<Record<OptionalTaskField, FieldTrial>>>;
  /** By the entity of a creation: the fields that were refused there. */
  readonly without: Readonly<Record<string, readonly OptionalTaskField[]>>;
}

type Body = Readonly<Record<string, unknown>>;

const NONE: CreationTrials = { fields: {}, without: {} };
const DAY = 86_400_000;
/** So many different values refused, and none accepted, switch a field off. */
const VALUES_REFUSED = 3;
/** Creations whose refused fields are remembered. */
const MOST_FORMS = 200;

export async function creationTrials(query: Scope): Promise<CreationTrials> {
  return (await readServerFact<CreationTrials>(query, 'creation')) ?? NONE;
}

/** The body with the fields that the server is known, or hoped, to accept. */
export async function creationBody(query: Scope, entity: string, body: Body, now: number): Promise<Body> {
  return withoutFields(body, omittedFields(await creationTrials(query), entity, body, now));
}

/** Fields that are left out of all creations at present. */
export function disabledFields({ fields }: CreationTrials, now: number): readonly string[] {
  return OPTIONAL_TASK_FIELDS.filter((field) => now - (fields[field]?.offSince ?? Number.NEGATIVE_INFINITY) < DAY);
}

/** Pure. The fields of the body that are left out. */
export function omittedFields(trials: CreationTrials, entity: string, body: Body, now: number): OptionalTaskField[] {
  const present = OPTIONAL_TASK_FIELDS.filter((field) => body[field] !== undefined);
  const without = trials.without[entity] ?? [];
  const off = disabledFields(trials, now);
  const left = present.filter((field) => !without.includes(field) && !off.includes(field));
  const untried = left.filter((field) => trials.fields[field]?.passed !== true);
  const tooMany = trials.isTrying ? untried.slice(1) : [];
  return present.filter((field) => !left.includes(field) || tooMany.includes(field));
}

/** A creation passed: so do its fields. */
export async function noteCreationPassed(query: Scope, entity: string, body: Body): Promise<void> {
  const trials = await creationTrials(query);
  const sent = OPTIONAL_TASK_FIELDS.filter((field) => body[field] !== undefined);
  const isNew = sent.some((field) => trials.fields[field]?.passed !== true);
  const { [entity]: without, ...others } = trials.without;
  // Until a refusal nothing is tried, and nothing need be written down.
  if (without === undefined && (!trials.isTrying || !isNew)) return;
  const passed = Object.fromEntries(sent.map((field) => [field, { passed: true }]));
  const isTrying = trials.isTrying || (without !== undefined && sent.length === 0);
  const next: CreationTrials = { isTrying, fields: { ...trials.fields, ...passed }, without: others };
  await writeServerFact(query, 'creation', next);
}

/**
 * A creation was refused with 400.
 *
 * @returns the fields to send it without; undefined where it had none of them: then its text is refused
 */
export async function noteCreationRefused(
  query: Scope,
  entity: string,
  body: Body,
  now: number,
): Promise<readonly string[] | undefined> {
  const trials = await creationTrials(query);
  const next = afterCreationRefused(trials, entity, body, now);
  await writeServerFact(query, 'creation', next);
  return next.without[entity];
}

/** Pure. */
export function afterCreationRefused(trials: CreationTrials, entity: string, body: Body, now: number): CreationTrials {
  const sent = OPTIONAL_TASK_FIELDS.filter((field) => body[field] !== undefined);
  const { [entity]: before = [], ...others } = trials.without;
  if (sent.length === 0) return { ...trials, without: others };
  const untried = sent.filter((field) => trials.fields[field]?.passed !== true);
  const [tried] = untried;
  const without = Object.fromEntries(Object.entries(others).slice(-MOST_FORMS + 1));
  if (!trials.isTrying || untried.length !== 1 || tried === undefined)
    return { ...trials, without: { ...without, [entity]: [...before, ...sent] } };
  const trial = afterValueRefused(trials.fields[tried] ?? {}, digestOf(body[tried]), now);
  return {
    ...trials,
    fields: { ...trials.fields, [tried]: trial },
    without: { ...without, [entity]: [...before, tried] },
  };
}

function afterValueRefused(trial: FieldTrial, digest: string, now: number): FieldTrial {
  const refused = [...new Set([...(trial.refused ?? []), digest])].slice(-VALUES_REFUSED);
  return refused.length >= VALUES_REFUSED ? { refused, offSince: now } : { refused };
}

function digestOf(value: unknown): string {
  return createHash('sha256').update(JSON.stringify(value)).digest('base64url').slice(0, 12);
}

function withoutFields(body: Body, fields: readonly OptionalTaskField[]): Body {
  if (fields.length === 0) return body;
  return Object.fromEntries(Object.entries(body).filter(([field]) => !fields.some((each) => each === field)));
}
