import { cut } from './text-limits.ts';

/** A task of the workspace, as far as the daemon caches it. */
export interface Task {
  readonly taskId: string;
  /** Short human key, such as `BUG-12`. In a workspace without keys it is the same as `taskId`. */
  readonly key: string;
  readonly title: string;
  readonly status: string;
  /** How a create is recognised: the item's key, or `api` for tasks that others made. */
  readonly source: string;
  /** RFC 3339, UTC; absent where the workspace does not tell. */
  readonly createdAt?: string;
  /** RFC 3339, UTC. */
  readonly updatedAt: string;
}

/**
 * Fields of a created task that a server may refuse, or that an operator may leave out. Title, description and `reportedAt` are
 * always sent.
 */
export const OPTIONAL_TASK_FIELDS = ['labels', 'priority', 'assigneeIds', 'reporterUserId', 'source'] as const;
export type OptionalTaskField = (typeof OPTIONAL_TASK_FIELDS)[number];

/** A task as the workspace returned it, with its id as `key` where it has no key. Returns other values unchanged. */
export function withKey(task: unknown): unknown {
  if (typeof task !== 'object' || task === null) return task;
  const { key, taskId } = task as { readonly key?: unknown; readonly taskId?: unknown };
  if (typeof key === 'string' && key !== '') return task;
  return { ...task, key: typeof taskId === 'number' ? String(taskId) : taskId };
}

const LONGEST_SHOWN_TITLE = 60;

/** The name of a task for people: its key, or `"Door sticks" (tsk_9f2)` where it has none. Contains text of strangers. */
export function taskName({ taskId, key, title }: Pick<Task, 'taskId' | 'key' | 'title'>): string {
  if (key !== taskId) return key;
  return title === '' ? taskId : `"${cut(title, LONGEST_SHOWN_TITLE)}" (${taskId})`;
}

/** The prefixes of task ids that are recognised until a list shows which ids the workspace gives. */
export const USUAL_ID_PREFIXES: readonly string[] = ['tsk_'];
