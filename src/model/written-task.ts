// Design: src/decisions/workflow.md

import { createHash } from 'node:crypto';
import type { TaskUpdate } from './task.ts';

/** The fields of a created task that can follow its work item, with their names in the workspace. */
export const SYNC_FIELDS = {
  title: 'title',
  priority: 'priority',
  labels: 'labels',
  assignees: 'assigneeIds',
  description: 'description',
} as const;
export type SyncField = keyof typeof SYNC_FIELDS;
export const SYNC_FIELD_NAMES = Object.keys(SYNC_FIELDS) as [SyncField, ...SyncField[]];

type Values = Readonly<Record<string, unknown>>;

/** The fields of a task as its work item has them, by their names in the workspace. */
export interface ItemFields {
  /** Each has one owner: worksync, or a person. */
  readonly values: Values;
  /** Each label has an owner of its own. Absent: labels are not synced. */
  readonly labels?: readonly string[];
}

/** A field that worksync has written. A stored value. */
interface WrittenField {
  /** Hash of the item's value that was written last. Absent: a person released the field, so the present value is written. */
  readonly source?: string;
  /** Hash of the value that the workspace returned then. Absent: any value is replaced. */
  readonly shown?: string;
  /** A person has edited the field, so worksync leaves it. */
  readonly isTheirs?: true;
}

/** The labels of an item that worksync has written to its task. A stored value. */
interface WrittenLabels {
  /** The item's labels at the last write. */
  readonly ofItem: readonly string[];
  /** The labels that worksync added: only these are removed. Absent: those of the creation. */
  readonly added?: readonly string[];
}

/** The synced fields as worksync wrote them last. Absent fields were written when the task was created. */
interface WrittenFields {
  readonly fields?: Readonly<Record<string, WrittenField>> | undefined;
  readonly itemLabels?: WrittenLabels | undefined;
}

/** A created task: the fields that were sent, and those that the workspace returned. */
interface CreatedFields {
  readonly sent: Values;
  readonly shown: Values;
}

/** The parts of an update that sync fields. */
export type FieldWish = Pick<TaskUpdate, 'fields' | 'expected' | 'itemLabels'>;

/** Never the hash of a value. */
const UNKNOWN = '';

/**
 * Returns the fields to write: those whose value in the tracker has changed since the last write, except for fields that
 * a person has edited. Undefined if there are none. Pure.
 */
export function fieldsToWrite(
  { values, labels }: ItemFields,
  written: WrittenFields,
  created: CreatedFields,
): FieldWish | undefined {
  const fields: Record<string, unknown> = {};
  const expected: Record<string, string> = {};
  for (const [name, value] of Object.entries(values)) {
    const { source, shown, isTheirs } = written.fields?.[name] ?? asCreated(name, created);
    if (isTheirs || source === hashOf(name, value)) continue;
    fields[name] = value;
    if (shown !== undefined) expected[name] = shown;
  }
  const itemLabels = labels && labelsToWrite(labels, written.itemLabels, created);
  if (Object.keys(fields).length === 0) return itemLabels && { itemLabels };
  return { fields, expected, ...(itemLabels && { itemLabels }) };
}

function asCreated(name: string, { sent, shown }: CreatedFields): WrittenField {
  const isKnown = Object.keys(sent).length > 0;
  return isKnown ? { source: hashOf(name, sent[name]), shown: hashOf(name, shown[name]) } : { shown: UNKNOWN };
}

function labelsToWrite(
  all: readonly string[],
  written: WrittenLabels | undefined,
  { sent }: CreatedFields,
): TaskUpdate['itemLabels'] {
  const ofCreation = (sent['labels'] ?? []) as readonly string[];
  const { ofItem, added = ofCreation } = written ?? { ofItem: ofCreation };
  const add = all.filter((label) => !ofItem.includes(label));
  const remove = added.filter((label) => !all.includes(label));
  return add.length + remove.length === 0 ? undefined : { all, add, remove, added };
}

/** The synced fields of a task, as a read just before an update shows them. */
export interface ObservedFields {
  /** Fields that show another value than the expected one: a person has edited them. */
  readonly theirs: readonly string[];
  /** Hashes of the values, by field. */
  readonly shown: Readonly<Record<string, string>>;
  /** Labels to add that the task has already: they belong to somebody else. */
  readonly present: readonly string[];
}

