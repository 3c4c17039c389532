import { sql } from 'kysely';
import type { Task } from '../model/task.ts';
import type { Scope } from './scope.ts';

/** The cached tasks of these keys. Keys that are no task cost nothing more than this look. */
export async function tasksByKeys(query: Scope, keys: readonly string[]): Promise<Map<string, Task>> {
  if (keys.length === 0) return new Map();
  const rows = await query.selectFrom('tasks').select(['key', 'fields']).where('key', 'in', keys).execute();
  return new Map(rows.map((row) => [row.key, JSON.parse(row.fields) as Task]));
}

export async function holdsTask(query: Scope, taskId: string): Promise<boolean> {
  const row = await query.selectFrom('tasks').select('task_id').where('task_id', '=', taskId).executeTakeFirst();
  return row !== undefined;
}

export async function allTaskKeys(query: Scope): Promise<Map<string, string>> {
  const rows = await query.selectFrom('tasks').select(['task_id', 'key']).execute();
  return new Map(rows.map((row) => [row.task_id, row.key]));
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
  const { key, source, status } = task;
  const row = { key, source, status, fields: JSON.stringify(task), seen_at: seenAt };
  await query
    .insertInto('tasks')
    .values({ task_id: task.taskId, ...row })
    .onConflict((conflict) => conflict.columns(['workspace', 'task_id']).doUpdateSet(row))
    .execute();
}

/** Unless it was seen since `before`, epoch milliseconds. @returns whether it was forgotten */
export async function forgetTask(query: Scope, taskId: string, before: number): Promise<boolean> {
  const { numDeletedRows } = await query
    .deleteFrom('tasks')
    .where('task_id', '=', taskId)
    .where('seen_at', '<=', before)
    .executeTakeFirst();
  return numDeletedRows > 0n;
}

export async function tasksByIds(query: Scope, taskIds: readonly string[]): Promise<Task[]> {
  if (taskIds.length === 0) return [];
  const rows = await query.selectFrom('tasks').select('fields').where('task_id', 'in', taskIds).execute();
  return rows.map((row) => JSON.parse(row.fields) as Task);
}

/** Which of these tasks exist. */
export async function existingTasks(query: Scope, taskIds: readonly string[]): Promise<Set<string>> {
  if (taskIds.length === 0) return new Set();
  const rows = await query.selectFrom('tasks').select('task_id').where('task_id', 'in', taskIds).execute();
  return new Set(rows.map((row) => row.task_id));
}

/** The task that was made for an item: the oldest, where there are several. */
export async function taskOfSource(query: Scope, source: string): Promise<Task | undefined> {
  const rows = await query.selectFrom('tasks').select('fields').where('source', '=', source).execute();
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
