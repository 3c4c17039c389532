// Design: src/decisions/lists-and-lost-creations.md

import { entity, MAX_TIME_IN_FLIGHT, SETTLE_AFTER } from '../../../model/change.ts';
import { itemLinesIn, lastLine } from '../../../model/task.ts';
import { createdTasks, findEntities, findEntity, json, saveEntity } from '../../../store/entities.ts';
import { forgetMeta, readMeta, writeMeta } from '../../../store/meta.ts';
import { findChange, type OutboxRow, removeChange, saveChange } from '../../../store/outbox-rows.ts';
import { areMarksKnown, saveTaskMarks, taskMarks, unknownCreations } from '../../../store/task-creations.ts';
import { enqueueTaskListRead } from '../../../store/workspace-reads.ts';
import type { Scope } from '../../../store/workspace-scope.ts';
import type { EvaluationContext } from '../context.ts';
import type { ListedTask } from './shapes.ts';

/**
 * Creations whose answer was lost. The task is looked for in one complete list that was requested late enough, first by its
 * `source`, then by the line of its description that names the item, then by title, reporter and time. Exactly one is it. None
 * is sent again, if lists are known to show a mark of ours. Anything else is a person's decision.
 */

/** A task that a lost creation may have made. */
type Candidate = Pick<ListedTask, 'taskId' | 'key' | 'title'>;

/** By the sign that it was found by, the surest first. */
interface Candidates {
  readonly source: readonly Candidate[];
  readonly description: readonly Candidate[];
  readonly title: readonly Candidate[];
}

/** By the entities of the creations, while the pages of a list come. */
type CandidatesOf = Readonly<Record<string, Candidates>>;

const CANDIDATES = 'creates.candidates';
const NONE: Candidates = { source: [], description: [], title: [] };
/** More of them are no help to a person. */
const MOST_CANDIDATES = 5;
/** Clocks differ: a task may seem to be made so long before it was requested, milliseconds. */
const SKEW = 60_000;

interface SentCreation {
  readonly sentAt: number;
  readonly body: {
    readonly title?: string;
    readonly description?: string;
    readonly reporterUserId?: string;
  };
}

/** Looks for the tasks of lost creations on a page of the list. */
export async function noteCandidates(query: Scope, tasks: readonly ListedTask[], isFirst: boolean): Promise<void> {
  const lost = await unknownCreations(query);
  if (lost.length === 0) return;
  const before = isFirst ? {} : await candidatesOf(query);
  const found = lost.map((change) => {
    const fits = matchersOf(change);
    const known = before[change.entity] ?? NONE;
    const add = (sign: keyof Candidates) => {
      // Pages overlap, and a second read begins with the first page anew.
      const isNew = ({ taskId }: Candidate) => !known[sign].some((each) => each.taskId === taskId);
      const more = tasks.filter(fits[sign]).filter(isNew);
      return [...known[sign], ...more.map(({ taskId, key, title }) => ({ taskId, key, title }))].slice(
        0,
        MOST_CANDIDATES,
      );
    };
    return [change.entity, { source: add('source'), description: add('description'), title: add('title') }] as const;
  });
  await writeMeta(query, CANDIDATES, JSON.stringify(Object.fromEntries(found)));
}

async function candidatesOf(query: Scope): Promise<CandidatesOf> {
  return json<CandidatesOf>((await readMeta(query, CANDIDATES)) ?? null) ?? {};
}

function matchersOf(change: OutboxRow): Readonly<Record<keyof Candidates, (task: ListedTask) => boolean>> {
  const itemKey = itemOf(change);
  const { body, sentAt } = json<SentCreation>(change.sent) as SentCreation;
  const line = lastLine(body.description);
  return {
    source: ({ source }) => source === itemKey,
    description: ({ description }) => line !== '' && (description ?? '').includes(line),
    title: (task) =>
      !isOfAnother(task, itemKey, line) &&
      task.title.trim() === body.title?.trim() &&
      isSameReporter(task, body) &&
      isMadeSince(task, sentAt),
  };
}

/** Whether a mark says that the task was made for another item. Servers may cut a long source. */
function isOfAnother({ source, description }: ListedTask, itemKey: string, line: string): boolean {
  const lines = itemLinesIn(description ?? '');
  return (source.includes(':') && !itemKey.startsWith(source)) || (lines !== '' && !lines.includes(line));
}

function isSameReporter(task: ListedTask, { reporterUserId }: SentCreation['body']): boolean {
  return reporterUserId === undefined || task.reporterUserId == null || task.reporterUserId === reporterUserId;
}

