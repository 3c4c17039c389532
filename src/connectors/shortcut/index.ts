import type { Grammar } from '../../model/link.ts';
import { MEBIBYTE } from '../../platform/lib/quantities.ts';
import { readable } from '../kit/payload.ts';
import { trackerConnector } from '../kit/tracker.ts';
import { EVENT_IN_BODY, hmacSigning } from '../kit/verify.ts';
import { connect } from './connect.ts';
import { changedAt, foundOn, itemOf, PARTS, parseWebhook, placeOf } from './items.ts';
import { options, PUBLIC_HOST, scopeOf } from './options.ts';
import * as schema from './schema.ts';

/** `[sc-318]`, `[Finishes sc-318]`, and addresses with the title at their end (SH4). */
const grammar: Grammar = {
  closing: [
    ...['finish', 'finishes', 'finished', 'complete', 'completes', 'completed'],
    ...['close', 'closes', 'closed', 'fix', 'fixes', 'fixed', 'resolve', 'resolves', 'resolved'],
  ],
  closes: 'list',
  names: ['sc-'],
  addresses: [
    ['//app.shortcut.com/{workspace}/story/{number}', '//app.shortcut.com/{workspace}/story/{number}/{title}'],
  ],
};

export const shortcut = trackerConnector({
  ...PARTS,
  title: 'Shortcut',
  publicHost: PUBLIC_HOST,
  capabilities: { pollsSince: true, supportsLabels: true, supportsAssignees: true },
  grammar,
  largestDelivery: 5 * MEBIBYTE,
  options,
  host: () => PUBLIC_HOST,
  /** SH1. */
  ...hmacSigning({ header: 'payload-signature' }),
  eventOf: (payload) => readable(schema.event, payload) && EVENT_IN_BODY,
  samples: async () => (await import('./sample.ts')).samples,
  unrestricted: () => options.parse({ token: 'none', teams: ['*'] }),
  noun: 'stories',
  container: {
    word: 'team',
    option: 'teams',
    hint: 'Use a token of a member who sees the teams, or correct teams.',
  },
  scopeOf,
  candidate: placeOf,
  unitBy: 'name',
  parseWebhook,
  found: schema.found,
  itemsOnPage: foundOn,
  itemOf,
  containerOf: ({ story, team }) => (team?.id === story.group_id ? placeOf(team) : { id: story.group_id, name: '' }),
  needsScopeCheck: ({ team }) => team !== undefined,
  containerShape: schema.team,
  order: 'since',
  changedAt,
  connect,
});
