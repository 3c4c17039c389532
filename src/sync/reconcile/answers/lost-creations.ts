// Design: src/decisions/lists-and-lost-creations.md

import { entity, MAX_TIME_IN_FLIGHT, SETTLE_AFTER } from '../../../model/change.ts';
import type { ItemKey } from '../../../model/item.ts';
import { hasItemLine, itemLinesIn, lastLine } from '../../../model/task.ts';
import { createdTasks, findEntities, findEntity, saveEntity } from '../../../store/changes/entities.ts';
import { findChange, type OutboxRow, removeChange, saveChange } from '../../../store/changes/outbox-rows.ts';
import { forgetMeta, readMeta, writeMeta } from '../../../store/meta.ts';
import {
  areMarksKnown,
  saveTaskMarks,
  taskMarks,
  unknownCreations,
  wereMarksRequested,
} from '../../../store/tasks/task-creations.ts';
import { enqueueReads, enqueueTaskListRead } from '../../../store/workspace/workspace-reads.ts';
import { json, type Scope } from '../../../store/workspace-scope.ts';
import type { AnswerContext } from '../context.ts';
import type { ListedTask } from './shapes.ts';

// Creations whose answer was lost. The task is searched in one complete list that was requested late enough. It is
// identified by its `source`, else by the line of its description, else by title, reporter and time. A single match is
// adopted. Without a match the creation is sent again, if lists are known to show our marks. All other cases need a
// person's decision.

/** A task that a lost creation may have created. */
type Candidate = Pick<ListedTask, 'taskId' | 'key' | 'title'>;

/** The candidates of one creation by the sign that identified them, the most reliable sign first. */
type Candidates = Readonly<Record<'source' | 'description' | 'title', readonly Candidate[]>>;

/** Name of the stored fact: the candidates by the entities of the creations, until the last page of the list. */
const CANDIDATES = 'creates.candidates';
const NONE: Candidates = { source: [], description: [], title: [] };
/** The largest number of candidates that a person is shown. */
const MAX_CANDIDATES = 5;
/** The tolerated difference of clocks: a task may seem to be this much older than its request, milliseconds. */
const MAX_SKEW_MS = 60_000;

interface SentCreation {
  readonly sentAt: number;
  readonly body: {
    readonly title?: string;
    readonly description?: string;
    readonly reporterUserId?: string;
  };
}

/** Searches the tasks of lost creations on a page of the list, and stores the candidates. */
export async function collectCandidates(query: Scope, tasks: readonly ListedTask[], isFirst: boolean): Promise<void> {
  const lost = await unknownCreations(query);
  if (lost.length === 0) return;
  const before = isFirst ? {} : await readCandidates(query);
  const found = lost.map((change) => {
    const matches = matchersOf(change);
    const known = before[change.entity] ?? NONE;
    const add = (sign: keyof Candidates) => {
      // Pages overlap, and a repeated read begins again with the first page.
      const isNew = ({ taskId }: Candidate) => !known[sign].some((each) => each.taskId === taskId);
      const more = tasks.filter(matches[sign]).filter(isNew);
      const all = [...known[sign], ...more.map(({ taskId, key, title }) => ({ taskId, key, title }))];
      return all.slice(0, MAX_CANDIDATES);
    };
    return [change.entity, { source: add('source'), description: add('description'), title: add('title') }] as const;
  });
  await writeMeta(query, CANDIDATES, JSON.stringify(Object.fromEntries(found)));
}

async function readCandidates(query: Scope): Promise<Readonly<Record<string, Candidates>>> {
  return json((await readMeta(query, CANDIDATES)) ?? null) ?? {};
}

function matchersOf(change: OutboxRow): Readonly<Record<keyof Candidates, (task: ListedTask) => boolean>> {
  const itemKey = itemKeyOf(change);
  const { body, sentAt } = json<SentCreation>(change.sent) as SentCreation;
  const line = lastLine(body.description);
  return {
    source: ({ source }) => source === itemKey,
    description: ({ description }) => hasItemLine(description, line),
    title: (task) =>
      !isOfOtherItem(task, itemKey, line) &&
      task.title.trim() === body.title?.trim() &&
      isSameReporter(task, body) &&
      isCreatedSince(task, sentAt),
  };
}

/** Whether a mark shows that the task was created for another item. Servers may cut a long source. */
function isOfOtherItem({ source, description }: ListedTask, itemKey: string, line: string): boolean {
  const lines = itemLinesIn(description ?? '');
  return (source.includes(':') && !itemKey.startsWith(source)) || (lines !== '' && !hasItemLine(lines, line));
}

function isSameReporter(task: ListedTask, { reporterUserId }: SentCreation['body']): boolean {
  return reporterUserId === undefined || task.reporterUserId == null || task.reporterUserId === reporterUserId;
}

function isCreatedSince({ createdAt }: ListedTask, sentAt: number): boolean {
  const created = Date.parse(createdAt);
  return Number.isNaN(created) || created >= sentAt - MAX_SKEW_MS;
}

