import { sql } from 'kysely';
import { type ReportedState, statusHistory, type Task, taskName, USUAL_ID_PREFIXES } from '../../model/task.ts';
import { serverStatus, type TaskStatuses } from '../../model/task-status.ts';
import { isOlder } from '../../model/workspace-time.ts';
import { contestsInDay, MAX_CONTESTED_OF_WORKSPACE } from '../../model/written-task.ts';
import { dialectOf } from '../../platform/database/database-schema.ts';
import { reasonUnfinished } from '../schema/column-expressions.ts';
import { readCounts } from '../status/counts.ts';
import { removeRows, rowsWhere, saveRows } from '../unit-of-work/unit-of-work.ts';
import { afterTrialRefused, isOff, readServerFact, type Trial, writeServerFact } from '../workspace/server-facts.ts';
import { type ByWorkspace, countRows, type Scope, type Sql } from '../workspace-scope.ts';

/** Returns the cached tasks with these keys, by key. */
export async function tasksByKeys(query: Scope, keys: readonly string[]): Promise<Map<string, Task>> {
  const rows = await rowsWhere(query, 'tasks', 'key', keys);
  return new Map(rows.map((row) => [row.key, JSON.parse(row.fields) as Task]));
}

export async function isTaskCached(query: Scope, taskId: string): Promise<boolean> {
  return (await countRows(query.selectFrom('tasks').where('task_id', '=', taskId))) > 0;
}

/** Returns the tasks that were last read before this time, epoch milliseconds. */
export async function tasksReadBefore(query: Scope, before: number) {
  const tasks = query.selectFrom('tasks').select(['task_id as taskId', 'seen_at as seenAt']);
  return tasks.where('seen_at', '<', before).execute();
}

/** Returns the status of a cached task in the word of the server, and when the workspace reported it, epoch milliseconds. */
export async function cachedStatus(query: Scope, taskId: string) {
  const [row] = await rowsWhere(query, 'tasks', 'task_id', [taskId]);
  return row && { status: row.status, seenAt: row.seen_at };
}

export async function countTasks(query: Scope): Promise<number> {
  return (await readCounts(query)).tasks;
}

/**
 * Returns the key with the highest number of each prefix, by one index lookup per prefix. Ids that replace missing keys are
 * left out, because each of them would have its own prefix.
 */
export async function highestTaskKeys({ whole, workspace }: Scope): Promise<string[]> {
  const own = sql`from tasks where workspace = ${workspace} and prefix like '%-'`;
  const { rows } = await sql<{ key: string }>`
    with recursive prefixes(prefix) as (
      select min(prefix) ${own}
      union all
      select (select min(prefix) ${own} and prefix > prefixes.prefix) from prefixes where prefix is not null
    )
    select (select key ${own} and prefix = prefixes.prefix order by number desc limit 1) as key
    from prefixes where prefix is not null`.execute(whole);
  return rows.map(({ key }) => key);
}

/** @param seenAt when the workspace reported this state, epoch milliseconds */
export async function saveTask(query: Scope, task: Task, seenAt: number): Promise<void> {
  const { taskId, key, source, status } = task;
  const row = { task_id: taskId, key, source, status, fields: JSON.stringify(task), seen_at: seenAt };
  await saveRows(query, 'tasks', [row]);
}

/**
 * Caches the status that an update of worksync set, or that the read before it showed. Does nothing if the cached state is newer.
 *
 * @param from the statuses that the task may have had before, in the words of the server
 * @param now epoch milliseconds
 * @returns false if another status is cached and no time shows which of the two is newer
 */
export async function saveUpdatedStatus(
  query: Scope,
  taskId: string,
  { status, updatedAt, from }: Pick<ReportedState, 'status' | 'updatedAt'> & { readonly from: readonly string[] },
  now: number,
): Promise<boolean> {
  const [cached] = await tasksByIds(query, [taskId]);
  if (cached === undefined || isOlder(updatedAt, cached.updatedAt)) return true;
  const isCertain = isOlder(cached.updatedAt, updatedAt) || [status, ...from].includes(cached.status);
  const history = statusHistory(cached, { ...cached, status, updatedAt }, now);
  await saveTask(query, { ...cached, ...history, status, updatedAt }, now);
  return isCertain;
}

