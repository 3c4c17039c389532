import { sql } from 'kysely';
import type { Task } from '../model/task.ts';
import { readCounts } from './counts.ts';
import { removeRows, rowsWhere, saveRows } from './kept-rows.ts';
import type { Scope } from './workspace-scope.ts';

/** The cached tasks of these keys. Keys that are no task cost nothing more than this look. */
export async function tasksByKeys(query: Scope, keys: readonly string[]): Promise<Map<string, Task>> {
  const rows = await rowsWhere(query, 'tasks', 'key', keys);
  return new Map(rows.map((row) => [row.key, JSON.parse(row.fields) as Task]));
}

export async function holdsTask(query: Scope, taskId: string): Promise<boolean> {
  const row = await query.selectFrom('tasks').select('task_id').where('task_id', '=', taskId).executeTakeFirst();
  return row !== undefined;
}

/** The tasks that were last seen at `before` or earlier, epoch milliseconds. */
export async function tasksSeenBefore(
  query: Scope,
  before: number,
): Promise<readonly { readonly taskId: string; readonly seenAt: number }[]> {
  const rows = await query
    .selectFrom('tasks')
    .select(['task_id as taskId', 'seen_at as seenAt'])
    .where('seen_at', '<=', before)
    .execute();
  return rows;
}

export async function countTasks(query: Scope): Promise<number> {
  return (await readCounts(query)).tasks;
}

/** Of each prefix the key with the highest number: one look at an index for each. */
export async function highestTaskKeys({ whole, workspace }: Scope): Promise<string[]> {
  const own = sql`from tasks where workspace = ${workspace}`;
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
export async function expectSources(query: Scope, sources: readonly string[]): Promise<void> {
  await rowsWhere(query, 'tasks', 'source', sources);
}

/** The task that was made for an item: the oldest, where there are several. */
export async function taskOfSource(query: Scope, source: string): Promise<Task | undefined> {
  const rows = await rowsWhere(query, 'tasks', 'source', [source]);
  return rows.map((row) => JSON.parse(row.fields) as Task).toSorted(byAge)[0];
}

/** Tasks of one second go by their numbers. */
function byAge(left: Pick<Task, 'createdAt' | 'key'>, right: Pick<Task, 'createdAt' | 'key'>): number {
  const [earlier = '', later = ''] = [left.createdAt, right.createdAt];
  if (earlier !== later) return earlier < later ? -1 : 1;
  return left.key.localeCompare(right.key, 'en', { numeric: true });
}

export async function taskKeyOf(query: Scope, taskId: string): Promise<string | undefined> {
  const row = await query.selectFrom('tasks').select('key').where('task_id', '=', taskId).executeTakeFirst();
  return row?.key;
}