/**
 * Settles lost creations by a complete list. Returns the items whose task was found.
 *
 * @param began when the first page was requested, epoch milliseconds
 */
export async function settleCreates(query: Scope, began: number, context: AnswerContext): Promise<ItemKey[]> {
  const lost = await unknownCreations(query);
  if (lost.length === 0) return [];
  const adopted: ItemKey[] = [];
  const candidates = await readCandidates(query);
  const areMarksShown = await areMarksKnown(query);
  // Loads all of them by one statement.
  const names = lost.map((change) => change.entity);
  await findEntities(query, names);
  for (const change of lost) {
    const { source, description, title } = candidates[change.entity] ?? NONE;
    const found = [source, description, title].find((each) => each.length > 0) ?? [];
    const [only] = found;
    const isLateEnough = change.not_before <= began;
    if (only && found.length === 1 && (isLateEnough || found !== title)) {
      await adoptCreation(query, change.entity, only.taskId, context);
      adopted.push(itemKeyOf(change));
    } else if (change.state === 'held') continue;
    else if (!isLateEnough) await requestLaterList(query, change, context);
    else if (found.length === 0 && areMarksShown) await repeatCreation(query, change);
    else await holdForDecision(query, change, found);
  }
  await forgetMeta(query, CANDIDATES);
  return adopted;
}

function itemKeyOf({ entity: name }: OutboxRow): string {
  return name.slice(entity.task('').length);
}

async function repeatCreation(query: Scope, change: OutboxRow): Promise<void> {
  await saveChange(query, { ...change, state: 'pending', not_before: 0, sent: null, sent_at: null });
}

/**
 * Holds the creation and keeps its request: a new version of the item must not send it again, and a later list may show
 * the task.
 */
async function holdForDecision(query: Scope, change: OutboxRow, found: readonly Candidate[]): Promise<void> {
  const named = found.map(({ key, title }) => `${key} "${title.slice(0, 80)}"`).join(', ');
  const why =
    found.length === 0
      ? 'no list of this workspace has ever shown a task of ours, so its absence proves nothing'
      : `it may be one of these: ${named}`;
  const error = `outcome_unknown: the answer to the creation was lost, and ${why}`.slice(0, 500);
  await saveChange(query, { ...change, state: 'held', error });
}

async function requestLaterList(query: Scope, change: OutboxRow, { now, usedShare }: AnswerContext): Promise<void> {
  // The stored time is later than this only if the clock was set back meanwhile.
  const notBefore = Math.min(change.not_before, now + MAX_TIME_IN_FLIGHT + SETTLE_AFTER);
  await saveChange(query, { ...change, not_before: notBefore });
  await enqueueTaskListRead(query, { now, usedShare, lane: 'triage', notBefore });
}

/** The pause before the next list if a list was not complete, milliseconds. */
const NEXT_LIST_MS = 600_000;

/** Requests another list, because this one is not known to be complete. */
export async function requestNextList(query: Scope, { now, usedShare }: AnswerContext): Promise<void> {
  const waiting = (await unknownCreations(query)).filter(({ state }) => state === 'unknown');
  if (waiting.length === 0) return;
  await enqueueTaskListRead(query, { now, usedShare, lane: 'triage', notBefore: now + NEXT_LIST_MS });
}

/**
 * Stores that the task was created for the item, by worksync or by another client that set its `source`, so that no
 * second one is created. A request in flight is settled by its own answer.
 */
export async function adoptCreation(query: Scope, name: string, taskId: string, { now }: AnswerContext): Promise<void> {
  const row = await findEntity(query, name);
  if (!row || row.known !== null) return;
  const change = await findChange(query, name);
  if (change?.state === 'sending') return;
  await saveEntity(query, { ...row, known: row.desired ?? '{}', known_at: now, remote_id: taskId });
  await removeChange(query, name);
}

/**
 * Requests one list after the first answered creation, because only a list shows the marks. Until they are known, a lost
 * answer to a creation delays other creations.
 */
export async function requestMarks(query: Scope, { now }: AnswerContext): Promise<void> {
  if (await wereMarksRequested(query)) return;
  await saveTaskMarks(query, { source: false, description: false });
  await enqueueReads(query, [entity.readTasks], now, 'triage');
}

/** Stores which marks a list shows of the tasks that worksync created. */
export async function recordMarks(query: Scope, tasks: readonly ListedTask[]): Promise<void> {
  if (await areMarksKnown(query)) return;
  const listed = new Map(tasks.map((task) => [task.taskId, task]));
  const marks = await taskMarks(query);
  let { source, description } = marks;
  for (const created of await createdTasks(query)) {
    const task = listed.get(created.remote_id ?? '');
    if (!task) continue;
    const line = lastLine(json<SentCreation['body']>(created.desired)?.description);
    source ||= task.source === created.item_key;
    description ||= hasItemLine(task.description, line);
  }
  if (source !== marks.source || description !== marks.description) await saveTaskMarks(query, { source, description });
}
