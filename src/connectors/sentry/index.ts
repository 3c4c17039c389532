import { MEBIBYTE } from '../../platform/lib/quantities.ts';
import { trackerConnector } from '../kit/tracker.ts';
import { timeOf } from '../kit/walk.ts';
import { connect } from './connect.ts';
import { grammar } from './grammar.ts';
import { EVENT, eventOf, itemOf, parseWebhook, placeOf } from './items.ts';
import { options, PUBLIC_HOST, scopeOf } from './options.ts';
import * as schema from './schema.ts';
import { verify } from './verify.ts';

/** Issues of Sentry: groups of like errors. */
export const sentry = trackerConnector({
  id: 'sentry',
  title: 'Sentry',
  publicHost: PUBLIC_HOST,
  capabilities: { namesDeliveries: true, supportsAssignees: true },
  grammar,
  largestDelivery: 5 * MEBIBYTE,
  options,
  host: ({ host }) => host,
  verify,
  eventOf,
  samples: async () => (await import('./sample.ts')).samples,
  unrestricted: (host = PUBLIC_HOST) => options.parse({ host, organization: 'any', projects: ['*'] }),
  noun: 'issues',
  container: {
    word: 'project',
    option: 'projects',
    hint: 'Give the integration the right project:read, or correct projects.',
  },
  scopeOf,
  candidate: placeOf,
  unitBy: 'name',
  itemId: { shape: schema.id, locator: 'id', gone: 'id' },
  containerId: { shape: schema.id, locator: 'projectId', gone: 'projectId' },
  identifier: { shape: schema.shortId, locator: 'shortId', gone: 'shortId' },
  follows: (event) => event === EVENT,
  parseWebhook,
  requiredFields: ['state', 'title', 'url'],
  found: schema.issue,
  itemOf,
  containerOf: ({ project }) => placeOf(project),
  order: 'newest first',
  changedAt: (issue) => timeOf(issue, 'lastSeen'),
  connect,
});
