import { type Action, debounceOf, entity, type Lane, SETTLE_AFTER } from '../../model/change.ts';
import type { ListPage } from '../../model/delivery.ts';
import { linksOfTask } from '../changes/entities.ts';
import { addDifference, dropDifference, findChange, findChanges, saveChange } from '../changes/outbox-rows.ts';
import { appendDeliveries } from '../deliveries/append-deliveries.ts';
import { currentRevision, PULL_REQUESTS_READ, readMeta, TASKS_READ, writeMeta } from '../meta.ts';
import { removeRows } from '../unit-of-work/unit-of-work.ts';
import type { Scope } from '../workspace-scope.ts';
import { routeOffUntil } from './server-capabilities.ts';

/**
 * Answers to requests of commands and of the gateway, and events of the workspace:
 *
 * - `saw-record-edit` may have reached the provider first.
 * - `look-again` follows the action of a person on an item, whose known state is changed already.
 * - `compare-records` is a step of a sweep.
 * - `evaluate-records` is a step of the comparison after the route for records opened.
 * - `named` lists resources that an event names without their content.
 */
type Observation =
  | 'saw-task'
  | 'saw-tasks'
  | 'saw-record'
  | 'saw-record-edit'
  | 'saw-records'
  | 'saw-link'
  | 'saw-link-removed'
  | 'saw-documents'
  | 'named'
  | 'compare-records'
  | 'evaluate-records'
  | 'look-again';

/**
 * An answer of the workspace, stored as a delivery. It was true at some time between `sentAt` and its receipt.
 *
 * Two stages read an answer to the outbox. Settle stores what worksync sent: it becomes the known state, and a link becomes one of
 * worksync. From the body it reads only the position in a list, whether the server recognised a repeated link, and the time of a
 * document. Reconcile stores what the server added: ids of links, tasks, the server's spelling of a record, everything that was read.
 */
export interface Answer {
  readonly action: Action | Observation;
  readonly entity: string;
  readonly sentAt: number;
  /** When the difference arose that the request was sent for, epoch milliseconds. Absent if there was no request. */
  readonly wantedAt?: number;
  /** The answer does not override a state that became known at a later revision; see `currentRevision`. Absent for an event. */
  readonly asOf?: number;
  /**
   * The revision at the receipt. The answer may wait in the inbox while newer requests are answered, and must not count as newer
   * than their answers. Absent if `asOf` is; otherwise `appendAnswer` adds it.
   */
  readonly receivedRevision?: number;
  readonly body: unknown;
  /** The HTTP status; absent if the answer was not received over HTTP. */
  readonly status?: number;
  /** The cursor of a page of a list; absent on the first page. */
  readonly cursor?: string;
  /** The page of a list that worksync reads itself. */
  readonly page?: ListPage;
  /** The id of the workspace, if the answer contained it. */
  readonly workspaceId?: string;
  /** The id of the API key that caused an event. Absent if a user did, or if the event does not contain it. */
  readonly key?: string;
}

/** The name of the connection of the workspace's own answers and webhooks in the inbox. */
export const WORKSPACE = 'workspace';

export async function appendAnswer(query: Scope, answer: Answer, id: string, receivedAt: number): Promise<void> {
  const { asOf, receivedRevision = asOf === undefined ? undefined : await currentRevision(query) } = answer;
  const body = Buffer.from(JSON.stringify({ ...answer, receivedRevision }));
  const delivery = {
    connection: WORKSPACE,
    key: `answer:${id}`,
    source: 'answer',
    event: answer.action,
    body,
  } as const;
  await appendDeliveries(query, [delivery], receivedAt);
}

export function readAnswer(body: Uint8Array): Answer {
  return JSON.parse(Buffer.from(body).toString()) as Answer;
}

/**
 * Columns of all reads that worksync requests from the workspace: of complete lists, single tasks, and the links of a task. Each
 * read is a change in the outbox, like a write.
 */
const READ = { kind: 'read', weight: 1, waiting: [] } as const;

/** Returns whether the tasks were read at least once. Before, nothing is written. */
export async function tasksWereRead(query: Scope): Promise<boolean> {
  return (await readMeta(query, TASKS_READ)) !== undefined;
}

/** Requests the lists that were never read, at the start. @param areRecordsWanted whether any connection records pull requests */
export async function enqueueInitialReads(query: Scope, now: number, areRecordsWanted: boolean): Promise<void> {
  const missing: string[] = [];
  if ((await readMeta(query, TASKS_READ)) === undefined) missing.push(entity.readTasks);
  if (areRecordsWanted && (await readMeta(query, PULL_REQUESTS_READ)) === undefined)
    missing.push(entity.readPullRequests);
  await enqueueReads(query, missing, now);
}

/** Requests reads by their entities, due at once. The lane of backfills is for reads for which no person waits. */
export async function enqueueReads(
  query: Scope,
  entities: readonly string[],
  now: number,
  lane: Lane = 'read',
): Promise<void> {
  for (const name of entities) await addDifference(query, { ...READ, entity: name, lane, since: now, due: now });
}

interface ListReadRequest {
  readonly now: number;
  readonly usedShare: number;
  readonly lane: Lane;
  /** An earlier list would prove nothing. Epoch milliseconds. */
  readonly notBefore: number;
}

/** Requests one complete read of the task list. A pending read serves this request too. */
export async function enqueueTaskListRead(
  query: Scope,
  { now, usedShare, lane, notBefore }: ListReadRequest,
): Promise<void> {
  const due = now + debounceOf(lane, usedShare).wait;
  await addDifference(query, { ...READ, entity: entity.readTasks, lane, since: now, due, notBefore });
}

