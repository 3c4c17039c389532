import { entity, SETTLE_AFTER } from '../model/change.ts';
import { debounceOf } from '../model/lane.ts';
import { readMeta, writeMeta } from './meta.ts';
import { addDifference, dropDifference, findChange, findChanges } from './outbox-rows.ts';
import type { Scope } from './workspace-scope.ts';

/** Reads of tasks that an event of the workspace names without carrying them. */

/** Within the debounce of reads, more than this many tasks are read by one list. */
const MAX_SINGLE_READS = 3;

/** Events cause at most one read of the task list in this time, milliseconds. */
const LIST_INTERVAL = 5 * 60_000;

const FACT = 'named_tasks';

/** Epoch milliseconds. */
interface NamedTasks {
  /** The last event that a task list must still cover. */
  readonly namedAt?: number | undefined;
  /** When the last list that events caused was requested. */
  readonly listAt?: number;
  /** The latest single reads, at most `MAX_SINGLE_READS`. */
  readonly singles: readonly { readonly taskId: string; readonly at: number }[];
}

export interface TaskReadContext {
  readonly now: number;
  /** The used share of the long quota window, 0..1. */
  readonly usedShare: number;
  readonly visibility?: number;
  /** Whether the server has a route for a single task. */
  readonly hasSingleRoute: boolean;
}

/**
 * Requests these tasks from the workspace: each by a single read, or all by one list if they are more than three within the
 * debounce of reads or if the server has no route for a single task.
 */
export async function readTasks(query: Scope, taskIds: readonly string[], context: TaskReadContext): Promise<void> {
  const { now, usedShare, visibility, hasSingleRoute } = context;
  const facts = await readFacts(query);
  const waiting = await findChanges(query, taskIds.map(entity.readTask));
  const isWaiting = new Set(waiting.filter(({ state }) => state === 'pending').map((change) => change.entity));
  const added = [...new Set(taskIds)].filter((taskId) => !isWaiting.has(entity.readTask(taskId)));
  if (added.length === 0) return;
  const from = now - debounceOf('read', usedShare).maxWait;
  const recent = facts.singles.filter(({ at }) => at > from && at <= now);
  if (!hasSingleRoute || recent.length + added.length > MAX_SINGLE_READS) {
    for (const { taskId } of recent) await dropDifference(query, entity.readTask(taskId));
    return requestTaskList(query, now);
  }
  const due = now + debounceOf('link', usedShare, visibility).wait;
  for (const taskId of added) await addDifference(query, { ...READ, entity: entity.readTask(taskId), since: now, due });
  await writeFacts(query, { ...facts, singles: [...recent, ...added.map((taskId) => ({ taskId, at: now }))] });
}

const READ = { kind: 'read', lane: 'read', weight: 1, waiting: [] } as const;

/** Requests a task list because of an event. */
export async function requestTaskList(query: Scope, now: number): Promise<void> {
  const facts = await readFacts(query);
  await writeFacts(query, { ...facts, namedAt: now });
  await scheduleList(query, facts, now);
}

/**
 * Called after a task list was applied. A list proves nothing about events of the last minute before its request, because
 * the server's list may lag behind: another list covers those.
 *
 * @param sentAt when the list was requested, epoch milliseconds
 */
export async function taskListApplied(query: Scope, sentAt: number, now: number): Promise<void> {
  const { namedAt, ...facts } = await readFacts(query);
  if (namedAt === undefined) return;
  const isCovered = Math.min(namedAt, now) + SETTLE_AFTER <= sentAt;
  const next = { ...facts, listAt: sentAt, ...(!isCovered && { namedAt }) };
  await writeFacts(query, next);
  if (!isCovered) await scheduleList(query, next, now);
}

/** A list in flight needs nothing here: `taskListApplied` finds out whether it covers the event. */
async function scheduleList(query: Scope, { listAt }: Pick<NamedTasks, 'listAt'>, now: number): Promise<void> {
  const change = await findChange(query, entity.readTasks);
  if (change?.state === 'sending') return;
  // A time in the future was written before the clock was set back.
  const earliest = listAt === undefined ? 0 : Math.min(listAt, now) + LIST_INTERVAL;
  const due = Math.max(now + SETTLE_AFTER, earliest);
  await addDifference(query, { ...READ, entity: entity.readTasks, since: now, due });
}

async function readFacts(query: Scope): Promise<NamedTasks> {
  const text = await readMeta(query, FACT);
  return text === undefined ? { singles: [] } : (JSON.parse(text) as NamedTasks);
}

async function writeFacts(query: Scope, facts: NamedTasks): Promise<void> {
  await writeMeta(query, FACT, JSON.stringify(facts));
}
