import type { RouteName } from '../workspace/contract.ts';
import { activityHandlers } from './activities.ts';
import { agentHandlers } from './agents.ts';
import { apiKeyHandlers } from './api-keys.ts';
import { claimHandlers } from './claims.ts';
import type { Handlers, Service } from './context.ts';
import { documentHandlers } from './documents.ts';
import { fileHandlers } from './files.ts';
import { pullRequestHandlers } from './pull-requests.ts';
import { sessionHandlers } from './sessions.ts';
import { taskDocumentHandlers } from './task-documents.ts';
import { taskHandlers } from './tasks.ts';
import { webhookHandlers } from './webhooks.ts';
import { workItemHandlers } from './work-items.ts';

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
