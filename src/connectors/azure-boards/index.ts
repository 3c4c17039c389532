import { MEBIBYTE } from '../../platform/lib/quantities.ts';
import { readTenant } from '../kit/options.ts';
import { readable } from '../kit/payload.ts';
import { trackerConnector } from '../kit/tracker.ts';
import { EVENT_IN_BODY } from '../kit/verify.ts';
import { connect } from './connect.ts';
import { grammar } from './grammar.ts';
import { itemOf, parseWebhook } from './items.ts';
import { options, scopeOf } from './options.ts';
import * as schema from './schema.ts';
import { verify } from './verify.ts';

/** Azure Boards of Azure DevOps Services. */
export const azureBoards = trackerConnector({
  id: 'azure-boards',
  title: 'Azure Boards',
  publicHost: 'dev.azure.com',
  capabilities: {
    pollsSince: true,
    reportsDeletions: true,
    supportsLabels: true,
    supportsAssignees: true,
  },
  grammar,
  largestDelivery: 25 * MEBIBYTE,
  options,
  host: ({ organizationId }) => organizationId,
  verify,
  eventOf: (payload) => readable(schema.serviceHook, payload) && EVENT_IN_BODY,
  samples: async () => (await import('./sample.ts')).samples,
  unrestricted: (host) => {
    const organizationId = readTenant(host, "organisation's id");
    return options.parse({ organization: 'any', organizationId, projects: ['*'] });
  },
  noun: 'workitems',
  container: {
    word: 'project',
    option: 'projects',
    hint: 'Give its account access to them, or correct projects.',
  },
  scopeOf,
  candidate: (project) => project,
  unitBy: 'id',
  itemId: { shape: schema.number, locator: 'id', gone: 'id' },
  containerId: { shape: schema.projectId, locator: 'projectId', gone: 'projectId' },
  identifier: (id) => id,
  follows: (event) => event === EVENT_IN_BODY,
  parseWebhook,
  found: schema.workItem,
  itemOf,
  containerOf: ({ project }) => project,
  order: 'since',
  changedAt: schema.changedAt,
  isDone: schema.isDone,
  connect,
});
