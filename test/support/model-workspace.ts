import { SyncError } from '../../src/errors/sync-error.ts';
import type { Prepared } from '../../src/outbox/prepare.ts';

interface ModelLink {
  readonly workItemId: string;
  readonly url: string;
  readonly externalId: string | null;
}

/**
 * The workspace as the outbox sees it, in memory: tasks, their links (one per address), records (one per natural key).
 * What people do is done to the same maps.
 */
export interface ModelWorkspace {
  readonly tasks: Map<string, { taskId: string; key: string }>;
  readonly records: Map<string, Readonly<Record<string, unknown>>>;
  /** Carries out a request and gives the body of its answer; throws what the client would throw. */
  handle(prepared: Prepared): unknown;
  linkOf(taskId: string, url: string): ModelLink | undefined;
  addLink(taskId: string, url: string, externalId: string | null): ModelLink;
  removeLink(taskId: string, url: string): void;
}

export function createModelWorkspace(): ModelWorkspace {
  const tasks = new Map<string, { taskId: string; key: string }>();
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

  function removeById(taskId: string, workItemId: unknown): void {
    const left = linksOf(taskId).filter((link) => link.workItemId !== workItemId);
    if (left.length === linksOf(taskId).length)
      throw new SyncError('not_found', 'no such link', { status: 404, errorCode: 'not_found' });
    links.set(taskId, left);
  }

  function handle({ action, body, taskId }: Prepared): unknown {
    const task = taskId as string;
    switch (action) {
      case 'read-tasks':
        return {
          tasks: [...tasks.values()].map((each) => ({
            ...each,
            title: each.key,
            status: 'open',
            source: 'api',
            updatedAt: '2026-01-05T08:00:00Z',
          })),
        };
      case 'read-pull-requests':
        return { pullRequests: [...records.keys()].map(recordAnswer), nextCursor: null };
      case 'read-links':
        return { workItems: linksOf(task) };
      case 'record-pull-request':
        return record(body);
      case 'add-link':
        return addLink(task, String(body['url']), String(body['externalId']));
      case 'remove-link':
        return removeById(task, body['workItemId']);
      case 'create-task':
      case 'read-document':
      case 'attach-document':
        throw new SyncError('internal', 'no rule of this model asks for it');
    }
  }

  return {
    tasks,
    records,
    handle,
    linkOf,
    addLink,
    removeLink: (taskId, url) =>
      void links.set(
        taskId,
        linksOf(taskId).filter((link) => link.url !== url),
      ),
  };
}