function isMadeSince({ createdAt }: ListedTask, sentAt: number): boolean {
  const made = Date.parse(createdAt);
  return Number.isNaN(made) || made >= sentAt - SKEW;
}

/**
 * Settles lost creations by a complete list.
 *
 * @param began when its first page was requested, epoch milliseconds
 * @returns the items whose task was found
 */
export async function settleCreates(query: Scope, began: number, moment: EvaluationContext): Promise<string[]> {
  const lost = await unknownCreations(query);
  if (lost.length === 0) return [];
  const again: string[] = [];
  const candidates = await candidatesOf(query);
  const isRecognisable = await areMarksKnown(query);
  // Loads all of them by one statement.
  await findEntities(
    query,
    lost.map((change) => change.entity),
  );
  for (const change of lost) {
    const { source, description, title } = candidates[change.entity] ?? NONE;
    const found = [source, description, title].find((each) => each.length > 0) ?? [];
    const [only] = found;
    const isLate = change.not_before <= began;
    if (only && found.length === 1 && (isLate || found !== title)) {
      await adopt(query, change.entity, only.taskId, moment);
      again.push(itemOf(change));
    } else if (change.state === 'held') continue;
    else if (!isLate) await requestLaterList(query, change, moment);
    else if (found.length === 0 && isRecognisable) await sendAgain(query, change);
    else await askPerson(query, change, found);
  }
  await forgetMeta(query, CANDIDATES);
  return again;
}

function itemOf({ entity: name }: OutboxRow): string {
  return name.slice(entity.task('').length);
}

async function sendAgain(query: Scope, change: OutboxRow): Promise<void> {
  await saveChange(query, { ...change, state: 'pending', not_before: 0, sent: null, sent_at: null });
}

/** It keeps its request: a new version of the item must not send it again, and a later list may still show the task. */
async function askPerson(query: Scope, change: OutboxRow, found: readonly Candidate[]): Promise<void> {
  const named = found.map(({ key, title }) => `${key} "${title.slice(0, 80)}"`).join(', ');
  const why =
    found.length === 0
      ? 'no list of this workspace has ever shown a task of ours, so its absence proves nothing'
      : `it may be one of these: ${named}`;
  const error = `outcome_unknown: the answer to the creation was lost, and ${why}`.slice(0, 500);
  await saveChange(query, { ...change, state: 'held', error });
}

async function requestLaterList(query: Scope, change: OutboxRow, { now, usedShare }: EvaluationContext): Promise<void> {
  // Further ahead only if the clock was set back meanwhile.
  const notBefore = Math.min(change.not_before, now + MAX_TIME_IN_FLIGHT + SETTLE_AFTER);
  await saveChange(query, { ...change, not_before: notBefore });
  await enqueueTaskListRead(query, { now, usedShare, lane: 'triage', notBefore });
}

/** How long a list that proved nothing leaves a lost creation waiting, milliseconds. */
const NEXT_LIST = 600_000;

/** The list is not known to be complete: another one may be. */
export async function waitForAnotherList(query: Scope, { now, usedShare }: EvaluationContext): Promise<void> {
  const waiting = (await unknownCreations(query)).filter(({ state }) => state === 'unknown');
  if (waiting.length === 0) return;
  await enqueueTaskListRead(query, { now, usedShare, lane: 'triage', notBefore: now + NEXT_LIST });
}

/**
 * The task was made for that item, by us or by whoever wrote its `source`: then no other is made. A request in flight settles
 * itself.
 */
export async function adopt(query: Scope, name: string, taskId: string, moment: EvaluationContext): Promise<void> {
  const row = await findEntity(query, name);
  if (!row || row.known !== null) return;
  const change = await findChange(query, name);
  if (change?.state === 'sending') return;
  await saveEntity(query, { ...row, known: row.desired ?? '{}', known_at: moment.now, remote_id: taskId });
  await removeChange(query, name);
}

/** Learns by which marks a list shows the tasks that worksync made. */
export async function noteMarks(query: Scope, tasks: readonly ListedTask[]): Promise<void> {
  if (await areMarksKnown(query)) return;
  const listed = new Map(tasks.map((task) => [task.taskId, task]));
  const marks = await taskMarks(query);
  let { source, description } = marks;
  for (const made of await createdTasks(query)) {
    const task = listed.get(made.remote_id ?? '');
    if (!task) continue;
    const line = lastLine(json<SentCreation['body']>(made.desired)?.description);
    source ||= task.source === made.item_key;
    description ||= line !== '' && (task.description ?? '').includes(line);
  }
  if (source !== marks.source || description !== marks.description) await saveTaskMarks(query, { source, description });
}
