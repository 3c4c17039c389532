import { entity } from '../../model/change.ts';
import { mayBeCut } from '../../model/delivery.ts';
import type { Answer } from '../../store/workspace-answers.ts';
import type { RouteName } from '../contract.ts';
import type { Matched } from './route-of.ts';

export type CapturedDelivery = Pick<Answer, 'action' | 'entity' | 'body'>;

type Content = Readonly<Record<string, unknown>>;

const ACTIONS: Readonly<Partial<Record<RouteName, Answer['action']>>> = {
  listTasks: 'saw-tasks',
  getTask: 'saw-task',
  updateTask: 'saw-task',
  createBug: 'saw-task',
  createIdea: 'saw-task',
  listPullRequests: 'saw-records',
  listPullRequestRecords: 'saw-records',
  createPullRequest: 'saw-record',
  recordPullRequest: 'saw-record',
  updatePullRequest: 'saw-record-edit',
};

/** Returns the delivery that a success contains; undefined for resources that worksync does not follow. */
export function deliveryFromResponse(
  { route, ids }: Matched,
  query: string,
  content: unknown,
): CapturedDelivery | undefined {
  const taskId = ids['taskId'] ?? '';
  const documentId = ids['documentId'] ?? '';
  switch (route) {
    case 'removeWorkItem':
      return { action: 'saw-link-removed', entity: '', body: { taskId, workItemId: ids['workItemId'] } };
    case 'detachDocument':
      return documents([{ documentId, taskId: null }]);
    case 'deleteDocument':
      return documents([{ documentId, taskId: null, isMissing: true }]);
  }
  if (typeof content !== 'object' || content === null) return undefined;
  switch (route) {
    case 'listWorkItems':
      return { action: 'read-links', entity: entity.readLinks(taskId), body: content };
    case 'addWorkItem':
      // The path names the task; the answer may not.
      return { action: 'saw-link', entity: '', body: { ...content, taskId } };
    case 'attachDocument':
      return documents([{ ...content, taskId }]);
    case 'getDocument':
    case 'createDocument':
    case 'replaceDocument':
    case 'patchDocument':
      return documents([content]);
    case 'listDocuments':
    case 'listTaskDocuments':
      return documents((content as Content)['documents']);
    case 'listTasks':
      if (asksForAll(query) && isWhole(content as Content))
        return { action: 'read-tasks', entity: entity.readTasks, body: content };
  }
  const action = ACTIONS[route];
  return action && { action, entity: '', body: content };
}

/** Keeps the places of documents, and not their texts, which may be long. */
function documents(found: unknown): CapturedDelivery | undefined {
  const standing = (Array.isArray(found) ? found : []).flatMap((each: Content) => {
    const { documentId, taskId = null, isMissing = false, updatedAt = null } = each ?? {};
    return typeof documentId === 'string' ? [{ documentId, taskId, isMissing, updatedAt }] : [];
  });
  return standing.length === 0 ? undefined : { action: 'saw-documents', entity: '', body: { documents: standing } };
}

/** Whether the answer is the whole list, so that missing elements do not exist. */
function isWhole({ tasks, isLast = null, unreadable = 0 }: Content): boolean {
  return (
    Array.isArray(tasks) && isLast !== false && unreadable === 0 && !mayBeCut(tasks.length, isLast as boolean | null)
  );
}

/** Whether the query has `all=true` and no filter. */
function asksForAll(query: string): boolean {
  const given = [...new URLSearchParams(query)];
  return given.length === 1 && given[0]?.[0] === 'all' && given[0][1] === 'true';
}
