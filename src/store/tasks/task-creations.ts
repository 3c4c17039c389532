import { createHash } from 'node:crypto';
import { entity } from '../../model/change.ts';
import type { ItemKey } from '../../model/item.ts';
import { OPTIONAL_TASK_FIELDS, type OptionalTaskField } from '../../model/task.ts';
import { findChanges, type OutboxRow } from '../changes/outbox-rows.ts';
import { forgetMeta, readMeta, writeMeta } from '../meta.ts';
import { afterTrialRefused, isOff, readServerFact, type Trial, writeServerFact } from '../workspace/server-facts.ts';
import { changedRows, type Scope } from '../workspace-scope.ts';

/** How long creations wait for a list of tasks, milliseconds. */
const MAX_DELAY = 900_000;

/**
 * Delays the creations of tasks for these items until the next list of tasks. A person or another program may have created the
 * task, and then no creation is needed. The due time is postponed too, so that these changes do not precede others.
 *
 * @param items at least one
 * @returns whether there are any
 */
export async function delayCreations(query: Scope, items: readonly ItemKey[], now: number): Promise<boolean> {
  return (await changedRows(delayed(query, now).where('entity', 'in', items.map(entity.task)))) > 0;
}

function delayed(query: Scope, now: number) {
  return unsentCreations(query).set({ not_before: now + MAX_DELAY, due: now + MAX_DELAY });
}

/** The name of the fact that stores since when the cached tasks are unverified, epoch milliseconds. */
const UNVERIFIED_SINCE = 'tasks_unsure_since';

/**
 * Marks the cached tasks as unverified, when the process begins to work on the workspace: others may have created tasks in the
 * meantime. Creations wait for a list of tasks that is requested from now on.
 *
 * @returns whether any creation waits
 */
export async function markTasksUnverified(query: Scope, now: number): Promise<boolean> {
  await writeMeta(query, UNVERIFIED_SINCE, String(now));
  return (await changedRows(delayed(query, now))) > 0;
}

export async function areTasksUnverified(query: Scope): Promise<boolean> {
  return (await readMeta(query, UNVERIFIED_SINCE)) !== undefined;
}

/** Marks the cached tasks as verified by a list, if it was requested late enough. @param sentAt when it was requested */
export async function markTasksVerified(query: Scope, sentAt: number): Promise<void> {
  const since = await readMeta(query, UNVERIFIED_SINCE);
  if (since !== undefined && sentAt >= Number(since)) await forgetMeta(query, UNVERIFIED_SINCE);
}

/** Replaces a time in the future by now, so that a list that is requested from now on is new enough. */
export async function clampUnverifiedSince(query: Scope, now: number): Promise<void> {
  const since = await readMeta(query, UNVERIFIED_SINCE);
  if (Number(since ?? 0) > now) await writeMeta(query, UNVERIFIED_SINCE, String(now));
}

/**
 * Ends the delay of creations that waited before this list was requested. A delay began at `not_before - MAX_DELAY`, because its
 * beginning has no column of its own. A shorter pause, for example after a failure, looks like an early delay and ends too. The
 * others wait for a list that is requested from now on. Called for each received list.
 *
 * @param sentAt when the list was requested
 * @returns whether other creations wait
 */
export async function resumeCreations(query: Scope, sentAt: number, now: number): Promise<boolean> {
  await unsentCreations(query)
    .set(({ ref }) => ({ not_before: 0, due: ref('since') }))
    .where('not_before', '>', 0)
    .where('not_before', '<=', sentAt + MAX_DELAY)
    .execute();
  return (await changedRows(delayed(query, now).where('not_before', '>', sentAt + MAX_DELAY))) > 0;
}

/** Returns the creations with unknown outcome, including those on which a person has to decide. */
export async function unknownCreations(query: Scope): Promise<readonly OutboxRow[]> {
  const rows = await query
    .selectFrom('outbox')
    .select('entity')
    .where('kind', '=', 'task')
    .where('state', 'in', ['unknown', 'held'])
    .where('sent', 'is not', null)
    .execute();
  const names = rows.map((row) => row.entity);
  return findChanges(query, names);
}

/** The marks by which worksync recognises its own tasks in a list: their `source`, or the last line of their description. */
export interface TaskMarks {
  readonly source: boolean;
  readonly description: boolean;
}

/** Returns the marks that a list has shown on a task that worksync created. */
export async function taskMarks(query: Scope): Promise<TaskMarks> {
  return (await readServerFact<TaskMarks>(query, 'marks')) ?? { source: false, description: false };
}

export async function areMarksKnown(query: Scope): Promise<boolean> {
  const { source, description } = await taskMarks(query);
  return source || description;
}

/** Whether the list that shows the marks was requested, once for a database and an address. */
export async function wereMarksRequested(query: Scope): Promise<boolean> {
  return (await readServerFact(query, 'marks')) !== undefined;
}

export async function saveTaskMarks(query: Scope, marks: TaskMarks): Promise<void> {
  await writeServerFact(query, 'marks', marks);
}

/** Returns the creations that are in flight or have an unknown outcome. */
export async function creationsInFlight(query: Scope): Promise<readonly Pick<OutboxRow, 'entity' | 'state'>[]> {
  return query
    .selectFrom('outbox')
    .select(['entity', 'state'])
    .where('kind', '=', 'task')
    .where('state', 'in', ['sending', 'unknown'])
    .execute();
}

/** The longest wait for another creation, milliseconds. */
const MAX_WAIT = 60_000;