/** Compares a task with the state on which an update of its synced fields was based. Undefined if it syncs none. */
export function observeFields({ fields, expected, itemLabels }: TaskUpdate, task: Values): ObservedFields | undefined {
  if (fields === undefined && itemLabels === undefined) return undefined;
  const wanted = Object.entries(fields ?? {});
  const isOurs = (name: string, value: unknown) => {
    if (isSameField(name, task[name], value)) return true;
    const isShown = task[name] !== undefined || EMPTY[name] !== undefined;
    return isShown && (expected?.[name] ?? hashOf(name, task[name])) === hashOf(name, task[name]);
  };
  const labels = Array.isArray(task['labels']) ? (task['labels'] as readonly unknown[]) : [];
  return {
    theirs: wanted.filter(([name, value]) => !isOurs(name, value)).map(([name]) => name),
    shown: Object.fromEntries(wanted.map(([name]) => [name, hashOf(name, task[name])])),
    present: itemLabels?.add.filter((label) => labels.includes(label)) ?? [],
  };
}

/** Returns the update without the fields that a person has edited. */
export function withoutTheirs(update: TaskUpdate, observed: ObservedFields | undefined): TaskUpdate {
  if (update.fields === undefined || observed === undefined) return update;
  const fields = Object.entries(update.fields).filter(([name]) => !observed.theirs.includes(name));
  return { ...update, fields: Object.fromEntries(fields) };
}

/** Returns what an update of these fields has left in the workspace. A field that the answer lacks has the value that was sent. */
export function afterAnswer(observed: ObservedFields, { fields = {} }: TaskUpdate, task: Values): ObservedFields {
  const shown = Object.entries(fields).map(([name, value]) => [name, hashOf(name, task[name] ?? value)]);
  return { ...observed, shown: Object.fromEntries(shown) };
}

/** Returns what is known about the synced fields after an update was settled. */
export function afterFields(
  written: WrittenFields,
  { fields = {}, itemLabels }: TaskUpdate,
  observed: ObservedFields | undefined,
): WrittenFields {
  if (observed === undefined) return {};
  const settled = Object.entries(fields).map(([name, value]): [string, WrittenField] => [
    name,
    observed.theirs.includes(name)
      ? { isTheirs: true }
      : { source: hashOf(name, value), shown: observed.shown[name] ?? hashOf(name, value) },
  ]);
  const labels = itemLabels && {
    ofItem: itemLabels.all,
    added: [
      ...itemLabels.added.filter((label) => !itemLabels.remove.includes(label)),
      ...itemLabels.add.filter((label) => !observed.present.includes(label)),
    ],
  };
  return {
    ...(settled.length > 0 && { fields: { ...written.fields, ...Object.fromEntries(settled) } }),
    ...(labels && { itemLabels: labels }),
  };
}

/** Returns what is known after a person gave a field back: its present value in the tracker is written next. */
export function afterFieldRelease<Written extends WrittenFields>(written: Written, field: SyncField): Written {
  if (field === 'labels') return { ...written, itemLabels: { ...written.itemLabels, ofItem: [] } };
  return { ...written, fields: { ...written.fields, [SYNC_FIELDS[field]]: {} } };
}

/** Returns the fields that people own, as the configuration names them. */
export function fieldsOfPeople({ fields = {} }: WrittenFields): readonly SyncField[] {
  return SYNC_FIELD_NAMES.filter((field) => fields[SYNC_FIELDS[field]]?.isTheirs);
}

/** Values that a server may leave out. */
const EMPTY: Readonly<Record<string, unknown>> = { priority: 'none', assigneeIds: [], labels: [] };

export function isSameField(name: string, one: unknown, other: unknown): boolean {
  return hashOf(name, one) === hashOf(name, other);
}

function hashOf(name: string, value: unknown): string {
  return createHash('sha256')
    .update(JSON.stringify(normal(name, value)))
    .digest('base64url')
    .slice(0, 16);
}

/** Returns a value in the form in which values are compared: servers change line ends, and the order of lists. */
function normal(name: string, value: unknown): unknown {
  if (typeof value === 'string') return value.replaceAll('\r\n', '\n').trim();
  if (Array.isArray(value) && value.every((each) => typeof each === 'string')) return value.toSorted();
  return value ?? EMPTY[name] ?? null;
}