/** More tasks than this, within the debounce of reads, are read by one list. */
const MAX_SINGLE_READS = 3;

/** The least time between two lists that events cause, milliseconds. */
const LIST_INTERVAL = 5 * 60_000;

const NAMED_TASKS = 'named_tasks';

/** Reads of tasks that events of the workspace name without their content. Times are epoch milliseconds. */
interface NamedTasks {
  /** The last event that a task list must still cover. */
  readonly namedAt?: number | undefined;
  /** When the last list that events caused was requested. */
  readonly listAt?: number;
  /** The latest single reads, at most `MAX_SINGLE_READS`. */
  readonly singles: readonly { readonly taskId: string; readonly at: number }[];
}

interface TaskReadContext {
  readonly now: number;
  /** The used share of the long quota window, 0..1. */
  readonly usedShare: number;
  readonly visibility?: number | undefined;
}

/**
 * Requests these tasks from the workspace, each by a single read. One list replaces the single reads if they are more than three
 * within the debounce of reads, or if the server has no route for a single task.
 */
export async function requestTaskReads(
  query: Scope,
  taskIds: readonly string[],
  context: TaskReadContext,
): Promise<void> {
  const { now, usedShare, visibility } = context;
  const named = await loadNamedTasks(query);
  const reads = await findChanges(query, taskIds.map(entity.readTask));
  const pending = new Set(reads.filter(({ state }) => state === 'pending').map((change) => change.entity));
  const added = [...new Set(taskIds)].filter((taskId) => !pending.has(entity.readTask(taskId)));
  if (added.length === 0) return;
  const from = now - debounceOf('read', usedShare).maxWait;
  const recent = named.singles.filter(({ at }) => at > from && at <= now);
  const hasSingleRoute = (await routeOffUntil(query, 'getTask', now)) === undefined;
  if (!hasSingleRoute || recent.length + added.length > MAX_SINGLE_READS) {
    for (const { taskId } of recent) await dropDifference(query, entity.readTask(taskId));
    return requestTaskList(query, now);
  }
  const due = now + debounceOf('link', usedShare, visibility).wait;
  for (const taskId of added) {
    await addDifference(query, { ...READ, entity: entity.readTask(taskId), lane: 'read', since: now, due });
  }
  await saveNamedTasks(query, { ...named, singles: [...recent, ...added.map((taskId) => ({ taskId, at: now }))] });
}

/** Requests a task list because of an event. */
export async function requestTaskList(query: Scope, now: number): Promise<void> {
  const named = await loadNamedTasks(query);
  await saveNamedTasks(query, { ...named, namedAt: now });
  await scheduleList(query, named, now);
}

/**
 * Called after a task list was applied. A list proves nothing about events of the last minute before its request, because the
 * list of the server may lag behind. Another list covers those events.
 *
 * @param sentAt when the list was requested, epoch milliseconds
 */
export async function onTaskListApplied(query: Scope, sentAt: number, now: number): Promise<void> {
  const { namedAt, ...named } = await loadNamedTasks(query);
  if (namedAt === undefined) return;
  const isCovered = Math.min(namedAt, now) + SETTLE_AFTER <= sentAt;
  const next = { ...named, listAt: sentAt, ...(!isCovered && { namedAt }) };
  await saveNamedTasks(query, next);
  if (!isCovered) await scheduleList(query, next, now);
}

/** Schedules a task list, unless one is in flight: `onTaskListApplied` decides whether that one covers the event. */
async function scheduleList(query: Scope, { listAt }: Pick<NamedTasks, 'listAt'>, now: number): Promise<void> {
  const change = await findChange(query, entity.readTasks);
  if (change?.state === 'sending') return;
  // A time in the future was written before the clock was set back.
  const earliest = listAt === undefined ? 0 : Math.min(listAt, now) + LIST_INTERVAL;
  const due = Math.max(now + SETTLE_AFTER, earliest);
  await addDifference(query, { ...READ, entity: entity.readTasks, lane: 'read', since: now, due });
}

async function loadNamedTasks(query: Scope): Promise<NamedTasks> {
  const text = await readMeta(query, NAMED_TASKS);
  return text === undefined ? { singles: [] } : (JSON.parse(text) as NamedTasks);
}

async function saveNamedTasks(query: Scope, named: NamedTasks): Promise<void> {
  await writeMeta(query, NAMED_TASKS, JSON.stringify(named));
}

/** An answered request that read the links of a task. */
interface LinksRead {
  readonly revision: number;
  /** Epoch milliseconds. */
  readonly sentAt: number;
}

/** Forgets the link reads of deleted tasks. */
export async function forgetLinkReads(query: Scope, taskIds: readonly string[]): Promise<void> {
  await removeRows(
    query,
    'meta',
    taskIds.map((taskId) => ({ name: entity.readLinks(taskId) })),
  );
}

/** Returns the last answered read of the links of a task; undefined before the first. */
export async function lastLinksRead(query: Scope, taskId: string): Promise<LinksRead | undefined> {
  const text = await readMeta(query, entity.readLinks(taskId));
  if (text === undefined) return undefined;
  const [revision, sentAt = 0] = text.split(' ').map(Number);
  return { revision: revision as number, sentAt };
}

/** Records that the links of a task were read. Changes of links that waited for this become due. */
export async function noteLinksRead(query: Scope, taskId: string, { revision, sentAt }: LinksRead): Promise<void> {
  await writeMeta(query, entity.readLinks(taskId), `${revision} ${sentAt}`);
  const links = (await linksOfTask(query, taskId)).map((row) => row.entity);
  for (const change of await findChanges(query, links))
    if (change.state === 'pending' && change.awaits !== null) await saveChange(query, { ...change, not_before: 0 });
}
