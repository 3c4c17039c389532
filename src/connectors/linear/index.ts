import { z } from 'zod';
import type { Grammar } from '../../model/link.ts';
import { MEBIBYTE } from '../../platform/lib/quantities.ts';
import { readTenant } from '../kit/options.ts';
import { parseAnswer } from '../kit/payload.ts';
import { trackerConnector } from '../kit/tracker.ts';
import { hmacSigning } from '../kit/verify.ts';
import { timeOf } from '../kit/walk.ts';
import { connect } from './connect.ts';
import { eventOf, itemOf, PARSERS, parseWebhook, placeOf } from './items.ts';
import { options, scopeOf } from './options.ts';
import * as schema from './schema.ts';

/** One word covers a whole list, `Fixes ENG-1, DES-5 and ENG-6` (LI4). */
const grammar: Grammar = {
  closing: [
    ...['close', 'closes', 'closed', 'closing'],
    ...['fix', 'fixes', 'fixed', 'fixing'],
    ...['resolve', 'resolves', 'resolved', 'resolving'],
    ...['complete', 'completes', 'completed', 'completing'],
    ...['implement', 'implements', 'implemented', 'implementing'],
    'linear issue',
  ],
  mentioning: [
    ...['ref', 'refs', 'references', 'part of', 'contributes to', 'toward', 'towards'],
    ...['relates to', 'related to'],
  ],
  suppressing: ['skip', 'ignore'],
  closes: 'list',
  names: ['key'],
  addresses: [['//linear.app/{workspace}/issue/{key}', '//linear.app/{workspace}/issue/{key}/{title}']],
};

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
  /**
   * LI1. The time that is signed stands in the body, which is not read here. A request that is sent again later is harmless: it
   * has an older state of an issue than worksync knows, and is superseded.
   */
  ...hmacSigning({
    header: 'linear-signature',
    event: { header: 'linear-event' },
    delivery: 'linear-delivery',
  }),
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
