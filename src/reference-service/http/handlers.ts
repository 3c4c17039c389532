import { sessionHandlers } from '../agents/agent-sessions.ts';
import { agentHandlers } from '../agents/agents.ts';
import { documentHandlers } from '../documents/documents.ts';
import { fileHandlers } from '../files/files.ts';
import { apiKeyHandlers } from '../keys/credentials.ts';
import { pullRequestHandlers } from '../pull-requests/pull-requests.ts';
import { taskHandlers } from '../tasks/tasks.ts';
import { workItemHandlers } from '../tasks/work-items.ts';
import { webhookHandlers } from '../webhooks/webhooks.ts';
import type { Handlers } from './call.ts';

/** One handler for each route of the contract; a route without one does not compile. */
export const HANDLERS: Handlers = {
  ...taskHandlers,
  ...workItemHandlers,
  ...documentHandlers,
  ...fileHandlers,
  ...pullRequestHandlers,
  ...apiKeyHandlers,
  ...webhookHandlers,
  ...agentHandlers,
  ...sessionHandlers,
};
