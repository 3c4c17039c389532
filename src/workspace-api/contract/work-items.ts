import { z } from 'zod';
import { answered, listOf, type Route, sent } from './route.ts';

/** W39. */
const workItem = z
  .looseObject({
    workItemId: answered.id,
    taskId: answered.string,
    workspaceId: answered.string,
    url: answered.url,
    title: answered.text,
    externalId: answered.text,
    provider: answered.text,
    createdAt: answered.time,
  })
  .meta({ id: 'WorkItem' });

const newWorkItem = z
  .object({
    url: sent.url,
    title: z.string().max(1_024).nullish(),
    externalId: z.string().max(1_024).nullish(),
    provider: sent.name.nullish(),
  })
  .meta({ id: 'NewWorkItem' });

export const workItemRoutes = {
  /** W38, W39. `{workItems}`, newest first. */
  listWorkItems: {
    method: 'GET',
    path: '/tasks/{taskId}/work-items',
    alsoAt: '/workspaces/{workspaceId}/tasks/{taskId}/work-items',
    summary: "List a task's external links",
    rules: 'W38, W39',
    response: listOf('workItems', workItem, ['workItemId', 'url'], {}),
  },
  /** W38, W39. 201 new; 200 with the link that has this address already, unchanged. */
  addWorkItem: {
    method: 'POST',
    path: '/tasks/{taskId}/work-items',
    alsoAt: '/workspaces/{workspaceId}/tasks/{taskId}/work-items',
    summary: 'Connect an external link to a task',
    rules: 'W38, W39',
    body: newWorkItem,
    response: workItem,
    success: [201, 200],
  },
  /** W39. 204; 404 `not_found` when it is gone already. */
  removeWorkItem: {
    method: 'DELETE',
    path: '/tasks/{taskId}/work-items/{workItemId}',
    alsoAt: '/workspaces/{workspaceId}/tasks/{taskId}/work-items/{workItemId}',
    summary: 'Remove an external link from a task',
    rules: 'W39',
  },
} as const satisfies Record<string, Route>;