/** Deletes tasks that were not read since `before`, epoch milliseconds. @returns their keys */
export async function forgetTasks(query: Scope, taskIds: readonly string[], before: number): Promise<string[]> {
  const rows = await rowsWhere(query, 'tasks', 'task_id', taskIds);
  const outdated = rows.filter(({ seen_at }) => seen_at <= before);
  await removeRows(query, 'tasks', outdated);
  return outdated.map(({ key }) => key);
}

export async function tasksByIds(query: Scope, taskIds: readonly string[]): Promise<Task[]> {
  const rows = await rowsWhere(query, 'tasks', 'task_id', taskIds);
  return rows.map((row) => JSON.parse(row.fields) as Task);
}

/** Returns the ids of those tasks that are cached. */
export async function existingTasks(query: Scope, taskIds: readonly string[]): Promise<Set<string>> {
  const rows = await rowsWhere(query, 'tasks', 'task_id', taskIds);
  return new Set(rows.map((row) => row.task_id));
}

/** Returns the task that was created for an item, by the item's key or the line of its description. Of several, the oldest. */
export async function taskOfSource(query: Scope, ...sources: readonly string[]): Promise<Task | undefined> {
  const rows = await rowsWhere(query, 'tasks', 'source', sources);
  return rows.map((row) => JSON.parse(row.fields) as Task).toSorted(byAge)[0];
}

/** Orders tasks by their creation, and those of the same second by their numbers. */
function byAge(left: Pick<Task, 'createdAt' | 'key'>, right: Pick<Task, 'createdAt' | 'key'>): number {
  const [earlier = '', later = ''] = [left.createdAt, right.createdAt];
  if (earlier !== later) return earlier < later ? -1 : 1;
  return left.key.localeCompare(right.key, 'en', { numeric: true });
}

/** Returns the name of a task for people, or its id if the task is not cached. */
export async function taskNameOf(query: Scope, taskId: string): Promise<string> {
  const [task] = await tasksByIds(query, [taskId]);
  return task ? taskName(task) : taskId;
}

/** Returns the id of any cached task. */
export async function anyTaskId(query: Scope): Promise<string | undefined> {
  const row = await query.selectFrom('tasks').select('task_id').orderBy('task_id').limit(1).executeTakeFirst();
  return row?.task_id;
}

/** Index lookups of one search. More different beginnings of ids are not prefixes that people recognise. */
const MAX_ID_PREFIXES = 8;

/**
 * Returns the prefixes of the ids of cached tasks, such as `tsk_`, by one index lookup per prefix. A prefix begins with two
 * letters and ends with an underscore; other ids have none. Without cached tasks, returns the usual prefix.
 */
export async function taskIdPrefixes(query: Scope): Promise<readonly string[]> {
  const prefixes: string[] = [];
  for (let from = '', lookups = 0; lookups < MAX_ID_PREFIXES; lookups++) {
    const { first } = await query
      .selectFrom('tasks')
      .select(({ fn }) => fn.min('task_id').as('first'))
      .where('task_id', '>=', from)
      .executeTakeFirstOrThrow();
    if (first === null) return lookups === 0 ? USUAL_ID_PREFIXES : prefixes;
    const prefix = ID_PREFIX.exec(first)?.[0];
    if (prefix !== undefined) prefixes.push(prefix);
    // Ids are compared by code units: "`" follows the underscore, and U+0001 follows the end of an id.
    from = prefix === undefined ? `${first}\u0001` : `${prefix.slice(0, -1)}\``;
  }
  return prefixes;
}

const ID_PREFIX = /^[A-Za-z]{2}[A-Za-z0-9]{0,14}_/;

/** The body of an update: all fields of the task, or the changed ones only. */
export type UpdateForm = 'whole' | 'fields';

