import type { RouteName } from '../workspace/contract.ts';
import { apiKeyHandlers } from './api-keys.ts';
import type { Handlers, Service } from './context.ts';
import { documentHandlers } from './documents.ts';
import { fileHandlers } from './files.ts';
import { pullRequestHandlers } from './pull-requests.ts';
import { taskDocumentHandlers } from './task-documents.ts';
import { taskHandlers } from './tasks.ts';
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
  };
}
