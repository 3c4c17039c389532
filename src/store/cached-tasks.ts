import { sql } from 'kysely';
import { type Task, taskName, USUAL_ID_PREFIXES } from '../model/task.ts';
import { readCounts } from './counts.ts';
import { removeRows, rowsWhere, saveRows } from './unit-of-work/unit-of-work.ts';
import type { Scope } from './workspace-scope.ts';

/** The cached tasks of these keys. Keys that are no task cost nothing more than this look. */
export async function tasksByKeys(query: Scope, keys: readonly string[]): Promise<Map<string, Task>> {
  const rows = await rowsWhere(query, 'tasks', 'key', keys);
  return new Map(rows.map((row) => [row.key, JSON.parse(row.fields) as Task]));
}

export async function isTaskCached(query: Scope, taskId: string): Promise<boolean> {
  const row = await query.selectFrom('tasks').select('task_id').where('task_id', '=', taskId).executeTakeFirst();
  return row !== undefined;
}

/** The tasks that were last seen before this time, epoch milliseconds. */
export async function tasksReadBefore(
  query: Scope,
  before: number,
): Promise<readonly { readonly taskId: string; readonly seenAt: number }[]> {
  const rows = await query
    .selectFrom('tasks')
    .select(['task_id as taskId', 'seen_at as seenAt'])
    .where('seen_at', '<', before)
    .execute();
  return rows;
}

export async function countTasks(query: Scope): Promise<number> {
  return (await readCounts(query)).tasks;
}

/**
 * The key with the highest number of each prefix, by one index lookup per prefix. Ids that stand for missing keys are no
 * keys: each of them would have a prefix of its own.
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

/** @param seenAt when the workspace said so, epoch milliseconds */
export async function saveTask(query: Scope, task: Task, seenAt: number): Promise<void> {
  const { taskId, key, source, status } = task;
  const row = { task_id: taskId, key, source, status, fields: JSON.stringify(task), seen_at: seenAt };
  await saveRows(query, 'tasks', [row]);
}

/** Unless they were seen since `before`, epoch milliseconds. @returns the keys of those that were forgotten */
export async function forgetTasks(query: Scope, taskIds: readonly string[], before: number): Promise<string[]> {
  const rows = await rowsWhere(query, 'tasks', 'task_id', taskIds);
  const gone = rows.filter(({ seen_at }) => seen_at <= before);
  await removeRows(query, 'tasks', gone);
  return gone.map(({ key }) => key);
}

export async function tasksByIds(query: Scope, taskIds: readonly string[]): Promise<Task[]> {
  const rows = await rowsWhere(query, 'tasks', 'task_id', taskIds);
  return rows.map((row) => JSON.parse(row.fields) as Task);
}

/** Which of these tasks exist. */
export async function existingTasks(query: Scope, taskIds: readonly string[]): Promise<Set<string>> {
  const rows = await rowsWhere(query, 'tasks', 'task_id', taskIds);
  return new Set(rows.map((row) => row.task_id));
}

/** Reads at once what is known of the tasks of these sources, for those who will ask for them. */
export async function prefetchTasksOfSources(query: Scope, sources: readonly string[]): Promise<void> {
  await rowsWhere(query, 'tasks', 'source', sources);
}

/** The task that was made for an item, by its key or by the line of its description: the oldest, where there are several. */
export async function taskOfSource(query: Scope, ...sources: readonly string[]): Promise<Task | undefined> {
  const rows = await rowsWhere(query, 'tasks', 'source', sources);
  return rows.map((row) => JSON.parse(row.fields) as Task).toSorted(byAge)[0];
}

/** Tasks of one second go by their numbers. */
function byAge(left: Pick<Task, 'createdAt' | 'key'>, right: Pick<Task, 'createdAt' | 'key'>): number {
  const [earlier = '', later = ''] = [left.createdAt, right.createdAt];
  if (earlier !== later) return earlier < later ? -1 : 1;
  return left.key.localeCompare(right.key, 'en', { numeric: true });
}

/** The name of a task for people; its id if it is not cached. */
export async function taskNameOf(query: Scope, taskId: string): Promise<string> {
  const [task] = await tasksByIds(query, [taskId]);
  return task ? taskName(task) : taskId;
}

/** The id of one cached task. */
export async function anyTaskId(query: Scope): Promise<string | undefined> {
  const row = await query.selectFrom('tasks').select('task_id').orderBy('task_id').limit(1).executeTakeFirst();
  return row?.task_id;
}

/** Other beginnings than these are too many to be a prefix that people recognise. */
const MOST_ID_PREFIXES = 8;

/**
 * The prefixes of the cached tasks' ids, such as `tsk_`, by one index lookup per prefix. An id that does not begin with
 * at least two letters and an underscore has none. Before any task is cached: the usual prefix.
 */
export async function taskIdPrefixes(query: Scope): Promise<readonly string[]> {
  const prefixes: string[] = [];
  for (let from = '', looked = 0; looked < MOST_ID_PREFIXES; looked++) {
    const { first } = await query
      .selectFrom('tasks')
      .select(({ fn }) => fn.min('task_id').as('first'))
      .where('task_id', '>=', from)
      .executeTakeFirstOrThrow();
    if (first === null) return looked === 0 ? USUAL_ID_PREFIXES : prefixes;
    const prefix = ID_PREFIX.exec(first)?.[0];
    if (prefix !== undefined) prefixes.push(prefix);
    // Ids are compared by code units: "`" follows the underscore, and a control character follows the end of an id.
    from = prefix === undefined ? `${first}\u0001` : `${prefix.slice(0, -1)}\``;
  }
  return prefixes;
}

const ID_PREFIX = /^[A-Za-z]{2}[A-Za-z0-9]{0,14}_/;
