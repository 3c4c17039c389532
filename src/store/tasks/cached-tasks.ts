import { sql } from 'kysely';
import { type ReportedState, statusHistory, type Task, taskName, USUAL_ID_PREFIXES } from '../../model/task.ts';
import { isOlder } from '../../model/workspace-time.ts';
import { readCounts } from '../status/counts.ts';
import { removeRows, rowsWhere, saveRows } from '../unit-of-work/unit-of-work.ts';
import { countRows, type Scope } from '../workspace-scope.ts';

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
