import { createHash } from 'node:crypto';
import { OPTIONAL_TASK_FIELDS, type OptionalTaskField } from '../model/task.ts';
import { readServerFact, writeServerFact } from './server-facts.ts';
import type { Scope } from './workspace-scope.ts';

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
export async function formOf(query: Scope, entity: string, body: Body, now: number): Promise<Body> {
  return withoutFields(body, omitted(await creationTrials(query), entity, body, now));
}

/** Fields that are left out of all creations at present. */
export function fieldsOff({ fields }: CreationTrials, now: number): readonly string[] {
  return OPTIONAL_TASK_FIELDS.filter((field) => now - (fields[field]?.offSince ?? Number.NEGATIVE_INFINITY) < DAY);
}

/** Pure. The fields of the body that are left out. */
export function omitted(trials: CreationTrials, entity: string, body: Body, now: number): OptionalTaskField[] {
  const present = OPTIONAL_TASK_FIELDS.filter((field) => body[field] !== undefined);
  const without = trials.without[entity] ?? [];
  const off = fieldsOff(trials, now);
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
  const next = afterRefusal(trials, entity, body, now);
  await writeServerFact(query, 'creation', next);
  return next.without[entity];
}

/** Pure. */
export function afterRefusal(trials: CreationTrials, entity: string, body: Body, now: number): CreationTrials {
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