/**
 * A stored value: the server's behaviour when tasks are updated. Earlier versions also stored the conclusions from a single
 * refusal: the value `suspected`, the key `unconditional`, and statuses without a trial. These are ignored.
 */
export interface TaskUpdateFacts {
  /** Updates in the form `fields` are refused where the whole task is accepted, or clear other fields. */
  readonly fieldsOff?: 'certain' | 'suspected';
  /** An update with the fields that only the server writes is refused, and the same one without them is accepted. */
  readonly readOnly?: 'certain' | 'suspected';
  /** Whether the server accepts updates with `If-Match`. It counts as a refusal if the tag is that of the read just before. */
  readonly ifMatch?: Trial;
  /** Updates in each form clear other fields: none is sent. Code and message. */
  readonly off?: string;
  /** Fields whose update was compared with the task before it, by form: it changed no other field. */
  readonly verified?: Readonly<Partial<Record<UpdateForm, readonly string[]>>>;
  /** Statuses that the server accepted, refused or replaced, by its words. */
  readonly statuses?: Readonly<Record<string, Trial>>;
  /** The times in the last day at which others reverted a status that worksync had just written; epoch milliseconds. */
  readonly contested?: readonly number[];
}

export async function readTaskUpdateFacts(query: Scope): Promise<TaskUpdateFacts> {
  return (await readServerFact<TaskUpdateFacts>(query, 'taskUpdate')) ?? {};
}

/** Writes only if the facts changed. */
async function changeFacts(query: Scope, change: (facts: TaskUpdateFacts) => TaskUpdateFacts): Promise<void> {
  const before = await readTaskUpdateFacts(query);
  const after = change(before);
  if (JSON.stringify(after) !== JSON.stringify(before)) await writeServerFact(query, 'taskUpdate', after);
}

/** Returns whether others reverted so many statuses in the last day that worksync changes none in this workspace. */
export function areStatusesContested({ contested = [] }: TaskUpdateFacts, now: number): boolean {
  return contestsInDay(contested, now).length >= MAX_CONTESTED_OF_WORKSPACE;
}

/**
 * Returns why this status is not sent to any task, as code and message; undefined if it may be sent. The message names no
 * task, because it is stored with changes of other tasks than those that refused the status.
 */
export function refusalOfStatus(
  facts: TaskUpdateFacts,
  statuses: TaskStatuses,
  status: string | undefined,
  now: number,
): string | undefined {
  if (status === undefined) return undefined;
  if (areStatusesContested(facts, now))
    return `workflow_contested: others changed ${MAX_CONTESTED_OF_WORKSPACE} statuses back in a day`;
  const word = serverStatus(statuses, status);
  if (!isOff(trialOf(facts, word), now)) return undefined;
  return `status_unknown: the workspace refused the status ${word} for three tasks, and accepted it for none`;
}

function trialOf({ statuses = {} }: TaskUpdateFacts, word: string): Trial {
  return (Object.hasOwn(statuses, word) ? statuses[word] : undefined) ?? {};
}

/** Records the time at which others reverted a status. */
export async function noteContest(query: Scope, at: number, now: number): Promise<void> {
  await changeFacts(query, (facts) => ({ ...facts, contested: contestsInDay([...(facts.contested ?? []), at], now) }));
}

/** Removes contests that were recorded by mistake. */
export async function forgetContests(query: Scope, times: readonly number[]): Promise<void> {
  await changeFacts(query, (facts) => {
    if (facts.contested === undefined) return facts;
    return { ...facts, contested: facts.contested.filter((at) => !times.includes(at)) };
  });
}

/** Records that the server refused a status for a task, or replaced it. @param word the server's word for the status */
export async function noteStatusRefused(query: Scope, word: string, taskId: string, now: number): Promise<void> {
  await changeFacts(query, (facts) => ({
    ...facts,
    statuses: { ...facts.statuses, [word]: afterTrialRefused(trialOf(facts, word), taskId, now) },
  }));
}

