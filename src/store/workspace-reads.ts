import { entity, SETTLE_AFTER } from '../model/change.ts';
import { debounceOf, type Lane } from '../model/lane.ts';
import { linksOfTask } from './entities.ts';
import { readMeta, writeMeta } from './meta.ts';
import { addDifference, dropDifference, findChange, findChanges, saveChange } from './outbox-rows.ts';
import { removeRows } from './unit-of-work/unit-of-work.ts';
import type { Scope } from './workspace-scope.ts';

/** Names of facts in the `meta` table: when the workspace's content was last read completely. */
export const TASKS_READ = 'tasks_read_at';
export const PULL_REQUESTS_READ = 'pull_requests_read_at';

/** Whether the tasks were read at least once: before that nothing is written. */
export async function tasksWereRead(query: Scope): Promise<boolean> {
  return (await readMeta(query, TASKS_READ)) !== undefined;
}

/** At the start: requests the lists that were never read, at once. The records only where a connection records. */
export async function enqueueInitialReads(query: Scope, now: number, areRecordsWanted: boolean): Promise<void> {
  const wishes = [
    [TASKS_READ, entity.readTasks],
    ...(areRecordsWanted ? [[PULL_REQUESTS_READ, entity.readPullRequests] as const] : []),
  ] as const;
  const missing: string[] = [];
  for (const [fact, name] of wishes) {
    if ((await readMeta(query, fact)) === undefined) missing.push(name);
  }
  await enqueueReads(query, missing, now);
}

/** Asks for reads by their entities, at once; in the lane of backfills for what nobody waits for. */
export async function enqueueReads(
  query: Scope,
  entities: readonly string[],
  now: number,
  lane: Lane = 'read',
): Promise<void> {
  for (const name of entities) {
    const wish = { kind: 'read', since: now, due: now, weight: 1, waiting: [] } as const;
    await addDifference(query, { entity: name, lane, ...wish });
  }
}

export interface ListReadRequest {
  readonly now: number;
  readonly usedShare: number;
  readonly lane: Lane;
  /** Earlier the list would prove nothing. */
  readonly notBefore: number;
}

/** Asks for one complete read of the task list; a read that waits already serves this wish too. */
export async function enqueueTaskListRead(
  query: Scope,
  { now, usedShare, lane, notBefore }: ListReadRequest,
): Promise<void> {
  const due = now + debounceOf(lane, usedShare).wait;
  await addDifference(query, {
    entity: entity.readTasks,
    kind: 'read',
    lane,
    since: now,
    due,
    weight: 1,
    notBefore,
    waiting: [],
  });
}

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
export async function requestTaskReads(
  query: Scope,
  taskIds: readonly string[],
  context: TaskReadContext,
): Promise<void> {
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
export async function onTaskListApplied(query: Scope, sentAt: number, now: number): Promise<void> {
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

/** A request that read the links of a task and was answered. */
export interface LinksRead {
  readonly revision: number;
  /** Epoch milliseconds. */
  readonly sentAt: number;
}

/** The tasks are gone, and nothing is remembered about them. */
export async function forgetLinkReads(query: Scope, taskIds: readonly string[]): Promise<void> {
  await removeRows(
    query,
    'meta',
    taskIds.map((taskId) => ({ name: entity.readLinks(taskId) })),
  );
}

/** The last one; undefined before the first one. */
export async function lastLinksRead(query: Scope, taskId: string): Promise<LinksRead | undefined> {
  const text = await readMeta(query, entity.readLinks(taskId));
  if (text === undefined) return undefined;
  const [revision, sentAt = 0] = text.split(' ').map(Number);
  return { revision: revision as number, sentAt };
}

/** The links of a task were read: those that waited for that may be added. */
export async function noteLinksRead(query: Scope, taskId: string, { revision, sentAt }: LinksRead): Promise<void> {
  await writeMeta(query, entity.readLinks(taskId), `${revision} ${sentAt}`);
  const links = (await linksOfTask(query, taskId)).map((row) => row.entity);
  for (const change of await findChanges(query, links))
    if (change.state === 'pending' && change.not_before > 0) await saveChange(query, { ...change, not_before: 0 });
}
