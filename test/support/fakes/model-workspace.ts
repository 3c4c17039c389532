import { SyncError } from '../../../src/model/errors.ts';
import type { PreparedRequest } from '../../../src/sync/outbox/request.ts';

interface ModelTask {
  readonly taskId: string;
  readonly key: string;
  readonly title?: string;
  readonly status?: string;
}

interface ModelLink {
  readonly workItemId: string;
  readonly url: string;
  readonly externalId: string | null;
}

/**
 * The workspace as the outbox sees it, in memory: tasks, their links (one per address), records (one per natural key).
 * Tests carry out the edits of people on these maps too.
 *
 * @param pageSize of the list of records
 */
export function createModelWorkspace(pageSize = Number.POSITIVE_INFINITY) {
  const tasks = new Map<string, ModelTask>();
  /** The task that each document is attached to. */
  const documents = new Map<string, string | null>();
  const records = new Map<string, Readonly<Record<string, unknown>>>();
  const links = new Map<string, ModelLink[]>();
  let lastId = 0;

  const linksOf = (taskId: string) => links.get(taskId) ?? [];
  const linkOf = (taskId: string, url: string) => linksOf(taskId).find((link) => link.url === url);
  const taskIds = (url: unknown) => [...links.keys()].filter((taskId) => linkOf(taskId, String(url)));

  function addLink(taskId: string, url: string, externalId: string | null): ModelLink {
    const present = linkOf(taskId, url);
    if (present) return present;
    const link = { workItemId: `w${++lastId}`, url, externalId };
    links.set(taskId, [...linksOf(taskId), link]);
    return link;
  }

  function record(body: Readonly<Record<string, unknown>>): unknown {
    const name = [body['provider'], body['repoId'], body['identifier']].join('/');
    records.set(name, { ...records.get(name), ...body });
    return recordAnswer(name);
  }

  function recordAnswer(name: string) {
    const held = records.get(name) ?? {};
    return { ...held, taskIds: taskIds(held['url']) };
  }

  function recordList(cursor: unknown): unknown {
    const at = Number(cursor ?? 0);
    const all = [...records.keys()].map(recordAnswer);
    const isLast = (at + 1) * pageSize >= all.length;
    const part = pageSize === Number.POSITIVE_INFINITY ? all : all.slice(at * pageSize, (at + 1) * pageSize);
    return { pullRequests: part, nextCursor: isLast ? null : String(at + 1) };
  }

  function removeById(taskId: string, workItemId: unknown): void {
    const left = linksOf(taskId).filter((link) => link.workItemId !== workItemId);
    if (left.length === linksOf(taskId).length)
      throw new SyncError('not_found', 'no such link', { status: 404, errorCode: 'not_found' });
    links.set(taskId, left);
  }

  /** Carries out a request and returns the body of its answer; throws the errors of the client. */
  function handle({ action, body, taskId }: PreparedRequest): unknown {
    const task = taskId as string;
    switch (action) {
      case 'read-tasks':
        return {
          tasks: [...tasks.values()].map((each) => ({
            title: each.key,
            status: 'open',
            ...each,
            source: 'api',
            updatedAt: '2026-01-05T08:00:00Z',
          })),
        };
      case 'read-pull-requests':
        return recordList(body['cursor']);
      case 'read-records':
        return { pullRequests: [...records.keys()].map(recordAnswer) };
      case 'read-links':
        return { workItems: linksOf(task) };
      case 'record-pull-request':
        return record(body);
      case 'add-link':
        return addLink(task, String(body['url']), String(body['externalId']));
      case 'remove-link':
        return removeById(task, body['workItemId']);
      case 'read-document': {
        const documentId = String(body['documentId']);
        if (documents.has(documentId)) return { documentId, taskId: documents.get(documentId) };
        throw new SyncError('not_found', 'no such document', { status: 404, errorCode: 'not_found' });
      }
      case 'attach-document':
        documents.set(String(body['documentId']), task);
        return { documentId: body['documentId'], taskId: task };
      case 'read-task':
      case 'create-task':
        throw new SyncError('internal', 'no rule of this model asks for it');
    }
  }

  function removeLink(taskId: string, url: string): void {
    links.set(
      taskId,
      linksOf(taskId).filter((link) => link.url !== url),
    );
  }

  return { tasks, documents, records, handle, linkOf, addLink, removeLink };
}