/** Records that the server refused the tag of the read just before, for a second time in a row for this task. */
export async function noteIfMatchRefused(query: Scope, taskId: string, now: number): Promise<void> {
  await changeFacts(query, (facts) => ({ ...facts, ifMatch: afterTrialRefused(facts.ifMatch ?? {}, taskId, now) }));
}

/** Records that an update in the form `fields` cleared other fields. */
export async function noteFieldsCleared(query: Scope): Promise<void> {
  await changeFacts(query, (facts) => ({ ...facts, fieldsOff: 'certain' }));
}

/** Records that an update is accepted only without the fields that the server writes. */
export async function noteReadOnlyRefused(query: Scope): Promise<void> {
  await changeFacts(query, (facts) => ({ ...facts, readOnly: 'certain' }));
}

/** Switches all updates off for this address, because they clear other fields in every form. */
export async function switchUpdatesOff(query: Scope, error: string): Promise<void> {
  await changeFacts(query, (facts) => ({ ...facts, off: error }));
}

/** An accepted update, and what it shows. */
export interface AcceptedUpdate {
  readonly form: UpdateForm;
  /** The forms in which this update was refused before. */
  readonly refused: Pick<TaskUpdateFacts, 'fieldsOff' | 'readOnly'>;
  /** Names of the changed fields, if the answer was compared with the task before. */
  readonly compared: readonly string[];
  /** The status that was set, in the server's word. */
  readonly word?: string | undefined;
  /** It was sent with `If-Match`. */
  readonly isConditional: boolean;
}

export async function noteUpdateAccepted(
  query: Scope,
  { form, refused, compared, word, isConditional }: AcceptedUpdate,
): Promise<void> {
  await changeFacts(query, (facts) => {
    const { verified = {}, statuses } = facts;
    const names = [...new Set([...(verified[form] ?? []), ...compared])];
    return {
      ...facts,
      ...refused,
      ...(isConditional && { ifMatch: { passed: true } }),
      ...(names.length > 0 && { verified: { ...verified, [form]: names } }),
      ...(word !== undefined && { statuses: { ...statuses, [word]: { passed: true } } }),
    };
  });
}

/** Numbers of unfinished tasks whose work was merged, by the reason: `{ "not-closing": 8, "base": 4 }`. */
export type UnfinishedTasks = Readonly<Record<string, number>>;

/** Counts the unfinished tasks whose work was merged and that are cached. Reads the index, and nothing of other tasks. */
export async function unfinishedTasksOf(
  query: Sql,
  workspaces: readonly number[],
): Promise<ByWorkspace<UnfinishedTasks>> {
  const reason = reasonUnfinished(dialectOf(query));
  const rows = await query
    .selectFrom('entities')
    .select(['workspace', reason.as('reason')])
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .where('workspace', 'in', workspaces)
    .where(reason, 'is not', null)
    .where(({ exists, selectFrom }) =>
      exists(
        selectFrom('tasks')
          .select('tasks.task_id')
          .whereRef('tasks.workspace', '=', 'entities.workspace')
          .whereRef('tasks.task_id', '=', 'entities.task_id'),
      ),
    )
    .groupBy(['workspace', reason])
    .execute();
  const byWorkspace = Map.groupBy(rows, ({ workspace }) => workspace);
  return (workspace) =>
    Object.fromEntries((byWorkspace.get(workspace) ?? []).map(({ reason: why, count }) => [why, Number(count)]));
}

/** Returns some of the unfinished tasks whose work was merged, with the reason. */
export async function listUnfinishedTasks(
  query: Scope,
  limit: number,
): Promise<readonly { readonly taskId: string; readonly reason: string }[]> {
  const reason = reasonUnfinished(query.dialect);
  const rows = await query
    .selectFrom('entities')
    .select(['task_id', reason.as('reason')])
    .where(reason, 'is not', null)
    .orderBy(reason)
    .limit(limit)
    .execute();
  return rows.flatMap(({ task_id, reason: why }) =>
    task_id === null || why === null ? [] : [{ taskId: task_id, reason: why }],
  );
}
