import { z } from 'zod';
import { withKey } from '../../model/task.ts';
import { PRIORITIES, TASK_KINDS, TASK_STATUSES } from './field-values.ts';
import { answered, asked, ID_PATTERN, listOf, openEnum, type Route, sent } from './route.ts';

/** Servers may have further statuses. */
const statusName = sent.name.meta({ 'x-extensible-enum': TASK_STATUSES });

/** W30. */
const taskFields = z
  .looseObject({
    taskId: answered.id,
    key: answered.string.describe('the short key that people use, for example BUG-12; the id where tasks have none'),
    workspaceId: answered.string,
    kind: openEnum(TASK_KINDS),
    title: answered.string,
    description: answered.text,
    status: openEnum(TASK_STATUSES),
    priority: openEnum(PRIORITIES, 'none'),
    source: z.string().catch('api'),
    reporterUserId: answered.text,
    reportedAt: answered.time,
    teamIds: answered.strings,
    assigneeIds: answered.strings,
    labels: answered.strings,
    userId: answered.text,
    createdAt: answered.time,
    updatedAt: answered.time,
    completedAt: answered.time,
  })
  .meta({ id: 'Task' });
const task = z.preprocess(withKey, taskFields);

/** W28, W32 to W35. */
const newTask = z
  .object({
    title: sent.title,
    description: sent.text.optional(),
    reporterUserId: z.string().regex(ID_PATTERN).optional(),
    reportedAt: sent.time.optional(),
    source: sent.name.optional(),
    priority: z.enum(PRIORITIES).optional(),
    teamIds: sent.ids.optional(),
    assigneeIds: sent.ids.optional(),
    labels: sent.strings.optional(),
  })
  .meta({ id: 'NewTask' });

/** W37. Absent fields are kept. */
const taskUpdate = z
  .object({
    title: sent.title.optional(),
    description: sent.text.optional(),
    status: statusName.optional(),
    priority: z.enum(PRIORITIES).optional(),
    teamIds: sent.ids.optional(),
    assigneeIds: sent.ids.optional(),
    labels: sent.strings.optional(),
  })
  .meta({ id: 'TaskUpdate' });

/** W36. `status` named explicitly is honoured without `all` too. */
const taskQuery = z.object({
  all: asked.flag.optional(),
  status: asked.list.pipe(z.array(statusName)).optional(),
  kind: asked.list.pipe(z.array(z.enum(TASK_KINDS))).optional(),
  teamId: asked.text.optional(),
  assigneeId: asked.text.optional(),
  limit: asked.limit.optional(),
  cursor: asked.cursor.optional(),
});

export const taskRoutes = {
  /** W29, W36. `{tasks, nextCursor}`, newest first; open work unless `all`. */
  listTasks: {
    method: 'GET',
    path: '/workspaces/{workspaceId}/tasks',
    summary: 'List tasks',
    rules: 'W29, W36',
    query: taskQuery,
    response: listOf('tasks', task, ['taskId'], { nextCursor: answered.cursor }),
  },
  /** W37. One task. Errors: 404 `not_found`. */
  getTask: {
    method: 'GET',
    path: '/workspaces/{workspaceId}/tasks/{taskId}',
    summary: 'Get a task',
    rules: 'W37',
    response: task,
    isEditable: true,
  },
  /**
   * W37. Replaces the fields given, keeps the others. `completedAt` is set by completed, cancelled and merged.
   * Errors: 404 `not_found`, 412 `precondition_failed`.
   */
  updateTask: {
    method: 'PUT',
    alsoBy: 'PATCH',
    path: '/workspaces/{workspaceId}/tasks/{taskId}',
    summary: 'Update a task',
    rules: 'W37',
    body: taskUpdate,
    response: task,
    isEditable: true,
  },
  /** W27, W31. The created task, status `open`. Not idempotent. */
  createBug: {
    method: 'POST',
    path: '/workspaces/{workspaceId}/bugs',
    summary: 'Create a bug',
    rules: 'W27, W31',
    body: newTask,
    response: task,
  },
  /** W27, W31. The created task, status `idea`. Not idempotent. */
  createIdea: {
    method: 'POST',
    path: '/workspaces/{workspaceId}/ideas',
    summary: 'Create an idea',
    rules: 'W27, W31',
    body: newTask,
    response: task,
  },
} as const satisfies Record<string, Route>;
