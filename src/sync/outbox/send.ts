import type { ApiAnswer } from '../../workspace-api/typed-client.ts';
import type { ListPlace } from './list-pages.ts';
import type { Prepared } from './prepare.ts';
import type { Client, SendContext } from './send-context.ts';

const PAGE = 100;

/** Sends a prepared request through the client. Throws what the client throws. */
export function send(client: Client, prepared: Prepared, context: SendContext): Promise<ApiAnswer<unknown>> {
  const taskId = prepared.taskId as string;
  // The body was built for exactly this route; it went through the outbox row as JSON.
  const body = prepared.body as never;
  switch (prepared.action) {
    case 'read-tasks':
      return client.listTasks({ query: { all: true, ...pageQuery(prepared) } }, context);
    case 'read-task':
      return client.getTask({ taskId }, context);
    case 'read-pull-requests':
      return client.listPullRequestRecords({ query: { limit: PAGE, ...pageQuery(prepared) } }, context);
    case 'read-records':
      return client.listPullRequestRecords({ query: { limit: PAGE, ...prepared.body } }, context);
    case 'read-links':
      return client.listWorkItems({ taskId }, context);
    case 'read-document':
      return client.getDocument({ documentId: String(prepared.body['documentId']) }, context);
    case 'attach-document':
      return client.attachDocument({ taskId, body }, context);
    case 'record-pull-request':
      return client.recordPullRequest({ body }, context);
    case 'add-link':
      return client.addWorkItem({ taskId, body }, context);
    case 'remove-link':
      return client.removeWorkItem({ taskId, workItemId: String(prepared.body['workItemId']) }, context);
    case 'create-task':
      return createTask(client, prepared, context);
  }
}

function pageQuery({ body }: Prepared): { cursor?: string; limit?: number } {
  const { cursor, limit } = body as ListPlace;
  return { ...(cursor !== undefined && { cursor }), ...(limit !== undefined && { limit }) };
}

function createTask(client: Client, prepared: Prepared, context: SendContext): Promise<ApiAnswer<unknown>> {
  const { kind, ...body } = prepared.body;
  return kind === 'idea'
    ? client.createIdea({ body: body as never }, context)
    : client.createBug({ body: body as never }, context);
}