/** `known` of a task update: the last status that worksync wrote, and facts about changes by people, also of synced fields. */
export interface WrittenStatus extends WrittenFields {
  /** The last status that worksync wrote and saw confirmed, if nobody has changed it since. */
  readonly status?: string | undefined;
  /** The rule by which worksync wrote it, for people. Absent: a person had set the status, and the rules want the same. */
  readonly rule?: string | undefined;
  /** The status before the first move by worksync. */
  readonly previous?: string | undefined;
  /** When a person last took the task out of a final status: earlier finished work does not finish it again. Epoch milliseconds. */
  readonly epoch?: number | undefined;
  /** When worksync moved the task, in the last day; epoch milliseconds. */
  readonly moves?: readonly number[] | undefined;
  /** When others changed a status back within two minutes after worksync had written it, in the last day; epoch milliseconds. */
  readonly contested?: readonly number[] | undefined;
  /** Labels that worksync added (`+name`) and removed (`-name`), as long as the conditions of the rules hold. */
  readonly labels?: readonly string[] | undefined;
  /** Why merged work has not finished the task, by the last evaluation: a code of `explain-task.ts`. */
  readonly unfinished?: string | undefined;
}

const DAY = 86_400_000;

function inLastDay(times: readonly number[] = [], now: number): readonly number[] {
  return times.filter((at) => at > now - DAY);
}

/** Returns the state after an update of a task was answered, or after a read showed that it had arrived. Idempotent. */
export function afterUpdate(
  written: WrittenStatus,
  update: {
    readonly status?: string | undefined;
    readonly from: string;
    readonly addLabels?: readonly string[] | undefined;
    readonly removeLabels?: readonly string[] | undefined;
    readonly rule?: string | undefined;
  },
  now: number,
): WrittenStatus {
  const { addLabels = [], removeLabels = [] } = update;
  const changed = [...addLabels.map((label) => `+${label}`), ...removeLabels.map((label) => `-${label}`)];
  const labels = [...new Set([...(written.labels ?? []), ...changed])];
  const move = update.status !== undefined &&
    update.status !== written.status && {
      status: update.status,
      rule: update.rule,
      previous: written.status === undefined ? update.from : written.previous,
      moves: [...inLastDay(written.moves, now), now],
    };
  return { ...written, ...move, ...(labels.length > 0 && { labels }) };
}

/** A reversal by others within this time after a write counts as contested, milliseconds. */
const CONTESTED_WITHIN = 120_000;

/**
 * Returns what is known when a status is observed.
 *
 * @param observed the status, when it was set at the latest, whether it was taken out of a final status, and whether it ranks lower
 *   than the written one
 */
export function afterObservation(
  written: WrittenStatus,
  observed: {
    readonly status: string;
    readonly setBefore: number;
    readonly isReopened: boolean;
    readonly isLower: boolean;
  },
  now: number,
): WrittenStatus {
  const { status, setBefore, isReopened, isLower } = observed;
  if (written.status === status) return written;
  const lastMove = written.moves?.at(-1) ?? Number.NEGATIVE_INFINITY;
  const isContest = isLower && setBefore - lastMove <= CONTESTED_WITHIN;
  const contested = inLastDay([...(written.contested ?? []), ...(isContest ? [setBefore] : [])], now);
  const epoch = isReopened ? Math.max(written.epoch ?? 0, setBefore) : written.epoch;
  const { status: _, rule: _rule, ...others } = written;
  return {
    ...others,
    ...(epoch !== undefined && { epoch }),
    ...(contested.length > 0 && { contested }),
  };
}

/** Contests and moves of one task in a day after which worksync stops moving it. A task that QA rejects twice moves ten times. */
const MAX_CONTESTED = 3;
const MAX_MOVES = 12;

/** The number of contests in a day after which worksync changes no status in the workspace. */
export const MAX_CONTESTED_OF_WORKSPACE = 20;

/** Returns the latest contests of a workspace in the last day, as many as are needed to recognise a fight. */
export function contestsInDay(contested: readonly number[], now: number): readonly number[] {
  return inLastDay(contested, now).slice(-MAX_CONTESTED_OF_WORKSPACE);
}

/** Whether another automation moves the task too. */
export function isContested({ moves, contested }: WrittenStatus, now: number): boolean {
  return inLastDay(contested, now).length >= MAX_CONTESTED || inLastDay(moves, now).length >= MAX_MOVES;
}

/**
 * Returns what is known after a person let the rules decide again: a status that a person set counts as one of worksync. A
 * status that is one of worksync already keeps its rule and the status before it.
 */
export function afterRelease(written: WrittenStatus, status: string): WrittenStatus {
  const { moves = [], contested: _contested, ...others } = written;
  if (written.status === status) return { ...others, moves: moves.slice(-1) };
  const { rule: _, ...ofPerson } = others;
  return { ...ofPerson, status, previous: status };
}
