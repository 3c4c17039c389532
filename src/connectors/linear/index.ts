import { z } from 'zod';
import { MEBIBYTE } from '../../platform/lib/quantities.ts';
import { readTenant } from '../kit/options.ts';
import { parseAnswer } from '../kit/payload.ts';
import { trackerConnector } from '../kit/tracker.ts';
import { timeOf } from '../kit/walk.ts';
import { connect } from './connect.ts';
import { grammar } from './grammar.ts';
import { eventOf, itemOf, PARSERS, parseWebhook, placeOf } from './items.ts';
import { options, scopeOf } from './options.ts';
import * as schema from './schema.ts';
import { verify } from './verify.ts';

const swept = z.array(z.object({ id: schema.id, trashed: z.boolean().nullish() }));

export const linear = trackerConnector({
  id: 'linear',
  title: 'Linear',
  publicHost: 'linear.app',
  capabilities: {
    namesDeliveries: true,
    pollsSince: true,
    reportsDeletions: true,
    supportsLabels: true,
    supportsAssignees: true,
  },
  grammar,
  largestDelivery: 5 * MEBIBYTE,
  accepted: 200,
  options,
  host: ({ organizationId }) => organizationId,
  verify,
  eventOf,
  samples: async () => (await import('./sample.ts')).samples,
  unrestricted: (host) => options.parse({ organizationId: readTenant(host, "organisation's id"), teams: ['*'] }),
  oauth: ({ oauth }) => oauth && { ...oauth, encoding: 'form' },
  noun: 'issues',
  container: {
    word: 'team',
    option: 'teams',
    hint: 'Private teams need a member of theirs. Correct teams, or use another credential.',
  },
  scopeOf,
  candidate: placeOf,
  unitBy: 'id',
  itemId: { shape: schema.id, locator: 'issueId', gone: 'id' },
  containerId: { shape: schema.id, locator: 'teamId', gone: 'teamId' },
  identifier: { shape: schema.identifier, locator: 'identifier', gone: 'identifier' },
  follows: (event) => PARSERS.has(event),
  parseWebhook,
  found: schema.issue,
  itemOf,
  containerOf: ({ team }) => placeOf(team),
  order: 'since',
  changedAt: (issue) => timeOf(issue, 'updatedAt'),
  /** Leaves out those in the trash: a fetch then shows that they are gone. */
  idsOf: (found, what) =>
    parseAnswer(swept, found, what)
      .filter(({ trashed }) => trashed !== true)
      .map(({ id }) => id),
  connect,
});
