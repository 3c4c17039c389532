import type { Grammar } from '../../model/link.ts';
import { MEBIBYTE } from '../../platform/lib/quantities.ts';
import { trackerConnector } from '../kit/tracker.ts';
import { hmacSigning } from '../kit/verify.ts';
import { timeOf } from '../kit/walk.ts';
import { connect } from './connect.ts';
import { EVENT, eventOf, itemOf, parseWebhook, placeOf } from './items.ts';
import { options, PUBLIC_HOST, scopeOf } from './options.ts';
import * as schema from './schema.ts';

/** `Fixes MYAPP-317, MYAPP-318` in a commit, a title or a description (SE4). */
export const grammar: Grammar = {
  closing: ['fix', 'fixes', 'fixed', 'close', 'closes', 'closed', 'resolve', 'resolves', 'resolved'],
  closes: 'list',
  names: ['short-id'],
  needsWord: true,
  addresses: [
    [
      '//{organization}.sentry.io/issues/{number}',
      '//{organization}.sentry.io/issues/{number}/…',
      '//sentry.io/organizations/{organization}/issues/{number}/…',
    ],
    [
      '//{host}/organizations/{organization}/issues/{number}',
      '//{host}/organizations/{organization}/issues/{number}/…',
    ],
  ],
};

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
  /** The secret is the client secret of the integration (SE1). */
  ...hmacSigning({
    header: 'sentry-hook-signature',
    event: { header: 'sentry-hook-resource' },
    delivery: 'request-id',
  }),
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
