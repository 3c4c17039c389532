import type { RouteName } from '../../workspace-api/contract.ts';
import { activityHandlers } from '../agents/activities.ts';
import { sessionHandlers } from '../agents/agent-sessions.ts';
import { agentHandlers } from '../agents/agents.ts';
import { claimHandlers } from '../agents/claims.ts';
import { documentHandlers } from '../documents/documents.ts';
import { taskDocumentHandlers } from '../documents/task-documents.ts';
import { fileHandlers } from '../files/files.ts';
import { apiKeyHandlers } from '../keys/api-keys.ts';
import { pullRequestHandlers } from '../pull-requests/pull-requests.ts';
import { taskHandlers } from '../tasks/tasks.ts';
import { workItemHandlers } from '../tasks/work-items.ts';
import { webhookHandlers } from '../webhooks/webhooks.ts';
import type { Handlers, Service } from './call.ts';

/** One handler for each route of the contract; a route without one does not compile. */
export function createHandlers(service: Service): Handlers<RouteName> {
  return {
    ...taskHandlers(service),
    ...workItemHandlers(service),
    ...documentHandlers(service),
    ...taskDocumentHandlers(service),
    ...fileHandlers(service),
    ...pullRequestHandlers(service),
    ...apiKeyHandlers(service),
    ...webhookHandlers(service),
    ...agentHandlers(service),
    ...sessionHandlers(service),
    ...claimHandlers(service),
    ...activityHandlers(service),
  };
}
