import type { Task } from '../model/task.ts';
import type { Query } from './database.ts';

/** The cached tasks of these keys. Keys that are no task cost nothing more than this look. */
export async function tasksByKeys(query: Query, keys: readonly string[]): Promise<Map<string, Task>> {
  if (keys.length === 0) return new Map();
  const rows = await query.selectFrom('tasks').select(['key', 'fields']).where('key', 'in', keys).execute();
  return new Map(rows.map((row) => [row.key, JSON.parse(row.fields) as Task]));
}

export async function holdsTask(query: Query, taskId: string): Promise<boolean> {
  const row = await query.selectFrom('tasks').select('task_id').where('task_id', '=', taskId).executeTakeFirst();
  return row !== undefined;
}

export async function allTaskKeys(query: Query): Promise<Map<string, string>> {
  const rows = await query.selectFrom('tasks').select(['task_id', 'key']).execute();
  return new Map(rows.map((row) => [row.task_id, row.key]));
}

/** @param seenAt when the workspace said so, epoch milliseconds */
export async function saveTask(query: Query, task: Task, seenAt: number): Promise<void> {
  const { key, source, status } = task;
  const row = { key, source, status, fields: JSON.stringify(task), seen_at: seenAt };
  await query
    .insertInto('tasks')
    .values({ task_id: task.taskId, ...row })
    .onConflict((conflict) => conflict.column('task_id').doUpdateSet(row))
    .execute();
}

/** Unless it was seen since `before`, epoch milliseconds. */
export async function forgetTask(query: Query, taskId: string, before: number): Promise<void> {
  await query.deleteFrom('tasks').where('task_id', '=', taskId).where('seen_at', '<=', before).execute();
}