/** Delays all other creations until the one in flight has ended. @returns until when at most */
export async function delayOtherCreations(query: Scope, now: number): Promise<number> {
  const until = now + MAX_WAIT;
  await unsentCreations(query).set({ not_before: until }).where('not_before', '<', until).execute();
  return until;
}

/** Ends the delay of the other creations after the one in flight was answered, or after its answer was lost. */
export async function resumeAfterCreation(query: Scope, now: number): Promise<void> {
  await unsentCreations(query)
    .set({ not_before: 0 })
    .where('not_before', '>', 0)
    .where('not_before', '<=', now + MAX_WAIT)
    .execute();
}

/** Updates creations that were never sent. Failed ones have their own pauses. */
function unsentCreations(query: Scope) {
  return query
    .updateTable('outbox')
    .where('kind', '=', 'task')
    .where('state', '=', 'pending')
    .where('attempts', '=', 0)
    .where('sent', 'is', null);
}

/**
 * The fields that the server accepts or refuses in creations. A creation that is refused with 400, 409 or 422 is sent once more
 * without any optional field. If that succeeds, later creations try the fields one at a time.
 */
export interface CreationTrials {
  /** The server accepted the short form of a creation whose long form it had refused: fields are tried one at a time. */
  readonly isTrying?: boolean;
  readonly fields: Readonly<Partial<Record<OptionalTaskField, Trial>>>;
  /** The refused fields of each creation, by its entity. */
  readonly without: Readonly<Record<string, readonly OptionalTaskField[]>>;
}

type Body = Readonly<Record<string, unknown>>;

const NO_TRIALS: CreationTrials = { fields: {}, without: {} };
/** Creations whose refused fields are stored. */
const MAX_CREATIONS = 200;

export async function creationTrials(query: Scope): Promise<CreationTrials> {
  return (await readServerFact<CreationTrials>(query, 'creation')) ?? NO_TRIALS;
}

/** Returns the body of a creation, with the fields that the server accepts or that are tried. */
export async function creationBody(query: Scope, entity: string, body: Body, now: number): Promise<Body> {
  return withoutFields(body, omittedFields(await creationTrials(query), entity, body, now));
}

/** Returns the fields that are left out of all creations at present. */
export function disabledFields({ fields }: CreationTrials, now: number): readonly string[] {
  return OPTIONAL_TASK_FIELDS.filter((field) => isOff(fields[field], now));
}

/** Returns the fields of the body that are left out. */
export function omittedFields(trials: CreationTrials, entity: string, body: Body, now: number): OptionalTaskField[] {
  const present = OPTIONAL_TASK_FIELDS.filter((field) => body[field] !== undefined);
  const without = trials.without[entity] ?? [];
  const off = disabledFields(trials, now);
  const allowed = present.filter((field) => !without.includes(field) && !off.includes(field));
  const untried = allowed.filter((field) => trials.fields[field]?.passed !== true);
  const postponed = trials.isTrying ? untried.slice(1) : [];
  return present.filter((field) => !allowed.includes(field) || postponed.includes(field));
}

/** Records that the server accepted a creation, and with it its fields. */
export async function noteCreationPassed(query: Scope, entity: string, body: Body): Promise<void> {
  const trials = await creationTrials(query);
  const sent = OPTIONAL_TASK_FIELDS.filter((field) => body[field] !== undefined);
  const isNew = sent.some((field) => trials.fields[field]?.passed !== true);
  const { [entity]: without, ...others } = trials.without;
  // Before the first refusal nothing is tried, so nothing needs to be stored.
  if (without === undefined && (!trials.isTrying || !isNew)) return;
  const passed = Object.fromEntries(sent.map((field) => [field, { passed: true }]));
  const isTrying = trials.isTrying || (without !== undefined && sent.length === 0);
  const next: CreationTrials = { isTrying, fields: { ...trials.fields, ...passed }, without: others };
  await writeServerFact(query, 'creation', next);
}

/**
 * Records that a creation was refused for its content.
 *
 * @returns the fields to leave out of the next attempt; undefined if it had no optional field, so that its text was refused
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

/** Computes the trials after a creation was refused. */
export function afterCreationRefused(trials: CreationTrials, entity: string, body: Body, now: number): CreationTrials {
  const sent = OPTIONAL_TASK_FIELDS.filter((field) => body[field] !== undefined);
  const { [entity]: before = [], ...others } = trials.without;
  if (sent.length === 0) return { ...trials, without: others };
  const untried = sent.filter((field) => trials.fields[field]?.passed !== true);
  const [tried] = untried;
  const without = Object.fromEntries(Object.entries(others).slice(-MAX_CREATIONS + 1));
  if (!trials.isTrying || untried.length !== 1 || tried === undefined)
    return { ...trials, without: { ...without, [entity]: [...before, ...sent] } };
  const trial = afterTrialRefused(trials.fields[tried] ?? {}, digestOf(body[tried]), now);
  return {
    ...trials,
    fields: { ...trials.fields, [tried]: trial },
    without: { ...without, [entity]: [...before, tried] },
  };
}

function digestOf(value: unknown): string {
  return createHash('sha256').update(JSON.stringify(value)).digest('base64url').slice(0, 12);
}

function withoutFields(body: Body, fields: readonly OptionalTaskField[]): Body {
  if (fields.length === 0) return body;
  return Object.fromEntries(Object.entries(body).filter(([field]) => !fields.some((each) => each === field)));
}
